// What a storm did, over all its schedules.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/proto/storm.pb.h"

namespace twofold::storm {

class Summary {
 public:
  void Add(const Schedule& schedule, const Verdict& verdict);
  int64_t schedules() const { return schedules_; }
  int64_t broken() const { return broken_; }
  double processor_seconds() const { return processor_seconds_; }

  // Tables: outcomes, disasters, recoveries, broken rules.
  std::string Text() const;
  nlohmann::ordered_json Json() const;
  // A line for each schedule, in the order in which they were judged: seed, disasters, outcome, broken rules, seconds.
  const std::string& Csv() const { return csv_; }

 private:
  int64_t schedules_ = 0, broken_ = 0;
  double processor_seconds_ = 0;
  std::map<std::string, int64_t> outcomes_, happened_, rules_;
  std::string csv_ = "seed,disasters,outcome,broken,processor_seconds\n";
};

}  // namespace twofold::storm
