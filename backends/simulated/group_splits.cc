// Splits of a simulated group.
#include "backends/simulated/group.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {

void SimulatedGroup::RequestSplit(uint64_t sequence, SplitRequest request) {
  if (world_.engine.failed()) return;
  std::vector<SplitRequest>& here = splits_[sequence];
  here.push_back(std::move(request));
  if (here.size() < actors()) return;
  std::sort(here.begin(), here.end(), [](const SplitRequest& a, const SplitRequest& b) {
    return std::tie(a.color, a.key, a.rank) < std::tie(b.color, b.key, b.rank);
  });
  double start = 0;
  std::map<int, std::vector<int>> members;
  std::map<int, std::string> names;
  for (const SplitRequest& r : here) {
    start = std::max(start, r.time);
    if (r.color < 0) continue;
    members[r.color].push_back(ranks()[static_cast<size_t>(r.rank)]);
    names[r.color] = r.name;
  }
  for (auto& [color, ranks] : members) {
    split_results_[sequence][color] =
        std::make_shared<SimulatedGroup>(world_, names[color], std::vector<std::vector<int>>{std::move(ranks)});
  }
  const std::vector<SplitRequest> all = std::move(here);
  splits_.erase(sequence);
  split_ = sequence;
  for (const SplitRequest& r : all) {
    if (!world_.engine.failed()) r.done->Resolve(start);
  }
}

std::shared_ptr<SimulatedGroup> SimulatedGroup::Partition(uint64_t sequence, int rank,
                                                          std::span<const std::vector<int>> groups,
                                                          const std::string& name) {
  auto it = parts_.find(sequence);
  if (it == parts_.end()) it = parts_.emplace(sequence, MakeParts(rank, groups, name)).first;
  Parts& parts = it->second;
  if (!std::equal(groups.begin(), groups.end(), parts.list.begin(), parts.list.end())) {
    Mismatch(StrCat("split ", sequence), parts.first, StrCat("a list of ", parts.list.size(), " groups"), rank,
             StrCat("a different list of ", groups.size(), " groups"));
    return nullptr;
  }
  const auto own = parts.of.find(world_rank(rank));
  std::shared_ptr<SimulatedGroup> group = own == parts.of.end() ? nullptr : own->second;
  if (--parts.left == 0) parts_.erase(it);
  return group;
}

SimulatedGroup::Parts SimulatedGroup::MakeParts(int rank, std::span<const std::vector<int>> list,
                                                const std::string& name) {
  Parts parts{{list.begin(), list.end()}, rank, {}, actors()};
  // Nobody meets anyone in groups of one rank.
  if (std::all_of(list.begin(), list.end(), [](const std::vector<int>& places) { return places.size() == 1; }))
    return parts;
  // Equivalent groups, keyed by their stand-ins in order.
  std::map<std::vector<int>, std::vector<std::vector<int>>> kinds;
  for (const std::vector<int>& group : *groups_) {
    for (const std::vector<int>& places : list) {
      std::vector<int> members;
      for (const int place : places) members.push_back(group[static_cast<size_t>(place)]);
      std::vector<int> stand_ins = members;
      for (int& r : stand_ins) r = world_.folded() ? world_.stand_ins[static_cast<size_t>(r)] : r;
      kinds[std::move(stand_ins)].push_back(std::move(members));
    }
  }
  if (world_.folded()) {
    std::vector<std::vector<int>> all, numbers;
    int number = 0;
    for (const auto& [stand_ins, groups] : kinds) {
      ++number;
      for (const std::vector<int>& group : groups) {
        all.push_back(group);
        numbers.emplace_back(group.size(), number);
      }
    }
    if (world_.NoteKinds(all, numbers, "ranks of one class form different groups")) throw UnlikeGroups();
  }
  for (auto& [stand_ins, groups] : kinds) {
    if (stand_ins.size() == 1) continue;
    const std::set<int> actors(stand_ins.begin(), stand_ins.end());
    const auto own = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return std::find(g.begin(), g.end(), *actors.begin()) != g.end();
    });
    std::rotate(groups.begin(), own, own + 1);
    const auto shared = std::make_shared<SimulatedGroup>(world_, name, std::move(groups));
    for (const int actor : actors) parts.of[actor] = shared;
  }
  return parts;
}

std::shared_ptr<SimulatedGroup> SimulatedGroup::SplitResult(uint64_t sequence, int color) {
  auto& by_color = split_results_[sequence];
  auto it = by_color.find(color);
  return it == by_color.end() ? nullptr : it->second;
}

}  // namespace twofold
