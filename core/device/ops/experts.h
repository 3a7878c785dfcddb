// Mixture of experts (Shazeer et al. 2017). The router's output becomes choices, rows of tokens are copied to slots of
// the chosen experts, and the experts' outputs are copied back.
//
// T tokens choose k of E experts each. There are two forms of the rows that experts work on:
//   slots [E, C, c]   an expert has a capacity of C choices (Lepikhin et al. 2021, section 2.2), and further ones are
//                     dropped. The choices are data; all shapes are fixed
//   rows [T k, c]     every choice has a row; the rows of expert 0 come first, then those of expert 1 and so on (Gale
//                     et al. 2023, "MegaBlocks", section 5.1). How many rows an expert has is data
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// Choice (t, j) selects expert experts[t, j]. For slots, places[t, j] is its index, from 0, among the choices of that
// expert in order of t, then j. Its row goes to the slot of that index. If the expert has fewer slots, the choice is
// dropped. For rows, places[t, j] is the row itself: the same index, after the rows of all lower experts.
struct Choices {
  Tensor experts /*I32 [T, k]*/, places /*I32 [T, k]*/;
};

// probabilities (f32)[T, E] = softmax(logits). The k largest logits are chosen; ties go to the lower index. weights
// (f32)[T, k]: the probabilities of the chosen experts, divided by their sum (Jiang et al. 2024, section 2.1). For k =
// 1 the weight is the probability itself (Fedus et al. 2022, equation 2), since otherwise the router would get no
// gradient.
struct RouteForward {
  Tensor logits /*[T, E]*/, probabilities, weights;
  Choices choices;                               // for slots if there are no counts, else for rows
  Tensor counts = {} /*I32 [E]; may be empty*/;  // the number of choices of each expert
};
// dlogits: the gradient through the weights, plus that of balance * E * sum over experts of f_i P_i. f_i is the share
// of choices that select expert i (a constant), P_i its mean probability (Fedus et al. 2022, equations 4 to 6).
struct RouteBackward {
  Tensor probabilities, dweights /*(f32)[T, k]*/;
  Choices choices;
  Tensor dlogits;
  double balance = 0;
};

// Copies the T rows of x [.., c] to slots [E, C, c] or rows [n, c], multiplied by weights (f32)[T, k] if given. Slots
// that no choice has become 0.
struct Dispatch {
  Tensor x;
  Choices choices;
  Tensor weights /* may be empty */, slots;
};
// y [.., c] has T rows. Each is the sum over its token's choices of their slots (or rows), multiplied by weights if
// given. Dropped choices add nothing. Dispatch and Combine are each other's gradients.
struct Combine {
  Tensor slots;
  Choices choices;
  Tensor weights /* may be empty */, y;
};
// 0 for a dropped choice
struct CombineWeights {
  Tensor slots;
  Choices choices;
  Tensor dy, dweights /*(f32)[T, k]*/;
};

inline constexpr int64_t kMostExperts = 1024;
inline constexpr int64_t kChoicesCounted = 512;  // choices counted at a time on a GPU

namespace rules {
Bytes CpuWorkspace(const RouteForward&);
Bytes CudaWorkspace(const RouteForward&);
Bytes CpuWorkspace(const RouteBackward&);
Bytes CudaWorkspace(const RouteBackward&);
Bytes CudaWorkspace(const Dispatch&);
}  // namespace rules

}  // namespace twofold::ops
