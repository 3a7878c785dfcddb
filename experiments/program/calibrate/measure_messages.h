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

// Likewise point-to-point alone, for a cluster file (ClusterFrom): ranks 0 and 1, 0 and the last, 0 to 1 and 2, then all at
// once. Returns a profile::PointToPoint of rank 0, serialized. A second or so on links of 100 MB/s, ten on those of 20.
std::string MeasureBetweenHosts(RankContext& ctx, int rounds);

std::string MessageTableText(const profile::MessagePassing& links);
std::string PointToPointText(const profile::PointToPoint& links);

}  // namespace twofold::calibrate
