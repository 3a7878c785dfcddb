// The rules that a run must keep through any schedule of disasters.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto/storm.pb.h"
#include "experiments/program/storm/trial.h"

namespace twofold::storm {

struct Rule {
  std::string_view name, text;
};
// In the order in which they are judged.
const std::vector<Rule>& Rules();

// Judges a run. A pure function, apart from reading the checkpoints that the run has left. Every broken rule has a text
// that says what was found and what would be right.
Verdict Judge(const Trials& trials, const Schedule& schedule, const Evidence& evidence);

// ---- For the files of the rules ----

// What happened to the run, as far as several rules need it.
struct Course {
  const spec::Spec& spec;
  const Reference& reference;
  const Schedule& schedule;
  const Evidence& evidence;
  int64_t samples = 0;                      // of an epoch
  std::map<int, std::vector<int>> members;  // by generation: by rank
  std::map<int, int64_t> first_step, dp;    // by generation
  std::map<int, std::string> from;          // by generation: where its state came from
  struct Taken {
    int generation;
    bool hung;  // it comes back if the others have not waited for long enough
  };
  std::map<int, Taken> fatal;  // by member that a disaster took
  std::set<int> present;       // members of the last generation that was formed, whether or not it began to train
  std::set<int> finished;      // members that had done all when others formed a generation
  std::vector<bool> happened;  // by disaster
  bool disk_full = false, reads_failed = false;
  std::set<std::string> damaged_checkpoints;  // names of their folders, also of those that were deleted since
  // By file that is there still, under the name that it has in the end: bits.
  std::map<std::string, int> damaged;
  bool disk_trouble() const { return disk_full || reads_failed || !damaged_checkpoints.empty(); }
  int last_generation() const { return members.empty() ? 0 : members.rbegin()->first; }
  bool elastic() const { return spec.train().has_elastic(); }
  bool keeps_batch() const { return spec.train().elastic().batch() == spec::Elastic::KEEP_GLOBAL; }
};
class Findings {
 public:
  explicit Findings(Verdict& verdict) : verdict_(verdict) {}
  // Of each rule only the first finding is kept: others follow from it.
  void Add(std::string_view rule, const std::string& text);
  Verdict& verdict() { return verdict_; }

 private:
  Verdict& verdict_;
};
void JudgeEnd(const Course& course, Findings& findings);          // no-hang, end, culprit
void JudgeRecoveries(const Course& course, Findings& findings);   // recovery
void JudgeState(const Course& course, Findings& findings);        // agreement, parameters
void JudgeTraining(const Course& course, Findings& findings);     // samples, losses, memory
void JudgeCheckpoints(const Course& course, Findings& findings);  // checkpoints
void JudgeResumed(const Course& course, Findings& findings);      // resume
// A checkpoint of the run's own that can be read, with all its checksums; empty: there is none.
std::string ReadableCheckpoint(const spec::Spec& spec, int64_t sequence_before);

}  // namespace twofold::storm
