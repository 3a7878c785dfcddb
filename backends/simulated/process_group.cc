#include "backends/simulated/process_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {

SimulatedProcessGroup::SimulatedProcessGroup(std::shared_ptr<SimulatedGroup> shared, SimulatedRank& rank,
                                             Device& device, CommunicationStats& stats)
    : ProcessGroup(shared->name(), shared->place(rank.rank()), shared->ranks(rank.rank()), device, stats),
      shared_(std::move(shared)),
      rank_(rank),
      stream_(rank.trace().Kept(StrCat("communication ", shared_->name()))),
      exceptions_(std::uncaught_exceptions()),
      copies_(rank.machine().ring_copies && rank.machine().ring_copies->Among(shared_->ranks(rank.rank()))),
      staging_(rank.machine().staging) {}

SimulatedProcessGroup::~SimulatedProcessGroup() {
  const std::string* label = shared_->label().get();
  auto drained = line_->Record();
  // of a generation that is over, nobody needs it
  if (!drained->known() && std::uncaught_exceptions() > exceptions_ && shared_->present()) {
    rank_.engine().Claim(rank_.rank(),
                         StrCat("rank ", rank_.rank(), ": an exception left unfinished work in group ", *label));
  }
  try {
    if (!rank_.engine().failed() && shared_->present()) {
      rank_.HostWait(drained, [&] { return StrCat(rank_.calls().FirstOf(label), ", which it left unfinished"); });
    }
  } catch (const RankFailure&) {  // the run has failed; the engine knows the cause
  }
  rank_.calls().RemoveGroup(label);
  if (!drained->known()) line_->Reset(0);  // what is queued would use this rank, which may be gone by then
}

void SimulatedProcessGroup::RefuseFolding(const std::string& why) {
  if (shared_->world().folding_refused.empty()) shared_->world().folding_refused = why;
  throw RankFailure(RankFailure::Kind::kOther, rank_.rank(), StrCat("identical ranks cannot be folded: ", why));
}

// Whether each rank of the group sends and receives alike if it does what this one does: what it sends to the rank so
// many places after it, it receives from the rank as many places before it.
bool SimulatedProcessGroup::IsShift(const Communication& c) const {
  if (c.kind != Communication::kBatch) return false;
  const auto places = [this](const P2p& op) {
    return ((op.kind == P2p::kSend ? op.peer - rank() : rank() - op.peer) + size()) % size();
  };
  for (const P2p& op : c.batch) {
    if (op.peer == kAnySource) return false;
    int more = 0;  // sends than receives like this one
    for (const P2p& other : c.batch) {
      if (places(other) == places(op) && other.tag == op.tag && other.tensor.bytes() == op.tensor.bytes())
        more += other.kind == P2p::kSend ? 1 : -1;
    }
    if (more != 0) return false;
  }
  return true;
}

// Refuses communication that folded ranks cannot do without one another.
void SimulatedProcessGroup::CheckFoldable(const Communication& c) {
  if (!c.is_collective() && !shared_->all_different() && !(shared_->may_exchange() && IsShift(c))) {
    const std::string why = "identical ranks send messages to each other";
    shared_->TellAllApart(why);
    RefuseFolding(why);
  }
  if (shared_->EqualWithinClasses(c.in_counts) && shared_->EqualWithinClasses(c.out_counts)) return;
  const std::string why = "all_to_all_v moves different numbers of elements";
  shared_->TellAllApart(why);
  RefuseFolding(why);
}

// Ranks that take fewer collectives may hold less staging.
bool SimulatedProcessGroup::RanksDifferBriefly(std::span<const int> kinds, const std::string& why) {
  if (staging_.bytes().value() == 0) return shared_->RanksDifferBriefly(kinds, why);
  RanksDiffer(kinds, why);
  return false;
}

void SimulatedProcessGroup::RanksDifferOver(ProcessGroup& others, std::span<const int> kinds, const std::string& why,
                                            bool brief) {
  auto* const simulated = dynamic_cast<SimulatedProcessGroup*>(&others);
  const bool staged = staging_.bytes().value() > 0;
  if (staged || simulated == nullptr) return RanksDiffer(kinds, why);
  const bool alone = simulated->shared_->HasItsLinksAlone();
  if (alone && rank_.machine().speed_spread == 0) return;
  // Fewer of them come late than the rank that stands for them suggests: how late the last one is, is not the same.
  if (alone && !shared_->world().sums_tell_apart) {
    shared_->world().others_come_early = why;
    return;
  }
  if (!brief) return RanksDiffer(kinds, why);
  if (RanksDifferBriefly(kinds, why)) simulated->shared_->SetBrief();
}

// A split comes after everything this rank has issued to the group.
host::Call SimulatedProcessGroup::BeginSplit() {
  if (shared_->world().before_split) shared_->world().before_split(rank_);
  const host::Call call{.group = shared_->label(), .sequence = ++splits_, .split = true};
  rank_.engine().ThrowIfFailed(rank_.rank(), [&call] { return call.ToString(); });
  rank_.Communicates(call);
  rank_.HostWait(line_->Record(),
                 [&] { return StrCat(rank_.calls().FirstOf(call.group.get()), ", before ", call.ToString()); });
  return call;
}

