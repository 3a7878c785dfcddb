// The operations that `twofold bench` measures, with size and bandwidth as nccl-tests defines them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/comm/communication.h"

namespace twofold::bench {

// One row. `in` and `out` are a rank's input and output: a block of `count` elements, or the whole tensor. If `split`,
// the whole tensor consists of one block per rank; otherwise it is the block.
struct Operation {
  enum Side { kBlock, kWhole, kWholeAtRoot };
  std::string_view name;
  Communication::Kind kind;  // kBatch: send_recv, in which every rank exchanges with its neighbours
  Side in, out;
  bool split;
  bool reduces, rooted;
  // The forms that our process groups offer. Operations on one tensor are always in place. For the others, in place
  // means that the block is the rank's part of the whole tensor.
  bool out_of_place, in_place;
  double (*bus_factor)(int ranks);  // busbw = bus_factor * algbw
};

std::span<const Operation> Operations();
const Operation* FindOperation(std::string_view name);  // null: no such row

// Elements of a block for a row of at most `bytes` (nccl-tests' "size": the larger of a rank's input and output),
// rounded down to whole elements on every rank; 0 if not one element fits.
int64_t BlockCount(const Operation& op, int64_t bytes, DType dtype, int ranks);
// Elements of the whole tensor; times the element size this is the row's size.
int64_t WholeCount(const Operation& op, int64_t block, int ranks);

}  // namespace twofold::bench
