// What activations are made of, and what a published formula says of a transformer's.
//   Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023: table 2, of 16-bit
//   activations and dropout masks of a byte an element, a layer on each of t tensor-parallel ranks:
//     t = 1                          s b h (34 + 5 a s / h)
//     tensor parallel                s b h (10 + 24 / t + 5 a s / (h t))
//     and sequence parallel          s b h / t (34 + 5 a s / h)
//   without 5 a s / h where the attention's core is recomputed; 2 s b h where the whole layer is (2 s b h / t with sequence parallelism).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/host/memory_rules.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// What layers of one kind keep of a micro-batch for backward. What several keep counts with the last of them.
struct LayerActivations {
  std::string kind;   // "attention"; "logits": the model's output
  int64_t count = 0;  // of such layers that keep something
  int64_t bytes = 0;  // of all of them
};
// By replaying a rank's part of the spec's model forward, blocks that are recomputed keeping their input, without what a layout puts
// around units; in the order in which kinds come first.
std::vector<LayerActivations> ActivationsByLayer(const spec::Spec& spec, const host::MemoryRules& rules, int rank = 0);

struct ActivationFormula {
  std::string text;  // "L s b h (34 + 5 a s / h), L = 24, s = 2048, ..."
  double bytes = 0;  // of one micro-batch, all layers of a rank
  std::vector<std::string> differs;  // what in this spec is not as the formula has it
};
// L: the layers of that stage; s: a rank's tokens of a sequence. Absent where the model is no GPT.
std::optional<ActivationFormula> KorthikantiFormula(const spec::Spec& spec, int stage = 0);

}  // namespace twofold