std::unique_ptr<ProcessGroup> SimulatedProcessGroup::SplitEvenly(int size, Pattern pattern, std::string name) {
  if (!shared_->world().folded() || size == 1) return ProcessGroup::SplitEvenly(size, pattern, std::move(name));
  TWOFOLD_CHECK_GE(size, 1);
  TWOFOLD_CHECK_EQ(this->size() % size, 0);
  std::vector<std::vector<int>> groups(static_cast<size_t>(this->size() / size));
  for (int r = 0; r < this->size(); ++r) {
    groups[pattern == Pattern::kConsecutive ? static_cast<size_t>(r / size) : static_cast<size_t>(r) % groups.size()]
        .push_back(r);
  }
  return Partition(groups, std::move(name));
}

std::unique_ptr<ProcessGroup> SimulatedProcessGroup::Partition(std::span<const std::vector<int>> groups,
                                                               std::string name) {
  std::vector<bool> seen(static_cast<size_t>(size()));
  size_t ranks = 0;
  for (const std::vector<int>& group : groups) {
    for (const int r : group) {
      TWOFOLD_CHECK(r >= 0 && r < size() && !seen[static_cast<size_t>(r)],
                    StrCat("rank ", r, ": every rank is in one group"));
      seen[static_cast<size_t>(r)] = true, ++ranks;
    }
  }
  TWOFOLD_CHECK_EQ(ranks, seen.size());
  const host::Call call = BeginSplit();
  std::shared_ptr<SimulatedGroup> group;
  bool alike = true;
  try {
    group = shared_->Partition(call.sequence, rank(), groups, name);
  } catch (const SimulatedGroup::UnlikeGroups&) {
    alike = false;
  }
  if (!alike) RefuseFolding(shared_->world().folding_refused);
  rank_.engine().ThrowIfFailed(rank_.rank(), [&call] { return call.ToString(); });
  if (group == nullptr) return Alone(std::move(name));
  return std::make_unique<SimulatedProcessGroup>(std::move(group), rank_, device(), stats());
}

std::unique_ptr<ProcessGroup> SimulatedProcessGroup::Split(int color, int key, std::string name) {
  if (shared_->world().folded()) RefuseFolding("ranks form different groups");
  const host::Call call = BeginSplit();
  auto done = std::make_shared<sim::TimePoint>();
  shared_->RequestSplit(call.sequence, {rank(), color, key, rank_.host().time(), name, done});
  rank_.HostWait(done, [&] { return StrCat(call.ToString(), " (missing: ", shared_->MissingAt(call), ")"); });
  std::shared_ptr<SimulatedGroup> group = shared_->SplitResult(call.sequence, color);
  if (color < 0 || group == nullptr) return nullptr;
  return std::make_unique<SimulatedProcessGroup>(std::move(group), rank_, device(), stats());
}

double SimulatedProcessGroup::LaunchSeconds(const Communication& c) const {
  const SimulatedMachine& machine = rank_.machine();
  return !c.is_collective() && copies_ ? machine.ring_copies->launch_seconds : machine.communication_launch_seconds;
}

ProcessGroup::Issued SimulatedProcessGroup::Issue(const Communication& c, CommunicationStats::Entry& entry) {
  if (shared_->world().before_call) shared_->world().before_call(rank_);
  // Borrowed: the group's state outlives the rank's handles and must not keep their memory alive.
  const auto call = std::make_shared<const host::Call>(
      host::Call{shared_->label(), c.Borrowed(), c.is_collective() ? ++collectives_ : ++messages_});
  rank_.engine().ThrowIfFailed(rank_.rank(), [&call] { return call->ToString(); });
  if (shared_->world().folded()) CheckFoldable(c);
  rank_.Communicates(*call);
  const sim::FlightRecord::Aside aside(rank_.engine().record());
  rank_.Flush();
  if (rank_.machine().gpu) rank_.host().Advance(LaunchSeconds(c));
  Move(c);
  line_->NotBefore(rank_.LinkIsUpFrom(rank_.now()), rank_.host().spread());
  if (rank_.machine().gpu) line_->WaitFor(rank_.compute().Record());
  Issued issued;
  staging_.For(c, device(), issued.workspace);
  const std::shared_ptr<SimulatedWork> work =
      c.is_collective() ? IssueCollective(call, entry) : IssueMessages(call, entry);
  const bool brief = c.is_collective() && (rank_.is_brief() || shared_->is_brief());
  if (brief) work->SetBrief();
  if (rank_.machine().beside) work->SetBeside(Beside(c, brief));
  issued.state = work;
  return issued;
}

