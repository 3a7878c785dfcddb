// Activations by layer, and a published formula for those of a transformer.
//   Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023: table 2, for
//   16-bit activations and dropout masks of one byte per element, per layer on each of t tensor-parallel ranks:
//     t = 1                          s b h (34 + 5 a s / h)
//     tensor parallel                s b h (10 + 24 / t + 5 a s / (h t))
//     and sequence parallel          s b h / t (34 + 5 a s / h)
//   without 5 a s / h if the attention's core is recomputed; 2 s b h if the whole layer is (2 s b h / t with sequence
//   parallelism).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/host/memory_rules.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// What layers of one kind keep of a micro-batch for backward. A tensor kept by several layers counts for the last of
// them.
struct LayerActivations {
  std::string kind;   // "attention"; "logits": the model's output
  int64_t count = 0;  // number of such layers that keep something
  int64_t bytes = 0;  // of all of them together
};
// Replays the forward pass of a rank's part of the model. Recomputed blocks keep their input. Wrappers that a parallel
// layout puts around units are left out. Kinds are in order of first appearance.
std::vector<LayerActivations> ActivationsByLayer(const spec::Spec& spec, const host::MemoryRules& rules, int rank = 0);

struct ActivationFormula {
  std::string text;                  // "L s b h (34 + 5 a s / h), L = 24, s = 2048, ..."
  double bytes = 0;                  // of one micro-batch, all layers of a rank
  std::vector<std::string> differs;  // how this spec departs from the formula's assumptions
};
// L: the layers of that stage; s: a rank's tokens per sequence. Absent if the model is not a GPT.
std::optional<ActivationFormula> KorthikantiFormula(const spec::Spec& spec, int stage = 0);

}  // namespace twofold
