// Which cost model prices a device's operations: a calibration profile if there is one, else the data sheet of the
// cluster.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"
#include "sim/cost/fp8_copies.h"

namespace twofold::host {

// Time of a transfer between a device's memory and its host's, separate for each direction: bytes / rate + latency.
// Without a rate: the time that the device takes to copy the same bytes within its memory, as on a CPU.
//
// Assumes: pinned memory, and no other traffic on the link. Ignores: that copies on a CPU take time of its cores.
struct HostLink {
  BytesPerSecond rate;
  Seconds latency;
  Seconds Time(const Tensor& from, const Tensor& to, CostModel& costs) const;
};

struct Costs {
  cluster::Device device;
  profile::Profile profile;  // if it has no kernels, the data sheet is used
  // How the profile's kernels perform in training; absent: as when run alone.
  std::optional<profile::Training> training;
  bool tf32 = false;  // use TF32 for f32 matrix products if the profile has both
  double speed = 1;   // operations take modelled time / speed
  Fp8Layouts fp8 = Fp8Layouts::kCopied;
  std::vector<std::string> notes;  // for the report: where the times come from
  // Each model is used by one thread at a time, so every rank makes its own.
  std::unique_ptr<CostModel> Make() const;
  HostLink host_link() const;
  std::string DescribeHostLink() const;  // for the report of an offloading run: where transfer times come from
};

// What a spec says about its device.
struct CostsAsked {
  // A file. "": the cluster's own; for "this-machine", the file that calibration wrote to its default location, if any.
  std::string profile;
  bool cuda = false;  // "this-machine" means its GPU, which is known only from a profile
  bool tf32 = false;
  bool emulated = false;  // "this-machine" may be any device
};
// If the profile is a GPU's, its figures replace the device's. Refuses a profile of another kind of device than the
// cluster's.
absl::StatusOr<Costs> FindCosts(const cluster::Cluster& cluster, const CostsAsked& asked);
// Refuses the device if the spec asks for FP8 products, it is a GPU, and nothing says how long they take on it: neither
// a law nor a profile that measured them. `field`: what names the device's cluster.
absl::Status CheckFp8(const spec::Precision& precision, const Costs& costs, std::string_view field);
// Refuses `device: CUDA` with cuda.attention: HOPPER on devices that cannot run that kernel, as the GPU itself would.
absl::Status CheckHopperAttention(const spec::Spec& spec, const Costs& costs);
// The costs of an emulated device. Refuses an unknown cluster or profile.
absl::StatusOr<Costs> FindCosts(const spec::Emulated& emulated);

}  // namespace twofold::host
