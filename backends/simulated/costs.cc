#include "backends/simulated/costs.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <string>

#include "sim/at_work.h"

namespace twofold {
namespace {

constexpr int64_t kKiB = 1024;

outcome::Cost& Add(const char* part, outcome::Outcome& outcome) {
  outcome::Cost& cost = *outcome.add_costs();
  cost.set_part(part);
  return cost;
}
void AddSpan(const char* part, const Moment& from, const Moment& to, outcome::Outcome& outcome) {
  outcome::Cost& cost = Add(part, outcome);
  cost.set_seconds(to.seconds - from.seconds);
  cost.set_bytes(std::max<int64_t>(0, to.bytes - from.bytes));
}

// Shares of the time since `begin`, which are known from samples.
void AddParts(double seconds, outcome::Outcome& outcome) {
  const auto samples = sim::Samples();
  const int64_t all = std::accumulate(samples.begin(), samples.end(), int64_t{0});
  for (size_t p = 0; p < samples.size() && all > 0; ++p) {
    outcome::Cost& cost = Add(std::string(sim::kPartNames[p]).c_str(), outcome);
    cost.set_seconds(seconds * static_cast<double>(samples[p]) / static_cast<double>(all));
    cost.set_count(samples[p]);
  }
}

}  // namespace

Moment MomentNow() {
  int64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
          resident * sysconf(_SC_PAGESIZE)};
}

void AddCosts(const sim::Engine& engine, const sim::Network& network, const Moment& begin,
              const std::optional<Moment>& set_up, int classes, int ranks, outcome::Outcome& outcome) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const Moment now = MomentNow();
  AddSpan("set-up", begin, set_up.value_or(now), outcome);
  AddSpan("training", set_up.value_or(now), {now.seconds, set_up.has_value() ? usage.ru_maxrss * kKiB : 0}, outcome);
  AddParts(now.seconds - begin.seconds, outcome);
  Add("simulation's process", outcome).set_bytes(usage.ru_maxrss * kKiB);
  Add("ranks of the job", outcome).set_count(ranks);
  Add("ranks simulated", outcome).set_count(classes);
  Add("planned communications", outcome).set_count(network.planned());
  Add("communications", outcome).set_count(engine.counters().transfers);
  Add("events", outcome).set_count(engine.counters().events);
  Add("waits of ranks", outcome).set_count(engine.counters().waits);
  if (engine.flows() == nullptr) return;
  Add("bundles of flows", outcome).set_count(engine.flows()->begun());
  Add("meetings of bundles", outcome).set_count(engine.flows()->meetings());
  Add("solutions", outcome).set_count(engine.flows()->solutions());
  Add("classes of flows at most", outcome)
      .set_count(static_cast<int64_t>(std::max(engine.flows()->most_classes(), network.most_classes())));
  Add("zones of links", outcome).set_count(static_cast<int64_t>(engine.flows()->zones()));
}

void AddCosts(const outcome::Outcome& of_one, std::vector<RunResult::Cost>& all) {
  for (const outcome::Cost& cost : of_one.costs()) {
    auto known = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.part == cost.part(); });
    if (known == all.end()) known = all.insert(known, {.part = cost.part()});
    if (cost.has_seconds()) known->seconds = known->seconds.value_or(0) + cost.seconds();
    if (cost.has_bytes()) known->bytes = std::max(known->bytes.value_or(0), cost.bytes());
    if (!cost.has_count()) continue;
    const int64_t before = known->count.value_or(0);
    if (cost.part() == "classes of flows at most")
      known->count = std::max(before, cost.count());
    else if (cost.part() == "ranks of the job" || cost.part() == "ranks simulated")
      known->count = cost.count();
    else
      known->count = before + cost.count();
  }
}

}  // namespace twofold
