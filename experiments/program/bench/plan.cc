#include "experiments/program/bench/plan.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "backends/registry.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "experiments/program/bench/expectation.h"
#include "experiments/program/report/files.h"
#include "experiments/program/spec/spec.h"
#include "sim/collectives/library.h"
#include "sim/places.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/grow.h"

namespace twofold::bench {
namespace {

constexpr int kSimulatedRanks = 8, kRanks = 2;  // default without --ranks if ranks are not processes
constexpr int kMostRanks = 1 << 20, kMostIterations = 1 << 20;

absl::Status Wrong(std::string_view option, const auto& value, const auto&... why) {
  return InvalidArgument("--", option, "=", value, ": ", why...);
}

absl::Status CheckRange(std::string_view option, const std::optional<int>& value, int least, int most) {
  if (!value || (*value >= least && *value <= most)) return absl::OkStatus();
  return InvalidArgument("--", option, " must be from ", least, " to ", most, " (got ", *value, ")");
}

// ---- The request ----
absl::StatusOr<const Operation*> ReadOperation(const std::string& name) {
  if (const Operation* op = FindOperation(name)) return op;
  std::vector<std::string> names;
  for (const Operation& op : Operations()) names.emplace_back(op.name);
  return InvalidArgument("unknown operation \"", name, "\"", Suggestion(name, names));
}

absl::StatusOr<DType> ReadType(const std::string& name) {
  constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8};
  std::vector<std::string> names;
  for (DType t : kTypes) {
    if (name == NcclTypeName(t) || name == DTypeName(t)) return t;
    names.push_back(StrCat(NcclTypeName(t), " (", DTypeName(t), ")"));
  }
  return InvalidArgument("--datatype must be one of ", absl::StrJoin(names, ", "), " (got \"", name, "\")");
}

absl::StatusOr<ReduceOp> ReadReduce(const std::string& name) {
  constexpr std::pair<std::string_view, ReduceOp> kNames[] = {{"sum", ReduceOp::kSum},
                                                              {"prod", ReduceOp::kProduct},
                                                              {"min", ReduceOp::kMin},
                                                              {"max", ReduceOp::kMax},
                                                              {"avg", ReduceOp::kAvg}};
  for (const auto& [known, op] : kNames) {
    if (name == known) return op;
  }
  return InvalidArgument("--op must be sum, prod, min, max or avg (got \"", name, "\")");
}

absl::Status ReadSize(std::string_view option, const std::optional<std::string>& text, int64_t& size) {
  if (!text) return absl::OkStatus();
  const absl::StatusOr<int64_t> parsed = ParseSize(*text);
  if (!parsed.ok()) return InvalidArgument("--", option, ": ", parsed.status().message());
  size = *parsed;
  return absl::OkStatus();
}

absl::StatusOr<Sweep> ReadSweep(const Options& o) {
  Sweep sweep;
  if (absl::Status s = ReadSize("minbytes", o.least, sweep.least); !s.ok()) return s;
  if (!o.most) sweep.most = std::max(sweep.most, sweep.least);
  if (absl::Status s = ReadSize("maxbytes", o.most, sweep.most); !s.ok()) return s;
  if (absl::Status s = ReadSize("stepbytes", o.step, sweep.step); !s.ok()) return s;
  if (o.step && o.factor) return InvalidArgument("--stepfactor and --stepbytes are both given; leave one of them out");
  sweep.factor = o.factor.value_or(sweep.factor);
  return sweep;
}

absl::StatusOr<Request> ReadRequest(const Options& o) {
  Request r;
  const auto operation = ReadOperation(o.operation);
  if (!operation.ok()) return operation.status();
  r.operation = *operation;
  if (o.dtype) {
    const auto dtype = ReadType(*o.dtype);
    if (!dtype.ok()) return dtype.status();
    r.dtype = *dtype;
  }
  if (o.reduce) {
    if (!r.operation->reduces) return Wrong("op", *o.reduce, o.operation, " does not reduce; leave it out");
    const auto reduce = ReadReduce(*o.reduce);
    if (!reduce.ok()) return reduce.status();
    r.reduce = *reduce;
  }
  if (o.root && !r.operation->rooted) return Wrong("root", *o.root, o.operation, " has no root; leave it out");
  r.root = o.root.value_or(0);
  if (absl::Status s = CheckRange("iters", o.iterations, 1, kMostIterations); !s.ok()) return s;
  if (absl::Status s = CheckRange("warmup_iters", o.warmup, 0, kMostIterations); !s.ok()) return s;
  if (absl::Status s = CheckRange("check", o.check, 0, 1); !s.ok()) return s;
  return r;
}

// ---- The fabric ----
absl::Status CheckFabric(const Options& o) {
  const Backend* row = FindBackend(o.fabric);
  const std::string why_not = row == nullptr ? "unknown fabric" : Prepare(*row);
  if (!why_not.empty()) {
    std::vector<std::string> names;
    for (const Backend& b : Backends()) {
      if (b.why_not().empty()) names.emplace_back(b.name);
    }
    return Wrong("fabric", o.fabric, why_not, Suggestion(o.fabric, names));
  }
  if (absl::Status s = CheckStartedFor(o.fabric); !s.ok()) return s;
  if (o.fabric == "simulated") return absl::OkStatus();
  constexpr std::string_view kAlone = "is only for simulated clusters; leave it out, or use --fabric=simulated";
  if (o.cluster) return Wrong("cluster", *o.cluster, kAlone);
  if (o.nodes) return Wrong("nodes", *o.nodes, kAlone);
  if (o.ranks_per_node) return Wrong("ranks-per-node", *o.ranks_per_node, kAlone);
  if (o.algorithm) return Wrong("algorithm", *o.algorithm, kAlone);
  if (o.protocol) return Wrong("protocol", *o.protocol, kAlone);
  return absl::OkStatus();
}

// A cluster defines its own devices.
absl::StatusOr<spec::Device> ReadDevice(const Options& o) {
  const bool gpu_memory_only = FindBackend(o.fabric)->gpu_memory_only;
  if (!o.device) return gpu_memory_only ? spec::CUDA : spec::CPU;
  if (o.fabric == "simulated")
    return Wrong("device", *o.device, "the cluster determines the simulated device; leave it out");
  if (*o.device == "cuda") return spec::CUDA;
  if (*o.device != "cpu") return InvalidArgument("--device must be cpu or cuda (got \"", *o.device, "\")");
  if (gpu_memory_only)
    return Wrong("device", *o.device, o.fabric,
                 " moves the memory of GPUs only; leave --device out, or choose another --fabric");
  return spec::CPU;
}

// The number of ranks that the chosen nodes hold. Grows a cluster that has fewer.
absl::StatusOr<int> Capacity(const Options& o, cluster::Cluster& c) {
  if (c.has_shared_memory_host()) {
    if (o.nodes && *o.nodes != 1) return Wrong("nodes", *o.nodes, "cluster ", c.name(), " is one host; leave it out");
    if (o.ranks_per_node)
      return Wrong("ranks-per-node", *o.ranks_per_node, "cluster ", c.name(), " is one host; leave it out");
    return kMostRanks;
  }
  const int64_t nodes = o.nodes ? *o.nodes : MostNodes(c);
  std::string note;  // the simulation says it
  if (absl::Status s = Grow(nodes, "--nodes=", c, note); !s.ok()) return s;
  const absl::StatusOr<int> devices = DevicesPerNode(c);
  if (!devices.ok()) return devices.status();
  if (o.ranks_per_node && (*o.ranks_per_node < 1 || *o.ranks_per_node > *devices)) {
    return Wrong("ranks-per-node", *o.ranks_per_node, "a node of cluster ", c.name(), " has ",
                 Counted(*devices, "device"), "; use 1 to ", *devices);
  }
  return static_cast<int>(std::min<int64_t>(kMostRanks, nodes * o.ranks_per_node.value_or(*devices)));
}

// The places of the first ranks of a cluster.
absl::StatusOr<sim::Places> FirstPlaces(const Options& o, const cluster::Cluster& c, int ranks) {
  const absl::StatusOr<int> devices = DevicesPerNode(c);
  if (!devices.ok()) return devices.status();
  const int each = o.ranks_per_node.value_or(*devices);
  const auto topology = BuildTopology(c, o.nodes.value_or((ranks + each - 1) / each));
  if (!topology.ok()) return topology.status();
  std::vector<int> endpoints;
  for (int r = 0; r < std::min(ranks, (*topology)->endpoints()); ++r)
    endpoints.push_back(r / each * *devices + r % each);
  return sim::PlacesOf(**topology, endpoints);
}

// Checks that the cluster's library knows the algorithm and can run it there. `auto` always works.
absl::Status CheckAlgorithm(const Options& o, const Operation& op, const cluster::Cluster& c, int ranks) {
  if (!o.algorithm || *o.algorithm == "auto") return absl::OkStatus();
  const auto library = sim::MakeLibrary(c.library());
  if (!library.ok()) return library.status();
  std::vector<std::string> names = {"auto"}, fitting = {"auto"};
  for (std::string_view name : (*library)->algorithms()) names.emplace_back(name);
  if (std::find(names.begin(), names.end(), *o.algorithm) == names.end()) {
    return Wrong("algorithm", *o.algorithm, "unknown algorithm", Suggestion(*o.algorithm, names));
  }
  if (op.kind == Communication::kBatch)
    return Wrong("algorithm", *o.algorithm, "send_recv uses no collective algorithm; leave it out");
  const absl::StatusOr<sim::Places> places = FirstPlaces(o, c, ranks);
  if (!places.ok()) return places.status();
  const sim::CollectiveShape shape{.kind = op.kind, .ranks = places->ranks(), .bytes = 1, .root = 0, .matrix = {}};
  auto plan = [&](const std::string& name) { return (*library)->Plan(shape, *places, {.algorithm = name}).status(); };
  const absl::Status status = plan(*o.algorithm);
  if (status.ok()) return status;
  for (size_t i = 1; i < names.size(); ++i) {
    if (plan(names[i]).ok()) fitting.push_back(names[i]);
  }
  return Wrong("algorithm", *o.algorithm, "cannot run ", op.name, " over ", ranks, " ranks of cluster ", c.name(), " (",
               status.message(), "); use one of ", absl::StrJoin(fitting, ", "));
}

// Checks that the cluster's library knows the protocol and that it serves the operation, with the forced algorithm if
// there is one.
absl::Status CheckProtocol(const Options& o, const Operation& op, const cluster::Cluster& c, int ranks) {
  if (!o.protocol || *o.protocol == "auto") return absl::OkStatus();
  const auto library = sim::MakeLibrary(c.library());
  if (!library.ok()) return library.status();
  const auto known = (*library)->protocols();
  if (known.empty()) {
    return Wrong("protocol", *o.protocol, "library ", (*library)->name(), " of cluster ", c.name(),
                 " has no protocols; leave it out");
  }
  std::vector<std::string> names = {"auto"};
  for (std::string_view name : known) names.emplace_back(name);
  if (std::find(names.begin(), names.end(), *o.protocol) == names.end()) {
    return Wrong("protocol", *o.protocol, "unknown protocol", Suggestion(*o.protocol, names));
  }
  if (op.kind == Communication::kBatch)
    return Wrong("protocol", *o.protocol, "send_recv has no choice of protocols; leave it out");
  const absl::StatusOr<sim::Places> places = FirstPlaces(o, c, ranks);
  if (!places.ok()) return places.status();
  const sim::CollectiveShape shape{.kind = op.kind, .ranks = places->ranks(), .bytes = 1, .root = 0, .matrix = {}};
  const absl::Status status = (*library)->Plan(shape, *places, {o.algorithm.value_or("auto"), *o.protocol}).status();
  return status.ok() ? status : Wrong("protocol", *o.protocol, std::string(status.message()));
}

// Fills in the simulator's part of the spec and of `bench`, and the number of ranks.
absl::Status PlanSimulation(const Options& o, spec::Spec& spec, Bench& bench) {
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  if (o.cluster) simulated.set_cluster(*o.cluster);
  absl::StatusOr<cluster::Cluster> c = FindCluster(simulated.cluster());
  if (!c.ok()) return InvalidArgument("--cluster: ", c.status().message());
  const absl::StatusOr<int> capacity = Capacity(o, *c);
  if (!capacity.ok()) return capacity.status();
  bench.ranks =
      o.ranks.value_or(o.nodes && !c->has_shared_memory_host() ? *capacity : std::min(kSimulatedRanks, *capacity));
  if (bench.ranks > *capacity) {
    return Wrong("ranks", bench.ranks, "cluster ", c->name(), o.nodes ? StrCat(" with --nodes=", *o.nodes) : "",
                 " has room for ", *capacity, "; use fewer ranks", o.nodes ? " or more nodes" : "");
  }
  const Operation& op = *bench.request.operation;
  if (absl::Status s = CheckAlgorithm(o, op, *c, bench.ranks); !s.ok()) return s;
  if (absl::Status s = CheckProtocol(o, op, *c, bench.ranks); !s.ok()) return s;
  if (o.nodes) simulated.set_nodes(*o.nodes);
  if (o.ranks_per_node) simulated.mutable_placement()->set_ranks_per_node(*o.ranks_per_node);
  if (o.algorithm) simulated.set_algorithm(*o.algorithm);
  if (o.protocol) simulated.set_protocol(*o.protocol);
  // One rank can represent all only if all have equal operands. With a root, ranks end at different times; but the time
  // is that of the last one, so it may count for all (command.cc leaves that note out).
  const bool like_the_root = op.kind == Communication::kBroadcast || op.kind == Communication::kReduce;
  if (op.rooted) simulated.set_folding(like_the_root && bench.ranks > 1 ? spec::Simulated::ON : spec::Simulated::OFF);
  bench.cluster = c->name();
  if (op.kind == Communication::kBatch) return absl::OkStatus();
  bench.algorithm = simulated.algorithm();
  if (c->library().name() == "nccl" || c->library().name() == "rccl") bench.protocol = simulated.protocol();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Fabric>> PlanFabric(const Options& o, Bench& bench) {
  if (absl::Status s = CheckFabric(o); !s.ok()) return s;
  if (absl::Status s = CheckRange("ranks", o.ranks, 1, kMostRanks); !s.ok()) return s;
  spec::Spec spec;
  if (absl::Status s = ApplyFabric(spec, o.fabric); !s.ok()) return s;
  const absl::StatusOr<spec::Device> device = ReadDevice(o);
  if (!device.ok()) return device.status();
  spec.set_device(*device);
  if (!spec.fabric().has_simulated()) bench.device = *device == spec::CUDA ? "cuda" : "cpu";
  bench.ranks = o.ranks.value_or(kRanks);
  if (spec.fabric().has_simulated()) {
    if (absl::Status s = PlanSimulation(o, spec, bench); !s.ok()) return s;
  }
  spec.mutable_parallel()->set_dp(bench.ranks);
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = MakeFabric(spec);
  if (!fabric.ok()) {
    const std::string why(fabric.status().message());
    return o.device ? Wrong("device", *o.device, why) : Wrong("fabric", o.fabric, why);
  }
  if (!o.ranks && (*fabric)->processes() > 0) bench.ranks = (*fabric)->processes();
  if (absl::Status s = (*fabric)->Accepts(bench.ranks); !s.ok()) {
    const std::string why(s.message());
    return o.ranks ? Wrong("ranks", bench.ranks, why) : Wrong("fabric", o.fabric, why);
  }
  return fabric;
}

// ---- Checks that need both ----
absl::Status FinishRequest(const Options& o, Bench& bench, const Fabric& fabric) {
  Request& r = bench.request;
  const Operation& op = *r.operation;
  if (op.kind == Communication::kBatch && bench.ranks < 2) {
    return Wrong("ranks", bench.ranks, op.name, " needs at least 2 ranks");
  }
  if (r.root < 0 || r.root >= bench.ranks) {
    return InvalidArgument("--root must be a rank, from 0 to ", bench.ranks - 1, " (got ", r.root, ")");
  }
  if (fabric.predicted() && o.check.value_or(0) == 1) {
    return Wrong("check", 1, "fabric ", fabric.name(), " moves no data, so nothing can be checked; leave it out");
  }
  r.check = o.check.value_or(fabric.predicted() ? 0 : 1) == 1;
  r.wait = o.wait;
  // Of a chain, successive calls overlap; of the others, one call is like all.
  const bool chain = op.kind == Communication::kBroadcast || op.kind == Communication::kReduce;
  r.iterations = o.iterations.value_or(fabric.predicted() && !(chain && !o.wait) ? 1 : 20);
  r.last_rank = fabric.predicted();
  r.warmup = o.warmup.value_or(fabric.predicted() ? 0 : 5);
  const absl::StatusOr<std::vector<int64_t>> sizes = Sizes(bench.sweep);
  if (!sizes.ok()) return sizes.status();
  for (int64_t bytes : *sizes) {
    const int64_t block = BlockCount(op, bytes, r.dtype, bench.ranks);
    bench.rounded |= WholeCount(op, block, bench.ranks) * ElementSize(r.dtype) != bytes;
    if (block > 0 && (r.blocks.empty() || block > r.blocks.back())) r.blocks.push_back(block);
  }
  if (!r.blocks.empty()) return absl::OkStatus();
  return Wrong("maxbytes", bench.sweep.most, "no size holds one ", NcclTypeName(r.dtype), op.split ? " per rank" : "",
               "; use ", WholeCount(op, 1, bench.ranks) * ElementSize(r.dtype), " or more");
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Options& options) {
  Plan plan;
  absl::StatusOr<Request> request = ReadRequest(options);
  if (!request.ok()) return request.status();
  plan.bench.request = *std::move(request);
  // checked before the run, which may be long
  if (absl::Status s = options.out.empty() ? absl::OkStatus() : CheckOutFile("--out", options.out); !s.ok()) return s;
  const absl::StatusOr<Sweep> sweep = ReadSweep(options);
  if (!sweep.ok()) return sweep.status();
  plan.bench.sweep = *sweep;
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = PlanFabric(options, plan.bench);
  if (!fabric.ok()) return fabric.status();
  plan.fabric = *std::move(fabric);
  if (absl::Status s = FinishRequest(options, plan.bench, *plan.fabric); !s.ok()) return s;
  plan.bench.fabric = std::string(plan.fabric->name());
  plan.bench.predicted = plan.fabric->predicted();
  return plan;
}

absl::Status Run(Plan& plan) {
  Bench& bench = plan.bench;
  const RunResult result =
      plan.fabric->Run(bench.ranks, [&](RankContext& ctx) { return MeasureRank(ctx, bench.request); });
  if (!plan.fabric->speaks()) return result.status;
  bench.notes = result.notes;
  // Each call ends, for all ranks, before the next one starts: where the slowest rank counts for all changes nothing.
  std::erase_if(bench.notes, [](const std::string& note) { return absl::StartsWith(note, "folded ranks ended"); });
  bench.rows = CombineRanks(bench.request, result.results);
  NameWhatRan(result.ran, bench);
  if (!result.status.ok()) bench.error = std::string(result.status.message());
  return result.status;
}

}  // namespace twofold::bench
