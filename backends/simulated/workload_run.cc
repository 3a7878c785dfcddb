#include "backends/simulated/workload_run.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "backends/simulated/fabric.h"
#include "backends/simulated/process_group.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

using NodeTimes = WorkloadRun::Times;
using Node = WorkloadNode;

// The communications of all ranks, by group of the workload. Ranks are actors of one thread.
class Groups {
 public:
  explicit Groups(const Workload& workload) : workload_(workload) {}
  const std::shared_ptr<SimulatedGroup>& Of(int number, SimulatedProcessGroup& world) {
    std::shared_ptr<SimulatedGroup>& group = groups_[number];
    if (group != nullptr) return group;
    const Workload::Group& asked = workload_.groups[static_cast<size_t>(number)];
    if (asked.name == world.name() && asked.ranks == world.shared()->ranks()) return group = world.shared();
    return group = std::make_shared<SimulatedGroup>(world.shared()->world(), asked.name,
                                                    std::vector<std::vector<int>>{asked.ranks});
  }

 private:
  const Workload& workload_;
  std::map<int, std::shared_ptr<SimulatedGroup>> groups_;
};

// One rank's graph as it runs. Used from the rank's actor, and by what the engine calls back.
class RankRun : public std::enable_shared_from_this<RankRun> {
 public:
  RankRun(RankContext& ctx, const Workload& workload, Groups& groups)
      : ctx_(ctx),
        world_(dynamic_cast<SimulatedProcessGroup&>(ctx.world())),
        rank_(world_.simulated_rank()),
        workload_(workload),
        nodes_(workload.ranks[static_cast<size_t>(ctx.rank())]),
        groups_(groups),
        times_(nodes_.size()),
        issued_(nodes_.size()),
        missing_(nodes_.size()),
        followers_(nodes_.size()),
        calls_(nodes_.size()) {}

