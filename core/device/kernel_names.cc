#include "core/device/kernel_names.h"

#include <algorithm>
#include <array>

#include "core/base/strings.h"

namespace twofold::ops {
namespace {

// The names of one class.
template <size_t kNames>
struct NamesOf {
  KernelClass is;
  std::string_view names[kNames];
};

// The rows of all classes, sorted by name.
template <size_t... kNames>
constexpr auto Rows(const NamesOf<kNames>&... classes) {
  std::array<KernelRow, (kNames + ...)> rows;
  auto* next = rows.begin();
  const auto add = [&next](const auto& of) {
    for (const std::string_view name : of.names) *next++ = {name, of.is};
  };
  (add(classes), ...);
  std::ranges::sort(rows, {}, &KernelRow::name);
  return rows;
}

constexpr auto kKernelRows =
    Rows(NamesOf{KernelClass::kProduct,
                 {"batched_matmul_nn", "batched_matmul_nt", "batched_matmul_tn", "batched_matmul_tt",
                  "conv1x1_backward", "conv1x1_forward", "conv1x1_weights", "conv3x3_backward", "conv3x3_forward",
                  "conv3x3_weights", "conv5x5_backward", "conv5x5_forward", "conv5x5_weights", "conv7x7_backward",
                  "conv7x7_forward", "conv7x7_weights", "conv_backward", "conv_forward", "conv_weights", "matmul_gelu",
                  "matmul_fp8_gelu", "matmul_fp8_gelu_slope", "matmul_fp8_nn", "matmul_fp8_nt", "matmul_fp8_tn",
                  "matmul_fp8_tt", "matmul_gelu_slope", "matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt",
                  // of blocks with scales of their own
                  "matmul_fp8_block_gelu", "matmul_fp8_block_gelu_slope", "matmul_fp8_block_nn", "matmul_fp8_block_nt",
                  "matmul_fp8_block_tn", "matmul_fp8_block_tt"}},
         NamesOf{KernelClass::kAttention,
                 {"attention_backward", "attention_block_backward", "attention_block_forward",
                  "attention_diagonal_backward", "attention_diagonal_forward", "attention_forward", "rotary",
                  "rotary_table", "softmax_backward", "softmax_forward"}},
         NamesOf{KernelClass::kNorm,
                 {"batch_norm_backward", "batch_norm_finish", "batch_norm_forward", "batch_norm_relu_backward",
                  "batch_norm_relu_forward", "batch_norm_relu_sums", "batch_norm_statistics", "batch_norm_sums",
                  "layer_norm_backward", "layer_norm_forward", "layer_norm_weights", "rms_norm_backward",
                  "rms_norm_forward", "rms_norm_weights"}},
         NamesOf{KernelClass::kElement,
                 {"add", "add_relu", "add_to", "affine", "cast", "dropout", "fill", "gelu_backward", "gelu_forward",
                  "masked_dropout_backward", "masked_dropout_forward", "random_fill", "relu_backward", "relu_forward",
                  "scale", "squared_relu_backward", "squared_relu_forward", "swiglu_backward", "swiglu_forward",
                  // of rows, and of all elements
                  "add_bias", "column_sum", "copy_columns", "sum"}},
         NamesOf{KernelClass::kLoss,
                 {"count_correct", "cross_entropy_backward", "cross_entropy_forward", "embedding_backward",
                  "embedding_forward", "position_backward", "position_forward", "split_backward", "split_correct",
                  "split_losses", "split_max", "split_sums"}},
         NamesOf{KernelClass::kOptimizer, {"adam_step", "clip_factor", "sgd_step", "squared_norm"}},
         NamesOf{KernelClass::kOther,
                 {"average_pool_backward", "average_pool_forward", "combine", "combine_weights", "dequantise",
                  "dispatch", "gather_elements", "max_pool_backward", "max_pool_forward", "orthogonalise", "quantise",
                  "quantise_stochastic", "random_places", "route_backward", "route_forward", "scatter_elements",
                  "sign_pack", "sign_unpack", "top_k",
                  // to FP8
                  "quantise_fp8", "quantise_fp8_blocks", "round_fp8", "largest_fp8"}});

}  // namespace

std::span<const KernelRow> KernelRows() { return kKernelRows; }

const KernelRow* FindKernel(std::string_view name) {
  const auto row = std::ranges::lower_bound(kKernelRows, name, {}, &KernelRow::name);
  return row != kKernelRows.end() && row->name == name ? &*row : nullptr;
}

std::string ShapeText(const KernelKey& key) {
  std::string text = StrCat(key.dims[0], " x ", key.dims[1]);
  if (key.dims[2] != 0) StrAppend(&text, " x ", key.dims[2]);
  return StrCat(text, ", ", DTypeName(key.dtype));
}

}  // namespace twofold::ops
