// Which cost model a device's operations are charged by: a calibration's, else that of the cluster's data sheet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::host {

// What a transfer between a device's memory and its host's takes, each way apart: bytes / rate + latency. Without a rate:
// what the device takes to copy as much within its memory, as a CPU does.
// Assumes: pinned memory, and a link that nothing else uses. Ignores: that copies of a CPU take time of its cores.
struct HostLink {
  BytesPerSecond rate;
  Seconds latency;
  Seconds Time(const Tensor& from, const Tensor& to, CostModel& costs) const;
};

struct Costs {
  cluster::Device device;
  profile::Profile profile;        // without kernels: the data sheet's figures hold
  std::optional<profile::Training> training;  // how the profile's kernels go in training; absent: as alone
  bool tf32 = false;               // products of f32, where the profile has them both ways
  double speed = 1;                // operations take the modelled time divided by this
  std::vector<std::string> notes;  // for the report: where times come from
  // Models are used by one thread at a time: one a rank.
  std::unique_ptr<CostModel> Make() const;
  HostLink host_link() const;
  std::string DescribeHostLink() const;  // for the report of a run that offloads: where transfers' times come from
};

// What a spec says of its device.
struct CostsAsked {
  std::string profile;  // a file; "": the cluster's own; of "this-machine" what calibration left at its usual place, if it did
  bool cuda = false;    // "this-machine" means its GPU, which only a profile knows
  bool tf32 = false;
  bool emulated = false;  // "this-machine" may be any device
};
// Where the profile is a GPU's, its figures replace the device's. Refuses a profile of another kind of device than the cluster's.
absl::StatusOr<Costs> FindCosts(const cluster::Cluster& cluster, const CostsAsked& asked);
// Those of an emulated device. Refuses a cluster or profile that is not there.
absl::StatusOr<Costs> FindCosts(const spec::Emulated& emulated);

}  // namespace twofold::host
