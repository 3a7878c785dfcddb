#include "experiments/program/plan/stage_kinds.h"

#include <map>

#include "core/base/check.h"

namespace twofold::plan {

std::vector<int> GroupInStage(const MeshShape& mesh, MeshGroup along, int stage, int64_t count, int cp) {
  std::vector<int> ranks;
  const auto add = [&](MeshPlace place) {
    place.pp = stage;
    if (static_cast<int64_t>(ranks.size()) < count) ranks.push_back(RankAt(mesh, place));
  };
  switch (along) {
    case MeshGroup::kTp:
      for (int i = 0; i < mesh.tp; ++i) add({.cp = cp, .tp = i});
      break;
    case MeshGroup::kCp:
      for (int i = 0; i < mesh.cp; ++i) add({.cp = i});
      break;
    case MeshGroup::kEp:
      for (int i = 0; i < mesh.ep; ++i) add({.dp = i, .cp = cp});
      break;
    case MeshGroup::kReplicas:
      for (int d = 0; d < mesh.dp / mesh.islands; ++d)
        for (int c = 0; c < mesh.cp; ++c) add({.dp = d, .cp = c});
      break;
    default: TWOFOLD_CHECK(false, "a group within a stage");
  }
  return ranks;
}

std::vector<int> KindsOfStages(const MeshShape& mesh, int64_t shard_group, LeastTimes& times) {
  std::map<std::vector<double>, int> first;
  std::vector<int> kinds;
  for (int stage = 0; stage < mesh.pp; ++stage) {
    std::vector<double> seconds;
    const auto probe = [&](MeshGroup along, int64_t count, int cp = 0) {
      const std::vector<int> ranks = GroupInStage(mesh, along, stage, count, cp);
      // Short ones show latency, long ones bandwidth.
      for (const double bytes : {1e3, 1e8}) {
        for (const auto kind : {Communication::kAllGather, Communication::kAllReduce})
          seconds.push_back(times.Collective(ranks, kind, bytes, 0).value());
      }
      return ranks;
    };
    for (const int cp : {0, mesh.cp - 1}) probe(MeshGroup::kTp, mesh.tp, cp), probe(MeshGroup::kEp, mesh.ep, cp);
    probe(MeshGroup::kReplicas, mesh.dp * mesh.cp);
    if (shard_group > 0) probe(MeshGroup::kReplicas, shard_group);
    const std::vector<int> ring = probe(MeshGroup::kCp, mesh.cp);
    for (size_t i = 0; ring.size() > 1 && i < ring.size(); ++i)
      seconds.push_back(times.Message(ring, ring[i], ring[(i + 1) % ring.size()], 1e6).value());
    kinds.push_back(first.try_emplace(seconds, stage).first->second);
  }
  return kinds;
}

}  // namespace twofold::plan
