#include "strategies/elastic/redistribute.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/status.h"

namespace twofold::elastic {
namespace {

// Columns of a tensor: pieces of one band are ranges of it.
using Band = std::tuple<std::string, DType, int64_t, int64_t, int64_t, int64_t>;
Band BandOf(const Piece& p) { return {p.name, p.dtype, p.numel, p.where.row, p.where.column, p.where.width}; }

struct Holder {
  int rank, piece;
  int64_t first, end;  // in the band
  bool Has(int64_t at) const { return first <= at && at < end; }
};

// The holder that element `at` comes from: `rank` itself, or the one that sends least. Null: nobody has it.
const Holder* Choose(const std::vector<Holder>& holders, int64_t at, int rank, const std::vector<int64_t>& sends) {
  const Holder* best = nullptr;
  for (const Holder& h : holders) {
    if (!h.Has(at)) continue;
    if (h.rank == rank) return &h;
    if (best == nullptr || sends[static_cast<size_t>(h.rank)] < sends[static_cast<size_t>(best->rank)]) best = &h;
  }
  return best;
}

}  // namespace

Pieces Describe(const std::vector<checkpoint::LocalPiece>& pieces) {
  Pieces all;
  for (const checkpoint::LocalPiece& piece : pieces)
    all.push_back({piece.name, piece.data.dtype(), piece.shape.numel(), piece.where});
  return all;
}

absl::StatusOr<std::vector<Move>> PlanMoves(const std::vector<Pieces>& held, const std::vector<Pieces>& needed,
                                            Missing missing) {
  std::map<Band, std::vector<Holder>> bands;
  for (size_t r = 0; r < held.size(); ++r) {
    for (size_t i = 0; i < held[r].size(); ++i) {
      const Piece& p = held[r][i];
      bands[BandOf(p)].push_back(
          {static_cast<int>(r), static_cast<int>(i), p.where.first, p.where.first + p.where.count});
    }
  }
  std::vector<Move> moves;
  std::vector<int64_t> sends(held.size());  // elements, by rank
  for (size_t r = 0; r < needed.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (size_t i = 0; i < needed[r].size(); ++i) {
      const Piece& p = needed[r][i];
      const std::vector<Holder>& holders = bands[BandOf(p)];
      const int64_t begin = p.where.first, end = begin + p.where.count;
      for (int64_t at = begin, next; at < end; at = next) {
        const Holder* from = Choose(holders, at, rank, sends);
        if (from == nullptr && missing == Missing::kLeave) {
          next = end;
          for (const Holder& h : holders) {
            if (h.first > at) next = std::min(next, h.first);
          }
          continue;
        }
        if (from == nullptr)
          return NotFound("nobody that is left holds element ", at, " of ", p.name, ", which rank ", rank, " needs");
        next = std::min(end, from->end);
        for (const Holder& own : holders) {  // what it has itself is not sent
          if (from->rank != rank && own.rank == rank && own.first > at) next = std::min(next, own.first);
        }
        moves.push_back({.from = from->rank,
                         .to = rank,
                         .from_piece = from->piece,
                         .to_piece = static_cast<int>(i),
                         .from_at = at - from->first,
                         .to_at = at - begin,
                         .count = next - at});
        if (from->rank != rank) sends[static_cast<size_t>(from->rank)] += next - at;
      }
    }
  }
  return moves;
}

void MakeMoves(nn::Context& ctx, ProcessGroup& everyone, const std::vector<Move>& moves,
               const std::vector<checkpoint::LocalPiece>& held, const std::vector<checkpoint::LocalPiece>& needed) {
  const int rank = everyone.rank();
  std::map<std::pair<int, int>, Tag> tags;  // by sender and receiver: the next
  std::vector<P2p> ops;
  for (const Move& move : moves) {
    const auto from = [&] { return held[static_cast<size_t>(move.from_piece)].data.Slice(move.from_at, move.count); };
    const auto to = [&] { return needed[static_cast<size_t>(move.to_piece)].data.Slice(move.to_at, move.count); };
    if (move.from == rank && move.to == rank) {
      ctx.Launch(ops::Cast{.in = from(), .out = to()});
      continue;
    }
    if (move.from != rank && move.to != rank) continue;
    const Tag tag = tags[{move.from, move.to}]++ % kMaxTag;
    if (move.from == rank) ops.push_back({P2p::kSend, from(), move.to, tag});
    if (move.to == rank) ops.push_back({P2p::kRecv, to(), move.from, tag});
  }
  if (!ops.empty()) everyone.Batch(ops).WaitOn(ctx.stream);
}

}  // namespace twofold::elastic
