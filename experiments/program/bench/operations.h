// The operations that `twofold bench` measures, and what nccl-tests calls their size and their bandwidth.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/comm/communication.h"

namespace twofold::bench {

// One row. `in` and `out` say what a rank brings and gets: a block of `count` elements, or the whole tensor; the whole is
// a block of every rank where `split`, else it is the block.
struct Operation {
  enum Side { kBlock, kWhole, kWholeAtRoot };
  std::string_view name;
  Communication::Kind kind;  // kBatch: send_recv, which every rank does with its neighbours
  Side in, out;
  bool split;
  bool reduces, rooted;
  // What our process groups offer. Operations of one tensor are in place by nature. In place elsewhere: the block is its
  // place in the whole.
  bool out_of_place, in_place;
  double (*bus_factor)(int ranks);  // busbw = bus_factor * algbw
};

std::span<const Operation> Operations();
const Operation* FindOperation(std::string_view name);  // null: no such row

// Elements of a block for a row of at most `bytes` (nccl-tests' "size": the larger of what a rank brings and gets), rounded
// down to whole elements on every rank; 0: it holds not even one.
int64_t BlockCount(const Operation& op, int64_t bytes, DType dtype, int ranks);
// Elements of the whole; times the element's size it is the row's size.
int64_t WholeCount(const Operation& op, int64_t block, int ranks);

}  // namespace twofold::bench
