#include "sim/sharing/colours.h"

#include <utility>

#include "sim/sharing/hashes.h"

namespace twofold::sim {

void Colours::Start(std::vector<int> of) {
  of_ = std::move(of);
  counts_.clear();
  for (const int colour : of_) {
    if (static_cast<size_t>(colour) >= counts_.size()) counts_.resize(static_cast<size_t>(colour) + 1);
    ++counts_[static_cast<size_t>(colour)];
  }
  touched_.assign(counts_.size(), 0), largest_.assign(counts_.size(), -1);
}

int& Colours::NumberOf(uint64_t hash) {
  if (parts_.size() * 2 > slots_.size()) {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(slots_.size() * 4, Slot{0, 0, 0}));
    for (const Slot& slot : before)
      if (slot.call == call_) NumberOf(slot.hash) = slot.number;
  }
  for (size_t s = hash;; ++s) {
    Slot& slot = slots_[s & (slots_.size() - 1)];
    if (slot.call != call_) slot = {hash, -1, call_};
    if (slot.hash == hash) return slot.number;
  }
}

const std::vector<std::pair<int, int>>& Colours::Split(std::span<const int> touched,
                                                       std::span<const uint64_t> signatures) {
  parts_.clear(), changed_.clear();
  if (slots_.empty()) slots_.assign(1 << 10, {0, 0, 0});
  ++call_;
  part_of_.resize(touched.size());
  uint64_t last = 0;
  for (size_t t = 0; t < touched.size(); ++t) {
    const int colour = of_[static_cast<size_t>(touched[t])];
    const uint64_t hash = HashMix(static_cast<uint64_t>(colour), signatures[t]);
    int part = t > 0 ? part_of_[t - 1] : 0;
    if (t == 0 || hash != last) {  // neighbours are often alike
      last = hash;
      int& number = NumberOf(hash);
      if (number < 0) {
        number = static_cast<int>(parts_.size());
        parts_.push_back({colour, 0, -1});
      }
      part = number;
    }
    part_of_[t] = part;
    ++parts_[static_cast<size_t>(part)].count;
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    const auto colour = static_cast<size_t>(parts_[p].colour);
    touched_[colour] += parts_[p].count;
    int& largest = largest_[colour];
    if (largest < 0 || parts_[p].count > parts_[static_cast<size_t>(largest)].count) largest = static_cast<int>(p);
  }
  const size_t colours = counts_.size();
  for (size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    const auto colour = static_cast<size_t>(part.colour);
    const bool keeps = touched_[colour] == counts_[colour] && largest_[colour] == static_cast<int>(p);
    part.fresh = keeps ? part.colour : static_cast<int>(counts_.size());
    if (!keeps) counts_.push_back(part.count);
  }
  touched_.resize(counts_.size(), 0), largest_.resize(counts_.size(), -1);
  for (const Part& part : parts_) {
    const auto colour = static_cast<size_t>(part.colour);
    if (static_cast<size_t>(part.fresh) >= colours) counts_[colour] -= part.count;
    touched_[colour] = 0, largest_[colour] = -1;
  }
  for (size_t t = 0; t < touched.size(); ++t) {
    int& own = of_[static_cast<size_t>(touched[t])];
    const int fresh = parts_[static_cast<size_t>(part_of_[t])].fresh;
    if (fresh == own) continue;
    changed_.emplace_back(touched[t], own);
    own = fresh;
  }
  return changed_;
}

std::vector<int> Colours::InOrder() const {
  std::vector<int> numbers(counts_.size(), -1), of;
  of.reserve(of_.size());
  int next = 0;
  for (const int colour : of_) {
    int& number = numbers[static_cast<size_t>(colour)];
    if (number < 0) number = next++;
    of.push_back(number);
  }
  return of;
}

}  // namespace twofold::sim
