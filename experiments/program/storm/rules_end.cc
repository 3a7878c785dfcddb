// How a run must end, and whom it must name.
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "core/base/errors.h"
#include "core/base/format.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/storm/rules.h"

namespace twofold::storm {
namespace {

int64_t Unit(const spec::Spec& spec) { return WorldSize(spec) / spec.parallel().dp(); }

// Virtual seconds that disasters can cost, generously: every generation may do the whole run again.
double Bound(const Course& course) {
  const spec::MembershipCosts& costs = course.spec.fabric().simulated().membership();
  const double timeout = course.spec.fabric().timeout_s(), reform = course.spec.train().elastic().reform_timeout_s();
  double waits = 0, factor = 1;
  for (const Disaster& d : course.schedule.disasters()) {
    const spec::Fault& f = d.fault();
    waits += timeout + reform + f.hangs_s() + 2 * static_cast<double>(f.link_down().times()) * f.link_down().for_s() +
             costs.detect_s() + costs.reform_s() + costs.arrive_s();
    if (f.has_slow()) factor *= f.slow().factor();
    if (d.has_link()) factor *= 1 / d.link().bandwidth() + d.link().latency_us();
  }
  const double runs = 2 + static_cast<double>(course.last_generation()) + course.schedule.disasters_size();
  return waits + factor * runs * std::max(course.reference.seconds, 1e-3) * 8;  // fewer replicas take longer
}

void JudgeTime(const Course& course, Findings& findings) {
  double latest = 0;
  for (const Seen& seen : course.evidence.seen) latest = std::max(latest, seen.time);
  if (const double bound = Bound(course); latest > bound) {
    findings.Add("no-hang", StrCat("the run took ", SecondsText(latest),
                                   " of virtual time; the disasters explain at most ", SecondsText(bound)));
  }
  if (FailureKind(course.evidence.status) == RankFailure::Kind::kDeadlock && !course.evidence.status.ok())
    findings.Add("no-hang", StrCat("the run hangs: ", std::string(course.evidence.status.message())));
}

bool SomeLinkFailed(const Course& course) {
  return std::any_of(course.schedule.disasters().begin(), course.schedule.disasters().end(),
                     [](const Disaster& d) { return d.link().failed(); });
}

// Members of the last generation that no disaster took.
int64_t Untouched(const Course& course) {
  return std::count_if(course.present.begin(), course.present.end(), [&](int m) { return !course.fatal.contains(m); });
}

bool SomeReplicasCanTrain(const spec::Spec& spec, int64_t members) {
  const spec::Elastic& e = spec.train().elastic();
  for (int64_t dp = e.min_dp(); dp <= std::min(e.max_dp(), members / Unit(spec)); ++dp) {
    if (Validate(WithReplicas(spec, dp), spec.name()).ok()) return true;
  }
  return false;
}

// What a checkpoint that cannot be saved ends: the run, but what it had done is known.
void JudgeFailedSave(const Course& course, Findings& findings) {
  const std::string message(course.evidence.status.message());
  if (!course.disk_trouble())
    findings.Add("end", StrCat("a checkpoint could not be saved, though nothing happened to a disk: ", message));
  const auto& records = course.evidence.records;
  if (std::none_of(records.begin(), records.end(), [](const auto& record) { return record.second.steps_size() > 0; }))
    findings.Add("end",
                 StrCat("nothing tells what the run had done before a checkpoint could not be saved: ", message));
}

// Why a run ends because of its disks, in the words of its message; empty: not because of them.
std::string WhyDisksEndIt(const Course& course, Findings& findings) {
  const std::string message(course.evidence.status.message());
  if (absl::StrContains(message, ": checkpoint: ")) {
    JudgeFailedSave(course, findings);
    return "a checkpoint could not be saved";
  }
  if (!absl::StrContains(message, "go on from its last checkpoint, but can read none")) return "";
  const std::string readable =
      course.reads_failed ? "" : ReadableCheckpoint(course.spec, course.evidence.sequence_before);
  if (!readable.empty())
    findings.Add("end", StrCat("the run ended although it could have gone on from ", readable, ": ", message));
  else if (!course.disk_trouble())
    findings.Add("end", StrCat("no checkpoint can be read, though nothing happened to a disk: ", message));
  return "no checkpoint can be read";
}

bool HasShards(const spec::Spec& spec) { return spec.parallel().sharding() != spec::Parallel::NO_SHARD; }

// Why an elastic run may end, in the words of its message. Returns a name for the summary; empty: it may not.
std::string WhyItMayEnd(const Course& course, Findings& findings) {
  const std::string message(course.evidence.status.message());
  const auto find = [&](const char* words, int& number) {
    const size_t at = message.find(words);
    if (at == std::string::npos) return false;
    const size_t digits = message.find_last_not_of("0123456789", at - 1);
    number = std::atoi(message.c_str() + digits + 1);
    return true;
  };
  int left = 0;
  if (find(" ranks are left; no number of replicas", left)) {
    if (SomeReplicasCanTrain(course.spec, left))
      findings.Add("end", StrCat("the run ended although ", left, " ranks can train: ", message));
    return "too few replicas";
  }
  if (absl::StrContains(message, " ranks are left, and ")) {
    const size_t at = message.find("only ");
    if (at != std::string::npos) std::sscanf(message.c_str() + at, "only %d", &left);
    if (left >= course.spec.train().elastic().min_dp() * Unit(course.spec))
      findings.Add("end", StrCat("the run ended although enough ranks were left: ", message));
    if (left < Untouched(course))
      findings.Add("end", StrCat("the run ended although no disaster took ", Untouched(course), " ranks: ", message));
    return "too few ranks";
  }
  if (absl::StrContains(message, "nobody that is left holds element")) {
    const bool copies = course.spec.train().elastic().shard_copies() > 0 ||
                        course.spec.parallel().sharding() == spec::Parallel::HYBRID_SHARD;
    if (!HasShards(course.spec) ? course.fatal.size() < static_cast<size_t>(course.spec.parallel().dp())
                                : copies && course.fatal.size() < 2)
      findings.Add("end", StrCat("the run ended although copies were left: ", message));
    return "state is lost";
  }
  if (SomeLinkFailed(course) && absl::StrContains(message, "route")) return "no route is left";
  return "";
}

void JudgeElasticEnd(const Course& course, Findings& findings) {
  Verdict& verdict = findings.verdict();
  if (course.evidence.status.ok()) {
    const report::RankRecord* lead = course.evidence.lead();
    const int64_t done = lead == nullptr ? 0 : lead->first_step() + lead->steps_size();
    if (done != course.spec.train().steps())
      findings.Add("end", StrCat("the run succeeded after ", done, " of ", course.spec.train().steps(), " steps"));
    verdict.set_outcome(course.last_generation() > 0 ? "finished, after recoveries" : "finished, undisturbed");
    return;
  }
  if (const std::string disks = WhyDisksEndIt(course, findings); !disks.empty())
    return verdict.set_outcome(StrCat("ended by rule: ", disks));
  const std::string why = Untouched(course) == 0 ? "nobody is left" : WhyItMayEnd(course, findings);
  verdict.set_outcome(why.empty() ? "failed" : StrCat("ended by rule: ", why));
  if (!why.empty() && !course.fatal.empty()) return;
  if (!why.empty() && why == "no route is left") return;
  findings.Add("end", StrCat("the run ended, with ", Untouched(course),
                             " ranks that no disaster took: ", std::string(course.evidence.status.message())));
}

void JudgeOtherEnd(const Course& course, Findings& findings) {
  Verdict& verdict = findings.verdict();
  const std::string message(course.evidence.status.message());
  const bool ok = course.evidence.status.ok();
  if (ok) {
    verdict.set_outcome("finished, undisturbed");
    if (!course.fatal.empty())
      findings.Add("end", StrCat("the run succeeded although rank ", course.fatal.begin()->first, " was lost"));
    return;
  }
  if (const std::string disks = WhyDisksEndIt(course, findings); !disks.empty())
    return verdict.set_outcome(StrCat("ended by rule: ", disks));
  if (course.fatal.empty()) {
    const bool no_route = SomeLinkFailed(course) && absl::StrContains(message, "route");
    verdict.set_outcome(no_route ? "ended by rule: no route is left" : "failed");
    if (!no_route) findings.Add("end", StrCat("the run failed although no rank was lost: ", message));
    return;
  }
  verdict.set_outcome("ended by rule: a rank was lost");
  int named = -1;
  if (std::sscanf(message.c_str(), "rank %d: ", &named) != 1 || !course.fatal.contains(named))
    findings.Add("culprit", StrCat("no disaster took the rank that is named: ", message));
}

// Who is missing from a generation was lost by a disaster, and the cause names one of them.
void JudgeCulprits(const Course& course, Findings& findings) {
  for (const auto& [member, record] : course.evidence.records) {
    for (const report::Generation& g : record.generations()) {
      const size_t at = g.cause().find("lost rank ");
      if (g.number() == 0 || at == std::string::npos) continue;
      int named = -1;
      std::sscanf(g.cause().c_str() + at, "lost rank %d", &named);
      if (!course.fatal.contains(named))
        findings.Add("culprit",
                     StrCat("generation ", g.number(), " began because of a rank that no disaster took: ", g.cause()));
    }
  }
  const std::vector<int>* before = nullptr;
  for (const auto& [generation, members] : course.members) {
    for (const int m : before != nullptr ? *before : std::vector<int>()) {
      if (std::find(members.begin(), members.end(), m) != members.end() || course.fatal.contains(m) ||
          course.finished.contains(m))
        continue;
      findings.Add("culprit", StrCat("member ", m, " is not in generation ", generation, ", but no disaster took it"));
    }
    for (const int m : members) {
      const auto taken = course.fatal.find(m);
      if (taken == course.fatal.end() || taken->second.hung || taken->second.generation >= generation) continue;
      findings.Add("culprit", StrCat("member ", m, " is in generation ", generation, ", but was lost in generation ",
                                     taken->second.generation));
    }
    before = &members;
  }
}

}  // namespace

void JudgeEnd(const Course& course, Findings& findings) {
  JudgeTime(course, findings);
  if (absl::IsDeadlineExceeded(course.evidence.status) &&
      absl::StrContains(course.evidence.status.message(), "has called nothing") &&
      !absl::StrContains(course.evidence.status.message(), "timed out")) {
    findings.verdict().set_outcome("hung");
    findings.Add("no-hang", std::string(course.evidence.status.message()));
    return;
  }
  course.elastic() ? JudgeElasticEnd(course, findings) : JudgeOtherEnd(course, findings);
  if (course.elastic()) JudgeCulprits(course, findings);
}

}  // namespace twofold::storm
