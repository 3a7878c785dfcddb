// Mixture of experts (Shazeer et al. 2017): what a router says becomes choices, rows of tokens go to the slots of the experts that
// they chose, and what the experts make of them comes back.
//
// T tokens choose k of E experts each; an expert has room for C of those who chose it, its capacity (Lepikhin et al. 2021,
// section 2.2). Which they are is data; all shapes are fixed.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// Choice (t, j) is of expert experts[t, j], whose choices count in the order of t, then j: this is number places[t, j] from 0.
// Its row is in the expert's slot of that number; where there are not so many, it is dropped.
struct Choices { Tensor experts /*I32 [T, k]*/, places /*I32 [T, k]*/; };

// probabilities (f32)[T, E] = softmax(logits). Chosen are the k largest logits, of equal ones the first. weights (f32)[T, k]: the
// probabilities of the chosen, divided by their sum (Jiang et al. 2024, section 2.1); of one alone (k = 1), its probability (Fedus
// et al. 2022, equation 2), since otherwise nothing would teach the router.
struct RouteForward { Tensor logits /*[T, E]*/, probabilities, weights; Choices choices; };
// dlogits: the gradient through the weights and, beside it, that of balance * E * sum over experts of f_i P_i, with f_i the share
// of the choices that are of expert i (a constant), P_i its mean probability (Fedus et al. 2022, equations 4 to 6).
struct RouteBackward { Tensor probabilities, dweights /*(f32)[T, k]*/; Choices choices; Tensor dlogits; double balance = 0; };

// Of x [.., c], T rows: slots [E, C, c] = the rows of their choices, times weights (f32)[T, k] where there are some; empty ones 0.
struct Dispatch { Tensor x; Choices choices; Tensor weights /* may be empty */, slots; };
// y [.., c], T rows = the sum over a token's choices of its slots, times weights where there are some; dropped ones add nothing.
// Each is the gradient of the other.
struct Combine { Tensor slots; Choices choices; Tensor weights /* may be empty */, y; };
struct CombineWeights { Tensor slots; Choices choices; Tensor dy, dweights /*(f32)[T, k]*/; };  // of a dropped choice 0

inline constexpr int64_t kMostExperts = 1024;
inline constexpr int64_t kChoicesCounted = 512;  // at a time, on a GPU

namespace rules {
KernelKey Key(const RouteForward&);
Cost CostOf(const RouteForward&);
void CheckShapes(const RouteForward&);
Bytes CpuWorkspace(const RouteForward&);
Bytes CudaWorkspace(const RouteForward&);
KernelKey Key(const RouteBackward&);
Cost CostOf(const RouteBackward&);
void CheckShapes(const RouteBackward&);
Bytes CpuWorkspace(const RouteBackward&);
Bytes CudaWorkspace(const RouteBackward&);
KernelKey Key(const Dispatch&);
Cost CostOf(const Dispatch&);
void CheckShapes(const Dispatch&);
Bytes CudaWorkspace(const Dispatch&);
KernelKey Key(const Combine&);
Cost CostOf(const Combine&);
void CheckShapes(const Combine&);
KernelKey Key(const CombineWeights&);
Cost CostOf(const CombineWeights&);
void CheckShapes(const CombineWeights&);
}  // namespace rules

}  // namespace twofold::ops
