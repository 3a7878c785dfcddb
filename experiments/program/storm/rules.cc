#include "experiments/program/storm/rules.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/strings.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/storm/schedule.h"

namespace twofold::storm {
namespace {

// The generations as all records tell them; records that differ break a rule.
void TakeGenerations(Course& course, Findings& findings) {
  for (const auto& [member, record] : course.evidence.records) {
    for (const report::Generation& g : record.generations()) {
      const auto number = static_cast<int>(g.number());
      const std::vector<int> members(g.members().begin(), g.members().end());
      const auto differs = [&](auto& all, const auto& own) {
        return all.try_emplace(number, own).first->second != own;
      };
      if (differs(course.members, members) || differs(course.first_step, g.first_step()) ||
          differs(course.from, g.from()) || differs(course.dp, g.dp())) {
        findings.Add("agreement", StrCat("member ", member, "'s record of generation ", number,
                                         " differs from another's in its members, first step or source"));
      }
    }
  }
}

// The file as it is called once it is complete.
std::string WholeFile(const std::string& file) {
  return absl::StrReplaceAll(std::string(absl::StripSuffix(file, ".part")), {{".partial/", "/"}});
}

// Which disasters happened: the simulation names faults by number.
void TakeFaults(Course& course, Findings& findings) {
  std::vector<int> places;  // by fault: in the schedule
  const Schedule& schedule = course.schedule;
  course.happened.resize(static_cast<size_t>(schedule.disasters_size()));
  for (int i = 0; i < schedule.disasters_size(); ++i) {
    if (schedule.disasters(i).has_fault()) places.push_back(i);
    if (schedule.disasters(i).has_link()) course.happened[static_cast<size_t>(i)] = true;
  }
  const int own = course.spec.fabric().simulated().faults_size();  // of the spec itself; they come first
  const double timeout_s = course.spec.fabric().timeout_s();
  for (const RunResult::Struck& struck : course.evidence.struck) {
    const int number = struck.fault - own;
    if (number < 0 || number >= static_cast<int>(places.size())) continue;
    const int place = places[static_cast<size_t>(number)];
    course.happened[static_cast<size_t>(place)] = true;
    const spec::Fault& fault = schedule.disasters(place).fault();
    const double patience =
        course.elastic() ? std::min(timeout_s, course.spec.train().elastic().reform_timeout_s()) : timeout_s;
    course.disk_full = course.disk_full || fault.has_disk_full();
    course.reads_failed = course.reads_failed || fault.has_failed_reads();
    if (fault.has_damage()) {
      const std::string file = WholeFile(struck.damaged);
      course.damaged_checkpoints.insert(std::filesystem::path(file).parent_path().filename().string());
      if (!struck.deleted) ++course.damaged[file];
    }
    if (fault.has_lost()) course.fatal[struck.rank] = {struck.generation, false};
    if (fault.hangs_s() >= patience) course.fatal.try_emplace(struck.rank, Course::Taken{struck.generation, true});
    ++(*findings.verdict().mutable_happened())[StrCat("disaster: ", KindOf(schedule.disasters(place), timeout_s))];
  }
  std::set<int> came;
  for (const auto& [generation, members] : course.members) {
    for (const int m : members) {
      if (m >= RanksToStart(course.spec)) came.insert(m);
    }
  }
  auto& counts = *findings.verdict().mutable_happened();
  if (!came.empty()) counts["disaster: new rank"] += static_cast<int64_t>(came.size());
  for (const Disaster& d : schedule.disasters()) {
    if (d.has_link()) ++counts[StrCat("disaster: ", KindOf(d, timeout_s))];
  }
}

// "ranks 0-2, 5", as RankList writes it, at the beginning of `text`.
std::vector<int> RanksIn(const std::string& text) {
  std::vector<int> ranks;
  for (size_t at = text.find(' ') + 1; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;) {
    char* end = nullptr;
    const long first = std::strtol(text.c_str() + at, &end, 10),
               last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
    for (long r = first; r <= last; ++r) ranks.push_back(static_cast<int>(r));
    at = static_cast<size_t>(end - text.c_str()) + (*end == ',' ? 2 : 1);
  }
  return ranks;
}

// The generations that were formed, as the simulation's notes tell them: also those that did not begin to train.
void FollowMembers(Course& course, Findings& findings) {
  int came = 0;
  for (int64_t r = 0; r < RanksToStart(course.spec); ++r) course.present.insert(came++);
  for (const std::string& note : course.evidence.notes) {
    int generation = 0, ranks = 0, more = 0;
    if (std::sscanf(note.c_str(), "generation %d: %d ranks", &generation, &ranks) != 2) continue;
    constexpr std::string_view kLost = "; lost: ", kFinished = "; finished: ";
    if (const size_t lost = note.find(kLost); lost != std::string::npos) {
      for (const int m : RanksIn(note.substr(lost + kLost.size()))) {
        course.present.erase(m);
        if (!course.fatal.contains(m))
          findings.Add("culprit", StrCat("member ", m, " is taken for lost, but no disaster took it: ", note));
      }
    }
    if (const size_t finished = note.rfind(kFinished); finished != std::string::npos) {
      for (const int m : RanksIn(note.substr(finished + kFinished.size()))) {
        course.present.erase(m);
        course.finished.insert(m);
      }
    }
    const size_t fresh = note.rfind("; ");
    if (fresh != std::string::npos && absl::EndsWith(note, " new") &&
        std::sscanf(note.c_str() + fresh, "; %d new", &more) == 1) {
      for (int i = 0; i < more; ++i) course.present.insert(came++);
    }
    if (static_cast<int>(course.present.size()) != ranks)
      findings.Add("agreement", StrCat("generation ", generation, " has ", ranks, " ranks, but ", course.present.size(),
                                       " are left or came"));
  }
}

// For those who replay it.
void TellCourse(const Course& course, Findings& findings) {
  const auto tell = [&](const std::string& line) { *findings.verdict().add_told() = line; };
  for (const std::string& note : course.evidence.notes) {
    if (absl::StartsWith(note, "fabric.simulated.faults[") || absl::StartsWith(note, "generation ")) tell(note);
  }
  for (const auto& [generation, members] : course.members) {
    tell(StrCat("generation ", generation, " trains from step ", course.first_step.at(generation), ", from ",
                course.from.at(generation)));
  }
  for (const std::string& end : course.evidence.ends) tell(end);
}

void CountGenerations(const Course& course, Findings& findings) {
  auto& counts = *findings.verdict().mutable_happened();
  for (const auto& [generation, from] : course.from) {
    if (generation > 0) ++counts[StrCat("recovery: from ", from)];
  }
  for (int g = 1; g < course.last_generation(); ++g) {
    if (!course.members.contains(g)) ++counts["recovery: interrupted, and begun anew"];
  }
}

}  // namespace

const std::vector<Rule>& Rules() {
  static const auto& rules = *new std::vector<Rule>{
      {"no-hang", "the run ends, in bounded virtual time, and within the guard's real time"},
      {"end",
       "it goes on while enough replicas can be formed from what is left, and else ends, and says why. A full disk "
       "ends "
       "it, too, but what it had done is told; a damaged checkpoint only if none can be read"},
      {"culprit", "whoever is named as lost is a rank that a disaster took"},
      {"agreement", "all members agree on the generation, its members, and the steps done"},
      {"recovery",
       "state comes from peers while copies are left, else from the last checkpoint that all can read; a run begins "
       "anew only if it had not saved one yet"},
      {"parameters", "ranks that hold the same piece of the state hold the same bits, and state that moves keeps them"},
      {"samples",
       "every step that counts is trained on the samples of an undisturbed run, each once (KEEP_GLOBAL); or "
       "on samples of which none is left out or repeated (KEEP_LOCAL). Asynchronous: every gradient that is begun is "
       "used "
       "once, and none is older than the bound"},
      {"losses", "they are those of an undisturbed run (KEEP_GLOBAL), to rounding; to the bit while the members stay"},
      {"memory",
       "a rank's peak is the predicted one, to the byte, while the members stay; else at most twice the "
       "largest that any number of replicas has"},
      {"checkpoints",
       "every checkpoint that was announced and not replaced can be loaded, whatever was lost or full, and the last "
       "one "
       "is there. One whose files were damaged is refused, and the file is named"},
      {"resume",
       "another run that resumes from a checkpoint, with as many replicas, trains as the run that saved it did, to the "
       "bit"},
  };
  return rules;
}

void Findings::Add(std::string_view rule, const std::string& text) {
  for (const Broken& known : verdict_.broken()) {
    if (known.rule() == rule) return;
  }
  Broken& broken = *verdict_.add_broken();
  broken.set_rule(std::string(rule));
  broken.set_text(text);
}

Verdict Judge(const Trials& trials, const Schedule& schedule, const Evidence& evidence) {
  Verdict verdict;
  verdict.set_message(std::string(evidence.status.message()));
  verdict.set_processor_seconds(evidence.processor_seconds);
  Findings findings(verdict);
  Course course{.spec = trials.spec(),
                .reference = trials.reference(),
                .schedule = schedule,
                .evidence = evidence,
                .samples = trials.samples(),
                .members = {},
                .first_step = {},
                .dp = {},
                .from = {},
                .fatal = {},
                .present = {},
                .finished = {},
                .happened = {},
                .damaged_checkpoints = {},
                .damaged = {}};
  TakeGenerations(course, findings);
  TakeFaults(course, findings);
  FollowMembers(course, findings);
  CountGenerations(course, findings);
  TellCourse(course, findings);
  JudgeEnd(course, findings);
  JudgeRecoveries(course, findings);
  JudgeState(course, findings);
  JudgeTraining(course, findings);
  JudgeCheckpoints(course, findings);
  JudgeResumed(course, findings);
  return verdict;
}

}  // namespace twofold::storm
