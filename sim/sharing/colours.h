// Things by colour, for colour refinement (flow_classes.h): colours are split by what distinguishes things of one
// colour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace twofold::sim {

// Things of one kind, by colour.
class Colours {
 public:
  // Numbers that stand for classes to begin with, one for each thing.
  void Start(std::vector<int> of);
  int operator[](int thing) const { return of_[static_cast<size_t>(thing)]; }
  size_t size() const { return of_.size(); }
  // Splits colours by the signatures of the `touched` things. Other things of these colours share a signature that no
  // touched one has. Returns the things that have another colour now, with the one they had.
  const std::vector<std::pair<int, int>>& Split(std::span<const int> touched, std::span<const uint64_t> signatures);
  std::vector<int> InOrder() const;  // the colours, numbered in the order in which things have them

 private:
  struct Part {
    int colour, count, fresh;
  };
  std::vector<int> of_, counts_;  // by thing; by colour
  // Scratch.
  std::vector<int> touched_, largest_, part_of_;  // by colour; by place in `touched`
  std::vector<Part> parts_;
  // Numbers of hashes in one call of Split: a table with open addresses, which is kept, for it is filled in each
  // round.
  struct Slot {
    uint64_t hash;
    int number, call;
  };
  std::vector<Slot> slots_;
  int call_ = 0;
  int& NumberOf(uint64_t hash);  // -1: it is new
  std::vector<std::pair<int, int>> changed_;
};

}  // namespace twofold::sim
