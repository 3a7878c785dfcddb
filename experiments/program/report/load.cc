#include "experiments/program/report/load.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"

namespace twofold {
namespace {

struct Process {
  double ran = 0, waited = 0;
};
struct Host {
  double busy = 0, stolen = 0;
};

}  // namespace

double Taken(double held_share, double stolen) {
  return std::clamp(held_share + stolen - held_share * stolen, 0.0, kMostTaken);
}

report::Load LoadOf(std::span<const report::ProcessorUse> ranks) {
  std::map<std::pair<std::string, int64_t>, Process> processes;  // each rank counts all threads of its process
  std::map<std::string, Host> hosts;
  double wall = 0, longest = 0;
  for (const report::ProcessorUse& rank : ranks) {
    if (!rank.has_wall()) continue;
    wall = std::max(wall, rank.wall()), longest = std::max(longest, rank.ran());
    Process& process = processes[{rank.host(), rank.process()}];
    process.ran = std::max(process.ran, rank.process_ran()), process.waited = std::max(process.waited, rank.waited());
    Host& host = hosts[rank.host()];
    host.busy = std::max(host.busy, rank.busy()), host.stolen = std::max(host.stolen, rank.stolen());
  }
  report::Load load;
  if (wall <= 0) return load;
  double waited = 0, others = 0, busy = 0, stolen = 0;
  for (const auto& [name, host] : hosts) {
    double ours = 0;
    for (auto p = processes.lower_bound({name, INT64_MIN}); p != processes.end() && p->first.first == name; ++p) {
      ours += p->second.ran, waited += p->second.waited;
    }
    others += std::max(0.0, host.busy - ours);
    busy += host.busy, stolen += host.stolen;
  }
  const double held = std::max(0.0, std::min({waited, wall - longest, others}));
  load.set_stolen(stolen > 0 ? stolen / (busy + stolen) : 0);
  load.set_taken(Taken(held / wall, load.stolen()));
  load.set_others(others / wall);
  return load;
}

std::string LoadText(const report::Load& load) {
  std::string text = absl::StrFormat("other work kept %.1f processors busy and delayed it by up to %.0f %% of the time",
                                     load.others(), 100 * load.taken());
  if (load.stolen() >= 0.01)
    absl::StrAppendFormat(&text, " (a hypervisor took %.0f %% of the processors' time)", 100 * load.stolen());
  return text;
}

}  // namespace twofold
