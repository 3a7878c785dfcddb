#include "experiments/program/plan/likeness.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "experiments/program/plan/layout_traits.h"
#include "experiments/program/plan/stage_kinds.h"
#include "sim/spread.h"
#include "strategies/from_spec.h"

namespace twofold::plan {

using spec::Parallel;

bool Likeness::ReplicasAreAlike(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  const auto [at, fresh] =
      alike_.try_emplace(StrCat(p.order(), " ", p.pp(), " ", p.dp(), " ", p.cp(), " ", p.tp()), true);
  if (!fresh || p.tp() == 1) return at->second;
  const MeshShape mesh = MeshOf(p);
  constexpr int kSome = 8;  // places within nodes repeat themselves
  double known = -1;
  for (int dp = 0; dp < std::min(mesh.dp, kSome); ++dp) {
    for (int cp = 0; cp < std::min(mesh.cp, kSome); ++cp) {
      std::vector<int> ranks;
      for (int tp = 0; tp < mesh.tp; ++tp) ranks.push_back(RankAt(mesh, {.dp = dp, .cp = cp, .tp = tp}));
      const double seconds = times_.Collective(ranks, Communication::kAllGather, 1e8, 0).value();
      if (known >= 0 && seconds != known) at->second = false;
      known = seconds;
    }
  }
  return at->second;
}

double Likeness::DeviationsOf(const spec::Spec& spec, int64_t at_most) {
  const int64_t n = FewestThatMeet(spec);
  return n == 0 || !ReplicasAreAlike(spec) ? 0 : sim::MaximumOf(std::min(n, at_most)).mean;
}

const std::vector<int>& Likeness::KindsOf(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  const int64_t group = p.sharding() == Parallel::HYBRID_SHARD ? p.shard_group() : 0;
  const std::string key =
      StrCat(p.order(), " ", p.pp(), " ", p.dp(), " ", p.cp(), " ", p.tp(), " ", p.ep(), " ", group);
  std::vector<int>& kinds = kinds_[key];
  if (kinds.empty()) kinds = KindsOfStages(MeshOf(p), group, times_);
  return kinds;
}

std::vector<int> Likeness::UnlikeStages(const spec::Spec& spec) {
  std::vector<int> stages = KindsOf(spec);
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

}  // namespace twofold::plan
