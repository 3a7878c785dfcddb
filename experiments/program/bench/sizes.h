// Sizes as nccl-tests users write them: -b 8 -e 1G -f 2, or -i 1M.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace twofold::bench {

// Parses "8", "64K", "1M", "1G": whole bytes; K, M and G (or k, m, g) are powers of 1024. From 1 byte to 1024 G. Errors
// state what is accepted, but not the option.
absl::StatusOr<int64_t> ParseSize(std::string_view text);

struct Sweep {
  int64_t least = 8, most = int64_t{64} << 20;  // bytes
  int64_t step = 0;                             // bytes added for the next size; 0: multiply by `factor`
  int64_t factor = 2;                           // 2 or more
};

// The sizes in ascending order, from `least` to at most `most`. Refuses sweeps without a size and sweeps of more than
// 10,000; errors name the option.
absl::StatusOr<std::vector<int64_t>> Sizes(const Sweep& sweep);

}  // namespace twofold::bench
