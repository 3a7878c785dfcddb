#include "backends/simulated/faults.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/errors.h"
#include "core/base/format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

std::string After(double seconds) { return absl::StrFormat(", after %.6g s", seconds); }

}  // namespace

SimulatedFaults::SimulatedFaults(sim::Engine& engine, const spec::Spec& spec, std::function<bool(int)> has_gone_on)
    : engine_(engine),
      faults_(spec.fabric().simulated().faults().begin(), spec.fabric().simulated().faults().end()),
      happened_(faults_.size()),
      reached_(faults_.size()),
      timeout_s_(spec.fabric().timeout_s()),
      patience_s_(spec.train().has_elastic() ? std::min(timeout_s_, spec.train().elastic().reform_timeout_s())
                                             : timeout_s_),
      hangs_(std::any_of(faults_.begin(), faults_.end(),
                         [this](const spec::Fault& f) { return f.has_hangs_s() && f.hangs_s() >= patience_s_; })),
      has_gone_on_(std::move(has_gone_on)) {}

bool SimulatedFaults::IsDue(const spec::Fault& fault, const SimulatedRank& rank, int64_t steps) {
  switch (fault.when_case()) {
    case spec::Fault::kStep: return steps >= fault.step();
    case spec::Fault::kAtS: return rank.now() >= fault.at_s();
    case spec::Fault::kCall: {
      const Counted& counted = counted_[rank.rank()];
      return counted.generation == fault.generation() && counted.calls >= fault.call();
    }
    case spec::Fault::kFileCall: return false;  // its disk counts them
    case spec::Fault::WHEN_NOT_SET: return true;
  }
  return false;
}

void SimulatedFaults::BeforeCall(SimulatedRank& rank) {
  ++counted_[rank.rank()].calls;
  BeginStep(rank, -1);
}

void SimulatedFaults::BeginStep(SimulatedRank& rank, int64_t steps) {
  ThrowIfLost(rank);
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (happened_[i] || faults_[i].rank() != rank.rank() || !IsDue(faults_[i], rank, steps)) continue;
    happened_[i] = true;
    Happens(static_cast<int>(i), rank, steps);
  }
}

void SimulatedFaults::Happens(int number, SimulatedRank& rank, int64_t steps) {
  const spec::Fault& fault = faults_[static_cast<size_t>(number)];
  const double now = rank.now();
  const auto strike = [&](const std::string& what) -> outcome::Struck& { return Strike(number, rank, what, steps); };
  switch (fault.what_case()) {
    case spec::Fault::kLost:
      strike("was lost");
      if (fault.has_kept()) DiskOf(rank.rank())->LosePower(fault.kept());
      Lose(number, rank, steps);
    case spec::Fault::kHangsS:
      strike(StrCat("hung for ", fault.hangs_s(), " s"));
      return Hang(rank, fault.hangs_s(),
                  StrCat("rank ", rank.rank(), ": timed out: it has called nothing for ", timeout_s_,
                         " s (fabric.timeout_s); it hangs ", When(fault, rank, steps), After(now),
                         ", as fabric.simulated.faults[", number, "] says"));
    case spec::Fault::kSlow:
      strike(StrCat("was slow by a factor of ", fault.slow().factor()));
      if (fault.slow().has_for_s())
        return rank.SlowDown({.factor = fault.slow().factor(), .until = now + fault.slow().for_s()});
      return rank.SlowDown({.factor = fault.slow().factor()});
    case spec::Fault::kLinkDown: {
      strike(StrCat("had its link down for ", fault.link_down().for_s(), " s"));
      const spec::LinkDown& down = fault.link_down();
      for (int64_t i = 0; i < down.times(); ++i) {
        const double from = now + static_cast<double>(i) * down.every_s();
        rank.LinkIsDown({.from = from, .to = from + down.for_s()});
      }
      return;
    }
    case spec::Fault::kDiskFull:
      strike(StrCat("had no disk space for ", twofold::Counted(fault.disk_full(), "file operation")));
      return DiskOf(rank.rank())->BecomeFull(fault.disk_full());
    case spec::Fault::kFailedReads:
      strike(StrCat("could not read files ", twofold::Counted(fault.failed_reads(), "time")));
      return DiskOf(rank.rank())->FailReads(fault.failed_reads());
    case spec::Fault::kDamage: {
      const std::string path = DiskOf(rank.rank())->Damage(fault.damage().file(), fault.damage().at());
      if (path.empty()) return;
      damages_.push_back({struck_.size(), rank.rank(), damaged_by_[rank.rank()]++});
      strike(StrCat("had a bit changed in ", path)).set_damaged(path);
      return;
    }
    case spec::Fault::WHAT_NOT_SET: return;
  }
}

std::string SimulatedFaults::When(const spec::Fault& fault, const SimulatedRank& rank, int64_t steps) const {
  const auto found = counted_.find(rank.rank());
  const Counted counted = found == counted_.end() ? Counted() : found->second;
  std::string when = fault.has_file_call() ? StrCat("at file operation ", fault.file_call())
                     : steps >= 0          ? StrCat("before the step after ", steps, " steps")
                                           : StrCat("at call ", counted.calls);
  if (counted.generation > 0) StrAppend(&when, " of generation ", counted.generation);
  return when;
}

