// Rotary position embedding (Su et al. 2021) of queries and keys.
#pragma once

#include <memory>
#include <vector>

#include "core/nn/module.h"
#include "core/nn/placing.h"

namespace twofold::nn {

// How the rotation slows down for sequences longer than those that a model was trained on.
struct RopeScaling {
  enum Kind { kNone, kLinear, kLlama3 } kind = kNone;
  double factor = 1;  // kLinear: divides every frequency (Chen et al. 2023)
  // kLlama3 (Llama 3.1's published code): wavelengths longer than original_sequence / low_freq_factor are stretched by
  // factor; those shorter than original_sequence / high_freq_factor do not change. Between the two, the frequency is
  // interpolated linearly in original_sequence / wavelength.
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_sequence = 8192;
};

struct RopeConfig {
  int64_t head_dim = 0;  // even
  double theta = 10000;
  RopeScaling scaling;
};

// head_dim / 2 frequencies in radians per position: theta^(-2i / head_dim) (section 3.2.2 of the paper), scaled.
std::vector<double> RopeFrequencies(const RopeConfig& config);

// The cosines and sines of `positions` positions, shared by the layers of a model. The table is made on first use and
// kept. It is not a parameter, because it is a function of the configuration.
class RotaryTable {
 public:
  RotaryTable(const RopeConfig& config, int64_t positions, DType dtype)
      : config_(config), positions_(positions), dtype_(ops::AccumulationType(dtype)) {}
  const Tensor& Get(Context& ctx);  // [positions, head_dim] F32, or F64 for F64 models

 private:
  RopeConfig config_;
  int64_t positions_;
  DType dtype_;
  Tensor table_;
};

// x, y: [b, t, c]. Rotates the first `heads` heads of each position: in qkv, these are the queries and keys.
class Rotary : public Module {
 public:
  // `positions`: the positions of x's rows; null: x holds whole sequences.
  Rotary(std::shared_ptr<RotaryTable> table, int64_t heads, Placing positions = nullptr)
      : table_(std::move(table)), heads_(heads), positions_(std::move(positions)) {}

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // in place if dy has no other owner
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "rotary"; }

 private:
  std::shared_ptr<RotaryTable> table_;
  int64_t heads_;
  Placing positions_;
};

}  // namespace twofold::nn
