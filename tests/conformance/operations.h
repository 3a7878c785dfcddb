// Every operation of a process group as a value. A call of it is started with fresh operands, waited for by the caller,
// and then checked. Cases combine operations: alone, in sub-groups, many at once.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/rig.h"

namespace twofold::conformance {

// One call. All ranks of the group must start it with equal fields.
struct Call {
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements of a rank's input, or of its input for each rank
  uint32_t salt = 0;  // seed of its data; differs between calls, so that the result of another call is wrong
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  bool in_place = false;
};

struct Started {
  Work work;
  std::function<void()> check;  // called once the work is done, while rig and group are alive
};

struct Operation {
  std::string_view name;
  bool reduces = false, rooted = false, in_place = false;  // the fields of Call that it uses
  Started (*start)(Rig& rig, ProcessGroup& group, const Call& call) = nullptr;
};

// all_reduce ... all_to_all_v, and the batch of messages in which every rank sends to every rank.
std::span<const Operation> Operations();

// Every call of `operation` that tests must make in a group of `size` ranks: types x counts x reduce operations x in
// place or not; roots take turns. To keep the suite affordable, reduce and reduce_scatter of kLarge elements only sum;
// all_reduce covers the other reduce operations at that size. Sanitizers make every access ten times slower, so their
// builds test kLarge with f32 sums alone, for each operation.
std::vector<Call> Calls(const Operation& operation, int size, std::span<const int64_t> counts);

inline constexpr int64_t kLarge = 1'000'003;  // a prime, so that no algorithm's blocks divide it
inline constexpr int64_t kCounts[] = {0, 1, 10, kLarge};

}  // namespace twofold::conformance
