#include "experiments/program/report/gpu_kernels.h"

#include <algorithm>
#include <string>

#include "core/device/kernel_names.h"

namespace twofold {
namespace {

using enum GpuWork;

// Names are made of many parts: a flash attention kernel has cutlass in its name, a fused Triton kernel the operations
// that it does. So rows that say most come first.
constexpr GpuKernelRow kRows[] = {
    // PyTorch's operators on a CPU, which imports take for kernels: what is named as the optimizer's, and Gloo's
    {"optimizer.step#", kOptimizer},
    {"gloo:", kCommunication},
    // communication: NCCL, RCCL, PyTorch's symmetric memory, DeepEP
    {"nccl", kCommunication},
    {"nvshmem", kCommunication},
    {"deep_ep", kCommunication},
    {"multimem_all_", kCommunication},
    {"one_shot_all_reduce", kCommunication},
    {"two_shot_all_reduce", kCommunication},
    // copies; those within a device are element by element
    {"memcpy htod", kTransfer},
    {"memcpy dtoh", kTransfer},
    {"memcpy ptop", kTransfer},
    {"memcpy htoh", kTransfer},
    {"memcpy", kElement},
    {"memset", kElement},
    // optimizer: PyTorch's foreach and fused kernels, Apex
    {"multi_tensor_apply", kOptimizer},
    {"multitensorapply", kOptimizer},
    {"adam", kOptimizer},
    {"fused_lamb", kOptimizer},
    {"lambstage", kOptimizer},  // "lamb" alone is in every lambda
    {"fused_sgd", kOptimizer},
    {"fusedsgd", kOptimizer},
    {"amp_update_scale", kOptimizer},
    // losses and embeddings
    {"cross_entropy", kLoss},
    {"crossentropy", kLoss},
    {"log_softmax", kLoss},
    {"logsoftmax", kLoss},
    {"nll_loss", kLoss},
    {"embedding", kLoss},
    // norms
    {"layer_norm", kNorm},
    {"layernorm", kNorm},
    {"rms_norm", kNorm},
    {"rmsnorm", kNorm},
    {"group_norm", kNorm},
    {"batch_norm", kNorm},
    {"batchnorm", kNorm},
    {"gammabeta", kNorm},
    {"bn_fw", kNorm},
    {"bn_bw", kNorm},
    {"ln_fwd", kNorm},
    {"ln_bwd", kNorm},
    // attention: FlashAttention, memory-efficient, cuDNN, Triton, and its steps
    {"flash", kAttention},
    {"fmha", kAttention},
    {"sdpa", kAttention},
    {"attention", kAttention},
    {"attn", kAttention},
    {"rotary", kAttention},
    {"rope_", kAttention},
    {"_rope", kAttention},
    {"softmax", kAttention},
    // products: cuBLAS, cuBLASLt, cuDNN, CUTLASS, rocBLAS (Tensile)
    {"gemm", kProduct},
    {"gemv", kProduct},
    {"nvjet", kProduct},
    {"xmma", kProduct},
    {"cutlass", kProduct},
    {"cublas", kProduct},
    {"splitk", kProduct},
    {"matmul", kProduct},
    {"triton_tem_fused_mm", kProduct},
    {"triton_tem_fused_addmm", kProduct},
    {"triton_tem_fused_bmm", kProduct},
    {"cijk_", kProduct},
    {"convolve", kProduct},
    {"convolution", kProduct},
    {"conv2d", kProduct},
    {"conv_depthwise", kProduct},
    {"winograd", kProduct},
    {"fprop", kProduct},
    {"dgrad", kProduct},
    {"wgrad", kProduct},
    {"aten::addmm", kProduct},
    {"aten::mm", kProduct},
    {"aten::bmm", kProduct},
    {"aten::baddbmm", kProduct},
    {"aten::linear", kProduct},
    // one by one, sums, copies
    {"aten::", kElement},
    {"elementwise", kElement},
    {"triton_", kElement},
    {"reduce_kernel", kElement},
    {"reduce_", kElement},
    {"copy", kElement},
    {"cat_array", kElement},
    {"catarray", kElement},
    {"dropout", kElement},
    {"fill", kElement},
    {"gelu", kElement},
    {"silu", kElement},
    {"swiglu", kElement},
    {"transpose", kElement},
    {"index", kElement},
    {"gather", kElement},
    {"scatter", kElement},
    {"cast", kElement},
};

std::string_view NameOf(GpuWork work) {
  switch (work) {
    case kProduct: return "products";
    case kAttention: return "attention";
    case kNorm: return "norms";
    case kElement: return "element by element";
    case kLoss: return "embedding and loss";
    case kOptimizer: return "optimizer";
    case kCommunication: return "communication";
    case kTransfer: return "to and from the host";
    case kOther: return "other";
  }
  return "other";
}

GpuWork WorkOf(ops::KernelClass kernel) {
  switch (kernel) {
    case ops::KernelClass::kProduct: return kProduct;
    case ops::KernelClass::kAttention: return kAttention;
    case ops::KernelClass::kNorm: return kNorm;
    case ops::KernelClass::kElement: return kElement;
    case ops::KernelClass::kLoss: return kLoss;
    case ops::KernelClass::kOptimizer: return kOptimizer;
    case ops::KernelClass::kOther: return kOther;
  }
  return kOther;
}

}  // namespace

std::span<const GpuKernelRow> GpuKernelRows() { return kRows; }

GpuWork GpuWorkOf(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto* row =
      std::ranges::find_if(kRows, [&](const GpuKernelRow& r) { return lower.find(r.part) != lower.npos; });
  return row == std::end(kRows) ? kOther : row->is;
}

std::string_view WorkName(std::string_view kernel) {
  const ops::KernelRow* row = ops::FindKernel(kernel);
  return NameOf(row == nullptr ? GpuWorkOf(kernel) : WorkOf(row->is));
}

}  // namespace twofold
