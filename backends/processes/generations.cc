#include "backends/processes/generations.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "absl/strings/numbers.h"
#include "core/base/check.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::processes {
namespace {

// The first member tells newcomers the time of the run: their own clocks begin when they are let in.
std::string TimeKey(int generation) { return StrCat("generation ", generation, " is formed at"); }

}  // namespace

std::shared_ptr<const host::GroupIdentity> WorldOf(const control::Generation& generation) {
  auto identity = std::make_shared<host::GroupIdentity>();
  identity->id = 1 + (static_cast<uint64_t>(generation.number) << 32);
  identity->label = "world";
  identity->ranks = generation.members;
  return identity;
}

int NumbersOf(const control::Generation& generation) {
  return 1 + *std::max_element(generation.members.begin(), generation.members.end());
}

Generations::Generations(Session& session, host::Process& process, host::Rank& rank, control::Generation first,
                         Reconnect reconnect, host::MembershipEvents events)
    : session_(session),
      process_(process),
      rank_(rank),
      generation_(std::move(first)),
      reconnect_(std::move(reconnect)),
      events_(std::move(events)) {}

RankContext::Parts::Membership Generations::Membership() {
  return {.generation = {generation_.number - 1, generation_.members},
          .reform = [this](const ReformOptions& options) { return Reform(options); },
          .ends_after = [this](int64_t step) { return EndsAfter(step); },
          .exchange = [this](std::string bytes) { return Exchange(std::move(bytes)); },
          .begin_step = [this](int64_t step) { BeginStep(step); }};
}

void Generations::Throw(const absl::Status& why, const char* doing) {
  const int rank = rank_.state()->rank;
  run().ThrowIfEnding(rank, doing);
  throw PeerLost(rank, StrCat("rank ", rank, ": ", doing, ": ", std::string(why.message())));
}

// Tries again if another member is lost before all have connected.
RankContext::Parts::Membership::Next Generations::Reform(const ReformOptions& options) {
  do {
    absl::StatusOr<control::Generation> next = session_.control().Reform(options.min_members, options.timeout_s);
    if (!next.ok()) {
      throw PeerLost(rank_.state()->rank, StrCat("rank ", rank_.state()->rank, ": forming the next generation: ",
                                                 std::string(next.status().message())));
    }
    Enter(*std::move(next));
  } while (!Connects(options.timeout_s));
  return {{generation_.number - 1, generation_.members}, world->rank(), world.get()};
}

void Generations::Come(const ReformOptions& options) {
  if (!Connects(options.timeout_s)) Reform(options);
}

int Generations::rank() const {
  const auto own = std::find(generation_.members.begin(), generation_.members.end(), member());
  return static_cast<int>(own - generation_.members.begin());
}

void Generations::Enter(control::Generation next) {
  generation_ = std::move(next);
  runs_.push_back(std::make_unique<host::RunState>(process_.run, NumbersOf(generation_)));
  rank_.Enter(*runs_.back());
  session_.control().Enter(runs_.back().get());
  if (world != nullptr) previous_ = std::move(world);
}

// Returns false if the generation is broken: a member was lost before all had connected, or this one could not reach
// one and has told so. Throws PeerLost if its members fail a second time: then it is not a loss that keeps them apart.
bool Generations::Connects(double timeout_s) {
  try {
    if (rank() == 0) TellTime();
    world = reconnect_(session_, WorldOf(generation_), rank(), timeout_s, rank_.state(), rank_.stats());
    unconnected_.clear();
    return true;
  } catch (const PeerLost& lost) {
    if (!run().ending() && unconnected_ == generation_.members) throw;
    run().Explain(member(), RankFailure::Kind::kPeerLost, lost.what());  // unless it is known why
  }
  unconnected_ = generation_.members;
  session_.control().AwaitBroken();
  return false;
}

// Newcomers count events from the beginning of the run.
void Generations::TellTime() {
  const absl::Status told = session_.control().Set(TimeKey(generation_.number), StrCat(run().Now()));
  if (!told.ok()) Throw(told, "telling newcomers the time");
}

// The first member decides, and tells the others through the control plane.
bool Generations::EndsAfter(int64_t step) {
  const std::string key = StrCat("generation ", generation_.number, " ends after ", step);
  if (rank() == 0) {
    const bool ends = session_.control().Newcomers() > 0;
    if (const absl::Status told = session_.control().Set(key, ends ? "y" : "n"); !told.ok())
      Throw(told, "telling whether members wait to join");
    return ends;
  }
  const absl::StatusOr<std::string> ends = session_.control().Wait(key, run().timeout_s());
  if (!ends.ok()) Throw(ends.status(), "asking whether members wait to join");
  return *ends == "y";
}

std::vector<std::string> Generations::Exchange(std::string bytes) {
  absl::StatusOr<std::vector<std::string>> all = session_.control().AllGather(std::move(bytes));
  if (!all.ok()) Throw(all.status(), "an exchange of descriptions");
  return *std::move(all);
}

// A loss by an event is a real one: the process is killed.
void Generations::ExpectLoss() {
  expects_loss_ = true;
  const double at = events_.LossOf(member()).at_s;
  if (std::isinf(at)) return;
  double begun = 0;  // this process's clock, in the time of the run
  if (generation_.number > 1) {
    const absl::StatusOr<std::string> formed = session_.control().Wait(TimeKey(generation_.number), run().timeout_s());
    if (!formed.ok()) Throw(formed.status(), "asking for the time of the run");
    TWOFOLD_CHECK(absl::SimpleAtod(*formed, &begun), "a number of seconds");
  }
  loss_.In(at - begun - run().Now());
}

void Generations::BeginStep(int64_t step) {
  if (!expects_loss_) ExpectLoss();
  if (step >= events_.LossOf(member()).steps) std::raise(SIGKILL);
}

}  // namespace twofold::processes
