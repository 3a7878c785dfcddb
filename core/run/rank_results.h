// The results of a run's ranks, by rank. If one rank was simulated for several identical ones, they share its result,
// which is stored once.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace twofold {

class RankResults {
 public:
  using value_type = std::string;
  class const_iterator;
  using iterator = const_iterator;

  RankResults() = default;
  // One result per rank.
  RankResults(std::vector<std::string> of_each) : kept_(std::move(of_each)), which_(kept_.size()) {
    for (size_t r = 0; r < which_.size(); ++r) which_[r] = static_cast<int>(r);
  }
  RankResults(std::initializer_list<std::string> of_each) : RankResults(std::vector<std::string>(of_each)) {}
  // The result of rank r is kept[which[r]].
  RankResults(std::vector<std::string> kept, std::vector<int> which)
      : kept_(std::move(kept)), which_(std::move(which)) {
    for (const int w : which_)
      TWOFOLD_CHECK(w >= 0 && static_cast<size_t>(w) < kept_.size(), "every rank has a result");
  }
  // Results of ranks that returned nothing.
  static RankResults Empty(int ranks) {
    return {std::vector<std::string>(1), std::vector<int>(static_cast<size_t>(ranks))};
  }

  size_t size() const { return which_.size(); }
  bool empty() const { return which_.empty(); }
  const std::string& operator[](size_t rank) const { return kept_[which(rank)]; }
  const_iterator begin() const;
  const_iterator end() const;

  // The distinct stored results.
  const std::vector<std::string>& kept() const { return kept_; }
  size_t which(size_t rank) const { return static_cast<size_t>(which_[rank]); }  // index into `kept`

  void push_back(std::string of_next_rank) {
    which_.push_back(static_cast<int>(kept_.size()));
    kept_.push_back(std::move(of_next_rank));
  }
  // New ranks have empty results.
  void resize(size_t ranks) {
    while (size() < ranks) push_back("");
    which_.resize(ranks);
  }
  // One copy per rank.
  std::vector<std::string> Copies() const;

  friend bool operator==(const RankResults& a, const RankResults& b) {
    if (a.size() != b.size()) return false;
    for (size_t r = 0; r < a.size(); ++r) {
      if (a[r] != b[r]) return false;
    }
    return true;
  }

 private:
  std::vector<std::string> kept_;
  std::vector<int> which_;  // by rank
};

class RankResults::const_iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = std::string;
  using difference_type = std::ptrdiff_t;
  using pointer = const std::string*;
  using reference = const std::string&;

  const_iterator() = default;
  const_iterator(const RankResults& of, size_t rank) : of_(&of), rank_(rank) {}
  reference operator*() const { return (*of_)[rank_]; }
  pointer operator->() const { return &**this; }
  const_iterator& operator++() { return ++rank_, *this; }
  const_iterator operator++(int) { return {*of_, rank_++}; }
  bool operator==(const const_iterator&) const = default;

 private:
  const RankResults* of_ = nullptr;
  size_t rank_ = 0;
};

inline RankResults::const_iterator RankResults::begin() const { return {*this, 0}; }
inline RankResults::const_iterator RankResults::end() const { return {*this, size()}; }
inline std::vector<std::string> RankResults::Copies() const { return {begin(), end()}; }

}  // namespace twofold
