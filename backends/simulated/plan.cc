#include "backends/simulated/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "backends/host/costs.h"
#include "backends/host/memory_rules.h"
#include "backends/host/simulated_cluster.h"
#include "backends/simulated/graph_launches.h"
#include "backends/simulated/plan_network.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "core/comm/staging.h"
#include "core/proto/world_size.h"
#include "sim/collectives/schedule.h"
#include "sim/cost/framework_cost_model.h"
#include "sim/cost/load.h"
#include "sim/cost/profile_cost_model.h"
#include "sim/spread.h"
#include "topologies/catalogue.h"
#include "topologies/check_fields.h"
#include "topologies/frameworks.h"
#include "topologies/networks/shared_memory_host.h"
#include "topologies/networks/star.h"

namespace twofold {
namespace {

// Training jobs were measured with ranks that share the machine's cores; ranks that only sleep (EMULATED) share
// nothing.
void SetTraining(const cluster::Cluster& c, const profile::Profile& profile, host::Costs& costs, SimulationPlan& plan) {
  if (!c.has_shared_memory_host() || plan.machine.gpu) return;
  const profile::Training* training = TrainingFor(profile, plan.world_size);
  if (training == nullptr) return;
  costs.training = *training;
  plan.machine.host_seconds = training->host_s();
  plan.machine.waiting = plan.world_size > 1 ? training->waiting() : 0;
  plan.machine.core_share = training->core_share();
  plan.notes.push_back(
      StrCat("in training, kernels take ", std::round(100 * training->factor()) / 100,
             " times as long as alone; calibration measured this in ", training->jobs_size(), " small jobs on ",
             Counted(training->ranks(), "rank"),
             training->ranks() == plan.world_size ? "" : ", since it ran none on as many ranks as this job has"));
}

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

// Uses collectives that were measured with this number of ranks, and the uncertainty of the relevant ones' times. In an
// elastic run, the number that trains varies: then also those that were measured with fewer ranks.
template <class Collectives>
void SetCollectives(const Collectives& measured, SimulationPlan& plan) {
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

// Applies a GPU profile's measurements other than kernels.
void SetGpu(const spec::Spec& spec, const cluster::Cluster& c, const profile::Gpu& gpu, SimulationPlan& plan) {
  plan.machine.read_back_seconds = gpu.read_back().seconds();
  plan.machine.uploads = gpu.has_to_device();
  if (spec.device() == spec::CUDA && spec.cuda().time_algorithms() != gpu.time_algorithms()) {
    plan.notes.push_back(StrCat("cuda.time_algorithms is ", spec.cuda().time_algorithms() ? "true" : "false",
                                ", but products were measured with ", gpu.time_algorithms() ? "true" : "false"));
  }
  if (spec.device() == spec::CUDA && spec.cuda().attention() != spec::Cuda::AUTO) {
    plan.notes.push_back(StrCat("cuda.attention is ", spec::Cuda::Attention_Name(spec.cuda().attention()),
                                ", but attention was measured with AUTO"));
  }
  if (spec.device() == spec::CUDA && spec.cuda().attention_workspace_mib() > 0) {
    plan.notes.push_back(StrCat("cuda.attention_workspace_mib is ", spec.cuda().attention_workspace_mib(),
                                ", but attention was measured without it"));
  }
  if (plan.world_size == 1 || gpu.collectives().empty()) return;
  if (c.has_library()) {
    plan.notes.push_back(StrCat("the profile's collectives, measured on fabric ", gpu.collectives_of(),
                                ", are ignored: the cluster says how its library communicates"));
    return;
  }
  plan.notes.push_back(StrCat("the profile's collectives were measured on fabric ", gpu.collectives_of()));
  SetCollectives(gpu.collectives(), plan);
}

// Operations that repeat are launched by CUDA graphs.
void SetGraphs(const spec::Spec& spec, SimulationPlan& plan) {
  if (!plan.machine.gpu || spec.device() != spec::CUDA || !spec.cuda().graphs()) return;
  plan.machine.graphs = {kGraphOperation, kGraphLaunch, kGraphNode};
  plan.notes.push_back(absl::StrFormat(
      "cuda.graphs: where operations between two communications repeat, the host is assumed to take %.2g µs for a CUDA "
      "graph of them and %.2g ns for each node (NVIDIA, CUDA 12.6, on a Xeon Silver 4208), and %.2g µs to compare an "
      "operation with that of the step before (0.45 to 1.4 were measured on a server's CPU), instead of its launch, "
      "which "
      "takes %.2g µs; that kernels of a graph follow each other faster is not modelled",
      kGraphLaunch * 1e6, kGraphNode * 1e9, kGraphOperation * 1e6, plan.machine.launch_seconds * 1e6));
}

// Whether communication takes a part of the device from what computes beside it.
void SetContention(const spec::Simulated& simulated, const cluster::Device& device, SimulationPlan& plan) {
  if (!plan.machine.gpu || plan.world_size == 1 || !(device.has_laws() || device.has_kernels())) return;
  plan.machine.beside = simulated.contention() == spec::Simulated::Contention::ON;
  if (plan.machine.beside) {
    plan.notes.push_back(
        "what computes beside communication takes longer, by the multiprocessors that the library's channels occupy "
        "and "
        "the memory bandwidth that they use (`contention: OFF`: it does not); that computing slows communication down "
        "is not modelled");
  }
}

// How far devices of this type differ in speed.
absl::Status SetSpeeds(const spec::Simulated& simulated, const cluster::Device& device, SimulationPlan& plan) {
  const double spread = device.speed_spread();
  if (!(spread >= 0 && spread < 0.5)) {
    return InvalidArgument("device.speed_spread: ", spread,
                           ": must be at least 0 and below 0.5, as a share of the time that arithmetic takes");
  }
  if (!plan.machine.gpu || plan.world_size == 1 || spread == 0 || simulated.noise() == spec::Simulated::Noise::OFF)
    return absl::OkStatus();
  plan.machine.speed_spread = spread;
  const double slowest = sim::MaximumOf(plan.world_size).mean * spread;
  plan.notes.push_back(
      absl::StrFormat("devices differ in speed by %.2g %% (standard deviation), and ranks wait for the slowest: of %d, "
                      "it is expected to be %.2g %% slower than the average one (`noise: OFF`: all are alike)",
                      100 * spread, plan.world_size, 100 * slowest));
  return absl::OkStatus();
}

// Another framework's operations on this device. Its memory is judged when the run is over
// (experiments/program/framework_memory.h), so ranks may hold any number of bytes.
absl::Status SetFramework(const spec::Spec& spec, const cluster::Device& device, SimulationPlan& plan) {
  if (spec.framework() == spec::TWOFOLD) return absl::OkStatus();
  const absl::StatusOr<framework::Framework> found = FindFramework(spec);
  if (!found.ok()) return found.status();
  if (const absl::Status known = CheckFrameworkKernels(found->time()); !known.ok())
    return Within(StrCat("framework ", found->name(), ": "), known);
  if (device.kind() != cluster::Device::GPU_DEVICE) {
    return InvalidArgument("framework: ", spec::Framework_Name(spec.framework()),
                           " is predicted on GPUs, but fabric.simulated.cluster computes on CPUs; use a cluster of ",
                           "GPUs (`twofold list clusters`)");
  }
  plan.costs = std::make_unique<FrameworkCostModel>(std::move(plan.costs), found->time(), device);
  if (found->time().has_communication_launch_us())
    plan.machine.communication_launch_seconds = found->time().communication_launch_us() * 1e-6;
  for (const framework::Moved& moved : found->time().moved()) {
    SimulatedMachine::Moved& to = plan.machine.moved.emplace_back();
    to.before =
        moved.before() == framework::Moved::ALL_GATHER ? Communication::kAllGather : Communication::kReduceScatter;
    for (const int type : moved.type()) to.types.push_back(absl::AsciiStrToLower(spec::DType_Name(type)));
    to.seconds = moved.bytes_per_element() / (device.memory_bytes_per_second() * device.memory_efficiency());
  }
  plan.device_memory = Bytes(0);
  plan.notes.push_back(StrCat("predicted for ", found->name(), ": ", found->summary(),
                              ". Where its figures come from: ", found->source(),
                              ". Pages and comparisons show this program's memory; the report's "
                              "`framework` of each rank has that of ",
                              found->name()));
  return absl::OkStatus();
}

// Sets the device and the costs of its operations; `profile` is also that of the cluster's links.
absl::Status SetCosts(const spec::Spec& spec, const cluster::Cluster& c, SimulationPlan& plan,
                      profile::Profile& profile) {
  absl::StatusOr<host::Costs> costs = host::FindCosts(c, {.profile = spec.fabric().simulated().profile(),
                                                          .cuda = spec.device() == spec::CUDA,
                                                          .tf32 = spec.device() == spec::CUDA && spec.cuda().tf32()});
  if (!costs.ok()) return costs.status();
  profile = costs->profile;
  const bool emulated = spec.device() == spec::EMULATED;
  if (emulated) costs = host::FindCosts(spec.emulated());
  if (!costs.ok()) return costs.status();
  if (absl::Status s =
          host::CheckFp8(spec.train().precision(), *costs, emulated ? "emulated.cluster" : "fabric.simulated.cluster");
      !s.ok())
    return s;
  if (spec.device() == spec::CUDA && costs->device.kind() != cluster::Device::GPU_DEVICE) {
    return InvalidArgument("fabric.simulated.cluster: \"", c.name(),
                           "\" computes on CPUs, but device is CUDA; use a cluster of GPUs (",
                           "`twofold list clusters`), or device: CPU");
  }
  const host::MemoryRules memory = host::MemoryRulesOf(spec, costs->device);
  plan.device_memory = memory.device;
  plan.host_memory = memory.host;
  const absl::StatusOr<host::MemoryRules> found = host::FindMemoryRules(spec, host::RanksAre::kThreads);
  if (!found.ok()) return found.status();
  plan.shared_memory = spec.memory().assume_fits() ? Bytes(0) : found->shared;
  plan.assume_fits = spec.memory().assume_fits();
  if (spec.fabric().simulated().links() == kStagedLinks) {
    if (memory.kind != DeviceKind::kCuda) {
      return InvalidArgument("fabric.simulated.links: \"", kStagedLinks, "\" is for GPUs, but cluster ", c.name(),
                             " computes on CPUs; leave this field out");
    }
    plan.machine.staging = HostStaging::kBytes;
    plan.notes.push_back(StrCat("communication is staged: each group holds ", HostStaging::kBytes.value() >> 20,
                                " MiB of host memory, as on fabric.mpi with a library that is not CUDA-aware; the time "
                                "of the copies is not modelled"));
  }
  plan.machine.gpu = memory.kind == DeviceKind::kCuda;  // false for an emulated device: its stream is the host
  plan.machine.launch_seconds = costs->device.launch_us() * 1e-6;
  plan.machine.communication_launch_seconds = costs->device.communication_launch_us() * 1e-6;
  SetGraphs(spec, plan);
  if (plan.machine.gpu && spec.device() == spec::CUDA && spec.cuda().attention() == spec::Cuda::HOPPER) {
    plan.notes.push_back(
        "cuda.attention: HOPPER needs GPUs of compute capability 9.0 (H100, H200); attention is predicted as with "
        "AUTO, since that kernel has not been timed");
  }
  if (absl::Status s = SetSpeeds(spec.fabric().simulated(), costs->device, plan); !s.ok()) return s;
  if (plan.machine.gpu && costs->profile.has_gpu()) SetGpu(spec, c, costs->profile.gpu(), plan);
  if (!emulated) {
    SetTraining(c, profile, *costs, plan);
    if (profile.threads() > 0 && profile.threads() != plan.threads) {
      plan.notes.push_back(StrCat("the profile's kernels ran on ", profile.threads(),
                                  " threads per rank, but this job's run on ", plan.threads,
                                  "; `twofold calibrate --threads=", plan.threads, "` measures those"));
    }
  }
  plan.notes.insert(plan.notes.end(), costs->notes.begin(), costs->notes.end());
  if (spec.train().precision().matmul() == spec::Precision::FP8 &&
      costs->device.kind() == cluster::Device::GPU_DEVICE) {
    plan.notes.push_back(
        "products in FP8 take the time of the device's FP8 law, and rounding their operands that of its bytes; the law "
        "is of NVIDIA's libraries, whose copies in another layout for the two backward products, which GPUs before "
        "Blackwell need, are not modelled; device CUDA's own kernels need none and have not been timed; MFU counts the "
        "peak of train.precision.parameter");
  }
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) plan.notes.push_back(costs->DescribeHostLink());
  plan.host_link = costs->host_link();
  plan.costs = costs->Make();
  SetContention(spec.fabric().simulated(), costs->device, plan);
  return SetFramework(spec, costs->device, plan);
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

void SetFiles(const spec::Spec& spec, SimulationPlan& plan) {
  const spec::Storage& storage = spec.fabric().simulated().storage();
  plan.files = {BytesPerSecond(storage.write_gbytes_per_second() * 1e9),
                BytesPerSecond(storage.read_gbytes_per_second() * 1e9)};
  if (!spec.train().has_checkpoint() && !spec.train().has_resume()) return;
  plan.notes.push_back(StrCat("each rank is ", spec.fabric().simulated().has_storage() ? "said" : "assumed",
                              " to write files at ", storage.write_gbytes_per_second(), " GB/s and to read them at ",
                              storage.read_gbytes_per_second(), " GB/s (fabric.simulated.storage)"));
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

// Numbers that are equal for groups on the same kind of places: which of their ranks share nodes and rails is alike,
// and routes from each rank to the next have the same latencies and the same narrowest links.
class PlaceNumbers {
 public:
  explicit PlaceNumbers(const SimulationPlan& plan) : plan_(plan) {}
  int Of(const std::vector<int>& ranks) {
    const Topology& topology = *plan_.topology;
    std::vector<double> text;
    absl::flat_hash_map<int, int> nodes, rails;  // numbered in the order of ranks
    std::vector<int> route;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Pair pair{EndpointOf(ranks[i]), EndpointOf(ranks[(i + 1) % ranks.size()])};
      text.push_back(nodes.try_emplace(topology.NodeOf(pair.from), static_cast<int>(nodes.size())).first->second);
      text.push_back(rails.try_emplace(topology.RailOf(pair.from), static_cast<int>(rails.size())).first->second);
      topology.Route(pair, topology.DefaultRoute(pair), route);
      double narrowest = std::numeric_limits<double>::infinity();
      for (const int link : route) narrowest = std::min(narrowest, topology.RatesOf(link).bandwidth.value());
      text.push_back(topology.Latency(pair).value()), text.push_back(narrowest);
    }
    return numbers_.try_emplace(std::move(text), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  int EndpointOf(int rank) const { return plan_.endpoints.empty() ? rank : plan_.endpoints[static_cast<size_t>(rank)]; }
  const SimulationPlan& plan_;
  absl::flat_hash_map<std::vector<double>, int> numbers_;
};

// What is known of kinds before ranks run: pipeline stages hold different layers, and ranks may be slowed. All else
// ranks tell (ProcessGroup::RanksDiffer).
std::vector<int> KindsByPlace(const MeshShape& mesh, const std::vector<double>& factors) {
  std::map<std::pair<int, double>, int> numbers;
  std::vector<int> kinds;
  for (int r = 0; r < mesh.size(); ++r) {
    const double factor = factors.empty() ? 1 : factors[static_cast<size_t>(r)];
    kinds.push_back(numbers.try_emplace({PlaceOf(mesh, r).pp, factor}, static_cast<int>(numbers.size())).first->second);
  }
  return kinds;
}

constexpr char kNoneAlike[] = "no two ranks do the same at the same times";

void FindClasses(const spec::Spec& spec, SimulationPlan& plan) {
  const spec::Parallel& p = spec.parallel();
  const auto order = ParseMeshOrder(p.order());
  MeshShape mesh{.pp = static_cast<int>(p.pp()),
                 .dp = static_cast<int>(p.dp()),
                 .cp = static_cast<int>(p.cp()),
                 .tp = static_cast<int>(p.tp()),
                 .ep = std::max(1, static_cast<int>(p.ep())),
                 .islands = std::max(1, static_cast<int>(p.islands()))};
  if (order.ok()) mesh.order = *order;
  const absl::Status fits = order.ok() ? CheckMesh(mesh, plan.world_size) : order.status();
  if (spec.train().has_async_sgd()) {
    plan.why_not_fold = "ranks do different things at different times (train.async_sgd)";
    return;
  }
  if (plan.world_size == 1)
    plan.why_not_fold = "there is only one rank";
  else if (p.dp() * p.tp() * p.cp() == 1)
    plan.why_not_fold = "ranks do different things (only pp is used)";
  if (plan.machine.real) plan.why_not_fold = "ranks hold different data (data: REAL)";
  if (!fits.ok()) plan.why_not_fold = std::string(fits.message());
  if (!plan.why_not_fold.empty()) return;
  const std::shared_ptr<const MeshGroups> all = AllGroupsOf(mesh);
  PlaceNumbers numbers(plan);
  for (size_t k = 0; k < all->size(); ++k) {
    const std::shared_ptr<const GroupList>& groups = (*all)[k];
    if (groups->size() == 1 || groups->size() == static_cast<size_t>(plan.world_size)) continue;  // all; each alone
    const auto same = [&groups](const Meetings& m) { return m.groups == groups; };
    if (std::any_of(plan.meetings.begin(), plan.meetings.end(), same)) continue;
    Meetings& meetings = plan.meetings.emplace_back(Meetings{.groups = groups});
    if (plan.topology->symmetric()) continue;
    for (const std::vector<int>& group : *groups) meetings.places.push_back(numbers.Of(group));
  }
  SplitClasses(KindsByPlace(mesh, plan.compute_factors), kNoneAlike, plan);
}

}  // namespace

absl::StatusOr<SimulationPlan> MakePlan(const spec::Spec& spec) {
  const Moment begin = MomentNow();
  const spec::Simulated& simulated = spec.fabric().simulated();
  SimulationPlan plan;
  absl::StatusOr<cluster::Cluster> c = host::FindSimulatedCluster(simulated, &plan.notes);
  if (!c.ok()) return c.status();
  if (!(c->device().memory_bytes_per_second() > 0) || !(c->device().f32_flops_per_second() > 0)) {
    return InvalidArgument(
        "cluster ", c->name(),
        ": device.memory_bytes_per_second and device.f32_flops_per_second must be greater than 0 (got ",
        c->device().memory_bytes_per_second(), " and ", c->device().f32_flops_per_second(), ")");
  }

  plan.simgrid = simulated.solver() == spec::Simulated::SIMGRID;
  if (plan.simgrid) plan.notes.push_back("solver: SIMGRID: SimGrid divides the links' bandwidth, flow by flow");
  plan.world_size = static_cast<int>(WorldSize(spec));
  plan.threads = static_cast<int>(spec.train().threads_per_rank());
  plan.machine.real = simulated.data() == spec::Simulated::REAL;
  plan.machine.graph = spec.trace().execution_graph();
  if (spec.trace().goal()) {
    const double each = spec.trace().goal_mib() * 0x1p20 / plan.world_size;
    plan.machine.goal_bytes = std::max<int64_t>(1, static_cast<int64_t>(each));
  }
  plan.elastic = spec.train().has_elastic();

  if (absl::Status s = DivideIntoSites(simulated, plan); !s.ok()) return s;
  if (absl::Status s = SetLibrary(simulated, *c, plan); !s.ok()) return s;
  // Open MPI's connections remember what they have sent; a reference leaves nothing out.
  plan.may_differ_briefly = simulated.folding_error() > 0;
  plan.counts_steps = simulated.steady_state() == spec::Simulated::COUNT && !plan.machine.real && !plan.simgrid &&
                      !plan.machine.graph && plan.machine.goal_bytes == 0 && plan.library->name() != "open_mpi";
  profile::Profile profile;
  if (absl::Status s = SetCosts(spec, *c, plan, profile); !s.ok()) return s;
  const bool own_links = !c->has_shared_memory_host();
  if (!own_links && plan.machine.gpu && plan.world_size > 1) {
    return InvalidArgument(
        "parallel: ", plan.world_size, " ranks on GPUs of ", c->name(),
        " cannot be predicted, because the links between its GPUs are not known; use one ",
        "rank, or a cluster of GPUs (`twofold list clusters`) with this machine's profile as fabric.simulated.profile");
  }
  if (simulated.link_gbps() > 0 && (own_links || simulated.links() != "in_memory")) {
    return InvalidArgument("fabric.simulated.link_gbps: ", simulated.link_gbps(),
                           " would throttle the links between this-machine's threads, but ",
                           own_links ? StrCat("cluster ", c->name(), " has its own links")
                                     : StrCat("fabric.simulated.links is \"", simulated.links(), "\""),
                           "; use 0");
  }
  if (simulated.has_sites() && !own_links && simulated.link_gbps() == 0) {
    return InvalidArgument("fabric.simulated.sites: the links of cluster ", c->name(),
                           " are this machine's memory, which sites cannot share; set fabric.simulated.link_gbps, or ",
                           "use a cluster with links of its own (`twofold list clusters`)");
  }
  if (own_links) {
    if (simulated.links() != "in_memory" && simulated.links() != kStagedLinks) {
      return InvalidArgument("fabric.simulated.links: \"", simulated.links(), "\": cluster ", c->name(),
                             " has its own links; leave this field out, or use \"", kStagedLinks,
                             "\" for GPUs with an MPI that is not CUDA-aware");
    }
    if (absl::Status s = SetClusterTopology(simulated, *c, plan); !s.ok()) return s;
  } else {
    if (spec.device() != spec::EMULATED && !plan.machine.gpu) ShareCores(*c, profile, plan);
    if (simulated.link_gbps() > 0)
      SetSlowLinks(simulated, plan);
    else if (simulated.links() == "in_memory")
      SetSharedMemoryHost(*c, profile, plan);
    else if (absl::Status s = SetMessagePassingHost(simulated, profile, plan); !s.ok())
      return s;
  }
  SetFiles(spec, plan);
  if (absl::Status s = Place(simulated, plan); !s.ok()) return s;
  if (simulated.has_sites()) Join(spec, plan);
  if (absl::Status s = Degrade(simulated.network(), plan); !s.ok()) return s;
  if (absl::Status s = SetStragglers(simulated, plan); !s.ok()) return s;
  if (simulated.folding() != spec::Simulated::OFF) FindClasses(spec, plan);
  if (simulated.folding() == spec::Simulated::ON && plan.stand_ins.empty()) {
    return InvalidArgument("fabric.simulated.folding: ON, but ", plan.why_not_fold, "; use AUTO or OFF");
  }
  const Moment now = MomentNow();
  plan.building = {now.seconds - begin.seconds, std::max<int64_t>(0, now.bytes - begin.bytes)};
  return plan;
}

void SplitClasses(std::span<const int> kinds, const std::string& why, SimulationPlan& plan) {
  plan.stand_ins = RefineClasses(
      plan.stand_ins.empty() ? std::vector<int>(kinds.begin(), kinds.end()) : BothOf(plan.stand_ins, kinds),
      plan.meetings);
  if (StandIns(plan.stand_ins).size() < plan.stand_ins.size()) return;
  plan.stand_ins.clear();
  plan.why_not_fold = why;
}

}  // namespace twofold
