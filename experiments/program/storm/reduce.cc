#include "experiments/program/storm/reduce.h"

#include <algorithm>
#include <vector>

namespace twofold::storm {
namespace {

using Disasters = std::vector<Disaster>;

class Reduction {
 public:
  Reduction(const Schedule& whole, const std::function<bool(const Schedule&)>& breaks, int most_runs)
      : seed_(whole.seed()),
        breaks_(breaks),
        most_runs_(most_runs),
        kept_(whole.disasters().begin(), whole.disasters().end()) {}

  Reduced Run() {
    LeaveOut();
    const bool minimal = runs_ < most_runs_;
    for (bool simpler = true; simpler && runs_ < most_runs_;) simpler = Simplify();
    return {Of(kept_), runs_, minimal};
  }

 private:
  Schedule Of(const Disasters& disasters) const {
    Schedule schedule;
    schedule.set_seed(seed_);
    for (const Disaster& d : disasters) *schedule.add_disasters() = d;
    return schedule;
  }

  bool Try(const Disasters& fewer) {
    if (runs_ >= most_runs_) return false;
    ++runs_;
    if (!breaks_(Of(fewer))) return false;
    kept_ = fewer;
    return true;
  }

  // ddmin, by complements: parts of a half, a quarter, ... of what is left, down to single disasters.
  void LeaveOut() {
    for (size_t parts = 2; kept_.size() > 1 && runs_ < most_runs_;) {
      parts = std::min(parts, kept_.size());
      bool smaller = false;
      for (size_t p = 0; p < parts && !smaller; ++p) {
        Disasters fewer = kept_;
        const auto from = static_cast<std::ptrdiff_t>(p * kept_.size() / parts),
                   to = static_cast<std::ptrdiff_t>((p + 1) * kept_.size() / parts);
        fewer.erase(fewer.begin() + from, fewer.begin() + to);
        smaller = Try(fewer);
      }
      if (smaller)
        parts = std::max<size_t>(2, parts - 1);
      else if (parts == kept_.size())
        return;
      else
        parts *= 2;
    }
  }

  // Simpler ones, the simplest first.
  static Disasters Simpler(const Disaster& d) {
    Disasters all;
    const auto add = [&](auto change) {
      Disaster other = d;
      change(*other.mutable_fault());
      all.push_back(other);
    };
    if (!d.has_fault()) return all;
    const spec::Fault& f = d.fault();
    if (f.has_hangs_s()) add([](spec::Fault& o) { o.set_lost(true); });
    if (f.link_down().times() > 1) add([](spec::Fault& o) { o.mutable_link_down()->clear_times(); });
    if (f.slow().has_for_s()) add([](spec::Fault& o) { o.mutable_slow()->clear_for_s(); });
    if (f.has_at_s() || (f.has_call() && f.generation() == 0)) {
      for (const int64_t step : {0, 1, 2, 4}) add([step](spec::Fault& o) { o.set_step(step); });
    }
    if (f.has_file_call() && f.file_call() > 1) {
      for (const int64_t call : {int64_t{1}, f.file_call() / 2, f.file_call() - 1})
        add([call](spec::Fault& o) { o.set_file_call(call); });
    }
    if (f.has_call() && f.call() > 1) {
      for (const int64_t call : {int64_t{1}, f.call() / 2, f.call() - 1}) {
        if (call >= 1) add([call](spec::Fault& o) { o.set_call(call); });
      }
    }
    return all;
  }

  bool Simplify() {
    for (size_t i = 0; i < kept_.size(); ++i) {
      for (const Disaster& simpler : Simpler(kept_[i])) {
        Disasters other = kept_;
        other[i] = simpler;
        if (other[i].has_fault() && !other[i].fault().has_call()) other[i].mutable_fault()->clear_generation();
        if (Try(other)) return true;
      }
    }
    return false;
  }

  const uint64_t seed_;
  const std::function<bool(const Schedule&)>& breaks_;
  const int most_runs_;
  int runs_ = 0;
  Disasters kept_;
};

}  // namespace

Reduced Reduce(const Schedule& schedule, const std::function<bool(const Schedule&)>& breaks, int most_runs) {
  return Reduction(schedule, breaks, most_runs).Run();
}

}  // namespace twofold::storm
