#include "backends/simulated/plan_links.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "backends/simulated/plan_network.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/networks/shared_memory_host.h"
#include "topologies/networks/star.h"

namespace twofold {
namespace {

double FirstPositive(std::initializer_list<double> values) {
  for (double v : values) {
    if (v > 0) return v;
  }
  return 0;
}

// Converts a rate's uncertainty into an uncertainty of times.
Range TimesOf(double rate, double low, double high) {
  if (rate <= 0 || low <= 0 || high <= 0) return {};
  return {std::min(1.0, rate / high), std::max(1.0, rate / low)};
}

// For ranks of one host that are processes and send each other messages: every rank has its own link, as fast as when
// all ranks send.
absl::Status SetMessagePassingHost(const spec::Simulated& simulated, const profile::Profile& profile,
                                   SimulationPlan& plan) {
  for (const profile::MessagePassing& links : profile.message_passing()) {
    if (links.fabric() != simulated.links()) continue;
    plan.topology = MakeStar({.hosts = plan.world_size,
                              .bandwidth = BytesPerSecond(links.bytes_per_second_exchange()),
                              .latency = Seconds(links.latency_s())});
    plan.link_spread = TimesOf(links.bytes_per_second(), links.bandwidth_low(), links.bandwidth_high());
    plan.notes.push_back(StrCat("links are those that the profile measured on fabric ", links.fabric(), ": ",
                                links.latency_s() * 1e6, " µs and ", links.bytes_per_second_exchange() / 1e9,
                                " GB/s per rank; for collectives that were not measured, eager and rendezvous "
                                "protocols and the time of reductions are not modelled"));
    SetCollectives(links.collectives(), plan);
    plan.link_spread = Widened(plan.link_spread, links.load());
    if (links.load().taken() > 0) {
      plan.notes.push_back(
          absl::StrFormat("while messages of %s were measured, other work delayed them for up to %.0f %% of the time; "
                          "their interval is wider by as much",
                          links.fabric(), 100 * links.load().taken()));
    }
    return absl::OkStatus();
  }
  return InvalidArgument("fabric.simulated.links: \"", simulated.links(),
                         "\": the profile has no such links; `twofold launch --ranks=2 --fabric=", simulated.links(),
                         " -- calibrate` measures them, or use in_memory");
}

void SetSharedMemoryHost(const cluster::Cluster& c, const profile::Profile& profile, SimulationPlan& plan) {
  const cluster::SharedMemoryHost& host = c.shared_memory_host();
  const profile::SharedMemory& measured = profile.shared_memory();
  constexpr double kLatency = 5e-6, kCore = 8e9, kTotal = 16e9;  // defaults if nothing was measured or stated
  if (!profile.has_shared_memory() && host.core_gbytes_per_second() == 0 && !plan.machine.gpu) {
    plan.notes.push_back("links between ranks are assumed (5 µs, 8 GB/s per core, 16 GB/s in total), not calibrated");
  }
  SharedMemoryHostOptions options;
  options.ranks = plan.world_size;
  options.latency = Seconds(FirstPositive({host.latency_us() * 1e-6, measured.latency_s(), kLatency}));
  options.core_bandwidth =
      BytesPerSecond(FirstPositive({host.core_gbytes_per_second() * 1e9, measured.bytes_per_second_core(), kCore}));
  options.total_bandwidth =
      BytesPerSecond(FirstPositive({host.total_gbytes_per_second() * 1e9, measured.bytes_per_second_total(), kTotal}));
  plan.topology = MakeSharedMemoryHost(options);
  if (host.core_gbytes_per_second() > 0 || !profile.has_shared_memory()) return;
  plan.link_spread = TimesOf(measured.bytes_per_second_core(), measured.bandwidth_low(), measured.bandwidth_high());
  SetCollectives(measured.collectives(), plan);
}

// How the ranks' threads and their communication threads share the cores of one host.
void ShareCores(const cluster::Cluster& c, const profile::Profile& profile, SimulationPlan& plan) {
  const cluster::SharedMemoryHost& host = c.shared_memory_host();
  const double cores = FirstPositive({static_cast<double>(host.cores()), static_cast<double>(profile.cores()),
                                      static_cast<double>(std::thread::hardware_concurrency()), 1});
  const double busy = static_cast<double>(plan.world_size) * plan.threads;
  plan.machine.slowdown = std::max(1.0, busy / cores);
  plan.machine.shared_cores = plan.world_size > 1 && busy + plan.world_size > cores;
  if (plan.machine.slowdown > 1) {
    plan.notes.push_back(StrCat(busy, " threads compute on ", cores, " cores, so their operations take ",
                                plan.machine.slowdown, " times as long"));
  }
  if (plan.machine.shared_cores) {
    plan.notes.push_back(
        "communication threads share cores with compute threads, so overlapped communication slows down compute");
  }
}

// Slowed links, as on the in-memory fabric: each rank has its own, and they keep no core busy.
void SetSlowLinks(const spec::Simulated& simulated, SimulationPlan& plan) {
  plan.topology = MakeStar({.hosts = plan.ranks_per_site,
                            .bandwidth = BytesPerSecond(simulated.link_gbps() * 1e9 / 8),
                            .latency = Seconds(simulated.latency_us() * 1e-6)});
  plan.machine.shared_cores = false;
  plan.collectives = {};  // those were measured on the links at full speed
  plan.link_spread = {};
  plan.notes.push_back(StrCat("links are throttled to ", simulated.link_gbps(), " Gb/s in each direction and ",
                              simulated.latency_us(),
                              " µs per message; the core time that moving the bytes takes is not modelled"));
}

// Which fields about links contradict the cluster.
absl::Status CheckLinks(const spec::Simulated& simulated, const cluster::Cluster& c, const SimulationPlan& plan) {
  const bool own_links = !c.has_shared_memory_host();
  if (!own_links && plan.machine.gpu && plan.world_size > 1) {
    return InvalidArgument(
        "parallel: ", plan.world_size, " ranks on GPUs of ", c.name(),
        " cannot be predicted, because the links between its GPUs are not known; use one ",
        "rank, or a cluster of GPUs (`twofold list clusters`) with this machine's profile as fabric.simulated.profile");
  }
  if (simulated.link_gbps() > 0 && (own_links || simulated.links() != "in_memory")) {
    return InvalidArgument("fabric.simulated.link_gbps: ", simulated.link_gbps(),
                           " would throttle the links between this-machine's threads, but ",
                           own_links ? StrCat("cluster ", c.name(), " has its own links")
                                     : StrCat("fabric.simulated.links is \"", simulated.links(), "\""),
                           "; use 0");
  }
  if (simulated.has_sites() && !own_links && simulated.link_gbps() == 0) {
    return InvalidArgument("fabric.simulated.sites: the links of cluster ", c.name(),
                           " are this machine's memory, which sites cannot share; set fabric.simulated.link_gbps, or ",
                           "use a cluster with links of its own (`twofold list clusters`)");
  }
  if (own_links && simulated.links() != "in_memory" && simulated.links() != kStagedLinks) {
    return InvalidArgument("fabric.simulated.links: \"", simulated.links(), "\": cluster ", c.name(),
                           " has its own links; leave this field out, or use \"", kStagedLinks,
                           "\" for GPUs with an MPI that is not CUDA-aware");
  }
  return absl::OkStatus();
}

}  // namespace

void SetCollectives(const google::protobuf::RepeatedPtrField<profile::MeasuredCollective>& measured,
                    SimulationPlan& plan) {
  if (plan.choice.algorithm != "auto") return;
  double low = 0, high = 0;
  int points = 0;
  std::string names;
  for (const profile::MeasuredCollective& c : measured) {
    const std::optional<Communication::Kind> kind = KindNamed(c.operation());
    if ((plan.elastic ? c.ranks() > plan.world_size : c.ranks() != plan.world_size) || !kind) continue;
    std::vector<sim::MeasuredCollectives::Point> times;
    for (const profile::CollectivePoint& p : c.points()) {
      times.push_back({static_cast<double>(p.bytes()), p.seconds()});
      low += p.low() > 0 ? p.low() / p.seconds() : 1, high += p.high() > 0 ? p.high() / p.seconds() : 1, ++points;
    }
    plan.collectives.Add(*kind, static_cast<int>(c.ranks()), std::move(times));
    StrAppend(&names, names.empty() ? "" : ", ", c.operation(), " of ", c.ranks());
  }
  if (points == 0) return;
  plan.link_spread = {std::min(low / points, 1.0), std::max(high / points, 1.0)};
  plan.notes.push_back(
      StrCat("when nothing else uses the links, ", names, " ranks take the time that calibration measured"));
}

absl::Status SetLinks(const spec::Spec& spec, const cluster::Cluster& c, const profile::Profile& profile,
                      SimulationPlan& plan) {
  const spec::Simulated& simulated = spec.fabric().simulated();
  if (absl::Status s = CheckLinks(simulated, c, plan); !s.ok()) return s;
  if (!c.has_shared_memory_host()) return SetClusterTopology(simulated, c, plan);
  if (spec.device() != spec::EMULATED && !plan.machine.gpu) ShareCores(c, profile, plan);
  if (simulated.link_gbps() > 0) {
    SetSlowLinks(simulated, plan);
  } else if (simulated.links() == "in_memory") {
    SetSharedMemoryHost(c, profile, plan);
  } else {
    return SetMessagePassingHost(simulated, profile, plan);
  }
  return absl::OkStatus();
}

}  // namespace twofold
