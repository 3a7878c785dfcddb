// Which ranks of a layout are alike: which stages have their ranks equally far from each other, and how much slower
// than the mean one a rank's device may be taken to be. What is found is kept by mesh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/simulated/least_times.h"
#include "core/proto/spec.pb.h"

namespace twofold::plan {

class Likeness {
 public:
  explicit Likeness(LeastTimes& times) : times_(times) {}  // must outlive it

  const std::vector<int>& KindsOf(const spec::Spec& spec);  // KindsOfStages
  std::vector<int> UnlikeStages(const spec::Spec& spec);    // the first of each kind
  // By how many deviations a rank's device may be taken to be slower than the mean one (bound.h). `at_most`: ranks of a
  // group.
  double DeviationsOf(const spec::Spec& spec, int64_t at_most);

 private:
  bool ReplicasAreAlike(const spec::Spec& spec);  // ranks along tp are equally far from each other

  LeastTimes& times_;
  absl::flat_hash_map<std::string, std::vector<int>> kinds_;
  absl::flat_hash_map<std::string, bool> alike_;
};

}  // namespace twofold::plan
