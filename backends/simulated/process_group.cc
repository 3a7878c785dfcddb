#include "backends/simulated/process_group.h"

#include <algorithm>
#include <utility>

#include "backends/simulated/work.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {

SimulatedProcessGroup::SimulatedProcessGroup(std::shared_ptr<SimulatedGroup> shared, int rank_in_group, SimulatedRank& rank,
                                             Device& device, CommunicationStats& stats)
    : ProcessGroup(shared->name(), rank_in_group, shared->ranks(), device, stats),
      shared_(std::move(shared)),
      rank_(rank) {}

SimulatedProcessGroup::~SimulatedProcessGroup() {
  auto drained = line_->Record();
  if (drained->known() || rank_.engine().failed()) return;
  try {
    rank_.HostWait(drained, [this] { return StrCat("what group ", name(), " was given, to end it"); });
  } catch (const RankFailure&) {  // the run has failed meanwhile: its cause is known to the engine
  }
}

std::unique_ptr<ProcessGroup> SimulatedProcessGroup::Split(int color, int key, std::string name) {
  if (shared_->world().folded) {
    shared_->world().folding_refused = "ranks form different groups";
    throw RankFailure(RankFailure::Kind::kOther, rank_.rank(), "identical ranks cannot be folded: they form different groups");
  }
  rank_.HostWait(line_->Record(), [this] { return StrCat("what group ", this->name(), " was given before its split"); });
  const uint64_t sequence = sequence_++;
  auto done = std::make_shared<sim::TimePoint>();
  shared_->RequestSplit(sequence, {rank(), color, key, rank_.host().time(), name, done});
  rank_.HostWait(done, [this] { return StrCat("the other ranks of group ", this->name(), " to split it"); });
  std::shared_ptr<SimulatedGroup> group = shared_->SplitResult(sequence, color);
  if (color < 0 || group == nullptr) return nullptr;
  const auto& ranks = group->ranks();
  const int mine = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_.rank()) - ranks.begin());
  return std::make_unique<SimulatedProcessGroup>(std::move(group), mine, rank_, device(), stats());
}

ProcessGroup::Issued SimulatedProcessGroup::Issue(const Communication& call, CommunicationStats::Entry& entry) {
  Communication c = call.Borrowed();  // the group's state outlives the rank's handles; it must not keep their memory
  line_->NotBefore(rank_.host().time());
  if (rank_.machine().gpu) line_->WaitFor(rank_.compute().Record());
  if (!c.is_collective()) {
    auto pending = IssueMessages(c, entry);
    auto work = std::make_shared<SimulatedWork>(rank_, pending->done, [this, text = c.ToString()] {
      return StrCat(text, " of group ", name());
    });
    work->SetMessages(pending);
    return {std::move(work), {}};
  }
  const uint64_t sequence = sequence_++;  // of collectives: ranks send and receive different numbers of messages
  auto done = std::make_shared<sim::TimePoint>();
  auto work = std::make_shared<SimulatedWork>(rank_, done, [this, sequence, kind = c.kind, bytes = c.bytes().value()] {
    return StrCat(KindName(kind), " of ", bytes, " bytes, call ", sequence, " of group ", name(), " (not there: ranks ",
                  shared_->Missing(sequence), ")");
  });
  line_->Call([this, c = std::move(c), done, sequence, &entry, started = work->started()](double time) {
    shared_->Arrive(sequence, {rank(), time, c, done, started, &entry, &rank_.trace()});
  });
  line_->WaitFor(done);
  return {std::move(work), {}};
}

std::shared_ptr<SimulatedGroup::Pending> SimulatedProcessGroup::IssueMessages(const Communication& c,
                                                                             CommunicationStats::Entry& entry) {
  std::vector<P2p> ops = c.batch;
  if (c.kind == Communication::kSend) ops = {{P2p::kSend, c.in, c.peer, c.tag}};
  if (c.kind == Communication::kRecv) ops = {{P2p::kRecv, c.out, c.peer, c.tag}};
  auto pending = std::make_shared<SimulatedGroup::Pending>();
  pending->left = ops.size();
  pending->done = std::make_shared<sim::TimePoint>();
  pending->entry = &entry;
  line_->Call([this, ops = std::move(ops), pending](double time) {
    pending->started = time;
    pending->finish = time;
    if (ops.empty()) pending->done->Resolve(time);
    for (const P2p& op : ops) shared_->Post(rank(), op, time, pending);
  });
  line_->WaitFor(pending->done);
  return pending;
}

}  // namespace twofold
