#include "strategies/async_sgd/links.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/comm/device_mesh.h"

namespace twofold {
namespace {

// Makes groups of some ranks, which all ranks of the world know. Null on a rank that is in none of them.
std::unique_ptr<ProcessGroup> MakeGroup(ProcessGroup& world, GroupList groups, std::string name) {
  std::vector<bool> in_one(static_cast<size_t>(world.size()));
  for (const std::vector<int>& group : groups) {
    for (const int r : group) in_one[static_cast<size_t>(r)] = true;
  }
  for (int r = 0; r < world.size(); ++r) {
    if (!in_one[static_cast<size_t>(r)]) groups.push_back({r});
  }
  std::unique_ptr<ProcessGroup> own = world.Partition(groups, std::move(name));
  if (in_one[static_cast<size_t>(world.rank())]) return own;
  return nullptr;
}

}  // namespace

// By turns: in turn i, first rank f meets second rank f + i, modulo the number of turns. So all first ranks, or all
// second ones, make groups in each turn.
std::vector<std::unique_ptr<ProcessGroup>> MakePairs(ProcessGroup& world, int first, const std::string& name) {
  const int second = world.size() - first, turns = std::max(first, second);
  std::vector<std::unique_ptr<ProcessGroup>> pairs;
  pairs.resize(static_cast<size_t>(world.rank() < first ? second : first));
  for (int turn = 0; turn < turns; ++turn) {
    GroupList groups;
    for (int f = 0; f < first; ++f) {
      const int s = first + (f + turn) % turns;
      if (s < world.size()) groups.push_back({f, s});
    }
    std::unique_ptr<ProcessGroup> pair = MakeGroup(world, std::move(groups), name);
    if (pair == nullptr) continue;
    const int partner = pair->ranks()[pair->rank() == 0 ? 1 : 0];
    pairs[static_cast<size_t>(pair->rank() == 0 ? partner - first : partner)] = std::move(pair);
  }
  return pairs;
}

ServerLinks MakeServerLinks(ProcessGroup& world, int servers) {
  ServerLinks links;
  links.data = MakePairs(world, servers, "parameters");
  const int workers = world.size() - servers;
  for (int w = 0; w < workers; ++w) {
    if (auto pair = MakeGroup(world, {{0, servers + w}}, "stop"); pair != nullptr)
      links.stop.push_back(std::move(pair));
  }
  for (int follower = 1; follower < servers; ++follower) {
    ServerLinks::Groups row;
    for (int w = 0; w < workers; ++w) {
      if (auto pair = MakeGroup(world, {{0, follower}}, "order"); pair != nullptr) row.push_back(std::move(pair));
    }
    if (!row.empty()) links.order.push_back(std::move(row));
  }
  std::vector<int> all(static_cast<size_t>(servers));
  std::iota(all.begin(), all.end(), 0);
  links.servers = MakeGroup(world, {all}, "servers");
  return links;
}

}  // namespace twofold
