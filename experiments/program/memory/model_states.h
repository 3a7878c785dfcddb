// The ZeRO paper's formula for a spec's model states, printed beside a prediction.
//   Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC20: section 3.1
//   (model states: 2 psi bytes of fp16 parameters, 2 psi of fp16 gradients, K psi of optimizer state, with K = 12 for
//   mixed-precision Adam) and section 5, figure 1 (what each stage divides by the number of ranks, N_d).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/memory/ledger.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct StateFormula {
  Category category;
  std::string what;                 // "parameters, BF16"
  int64_t bytes_per_parameter = 0;  // 2, 2, K
  int64_t ranks = 1;                // ranks that share one copy: N_d if the stage shards it, else 1
  int64_t second_copy_ranks = 0;    // ranks that share a second copy (ZeRO++'s secondary shard); 0: there is none
  double bytes(int64_t psi) const;  // of one rank
  std::string ToString() const;     // "12 psi / 64", "2 psi / 64 + 2 psi / 8"
};

// Parameters, gradients and optimizer state, in this order. The optimizer's bytes are those of the state it keeps for
// the spec's types: first and second moments, masters.
std::vector<StateFormula> ModelStateFormulas(const spec::Spec& spec);

}  // namespace twofold
