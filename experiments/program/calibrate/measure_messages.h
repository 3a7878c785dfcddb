// Times messages between ranks that are processes.
//
// The parameters of LogGP (Alexandrov et al. 1995) as a process sees them: latency, gap between small messages,
// bandwidth; and the size from which a library asks the receiver first (rendezvous) instead of sending at once (eager).
#pragma once

#include <string>

#include "core/proto/profile.pb.h"
#include "core/run/rank_context.h"

namespace twofold::calibrate {

// Run by every rank, at least two. Measures ranks 0 and 1, then all at once. Returns a serialized
// profile::MessagePassing on rank 0, nothing on the others.
std::string MeasureMessages(RankContext& ctx, int rounds);

// Likewise for point-to-point alone, for a cluster file (ClusterFrom): ranks 0 and 1, 0 and the last, 0 to 1 and 2,
// then all at once. Returns a serialized profile::PointToPoint on rank 0. Takes about a second on links of 100 MB/s,
// ten seconds at 20 MB/s.
std::string MeasureBetweenHosts(RankContext& ctx, int rounds);

std::string MessageTableText(const profile::MessagePassing& links);
std::string PointToPointText(const profile::PointToPoint& links);

}  // namespace twofold::calibrate
