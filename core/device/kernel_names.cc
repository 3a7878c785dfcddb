#include "core/device/kernel_names.h"

#include <algorithm>
#include <array>

namespace twofold::ops {
namespace {

constexpr auto kKernelRows = [] {
  using enum KernelClass;
  return std::to_array<KernelRow>({
      {"adam_step", kOptimizer},
      {"add", kElement},
      {"add_bias", kElement},
      {"add_relu", kElement},
      {"add_to", kElement},
      {"affine", kElement},
      {"attention_backward", kAttention},
      {"attention_block_backward", kAttention},
      {"attention_block_forward", kAttention},
      {"attention_diagonal_backward", kAttention},
      {"attention_diagonal_forward", kAttention},
      {"attention_forward", kAttention},
      {"average_pool_backward", kOther},
      {"average_pool_forward", kOther},
      {"batch_norm_backward", kNorm},
      {"batch_norm_finish", kNorm},
      {"batch_norm_forward", kNorm},
      {"batch_norm_relu_backward", kNorm},
      {"batch_norm_relu_forward", kNorm},
      {"batch_norm_relu_sums", kNorm},
      {"batch_norm_statistics", kNorm},
      {"batch_norm_sums", kNorm},
      {"batched_matmul_nn", kProduct},
      {"batched_matmul_nt", kProduct},
      {"batched_matmul_tn", kProduct},
      {"batched_matmul_tt", kProduct},
      {"cast", kElement},
      {"clip_factor", kOptimizer},
      {"column_sum", kElement},
      {"combine", kOther},
      {"combine_weights", kOther},
      {"conv1x1_backward", kProduct},
      {"conv1x1_forward", kProduct},
      {"conv1x1_weights", kProduct},
      {"conv3x3_backward", kProduct},
      {"conv3x3_forward", kProduct},
      {"conv3x3_weights", kProduct},
      {"conv5x5_backward", kProduct},
      {"conv5x5_forward", kProduct},
      {"conv5x5_weights", kProduct},
      {"conv7x7_backward", kProduct},
      {"conv7x7_forward", kProduct},
      {"conv7x7_weights", kProduct},
      {"conv_backward", kProduct},
      {"conv_forward", kProduct},
      {"conv_weights", kProduct},
      {"copy_columns", kElement},
      {"count_correct", kLoss},
      {"cross_entropy_backward", kLoss},
      {"cross_entropy_forward", kLoss},
      {"dequantise", kOther},
      {"dispatch", kOther},
      {"dropout", kElement},
      {"embedding_backward", kLoss},
      {"embedding_forward", kLoss},
      {"fill", kElement},
      {"gather_elements", kOther},
      {"gelu_backward", kElement},
      {"gelu_forward", kElement},
      {"layer_norm_backward", kNorm},
      {"layer_norm_forward", kNorm},
      {"layer_norm_weights", kNorm},
      {"masked_dropout_backward", kElement},
      {"masked_dropout_forward", kElement},
      {"matmul_gelu", kProduct},
      {"matmul_gelu_slope", kProduct},
      {"matmul_nn", kProduct},
      {"matmul_nt", kProduct},
      {"matmul_tn", kProduct},
      {"matmul_tt", kProduct},
      {"max_pool_backward", kOther},
      {"max_pool_forward", kOther},
      {"position_backward", kLoss},
      {"position_forward", kLoss},
      {"quantise", kOther},
      {"quantise_stochastic", kOther},
      {"random_fill", kElement},
      {"random_places", kOther},
      {"relu_backward", kElement},
      {"relu_forward", kElement},
      {"rms_norm_backward", kNorm},
      {"rms_norm_forward", kNorm},
      {"rms_norm_weights", kNorm},
      {"rotary", kAttention},
      {"rotary_table", kAttention},
      {"route_backward", kOther},
      {"route_forward", kOther},
      {"scale", kElement},
      {"scatter_elements", kOther},
      {"sgd_step", kOptimizer},
      {"sign_pack", kOther},
      {"sign_unpack", kOther},
      {"softmax_backward", kAttention},
      {"softmax_forward", kAttention},
      {"split_backward", kLoss},
      {"split_correct", kLoss},
      {"split_losses", kLoss},
      {"split_max", kLoss},
      {"split_sums", kLoss},
      {"squared_norm", kOptimizer},
      {"sum", kElement},
      {"swiglu_backward", kElement},
      {"swiglu_forward", kElement},
      {"top_k", kOther},
  });
}();
static_assert(std::ranges::is_sorted(kKernelRows, {}, &KernelRow::name), "they are looked up by name");

}  // namespace

std::span<const KernelRow> KernelRows() { return kKernelRows; }

const KernelRow* FindKernel(std::string_view name) {
  const auto row = std::ranges::lower_bound(kKernelRows, name, {}, &KernelRow::name);
  return row != kKernelRows.end() && row->name == name ? &*row : nullptr;
}

}  // namespace twofold::ops
