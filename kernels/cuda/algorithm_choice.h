// The choice of the cuBLASLt algorithm for a product: the part that does not call the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/product.h"

namespace twofold::cuda {

// The largest power of two, at most 16, that divides an address. No algorithm requires more, and the fewer distinct
// alignments there are, the less a result depends on a tensor's address.
inline uint32_t AlignmentOf(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(at % 16 == 0 ? 16 : at & (~at + 1));
}

// The inputs of the choice. Alpha and beta are not among them: an algorithm is valid for any value of them.
struct AlgorithmKey {
  LibraryProduct product;
  uint32_t a, b, d;  // alignments
  size_t workspace_bytes;
  friend auto operator<=>(const AlgorithmKey&, const AlgorithmKey&) = default;
};
inline AlgorithmKey KeyOf(LibraryProduct product, const void* a, const void* b, const void* d, size_t workspace_bytes) {
  product.alpha = 1, product.beta = 0;
  return {product, AlignmentOf(a), AlignmentOf(b), AlignmentOf(d), workspace_bytes};
}

// One answer of the heuristic; answers are sorted best first.
struct Candidate {
  bool usable;  // the library supports it on this GPU
  size_t workspace_bytes;
  int splits;          // split-K factor
  bool added_wide;     // the split sums are added in the compute type, in a separate step
  double seconds = 0;  // measured, if candidates are timed
};
inline bool Acceptable(const Candidate& c, size_t workspace_bytes) {
  return c.usable && c.workspace_bytes <= workspace_bytes && (c.splits <= 1 || c.added_wide);
}
// Returns the first acceptable candidate or, if `timed`, the fastest (ties go to the first). candidates.size() if there
// is none.
inline size_t Choose(std::span<const Candidate> candidates, size_t workspace_bytes, bool timed) {
  size_t best = candidates.size();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!Acceptable(candidates[i], workspace_bytes)) continue;
    if (best == candidates.size() || (timed && candidates[i].seconds < candidates[best].seconds)) best = i;
  }
  return best;
}

// What the heuristic is asked for: algorithms that may split sums if they add the parts in the compute type, or only
// algorithms that do not split sums, and at most so many. The library fills the first list with its favourites, which
// may all be algorithms that we do not accept. The second list is a fallback for such products.
struct HeuristicQuery {
  bool splits;
  int most;
};
inline constexpr HeuristicQuery kHeuristicQueries[] = {{.splits = true, .most = 8}, {.splits = false, .most = 64}};

// Calls ask(query), which returns candidates, until one of them is acceptable. Returns false if none ever is.
template <class Ask>
bool AskUntilAcceptable(size_t workspace_bytes, Ask&& ask) {
  for (const HeuristicQuery& query : kHeuristicQueries) {
    const std::span<const Candidate> candidates = ask(query);
    if (Choose(candidates, workspace_bytes, false) < candidates.size()) return true;
  }
  return false;
}

}  // namespace twofold::cuda
