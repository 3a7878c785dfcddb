#include "backends/host/costs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/strings.h"
#include "sim/cost/gpu_cost_model.h"
#include "sim/cost/profile_cost_model.h"
#include "sim/cost/read_profile.h"
#include "sim/cost/roofline.h"
#include "topologies/catalogue.h"

namespace twofold::host {
namespace {

class AtSpeed : public CostModel {
 public:
  AtSpeed(std::unique_ptr<CostModel> model, double speed) : model_(std::move(model)), speed_(speed) {}
  Estimate Time(const ops::Op& op) override {
    Estimate e = model_->Time(op);
    for (Seconds* s : {&e.seconds, &e.low, &e.high}) *s = *s / speed_;
    return e;
  }
  bool independent() const override { return model_->independent(); }
  Range common() const override { return model_->common(); }

 private:
  const std::unique_ptr<CostModel> model_;
  const double speed_;
};

}  // namespace

std::unique_ptr<CostModel> Costs::Make() const {
  std::unique_ptr<CostModel> model;
  if (profile.kernels_size() > 0) model = std::make_unique<ProfileCostModel>(profile, training ? &*training : nullptr);
  else if (device.has_kernels()) model = std::make_unique<GpuCostModel>(device);
  else model = std::make_unique<RooflineCostModel>(device);
  if (speed == 1) return model;
  return std::make_unique<AtSpeed>(std::move(model), speed);
}

namespace {

// PCIe 4.0 x16 as A100s have it: of a GPU whose data sheet here says nothing.
constexpr double kAssumedGBytesPerSecond = 25, kAssumedMicroseconds = 10;

bool IsAssumed(const cluster::Device& d) {
  return d.kind() == cluster::Device::GPU_DEVICE && d.host_link_gbytes_per_second() <= 0;
}

}  // namespace

HostLink Costs::host_link() const {
  if (IsAssumed(device)) return {BytesPerSecond(kAssumedGBytesPerSecond * 1e9 * speed), Seconds(kAssumedMicroseconds * 1e-6 / speed)};
  return {BytesPerSecond(device.host_link_gbytes_per_second() * 1e9 * speed), Seconds(device.host_link_us() * 1e-6 / speed)};
}

Seconds HostLink::Time(const Tensor& from, const Tensor& to, CostModel& costs) const {
  if (rate.value() <= 0) return costs.Time(ops::Cast{.in = from, .out = to}).seconds + latency;
  return Seconds(static_cast<double>(from.bytes().value()) / rate.value()) + latency;
}

std::string DescribeHostLink(const cluster::Device& device) {
  if (IsAssumed(device)) {
    return StrCat("transfers between device and host: ", kAssumedGBytesPerSecond, " GB/s each way and ", kAssumedMicroseconds,
                  " us are assumed; the cluster's device.host_link_gbytes_per_second is not given");
  }
  if (device.host_link_gbytes_per_second() > 0) {
    return StrCat("transfers between device and host: ", device.host_link_gbytes_per_second(), " GB/s each way and ",
                  device.host_link_us(), " us, from the cluster's file, not measured");
  }
  return "transfers between device and host take what the device takes to copy as much; what they take of the cores' time and "
         "of the memory's rate from computing is not modelled";
}

absl::StatusOr<Costs> FindCosts(const cluster::Cluster& c, const std::string& profile) {
  Costs costs{.device = c.device(), .profile = {}, .training = {}, .notes = {}};
  std::string path = profile;
  if (path.empty() && c.name() == "this-machine" && std::filesystem::exists(kThisMachineProfile)) path = kThisMachineProfile;
  if (absl::Status s = CheckKernels(c.device()); !s.ok()) {
    return absl::InvalidArgumentError(StrCat("cluster ", c.name(), ": device.kernels.", s.message()));
  }
  if (path.empty() && c.device().has_kernels()) {
    costs.notes.push_back(StrCat(GpuCostModel(c.device()).Describe(), ": ", c.name(), ", ", c.source()));
    return costs;
  }
  if (path.empty()) {
    costs.notes.push_back(StrCat("times of kernels are from a data sheet or assumed, not calibrated: ", c.name(), ", ", c.source()));
    return costs;
  }
  absl::StatusOr<profile::Profile> read = ReadProfile(path);
  if (!read.ok()) return read.status();
  costs.profile = *std::move(read);
  if (costs.profile.kernels_size() == 0) {
    costs.notes.push_back(StrCat(path, " has no kernels: their times are from a data sheet or assumed: ", c.name(), ", ", c.source()));
  } else {
    costs.notes.push_back(StrCat("calibration: ", path, ": ", ProfileCostModel(costs.profile).Describe()));
  }
  return costs;
}

absl::StatusOr<Costs> FindCosts(const spec::Emulated& emulated) {
  absl::StatusOr<cluster::Cluster> c = FindCluster(emulated.cluster(), "emulated.cluster");
  if (!c.ok()) return c.status();
  absl::StatusOr<Costs> costs = FindCosts(*c, emulated.profile());
  if (!costs.ok()) return costs;
  costs->speed = emulated.speed();
  costs->notes.push_back(StrCat("device EMULATED: operations take the time that is modelled for ", c->device().name(),
                                emulated.speed() == 1 ? "" : StrCat(", at ", emulated.speed(), " of its speed"),
                                "; every rank has a device of its own, and the host's own work and launches take none"));
  return costs;
}

}  // namespace twofold::host
