// Kinds of ranks that groups have told apart (ProcessGroup::RanksDiffer), for whoever lets one rank stand for several.
#pragma once

#include <map>
#include <utility>
#include <vector>

namespace twofold {

class RankKinds {
 public:
  explicit RankKinds(size_t ranks) : ranks_(ranks) {}
  // The rank is of this kind, too: ranks are equal if all that was noted of them is.
  void Note(int rank, int kind) {
    of_.resize(ranks_);
    int& number = of_[static_cast<size_t>(rank)];
    number = found_.try_emplace({number, kind}, static_cast<int>(found_.size()) + 1).first->second;
  }
  // By rank; empty: nothing was noted.
  const std::vector<int>& of() const { return of_; }

 private:
  size_t ranks_;
  std::vector<int> of_;
  std::map<std::pair<int, int>, int> found_;  // numbers for a rank's number so far and its next kind
};

}  // namespace twofold
