// Groups that forward to another's and get one thing wrong, always and on purpose: what the suite has to find.
//
// For fabrics whose ranks live in this process. Operands are read and written through the device. Faults do not depend on timing:
// what is late, say, comes with the next call and not after some milliseconds.
#pragma once

#include <memory>
#include <string_view>

#include "core/run/rank_context.h"

namespace twofold::conformance {

enum class Fault {
  kNone,
  kSwappedOrder,    // of two collectives in flight, the second is done first
  kSwappedBlocks,   // what ranks 0 and 1 brought stands in each other's place in the output
  kDroppedTail,     // the last element of a long result is not written
  kStaleResult,     // a call delivers what the last one of its kind and size delivered
  kLateCompletion,  // work is reported done, and its result arrives with the next call
  kMissingRank,     // reductions take zeros for what the last rank brings
  kWrongSource,     // a receive says that the data is from the next rank
  kOpenBarrier,     // barriers let everybody pass
};
std::string_view FaultName(Fault fault);

// A group before the context's world; sub-groups have the same fault. Valid while the context is.
std::unique_ptr<ProcessGroup> BreakWorld(RankContext& context, Fault fault);

}  // namespace twofold::conformance
