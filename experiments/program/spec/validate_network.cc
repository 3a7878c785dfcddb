// Checks the simulated network's fields without the cluster. What the cluster lacks is found when the network is
// planned.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/fields.h"
#include "core/proto/world_size.h"
#include "experiments/program/spec/validate.h"
#include "sim/collectives/library.h"
#include "topologies/routing.h"

namespace twofold {
namespace {

void CheckNamed(std::string_view field, std::string_view what, const std::string& name, std::vector<std::string> known,
                Problems& problems) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  problems.Add(StrCat("fabric.simulated.", field), "\"", name, "\" is not ", what, Suggestion(name, known));
}

std::vector<std::string> WithAuto(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

std::vector<std::string> Policies() {
  std::vector<std::string> names;
  for (const RoutingPolicy p : kRoutingPolicies) names.emplace_back(RoutingName(p));
  return names;
}

void CheckPlacement(const spec::Placement& placement, Problems& problems) {
  constexpr std::string_view kHosts = "fabric.simulated.placement.hosts", kSeed = "fabric.simulated.placement.seed";
  const bool listed = placement.policy() == spec::Placement::HOSTS;
  if (listed && placement.hosts().empty())
    problems.Add(kHosts, "is missing; name the nodes that ranks fill, such as hosts: [0, 4], or use another policy");
  if (!listed && !placement.hosts().empty())
    problems.Add(kHosts, "is only for policy: HOSTS; set that, or leave it out");
  for (int i = 0; i < placement.hosts_size(); ++i) {
    if (placement.hosts(i) < 0)
      problems.Add(StrCat(kHosts, "[", i, "]"), placement.hosts(i),
                   " is out of range; use a node of the cluster, from 0");
  }
  if (placement.has_ranks_per_node())
    problems.Whole("fabric.simulated.placement.ranks_per_node", placement.ranks_per_node(), 1, 1 << 20);
  if (placement.policy() != spec::Placement::RANDOM && placement.seed() != spec::Placement::default_instance().seed()) {
    return problems.Add(kSeed, "is only for policy: RANDOM; set that, or leave it out");
  }
  problems.Whole(kSeed, placement.seed(), 0, int64_t{1} << 62);
}

void CheckFault(const std::string& path, const spec::LinkFault& fault, Problems& problems) {
  if (fault.link().empty())
    problems.Add(StrCat(path, ".link"),
                 "is missing; use the name of a link, or the beginning of several names followed by *");
  const std::string bandwidth = StrCat(path, ".bandwidth");
  if (!(fault.bandwidth() > 0 && fault.bandwidth() <= 1)) {
    problems.Add(
        bandwidth, NumberText(fault.bandwidth()),
        " is out of range; use the share of the bandwidth that is left, above 0 and at most 1, or failed: true");
  } else if (fault.failed() && (fault.bandwidth() != 1 || fault.latency_us() != 0)) {
    problems.Add(fault.bandwidth() != 1 ? bandwidth : StrCat(path, ".latency_us"),
                 "has no meaning for a failed link; leave out this field, or failed");
  } else if (!fault.failed() && fault.bandwidth() == 1 && fault.latency_us() == 0) {
    problems.Add(path, "states no fault of the link; use failed: true, bandwidth or latency_us");
  }
  if (problems.AtLeast(StrCat(path, ".latency_us"), fault.latency_us(), 0) && fault.latency_us() > 1e9) {
    problems.Add(StrCat(path, ".latency_us"), NumberText(fault.latency_us()), " is out of range; use at most 1e9");
  }
}

void CheckNetwork(const spec::Network& network, Problems& problems) {
  constexpr std::string_view kJitter = "fabric.simulated.network.jitter";
  for (int i = 0; i < network.faults_size(); ++i)
    CheckFault(StrCat("fabric.simulated.network.faults[", i, "]"), network.faults(i), problems);
  problems.Fraction("fabric.simulated.network.background", network.background());
  if (problems.AtLeast(kJitter, network.jitter(), 0) && network.jitter() > 1e6) {
    problems.Add(kJitter, NumberText(network.jitter()), " is out of range; use at most 1e6");
  }
  problems.Whole("fabric.simulated.network.seed", network.seed(), 0, int64_t{1} << 62);
}

template <class Stragglers>
void CheckStragglers(const std::string& of, const Stragglers& stragglers, const spec::Spec& spec, double least,
                     Problems& problems) {
  std::set<int64_t> seen;
  for (int i = 0; i < stragglers.size(); ++i) {
    const spec::Straggler& s = stragglers[i];
    const std::string path = StrCat(of, ".stragglers[", i, "]"), factor = StrCat(path, ".factor");
    const bool rank =
        problems.Whole(StrCat(path, ".rank"), s.rank(), 0, std::max<int64_t>(1, WorldSize(spec)) - 1, s.has_rank());
    if (rank && !seen.insert(s.rank()).second)
      problems.Add(StrCat(path, ".rank"), s.rank(), " is named twice; name each rank once");
    if (!s.has_factor())
      problems.Add(factor, "is missing; use a number such as 1.5");
    else if (!(s.factor() >= least && s.factor() <= 1e6))
      problems.Add(factor, NumberText(s.factor()), " is out of range; use ", NumberText(least), " to 1e6");
  }
}

void CheckFoldingError(const spec::Simulated& simulated, Problems& problems) {
  constexpr std::string_view kField = "fabric.simulated.folding_error";
  if (!problems.Fraction(kField, simulated.folding_error()) || simulated.folding_error() == 0) return;
  if (simulated.folding() == spec::Simulated::AUTO) return;
  problems.Add(kField, NumberText(simulated.folding_error()),
               " has no effect with folding: ", spec::Simulated::Folding_Name(simulated.folding()),
               "; leave one of them out");
}

}  // namespace

void CheckSimulatedNetwork(const spec::Spec& spec, Problems& problems) {
  const spec::Simulated& simulated = spec.fabric().simulated();
  CheckNamed("algorithm", "an algorithm", simulated.algorithm(), WithAuto(sim::AllAlgorithms()), problems);
  CheckNamed("protocol", "a protocol", simulated.protocol(), WithAuto(sim::AllProtocols()), problems);
  if (simulated.has_routing()) CheckNamed("routing", "a routing policy", simulated.routing(), Policies(), problems);
  CheckFoldingError(simulated, problems);
  CheckPlacement(simulated.placement(), problems);
  CheckNetwork(simulated.network(), problems);
  CheckStragglers("fabric.simulated", simulated.stragglers(), spec, 1e-6, problems);
  CheckFaults(spec, problems);
}

void CheckInMemoryStragglers(const spec::Spec& spec, Problems& problems) {
  const auto& stragglers = spec.fabric().in_memory().stragglers();
  CheckStragglers("fabric.in_memory", stragglers, spec, 1, problems);
  if (!stragglers.empty() && spec.device() == spec::CUDA) {
    problems.Add("fabric.in_memory.stragglers",
                 "slow down a rank's processor, but device: CUDA computes elsewhere; use CPU or EMULATED");
  }
}

void CheckSites(const spec::Spec& spec, Problems& problems) {
  const spec::Fabric& fabric = spec.fabric();
  const bool simulated = fabric.has_simulated();
  if (simulated ? !fabric.simulated().has_sites() : !fabric.in_memory().has_sites()) return;
  const spec::Sites& sites = simulated ? fabric.simulated().sites() : fabric.in_memory().sites();
  const std::string path = StrCat("fabric.", simulated ? "simulated" : "in_memory", ".sites"),
                    rate = StrCat(path, ".between_gbps"), latency = StrCat(path, ".latency_ms");
  const int64_t ranks = std::max<int64_t>(1, WorldSize(spec));
  if (problems.Whole(StrCat(path, ".count"), sites.count(), 2, 1024) && ranks % sites.count() != 0) {
    problems.Add(StrCat(path, ".count"), sites.count(), " does not divide the ", ranks,
                 " ranks; use a divisor of their number");
  }
  if (!sites.has_between_gbps())
    problems.Add(rate, "is missing; use the gigabits per second of a site's link, such as 10");
  else if (!(sites.between_gbps() >= 1e-9 && sites.between_gbps() <= 1e9))
    problems.Add(rate, NumberText(sites.between_gbps()), " is out of range; use 1e-9 to 1e9");
  if (problems.AtLeast(latency, sites.latency_ms(), 0) && sites.latency_ms() > 1e6)
    problems.Add(latency, NumberText(sites.latency_ms()), " is out of range; use at most 1e6");
  if (!simulated && fabric.in_memory().link_gbps() == 0) {
    problems.Add(path,
                 "needs links that are slowed down, but fabric.in_memory.link_gbps = 0 leaves them at full speed; "
                 "use a rate above 0, such as 10");
  }
}

}  // namespace twofold
