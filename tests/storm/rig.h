// Storms of the specs in this folder.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/storm/rules.h"
#include "experiments/program/storm/schedule.h"
#include "experiments/program/storm/trial.h"
#include "experiments/program/training_data.h"
#include "tests/scratch_folder.h"

namespace twofold::test {

// A spec, its data, and what an undisturbed run of it does.
struct StormOf {
  explicit StormOf(const std::string& name, const std::vector<std::string>& sets = {}) {
    const std::string file = StrCat("tests/storm/", name, ".textproto");
    absl::StatusOr<spec::Spec> loaded = LoadSpec(file, "simulated", sets);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return;
    spec::Spec spec = *std::move(loaded);
    if (spec.train().has_checkpoint()) spec.mutable_train()->mutable_checkpoint()->set_path("checkpoints");
    absl::StatusOr<TrainingData> read = LoadTrainingData(spec, file);
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return;
    data = *std::move(read);
    auto made = storm::Trials::Make(spec, data.samples(), ScratchFolder(StrCat("storm_", name)));
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) trials = *std::move(made);
  }

  storm::Schedule Drawn(uint64_t seed) const { return storm::Draw(seed, trials->terrain()); }
  // Fails the test if the fabric refuses the schedule.
  storm::Evidence Run(const storm::Schedule& schedule) const {
    absl::StatusOr<storm::Evidence> evidence = trials->Run(schedule);
    EXPECT_TRUE(evidence.ok()) << evidence.status();
    return evidence.ok() ? *std::move(evidence) : storm::Evidence();
  }
  storm::Verdict Judge(const storm::Schedule& schedule, const storm::Evidence& evidence) const {
    return storm::Judge(*trials, schedule, evidence);
  }

  TrainingData data;
  std::unique_ptr<storm::Trials> trials;  // null: the test has failed
};

// The storm of a spec, made once for all tests of the process.
inline const StormOf& TheStormOf(const std::string& name) {
  static auto& all = *new std::map<std::string, std::unique_ptr<const StormOf>>;
  std::unique_ptr<const StormOf>& storm = all[name];
  if (storm == nullptr) storm = std::make_unique<const StormOf>(name);
  return *storm;
}

// Disasters, each as text of a storm.Disaster.
inline storm::Schedule ScheduleOf(const std::vector<std::string>& faults) {
  storm::Schedule schedule;
  for (const std::string& fault : faults) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(fault, schedule.add_disasters())) << fault;
  }
  return schedule;
}

// "no-hang: ...\nlosses: ..."; empty: no rule is broken.
inline std::string BrokenRules(const storm::Verdict& verdict) {
  std::string text;
  for (const storm::Broken& broken : verdict.broken()) StrAppend(&text, broken.rule(), ": ", broken.text(), "\n");
  return text;
}

}  // namespace twofold::test
