// Names of collectives in other programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twofold {

// "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", "_allgather_base" and "reduce_scatter_tensor_coalesced" to
// "all_reduce", "all_gather" and "reduce_scatter". "send_recv" for grouped messages. Empty if the name does not say.
std::string OperationOf(std::string_view name);

// Bytes of an element of PyTorch's "Float", "BFloat16", ..., or of C++'s "float", "c10::BFloat16", ...; 0: not known.
int64_t BytesOfType(std::string_view torch_type);

}  // namespace twofold
