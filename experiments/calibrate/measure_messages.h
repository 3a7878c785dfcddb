// Times messages between ranks that are processes.
//
// The figures of LogGP (Alexandrov et al. 1995) as a process sees them: latency, gap between small messages, bandwidth; and
// the size from which a library asks the receiver first (rendezvous) rather than sending at once (eager).
#pragma once

#include <string>

#include "core/base/units.h"
#include "core/proto/profile.pb.h"
#include "core/run/rank_context.h"

namespace twofold::calibrate {

// Run by every rank, two or more; ranks 0 and 1 are measured, then all at once. Returns a profile::MessagePassing of rank 0,
// serialized; nothing at the others.
std::string MeasureMessages(RankContext& ctx, int rounds);

std::string MessageTableText(const profile::MessagePassing& links);

}  // namespace twofold::calibrate
