// Fits the figures of library "open_mpi" and of a cluster's links to point-to-point times.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace twofold::calibrate {

struct MessageTime {
  double bytes, seconds;
};

// Seconds of a message of n bytes: latency + max(0, n - free_bytes) / bytes_per_second.
struct MessageFit {
  double latency = 0, free_bytes = 0, bytes_per_second = 0;
  double Seconds(double bytes) const;
};
// Least squares of relative errors over messages above 8 KiB (at least two), with the latency given.
MessageFit FitMessages(double latency, const std::vector<MessageTime>& times);

// What messages lose when every rank sends and receives: the share of their bytes by which they appear longer, at least
// 0. Only exchanges of 256 KiB and more count. The first exchange must be a small one; it gives the latency (some
// neighbours may be further away than others).
double FitAcknowledgements(const MessageFit& fit, const std::vector<MessageTime>& exchanges);

// `shape` (a star, or machines of one device on any network) with the measured rates and latencies of its links, and
// library open_mpi with its figures. Refuses shapes of other kinds.
absl::StatusOr<cluster::Cluster> ClusterFrom(cluster::Cluster shape, const profile::PointToPoint& measured);

}  // namespace twofold::calibrate