// On the compute stream: such a kernel fills the device, also where it has a stream of its own.
void SimulatedProcessGroup::Move(const Communication& c) {
  for (const SimulatedMachine::Moved& moved : rank_.machine().moved) {
    if (moved.before != c.kind || c.in.numel() == 0) continue;
    if (!moved.types.empty() && std::ranges::find(moved.types, DTypeName(c.in.dtype())) == moved.types.end()) continue;
    const double seconds = static_cast<double>(c.in.numel()) * moved.seconds;
    const bool named = rank_.trace().enabled() || rank_.graph() != nullptr;
    rank_.compute().Advance(seconds, rank_.host().time(), named ? rank_.trace().NameOf("convert") : std::string_view(),
                            rank_.trace().label(), {0, rank_.host().spread()});
  }
}

uint64_t SimulatedProcessGroup::Beside(const Communication& c, bool brief) {
  const sim::Network::Occupation o = shared_->Occupies(rank(), c);
  if (!(o.seconds > 0)) return 0;
  // What is sent is read, what is received is written, and a sum reads what it is added to.
  const double bytes = (c.sums() ? 3 : 2) * o.bytes;
  return rank_.communicating().Began(line_.get(), o.seconds, {o.multiprocessors, bytes / o.seconds}, brief);
}

int64_t SimulatedProcessGroup::Note(const Communication& c, sim::TimePoint& done) {
  if (rank_.graph() == nullptr) return -1;
  return rank_.graph()->Communicates(*line_, shared_->name(), shared_->ranks(rank_.rank()), c, done);
}

void SimulatedProcessGroup::NoteMessages(int64_t first_node, const std::vector<P2p>& messages) {
  GoalRank* const goal = rank_.graph() == nullptr ? nullptr : rank_.graph()->goal();
  if (goal == nullptr) return;
  for (const P2p& message : messages) {
    if (message.peer == kAnySource) return goal->Refuse("a rank receives from any other; GOAL names the sender");
    goal->Consists(first_node++, shared_->GoalMessages(rank(), message));
  }
}

std::shared_ptr<SimulatedWork> SimulatedProcessGroup::NewWork(InFlight call) {
  auto shared = std::make_shared<const InFlight>(std::move(call));
  rank_.calls().Add(shared);
  return std::make_shared<SimulatedWork>(rank_, std::move(shared), stream_);
}

std::shared_ptr<SimulatedWork> SimulatedProcessGroup::IssueCollective(std::shared_ptr<const host::Call> call,
                                                                      CommunicationStats::Entry& entry) {
  auto done = std::make_shared<sim::TimePoint>();
  const int64_t node = Note(call->communication, *done);
  GoalRank* const goal = rank_.graph() == nullptr ? nullptr : rank_.graph()->goal();
  if (goal != nullptr) rank_.graph()->OpenUntil(done);
  auto work = NewWork({call, done, [group = shared_, c = call.get()] { return group->MissingAt(*c); }});
  const double slowest = rank_.machine().waiting > 0 ? rank_.SlowestIsHere() : 0;
  line_->Call([group = shared_, rank = rank(), own = &rank_, slowest, line = line_.get(), call = std::move(call), done,
               &entry, started = work->started(), trace = &rank_.trace(), label = rank_.trace().label(),
               issued = rank_.host().time(), goal, node](double time) mutable {
    group->Arrive({rank, time, slowest, line->spread(), std::move(call), std::move(done), std::move(started), &entry,
                   trace, label, issued, goal, node, own->is_slowed()});
  });
  line_->WaitFor(done);
  return work;
}

std::shared_ptr<SimulatedWork> SimulatedProcessGroup::IssueMessages(std::shared_ptr<const host::Call> call,
                                                                    CommunicationStats::Entry& entry) {
  const Communication& c = call->communication;
  std::vector<P2p> ops = c.batch;
  if (c.kind == Communication::kSend) ops = {{P2p::kSend, c.in, c.peer, c.tag}};
  if (c.kind == Communication::kRecv) ops = {{P2p::kRecv, c.out, c.peer, c.tag}};
  auto pending = std::make_shared<SimulatedGroup::Pending>();
  pending->call = call;
  pending->left = ops.size();
  pending->done = std::make_shared<sim::TimePoint>();
  pending->entry = &entry;
  pending->trace = &rank_.trace();
  pending->label = rank_.trace().label();
  NoteMessages(Note(c, *pending->done), ops);
  auto work =
      NewWork({std::move(call), pending->done, [group = shared_, p = pending.get()] { return group->MissingFor(*p); }});
  work->SetMessages(pending);
  line_->Call([group = shared_, rank = rank(), line = line_.get(), ops = std::move(ops), pending](double time) {
    pending->started = time;
    pending->spread = line->spread();
    if (!ops.empty()) time += group->SlowestIsLater(pending->spread);
    pending->finish = time;
    if (ops.empty()) pending->done->Resolve(time, pending->spread);
    if (!group->all_different()) return group->Exchange(rank, time, pending);
    for (const P2p& op : ops) group->Post(rank, op, time, pending);
  });
  line_->WaitFor(pending->done);
  return work;
}

}  // namespace twofold
