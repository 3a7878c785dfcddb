#include "backends/simulated/rank_classes.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"

namespace twofold {
namespace {

// Numbers for values, in the order in which they first occur.
template <class Key>
class Numbers {
 public:
  int Of(const Key& key) { return numbers_.try_emplace(key, static_cast<int>(numbers_.size())).first->second; }
  size_t size() const { return numbers_.size(); }

 private:
  absl::flat_hash_map<Key, int> numbers_;
};

// Splits `kinds` by what ranks meet.
std::vector<int> Split(const std::vector<int>& kinds, const Meetings& meetings) {
  Numbers<std::vector<int>> compositions;
  std::vector<int> met(kinds.size(), -1);
  std::vector<int> members;
  for (size_t g = 0; g < meetings.groups->size(); ++g) {
    members.assign(1, meetings.places.empty() ? 0 : meetings.places[g]);
    for (const int r : (*meetings.groups)[g]) members.push_back(kinds[static_cast<size_t>(r)]);
    const int composition = compositions.Of(members);
    for (const int r : (*meetings.groups)[g]) met[static_cast<size_t>(r)] = composition;
  }
  return BothOf(kinds, met);
}

}  // namespace

std::vector<int> BothOf(std::span<const int> a, std::span<const int> b) {
  TWOFOLD_CHECK_EQ(a.size(), b.size());
  Numbers<std::pair<int, int>> numbers;
  std::vector<int> both(a.size());
  for (size_t r = 0; r < a.size(); ++r) both[r] = numbers.Of({a[r], b[r]});
  return both;
}

std::vector<int> RefineClasses(std::vector<int> kinds, std::span<const Meetings> meetings) {
  const auto count = [](const std::vector<int>& numbers) {
    Numbers<int> seen;
    for (const int n : numbers) seen.Of(n);
    return seen.size();
  };
  for (size_t classes = 0, now = count(kinds); now > classes;) {
    classes = now;
    for (const Meetings& m : meetings) kinds = Split(kinds, m);
    now = count(kinds);
  }
  absl::flat_hash_map<int, int> first;
  std::vector<int> of(kinds.size());
  for (size_t r = 0; r < kinds.size(); ++r) of[r] = first.try_emplace(kinds[r], static_cast<int>(r)).first->second;
  return of;
}

std::vector<int> StandIns(std::span<const int> classes) {
  std::vector<int> stand_ins;
  for (size_t r = 0; r < classes.size(); ++r) {
    if (classes[r] == static_cast<int>(r)) stand_ins.push_back(classes[r]);
  }
  return stand_ins;
}

}  // namespace twofold
