// Assumes: messages cost what links cost. Ignores: software, protocols, channels, the arithmetic of reductions.
#include "sim/collectives/ideal.h"

#include "core/base/status.h"

namespace twofold::sim {
namespace {

class IdealLibrary : public Library {
 public:
  std::string_view name() const override { return "ideal"; }
  std::vector<std::string_view> algorithms() const override {
    std::vector<std::string_view> names;
    for (const Algorithm& a : Algorithms()) names.push_back(a.name);
    return names;
  }
  absl::StatusOr<Schedule> Plan(const CollectiveShape& shape, const Places& places,
                                const Choice& choice) const override {
    if (choice.protocol != "auto") {
      return InvalidArgument("protocol ", choice.protocol, ": library ideal has no protocols; use auto");
    }
    return ChooseSchedule(shape, choice.algorithm, places);
  }
  absl::StatusOr<std::vector<Schedule>> Plans(const CollectiveShape& shape, const Places& places,
                                              const Choice& choice) const override {
    if (choice.algorithm != "auto" || choice.protocol != "auto") return Library::Plans(shape, places, choice);
    return AutoSchedules(shape, places);
  }
  Schedule Message(double bytes, const Places&) const override {
    return {.phases = {{.rounds = 1, .flows = {{0, 1, bytes}}}}, .last_phase = {0, 0}, .algorithm = "", .protocol = ""};
  }
};

}  // namespace

std::unique_ptr<Library> MakeIdealLibrary(const cluster::Library&) { return std::make_unique<IdealLibrary>(); }

}  // namespace twofold::sim
