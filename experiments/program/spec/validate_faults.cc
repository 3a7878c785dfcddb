// Checks fabric.simulated.faults: faults of single ranks.
#include <algorithm>
#include <string>

#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

constexpr double kLongest = 1e9;  // seconds

// Ranks that there can ever be.
int64_t MostMembers(const spec::Spec& spec) {
  int64_t members = RanksToStart(spec);
  for (const spec::MembershipEvent& event : spec.train().elastic().events())
    members += std::max<int64_t>(0, event.join());
  return members;
}

void CheckSeconds(const std::string& path, bool given, double seconds, Problems& problems) {
  if (!given)
    problems.Add(path, "is missing; use a number of seconds such as 2");
  else if (!(seconds > 0 && seconds <= kLongest))
    problems.Add(path, NumberText(seconds), " is out of range; use a number of seconds above 0, at most 1e9");
}

void CheckWhen(const std::string& path, const spec::Spec& spec, const spec::Fault& fault, Problems& problems) {
  if (fault.has_step()) problems.Whole(StrCat(path, ".step"), fault.step(), 0, int64_t{1} << 40);
  if (fault.has_at_s() && problems.AtLeast(StrCat(path, ".at_s"), fault.at_s(), 0) && fault.at_s() > kLongest)
    problems.Add(StrCat(path, ".at_s"), NumberText(fault.at_s()), " is out of range; use at most 1e9");
  if (fault.has_call()) problems.Whole(StrCat(path, ".call"), fault.call(), 1, int64_t{1} << 40);
  const std::string generation = StrCat(path, ".generation");
  if (!problems.Whole(generation, fault.generation(), 0, 1 << 20) || fault.generation() == 0) return;
  if (!fault.has_call())
    problems.Add(generation, "says in which generation a call is, but there is no call; add call: 1, or leave it out");
  if (!spec.train().has_elastic())
    problems.Add(
        generation, fault.generation(),
        " never comes, because without train.elastic a lost rank ends the run; use 0, or add train { elastic {} "
        "}");
}

void CheckLinkDown(const std::string& path, const spec::LinkDown& down, double timeout_s, Problems& problems) {
  CheckSeconds(path + ".for_s", down.has_for_s(), down.for_s(), problems);
  if (down.for_s() >= timeout_s) {
    problems.Add(path + ".for_s", NumberText(down.for_s()), " reaches fabric.timeout_s (", NumberText(timeout_s),
                 "), after which others count the rank as lost; use less, or hangs_s");
  }
  problems.Whole(path + ".times", down.times(), 1, 1 << 20);
  if (down.times() > 1 && !(down.every_s() > down.for_s() && down.every_s() <= kLongest)) {
    problems.Add(path + ".every_s", NumberText(down.every_s()),
                 " is out of range; use more seconds than for_s, which the link needs to come up in between");
  }
}

// What disks do, and when they do it.
void CheckDisk(const std::string& path, const spec::Spec& spec, const spec::Fault& fault, Problems& problems) {
  if (fault.has_file_call()) {
    problems.Whole(path + ".file_call", fault.file_call(), 1, int64_t{1} << 40);
    if (!fault.has_lost() && !fault.has_disk_full() && !fault.has_failed_reads())
      problems.Add(path + ".file_call", "is only for lost, disk_full and failed_reads; use step, at_s or call");
  }
  if (fault.has_kept() && !(fault.kept() >= 0 && fault.kept() <= 1))
    problems.Add(path + ".kept", NumberText(fault.kept()), " is out of range; use a share from 0 to 1");
  if (fault.has_kept() && !fault.has_lost())
    problems.Add(path + ".kept",
                 "says what stays of a lost rank's files, but no rank is lost; add lost: true, or leave it out");
  if (fault.has_disk_full()) problems.Whole(path + ".disk_full", fault.disk_full(), 1, int64_t{1} << 40);
  if (fault.has_failed_reads()) problems.Whole(path + ".failed_reads", fault.failed_reads(), 1, int64_t{1} << 40);
  if (fault.has_damage()) {
    problems.Whole(path + ".damage.file", fault.damage().file(), 0, int64_t{1} << 40);
    if (!(fault.damage().at() >= 0 && fault.damage().at() < 1))
      problems.Add(path + ".damage.at", NumberText(fault.damage().at()),
                   " is out of range; use a share from 0 to below 1");
  }
  const bool of_disk = fault.has_file_call() || fault.has_kept() || fault.has_disk_full() || fault.has_failed_reads() ||
                       fault.has_damage();
  const bool files = spec.fabric().simulated().data() == spec::Simulated::REAL &&
                     (spec.train().has_checkpoint() || spec.train().has_resume());
  if (of_disk && !files)
    problems.Add(path,
                 "is about files, but this run has none; it needs fabric.simulated.data: REAL and train.checkpoint");
}

void CheckWhat(const std::string& path, const spec::Spec& spec, const spec::Fault& fault, Problems& problems) {
  switch (fault.what_case()) {
    case spec::Fault::kLost:
      if (!fault.lost()) problems.Add(path + ".lost", "false is no fault; use true, or leave the fault out");
      return;
    case spec::Fault::kHangsS: return CheckSeconds(path + ".hangs_s", true, fault.hangs_s(), problems);
    case spec::Fault::kSlow: {
      const std::string factor = path + ".slow.factor";
      if (!fault.slow().has_factor())
        problems.Add(factor, "is missing; use a number such as 3");
      else if (!(fault.slow().factor() >= 1 && fault.slow().factor() <= 1e6))
        problems.Add(factor, NumberText(fault.slow().factor()), " is out of range; use 1 to 1e6");
      if (fault.slow().has_for_s()) CheckSeconds(path + ".slow.for_s", true, fault.slow().for_s(), problems);
      return;
    }
    case spec::Fault::kLinkDown:
      return CheckLinkDown(path + ".link_down", fault.link_down(), spec.fabric().timeout_s(), problems);
    case spec::Fault::WHAT_NOT_SET:
      problems.Add(path,
                   "says not what happens; use lost: true, hangs_s, slow { factor }, link_down { for_s }, disk_full, "
                   "failed_reads or damage { at }");
      return;
    default: return;  // of disks
  }
}

}  // namespace

void CheckFaults(const spec::Spec& spec, Problems& problems) {
  const spec::Simulated& simulated = spec.fabric().simulated();
  if (spec.parallel().dp() < 1) return;
  for (int i = 0; i < simulated.faults_size(); ++i) {
    const spec::Fault& fault = simulated.faults(i);
    const std::string path = StrCat("fabric.simulated.faults[", i, "]");
    problems.Whole(path + ".rank", fault.rank(), 0, std::max<int64_t>(1, MostMembers(spec)) - 1, fault.has_rank());
    CheckWhen(path, spec, fault, problems);
    CheckWhat(path, spec, fault, problems);
    CheckDisk(path, spec, fault, problems);
  }
  if (simulated.faults_size() > 0 && simulated.folding() == spec::Simulated::ON)
    problems.Add("fabric.simulated.folding", "ON cannot be, because faults happen to single ranks; use AUTO or OFF");
}

}  // namespace twofold
