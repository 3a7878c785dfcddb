#include "backends/host/costs.h"

#include <filesystem>
#include <utility>

#include "core/base/strings.h"
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
  else model = std::make_unique<RooflineCostModel>(device);
  if (speed == 1) return model;
  return std::make_unique<AtSpeed>(std::move(model), speed);
}

absl::StatusOr<Costs> FindCosts(const cluster::Cluster& c, const std::string& profile) {
  Costs costs{.device = c.device(), .profile = {}, .training = {}, .notes = {}};
  std::string path = profile;
  if (path.empty() && c.name() == "this-machine" && std::filesystem::exists(kThisMachineProfile)) path = kThisMachineProfile;
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
