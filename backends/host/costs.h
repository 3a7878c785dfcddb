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

struct Costs {
  cluster::Device device;
  profile::Profile profile;        // without kernels: the data sheet's figures hold
  std::optional<profile::Training> training;  // how the profile's kernels go in training; absent: as alone
  double speed = 1;                // operations take the modelled time divided by this
  std::vector<std::string> notes;  // for the report: where times come from
  // Models are used by one thread at a time: one a rank.
  std::unique_ptr<CostModel> Make() const;
};

// `profile`: a file; "": for "this-machine" the one that calibration left at its usual place, if it did, else none.
absl::StatusOr<Costs> FindCosts(const cluster::Cluster& cluster, const std::string& profile);
// Those of an emulated device. Refuses a cluster or profile that is not there.
absl::StatusOr<Costs> FindCosts(const spec::Emulated& emulated);

}  // namespace twofold::host
