// Rotary position embedding (Su et al. 2021) of queries and keys.
#pragma once

#include <memory>
#include <vector>

#include "core/nn/module.h"
#include "core/nn/placing.h"

namespace twofold::nn {

// How a model that was trained on short sequences turns slower on long ones.
struct RopeScaling {
  enum Kind { kNone, kLinear, kLlama3 } kind = kNone;
  double factor = 1;  // kLinear: every frequency is divided by it (Chen et al. 2023)
  // kLlama3 (Llama 3.1's published code): wavelengths longer than original_sequence / low_freq_factor are stretched by
  // factor, those shorter than original_sequence / high_freq_factor stay, and between the two the frequency goes from the
  // one to the other linearly in original_sequence / wavelength.
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_sequence = 8192;
};

struct RopeConfig {
  int64_t head_dim = 0;  // even
  double theta = 10000;
  RopeScaling scaling;
};

// Radians a position, head_dim / 2 of them: theta^(-2i / head_dim) (section 3.2.2 of the paper), scaled.
std::vector<double> RopeFrequencies(const RopeConfig& config);

// The cosines and sines of `positions` positions: made on first use, kept as long as it lives, shared by the layers of a
// model. Not part of the parameters: a function of the configuration.
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

// x, y: [b, t, c] of which the first `heads` heads of each position are rotated: with qkv, queries and keys.
class Rotary : public Module {
 public:
  // `positions`: of rows; null: x is whole sequences.
  Rotary(std::shared_ptr<RotaryTable> table, int64_t heads, Placing positions = nullptr)
      : table_(std::move(table)), heads_(heads), positions_(std::move(positions)) {}

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // in place when nobody else holds dy
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "rotary"; }

 private:
  std::shared_ptr<RotaryTable> table_;
  int64_t heads_;
  Placing positions_;
};

}  // namespace twofold::nn
