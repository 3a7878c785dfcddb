// Factors of kernels relative to laws that were fitted before: layouts of products, products of experts in one kernel,
// attention's backward pass. Each is the ratio of two medians of measured / predicted, of kernels of the same machine,
// so a machine that is slower than the one of the law does not count.
#pragma once

#include "absl/status/status.h"
#include "core/proto/cluster.pb.h"
#include "experiments/program/calibrate/law_table.h"

namespace twofold::calibrate {

// Columns m, n, k, layout (TN, NN, NT), accumulate (True: the result is added to), out_dtype, efficiency (flops over
// time and peak), peak_tflops. Sets nn_factor and nt_factor. A law of bf16 products must exist.
absl::Status FitLayouts(const LawTable& table, cluster::KernelLaws& laws);

// Columns ng (experts), M (rows of each), N, K, stage (fwd, bwd_grad_act, bwd_grad_w), efficiency, peak_tflops. Sets
// the three grouped factors, relative to all experts' tiles in one kernel.
absl::Status FitGrouped(const LawTable& table, cluster::KernelLaws& laws);

// Columns pass (forward, backward), batch, seq_len, head_num, kv_head_num, qk_head_dim, v_head_dim, efficiency,
// peak_tflops; flops without the causal half. Sets attention_backward_efficiency. A law of attention must exist.
absl::Status FitBackward(const LawTable& table, cluster::KernelLaws& laws);

}  // namespace twofold::calibrate
