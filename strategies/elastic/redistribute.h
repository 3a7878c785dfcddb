// Moves a training run's state from the members that hold it to the members that need it, whatever their layouts are:
// over the groups, without a file.
//
// Every member says what it holds and what it needs; all compute the same moves from that. An element that a member
// holds itself is copied. Any other comes from the member that has been given the least to send so far.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/nn/context.h"
#include "core/tensor/region.h"
#include "strategies/checkpoint/pieces.h"

namespace twofold::elastic {

// Elements of a whole tensor that a member holds or needs.
struct Piece {
  std::string name;
  DType dtype = DType::kF32;
  int64_t numel = 0;  // of the whole
  Region where = {};
};
using Pieces = std::vector<Piece>;
Pieces Describe(const std::vector<checkpoint::LocalPiece>& pieces);

// `count` elements, from element `from_at` of piece number `from_piece` of rank `from` on.
struct Move {
  int from = 0, to = 0;
  int from_piece = 0, to_piece = 0;
  int64_t from_at = 0, to_at = 0, count = 0;
};
// `held` and `needed`: by rank. A pure function. NOT_FOUND: nobody holds some elements; the message names the first.
// With kLeave such elements are not written.
enum class Missing { kFail, kLeave };
absl::StatusOr<std::vector<Move>> PlanMoves(const std::vector<Pieces>& held, const std::vector<Pieces>& needed,
                                            Missing missing = Missing::kFail);

// This rank's part of `moves`: launches copies on the compute stream, and sends and receives over `everyone`. `held`
// and `needed` are what this rank described. Collective over the group. Throws what communication throws.
void MakeMoves(nn::Context& ctx, ProcessGroup& everyone, const std::vector<Move>& moves,
               const std::vector<checkpoint::LocalPiece>& held, const std::vector<checkpoint::LocalPiece>& needed);

}  // namespace twofold::elastic