outcome::Struck& SimulatedFaults::Strike(int number, const SimulatedRank& rank, const std::string& what,
                                         int64_t steps) {
  const auto found = counted_.find(rank.rank());
  outcome::Struck& struck = struck_.emplace_back();
  struck.set_fault(number), struck.set_rank(rank.rank());
  struck.set_generation(found == counted_.end() ? 0 : found->second.generation);
  struck.set_text(StrCat(what, " ", When(faults_[static_cast<size_t>(number)], rank, steps)));
  struck.set_seconds(rank.now());
  return struck;
}

void SimulatedFaults::Lose(int number, const SimulatedRank& rank, int64_t steps) const {
  throw RankFailure(RankFailure::Kind::kOther, rank.rank(),
                    StrCat("rank ", rank.rank(), ": lost ", When(faults_[static_cast<size_t>(number)], rank, steps),
                           After(rank.now()), ", as fabric.simulated.faults[", number, "] says"));
}

// ---- Disks ----

bool SimulatedFaults::IsOfDisk(const spec::Fault& fault) const {
  return fault.has_file_call() || fault.has_kept() || fault.has_disk_full() || fault.has_failed_reads() ||
         fault.has_damage();
}

SimulatedDisk* SimulatedFaults::DiskOf(int member) {
  if (std::none_of(faults_.begin(), faults_.end(), [this](const spec::Fault& f) { return IsOfDisk(f); }))
    return nullptr;
  std::unique_ptr<SimulatedDisk>& disk = disks_[member];
  if (disk != nullptr) return disk.get();
  disk = std::make_unique<SimulatedDisk>();
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].rank() != member || !faults_[i].has_file_call()) continue;
    disk->Before(faults_[i].file_call(),
                 [this, i](SimulatedDisk& reached) { AtFileCall(static_cast<int>(i), reached); });
  }
  return disk.get();
}

// On any thread of the rank.
void SimulatedFaults::AtFileCall(int number, SimulatedDisk& disk) {
  if (!disk.has_power()) return;  // another fault was first
  const spec::Fault& fault = faults_[static_cast<size_t>(number)];
  if (fault.has_lost()) disk.LosePower(fault.has_kept() ? fault.kept() : 1);
  if (fault.has_disk_full()) disk.BecomeFull(fault.disk_full());
  if (fault.has_failed_reads()) disk.FailReads(fault.failed_reads());
  const std::lock_guard lock(mutex_);
  reached_[static_cast<size_t>(number)] = true;
}

void SimulatedFaults::ThrowIfLost(SimulatedRank& rank) {
  if (disks_.empty()) return;
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].rank() != rank.rank() || !faults_[i].has_file_call() || !faults_[i].has_lost() || happened_[i])
      continue;
    {
      const std::lock_guard lock(mutex_);
      if (!reached_[i]) continue;
    }
    happened_[i] = true;
    Strike(static_cast<int>(i), rank, "was lost", -1);
    Lose(static_cast<int>(i), rank, -1);
  }
}

void SimulatedFaults::AddTo(outcome::Outcome& outcome) const {
  std::vector<outcome::Struck> all = struck_;
  for (const auto& [struck, member, call] : damages_) all[struck].set_deleted(disks_.at(member)->IsDeleted(call));
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < faults_.size(); ++i) {
    const spec::Fault& fault = faults_[i];
    if (!reached_[i] || happened_[i]) continue;
    outcome::Struck& struck = all.emplace_back();
    struck.set_fault(static_cast<int>(i)), struck.set_rank(static_cast<int>(fault.rank()));
    struck.set_text(StrCat(fault.has_lost() ? StrCat("was lost")
                           : fault.has_disk_full()
                               ? StrCat("had no disk space for ", twofold::Counted(fault.disk_full(), "file operation"))
                               : StrCat("could not read files ", twofold::Counted(fault.failed_reads(), "time")),
                           " at file operation ", fault.file_call()));
  }
  for (outcome::Struck& struck : all) {
    outcome.add_notes(StrCat("fabric.simulated.faults[", struck.fault(), "]: rank ", struck.rank(), " ", struck.text(),
                             struck.has_seconds() ? After(struck.seconds()) : std::string(),
                             struck.deleted() ? "; the file was deleted later" : ""));
    *outcome.add_struck() = std::move(struck);
  }
}

void SimulatedFaults::Hang(SimulatedRank& rank, double seconds, const std::string& told) {
  const double begin = std::max(rank.now(), engine_.now()), end = begin + seconds;
  if (seconds < patience_s_) return rank.host().NotBefore(end);
  const int member = rank.rank();
  const auto wakes = std::make_shared<bool>(false);
  const auto has_gone_on = [this, member] { return has_gone_on_ && has_gone_on_(member); };
  if (seconds >= timeout_s_) {
    engine_.Alarm(begin + timeout_s_, [this, member, told, wakes, has_gone_on] {
      if (!*wakes && !has_gone_on() && !engine_.failed()) engine_.Fail(TimedOut(member, told));
    });
  }
  while (engine_.now() < end) {
    auto until = std::make_shared<sim::TimePoint>();
    engine_.Alarm(end, [until] { until->Resolve(0); });
    engine_.Pause(member, until, [] { return std::string("the end of its hang"); });
    if (!has_gone_on_ && engine_.failed()) break;  // the run is over
  }
  *wakes = true;
  rank.host().NotBefore(end);
  if (has_gone_on())
    throw PeerLost(member, StrCat("rank ", member, ": hung for ", seconds, " s; the others have gone on without it"));
}

}  // namespace twofold
