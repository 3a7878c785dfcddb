// Every operation of a process group as a value: one call of it is started with fresh operands, waited for by whoever
// started it, and then checked. Cases combine them: alone, in sub-groups, many at once.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/rig.h"

namespace twofold::conformance {

// One call. All ranks of the group start it with the same.
struct Call {
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements that a rank brings, or brings for each rank
  uint32_t salt = 0;  // its data; differs from call to call, so that a result of another call is no right one
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  bool in_place = false;
};

struct Started {
  Work work;
  std::function<void()> check;  // to be called once the work is done; rig and group are alive
};

struct Operation {
  std::string_view name;
  bool reduces = false, rooted = false, in_place = false;  // which of a call's fields mean something to it
  Started (*start)(Rig& rig, ProcessGroup& group, const Call& call) = nullptr;
};

// all_reduce ... all_to_all_v, and the batch of messages in which everybody sends to everybody.
std::span<const Operation> Operations();

// Every call of `operation` that tests have to make in a group of `size` ranks: types x counts x reduce operations x in
// place or not; roots take turns. Of kLarge elements, so that the suite stays affordable, reduce and reduce_scatter only
// sum: the other reduce operations are all_reduce's there. Sanitizers make every access ten times as dear: builds with them
// have sums of f32 alone in that size, of each operation.
std::vector<Call> Calls(const Operation& operation, int size, std::span<const int64_t> counts);

inline constexpr int64_t kLarge = 1'000'003;  // a prime: no algorithm's blocks divide it
inline constexpr int64_t kCounts[] = {0, 1, 10, kLarge};

}  // namespace twofold::conformance