  std::vector<NodeTimes> Run() {
    const absl::Cleanup release = [this] { room_ = {}; };  // callbacks may outlive the rank's memory
    PrepareCalls();
    for (size_t n = 0; n < nodes_.size(); ++n) {
      missing_[n] = nodes_[n].after.size();
      for (const int before : nodes_[n].after) followers_[static_cast<size_t>(before)].push_back(static_cast<int>(n));
    }
    left_ = nodes_.size();
    if (left_ == 0) return times_;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (missing_[n] == 0) ready_.push_back(static_cast<int>(n));
    }
    Go();
    rank_.HostWait(all_done_, [this] { return What(); });
    return times_;
  }

 private:
  // Bytes are what is sent, so elements are bytes. The tensors share memory, and none of it is used.
  void PrepareCalls() {
    int64_t most = 1;
    for (const Node& node : nodes_) {
      const auto ranks = node.group < 0 ? size_t{1} : workload_.groups[static_cast<size_t>(node.group)].ranks.size();
      int64_t to = 0, from = 0;
      for (const int64_t b : node.bytes_to) to += b;
      for (const int64_t b : node.bytes_from) from += b;
      most = std::max({most, node.bytes * static_cast<int64_t>(ranks), to, from});
    }
    room_ = ctx_.device().NewTensor(Shape{most}, DType::kU8, Category::kCommunication);
    std::map<int, uint64_t> collectives, messages;  // by group
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (node.group < 0) continue;
      const std::shared_ptr<SimulatedGroup>& group = groups_.Of(node.group, world_);
      const bool collective = node.kind == Node::kCollective;
      calls_[n] = std::make_shared<const host::Call>(
          host::Call{group->label(),
                     CommunicationOf(node, group->place(rank_.rank()), static_cast<int64_t>(group->ranks().size())),
                     collective ? ++collectives[node.group] : ++messages[node.group]});
    }
  }

  Tensor Part(int64_t bytes) const { return room_.Slice(0, bytes).Borrowed(); }

  Communication CommunicationOf(const Node& node, int place, int64_t ranks) const {
    Communication c{.kind = node.operation, .in = Part(node.bytes), .peer = node.peer, .tag = node.tag};
    const bool root = place == node.peer;
    switch (node.operation) {
      case Communication::kSend: break;
      case Communication::kRecv: c.out = std::exchange(c.in, {}); break;
      case Communication::kAllGather: c.out = Part(node.bytes * ranks); break;
      case Communication::kReduceScatter: c.out = Part(node.bytes / ranks); break;
      case Communication::kGather:
        if (root) c.out = Part(node.bytes * ranks);
        break;
      case Communication::kScatter:
        c.out = Part(root ? node.bytes / ranks : node.bytes);
        if (!root) c.in = {};
        break;
      case Communication::kAllToAllV: {
        c.in_counts = node.bytes_to, c.out_counts = node.bytes_from;
        int64_t to = 0, from = 0;
        for (const int64_t b : node.bytes_to) to += b;
        for (const int64_t b : node.bytes_from) from += b;
        c.in = Part(to), c.out = Part(from);
        break;
      }
      case Communication::kBarrier: c.in = {}; break;
      default: c.out = c.in;
    }
    return c;
  }

  // Begins everything that may begin. What ends meanwhile lets others begin, which is not done within the call that
  // ended it: chains may be long.
  void Go() {
    if (going_) return;
    going_ = true;
    for (; !ready_.empty();) {
      const int node = ready_.back();
      ready_.pop_back();
      Begin(static_cast<size_t>(node));
    }
    going_ = false;
  }

  void Begin(size_t n) {
    const Node& node = nodes_[n];
    double begin = 0;
    for (const int before : node.after) {
      const auto b = static_cast<size_t>(before);
      begin = std::max(begin, times_[b].end);
      if (nodes_[b].host || nodes_[b].stream == node.stream)
        issued_[n] = std::max(issued_[n], nodes_[b].host ? times_[b].end : issued_[b]);
    }
    times_[n].begin = begin;
    if (calls_[n] == nullptr) return End(n, begin + node.seconds);
    auto done = std::make_shared<sim::TimePoint>();
    done->Then([self = shared_from_this(), n, at = done.get()] {
      self->End(n, at->time());
      self->Go();
    });
    const std::shared_ptr<SimulatedGroup>& group = groups_.Of(node.group, world_);
    const int place = group->place(rank_.rank());
    if (group->ranks().size() == 1) return done->Resolve(begin);
    if (node.kind == Node::kCollective) {
      return group->Arrive({.rank = place,
                            .time = begin,
                            .slowest = 0,
                            .spread = {},
                            .call = calls_[n],
                            .done = std::move(done),
                            .started = std::make_shared<double>(),
                            .entry = &entry_,
                            .trace = &rank_.trace(),
                            .label = {},
                            .issued = issued_[n]});
    }
    auto pending = std::make_shared<SimulatedGroup::Pending>();
    pending->call = calls_[n], pending->left = 1, pending->finish = pending->started = begin;
    pending->done = std::move(done), pending->entry = &entry_, pending->trace = &rank_.trace();
    const bool send = node.kind == Node::kSend;
    const Communication& c = calls_[n]->communication;
    group->Post(place, {send ? P2p::kSend : P2p::kRecv, send ? c.in : c.out, node.peer, node.tag}, begin, pending);
  }

  void End(size_t n, double time) {
    times_[n].end = time;
    last_ = std::max(last_, time);
    for (const int follower : followers_[n]) {
      if (--missing_[static_cast<size_t>(follower)] == 0) ready_.push_back(follower);
    }
    if (--left_ == 0) all_done_->Resolve(last_);
  }

  // For the message of a deadlock.
  std::string What() const {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (calls_[n] == nullptr || missing_[n] > 0 || times_[n].end > 0) continue;
      const std::string missing = nodes_[n].kind == Node::kCollective
                                      ? groups_.Of(nodes_[n].group, world_)->MissingAt(*calls_[n])
                                      : std::string();
      return StrCat("node \"", nodes_[n].name, "\": ", calls_[n]->ToString(),
                    missing.empty() ? "" : StrCat(" (missing: ", missing, ")"));
    }
    return "the end of its graph";
  }

  RankContext& ctx_;
  SimulatedProcessGroup& world_;
  SimulatedRank& rank_;
  const Workload& workload_;
  const std::vector<Node>& nodes_;
  Groups& groups_;
  CommunicationStats::Entry entry_;
  Tensor room_;
  std::vector<NodeTimes> times_;
  std::vector<double> issued_;  // by node of a stream: when the host had done all that it follows
  std::vector<size_t> missing_;
  std::vector<std::vector<int>> followers_;
  std::vector<std::shared_ptr<const host::Call>> calls_;  // null: no communication
  std::vector<int> ready_;
  bool going_ = false;
  size_t left_ = 0;
  double last_ = 0;
  const sim::TimePointPtr all_done_ = std::make_shared<sim::TimePoint>();
};

std::string Packed(const std::vector<NodeTimes>& times) {
  return {reinterpret_cast<const char*>(times.data()), times.size() * sizeof(NodeTimes)};
}

}  // namespace

absl::StatusOr<WorkloadRun> RunWorkload(const spec::Spec& spec, const Workload& workload) {
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = MakeSimulatedFabric(spec);
  if (!fabric.ok()) return fabric.status();
  Groups groups(workload);  // filled in by the process that simulates
  RunResult result = (*fabric)->Run(static_cast<int>(workload.ranks.size()), [&](RankContext& ctx) -> std::string {
    const auto run = std::make_shared<RankRun>(ctx, workload, groups);
    return Packed(run->Run());
  });
  if (!result.status.ok()) return result.status;
  WorkloadRun out{.of = {}, .notes = std::move(result.notes)};
  for (const std::string& bytes : result.results.Copies()) {
    std::vector<NodeTimes>& of = out.of.emplace_back(bytes.size() / sizeof(NodeTimes));
    std::memcpy(of.data(), bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace twofold
