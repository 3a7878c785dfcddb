// Process groups that forward to another group and always get one thing wrong on purpose. The suite must detect them.
//
// For fabrics whose ranks live in this process. Operands are read and written through the device. Faults do not depend
// on timing: a late result, for example, arrives with the next call and not after some milliseconds.
#pragma once

#include <memory>
#include <string_view>

#include "core/run/rank_context.h"

namespace twofold::conformance {

enum class Fault {
  kNone,
  kSwappedOrder,    // of two collectives in flight, the second completes first
  kSwappedBlocks,   // the inputs of ranks 0 and 1 are swapped in the output
  kDroppedTail,     // the last element of a long result is not written
  kStaleResult,     // a call delivers the result of the previous call of its kind and size
  kLateCompletion,  // work is reported done, but its result arrives with the next call
  kMissingRank,     // reductions use zeros for the last rank's input
  kWrongSource,     // a receive reports the next rank as the source
  kOpenBarrier,     // barriers do not block
};
std::string_view FaultName(Fault fault);

// Wraps the context's world; sub-groups have the same fault. Valid while the context is.
std::unique_ptr<ProcessGroup> BreakWorld(RankContext& context, Fault fault);

}  // namespace twofold::conformance
