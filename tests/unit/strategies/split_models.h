// Small models whose layers are split over ranks of the in-memory fabric, and what ranks have after a step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/nn/dropout.h"
#include "core/tensor/dtype.h"

namespace twofold::split_models {

inline constexpr int64_t kBatch = 2, kTokens = 8, kHidden = 16, kHeads = 4, kVocab = 13;

struct Case {
  std::string name;
  bool llama = false;
  int64_t kv_heads = 4;
  bool bias = true;      // llama: of queries, keys and values
  bool variant = false;  // gpt: every field in which a model may differ from GPT-2
  bool tied = true;
  bool sequence_parallel = false;
  bool unfused = false;
  double dropout = 0;  // gpt
  nn::DropoutMasks masks = nn::DropoutMasks::kRecomputed;
  bool overlap = true;
  bool backward_overlap = true;
  bool rings = false;      // with sequence_parallel
  bool later = false;      // weights' gradients after all inputs'
  bool sharded = false;    // ZeRO-2 over the ranks that share the batch
  bool recompute = false;  // blocks
  DType dtype = DType::kF64;
  int64_t layers = 2;
};

// What one rank has after a step's backward pass: elements of the whole, by their places in it.
struct Outcome {
  double loss = 0, losses = 0, correct = 0, squared_norm = 0;
  struct Element {
    double value;
    bool owned;
  };
  std::map<std::string, std::map<int64_t, Element>> gradients;
  std::map<int64_t, double> logits;
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> messages;  // of the pass: count and bytes
  Bytes left, peak;   // of activations: after the pass, and most at any time
  bool kept = false;  // something saved after the pass
};

// A step on so many ranks, of which `tp` share a model. By rank.
std::vector<Outcome> Train(const Case& c, int ranks, int tp);

}  // namespace twofold::split_models
