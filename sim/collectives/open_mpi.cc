#include "sim/collectives/open_mpi.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/open_mpi_algorithms.h"
#include "sim/collectives/open_mpi_decisions.h"

namespace twofold::sim {
namespace {

class OpenMpiLibrary : public Library {
 public:
  explicit OpenMpiLibrary(const cluster::OpenMpi& figures)
      : gap_(figures.gap_us() * 1e-6),
        free_(figures.free_bytes()),
        acknowledgements_(figures.acknowledgements()),
        eager_(static_cast<double>(figures.eager_bytes())),
        in_order_(static_cast<double>(figures.in_order_bytes())) {}

  std::string_view name() const override { return "open_mpi"; }

  std::vector<std::string_view> algorithms() const override {
    std::vector<std::string_view> names;
    for (const OpenMpiAlgorithm& a : OpenMpiAlgorithms()) {
      if (std::find(names.begin(), names.end(), a.name) == names.end()) names.push_back(a.name);
    }
    return names;
  }

  absl::StatusOr<Schedule> Plan(const CollectiveShape& shape, const Places& places,
                                const Choice& choice) const override {
    if (choice.protocol != "auto") {
      return InvalidArgument("protocol ", choice.protocol, ": library open_mpi has no selectable protocols; use auto");
    }
    // A forced algorithm does not apply.
    if (shape.kind == Communication::kBarrier && choice.algorithm != "auto") return Plan(shape, places, {});
    if (shape.kind == Communication::kAllToAllV) return Finish(Pairwise(shape), shape.ranks, "pairwise");
    const int number = OpenMpiDecision(shape);
    bool known = choice.algorithm == "auto";
    for (const OpenMpiAlgorithm& a : OpenMpiAlgorithms()) {
      known = known || a.name == choice.algorithm;
      if (a.kind != shape.kind || (choice.algorithm == "auto" ? a.number != number : a.name != choice.algorithm))
        continue;
      if (a.name == "two_procs" && shape.ranks != 2) return NoForm(a.name, shape, "it needs exactly two ranks");
      Rounds rounds;
      a.make(shape, rounds);
      Schedule schedule = Finish(std::move(rounds), shape.ranks, std::string(a.name));
      if (shape.kind == Communication::kBarrier) EndTogether(schedule);
      return schedule;
    }
    if (known) return NoForm(choice.algorithm, shape);
    return InvalidArgument("library open_mpi has no algorithm \"", choice.algorithm, "\"");
  }

  double eager_bytes() const override { return eager_; }
  Schedule Message(double bytes, const Places&) const override {
    return Finish({Phase{.flows = {{0, 1, bytes}}}}, 2, "");
  }

 private:
  // The exchange that the mpi fabric uses for all-to-alls of unequal parts.
  static Rounds Pairwise(const CollectiveShape& shape) {
    Rounds rounds;
    for (int d = 1; d < shape.ranks; ++d) {
      Phase& round = rounds.emplace_back();
      for (int r = 0; r < shape.ranks; ++r) {
        const int to = (r + d) % shape.ranks;
        round.flows.push_back({r, to, shape.matrix[static_cast<size_t>(r)][static_cast<size_t>(to)]});
      }
    }
    return rounds;
  }

  // Some ranks leave a barrier sooner than others. Here all leave with the last, so that what is timed after it begins
  // together.
  static void EndTogether(Schedule& schedule) {
    schedule.loose = false;
    std::fill(schedule.last_phase.begin(), schedule.last_phase.end(), static_cast<int>(schedule.phases.size()) - 1);
  }

  Schedule Finish(Rounds rounds, int ranks, std::string algorithm) const {
    for (Phase& round : rounds) AddCosts(round, ranks);
    Schedule schedule = Finished(std::move(rounds), ranks);
    schedule.algorithm = std::move(algorithm);
    schedule.loose = true;
    return schedule;
  }

  void AddCosts(Phase& round, int ranks) const {
    std::vector<int> out(static_cast<size_t>(ranks)), in(out.size()), sent(out.size());
    std::set<std::pair<int, int>> pairs;
    for (const Flow& f : round.flows) {
      ++out[static_cast<size_t>(f.from)], ++in[static_cast<size_t>(f.to)];
      pairs.emplace(f.from, f.to);
    }
    for (Flow& f : round.flows.Listed()) {
      const bool both_ways = (in[static_cast<size_t>(f.from)] > 0 || out[static_cast<size_t>(f.to)] > 0) &&
                             pairs.count({f.to, f.from}) == 0;
      f.hop_seconds = gap_ * sent[static_cast<size_t>(f.from)]++;
      f.meets = f.bytes > eager_;
      f.queued = f.bytes <= in_order_;
      f.free = free_;
      f.bytes *= both_ways ? 1 + acknowledgements_ : 1;
    }
  }

  const double gap_, free_, acknowledgements_, eager_, in_order_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> MakeOpenMpiLibrary(const cluster::Library& library) {
  const cluster::OpenMpi& m = library.open_mpi();
  const std::pair<const char*, double> figures[] = {{"gap_us", m.gap_us()},
                                                    {"free_bytes", m.free_bytes()},
                                                    {"acknowledgements", m.acknowledgements()},
                                                    {"eager_bytes", static_cast<double>(m.eager_bytes())},
                                                    {"in_order_bytes", static_cast<double>(m.in_order_bytes())}};
  for (const auto& [field, value] : figures) {
    if (!(value >= 0)) return InvalidArgument("library.open_mpi.", field, " = ", value, ": must be 0 or more");
  }
  return std::make_unique<OpenMpiLibrary>(m);
}

}  // namespace twofold::sim
