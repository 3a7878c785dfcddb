#include "strategies/checkpoint/pieces.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/strings.h"

namespace twofold::checkpoint {
namespace {

void Append(std::vector<LocalPiece>& held, std::vector<LocalPiece> more) {
  held.insert(held.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// A state with a shape of its own belongs to a rank that owns some of the parameter.
LocalPiece OwnShapePiece(const std::string& prefix, const optim::State& state) {
  const std::vector<nn::ShardLayout::Part>& parts = state.parameter->shard_layout().parts;
  return {.name = prefix + state.parameter->name(),
          .shape = state.whole,
          .where = state.where,
          .data = state.tensor.Flat(),
          .owned = std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.owned; }),
          .replicas = state.parameter->replicas()};
}

LocalPiece WholePiece(std::string name, const Tensor& tensor) {
  return {.name = std::move(name),
          .shape = Shape{tensor.numel()},
          .where = Region::Whole(tensor.numel()),
          .data = tensor.Flat()};
}

}  // namespace

Bytes BytesOf(const std::vector<LocalPiece>& pieces) {
  Bytes all(0);
  for (const LocalPiece& piece : pieces) all += piece.data.bytes();
  return all;
}

std::vector<LocalPiece> PiecesOf(const std::string& prefix, const optim::Slice& slice, const Tensor& tensor,
                                 int64_t offset) {
  const Tensor flat = tensor.Flat();
  std::vector<LocalPiece> pieces;
  int64_t end = 0;  // of the last piece in `flat`
  optim::ForStretches(slice.parts, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
    const int64_t begin = std::max(at, offset),
                  count = std::min(at + stretch.where.count, offset + flat.numel()) - begin;
    if (count <= 0 || stretch.part.padding) return;
    const Region where = stretch.where.Slice(begin - at, count);
    LocalPiece* last = pieces.empty() ? nullptr : &pieces.back();
    if (last != nullptr && last->name == prefix + p.name() && last->owned == stretch.part.owned &&
        end == begin - offset && where.Continues(last->where)) {
      last->where.count += count;
      last->data = flat.Slice(begin - offset + count - last->where.count, last->where.count);
    } else {
      pieces.push_back({.name = prefix + p.name(),
                        .shape = p.shard_layout().whole,
                        .where = where,
                        .data = flat.Slice(begin - offset, count),
                        .owned = stretch.part.owned,
                        .replicas = p.replicas()});
    }
    end = begin - offset + count;
  });
  return pieces;
}

std::vector<LocalPiece> LocalParameters(ParameterLayout& layout) {
  std::vector<LocalPiece> held;
  for (const optim::Slice& slice : layout.Slices()) Append(held, PiecesOf(kModel, slice, slice.data));
  return held;
}

std::vector<LocalPiece> PiecesOfStates(const optim::Slice& slice, const std::vector<optim::State>& states) {
  std::vector<LocalPiece> held;
  for (const optim::State& state : states) {
    const std::string prefix = StrCat(kOptimizer, state.name, ".");
    if (state.parameter != nullptr)
      held.push_back(OwnShapePiece(prefix, state));
    else
      Append(held, PiecesOf(prefix, slice, state.tensor, state.offset));
  }
  return held;
}

std::vector<LocalPiece> LocalStates(ParameterLayout& layout, const optim::Optimizer& optimizer) {
  std::vector<LocalPiece> held;
  const std::vector<optim::Slice> slices = layout.Slices();
  for (size_t i = 0; i < slices.size(); ++i) Append(held, PiecesOfStates(slices[i], optimizer.StateOf(i)));
  return held;
}

std::vector<LocalPiece> LocalOuterStates(const std::vector<FragmentState>& states) {
  std::vector<LocalPiece> held;
  for (const FragmentState& state : states) {
    if (!state.own) Append(held, PiecesOf(StrCat(kOuter, state.name, "."), state.elements, state.tensor));
  }
  return held;
}

std::vector<LocalPiece> OwnOuterStates(const std::vector<FragmentState>& states, int rank) {
  std::vector<LocalPiece> held;
  for (const FragmentState& state : states) {
    if (state.own) held.push_back(WholePiece(StrCat(kOuter, state.name, ".", rank), state.tensor));
  }
  return held;
}

void NameOfIsland(std::vector<LocalPiece>& pieces, int island) {
  if (island == 0) return;
  for (LocalPiece& piece : pieces) piece.name = StrCat(kIsland, island, ".", piece.name);
}

std::vector<LocalPiece> LocalBuffers(const ParameterLayout& layout) {
  std::vector<LocalPiece> held;
  for (const nn::Parameter* b : layout.Buffers()) {
    held.push_back({.name = StrCat(kBuffer, b->name()),
                    .shape = b->shape(),
                    .where = Region::Whole(b->numel()),
                    .data = b->data().Flat()});
  }
  return held;
}

std::vector<LocalPiece> LocalReducerStates(const ParameterLayout& layout, int rank) {
  std::vector<LocalPiece> held;
  for (const NamedState& kept : layout.ReducerStates()) {
    held.push_back(WholePiece(StrCat(kReducer, rank, ".", kept.name), kept.state.tensor));
    for (const NamedState::Elements& e : kept.holds)
      held.back().holds.push_back({e.parameter->name(), e.at, e.where, e.weight});
  }
  return held;
}

std::vector<LocalPiece> ShareOf(const std::vector<LocalPiece>& pieces, int64_t replica, int64_t replicas) {
  const int64_t total = BytesOf(pieces).value();
  // Avoids overflow. The end of one replica's share equals the beginning of the next one's.
  const auto bound = [&](int64_t r) { return total / replicas * r + total % replicas * r / replicas; };
  std::vector<LocalPiece> share;
  int64_t at = 0;
  for (const LocalPiece& piece : pieces) {
    const int64_t element = ElementSize(piece.data.dtype()), count = piece.data.numel();
    const auto cut = [&](int64_t byte) { return std::clamp<int64_t>((byte - at + element - 1) / element, 0, count); };
    const int64_t begin = bound(replica) <= at ? 0 : cut(bound(replica)),
                  end = bound(replica + 1) <= at ? 0 : cut(bound(replica + 1));
    if (begin < end) {
      LocalPiece part = piece;
      part.where = piece.where.Slice(begin, end - begin), part.data = piece.data.Slice(begin, end - begin);
      share.push_back(std::move(part));
    }
    at += piece.data.bytes().value();
  }
  return share;
}

}  // namespace twofold::checkpoint
