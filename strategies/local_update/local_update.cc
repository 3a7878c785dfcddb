#include "strategies/local_update/local_update.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace twofold {
namespace {

// Elements [first, first + count) of a slice, as far as `parts` go.
std::vector<optim::SlicePart> Cut(const std::vector<optim::SlicePart>& parts, int64_t first, int64_t count) {
  std::vector<optim::SlicePart> cut;
  for (const optim::SlicePart& part : parts) {
    const int64_t begin = std::max(part.offset, first), end = std::min(part.offset + part.count, first + count);
    if (begin < end) cut.push_back({part.parameter, part.first + begin - part.offset, begin - first, end - begin});
  }
  return cut;
}

FragmentPiece Cut(const FragmentPiece& piece, int64_t first, int64_t count) {
  return {.values = piece.values.Flat().Slice(first, count),
          .parameters = piece.parameters.empty() ? Tensor() : piece.parameters.Flat().Slice(first, count),
          .parts = Cut(piece.parts, first, count)};
}

// What the optimizer updates: masters where it keeps them, else the slices' own data.
std::vector<FragmentPiece> PiecesOf(const std::vector<optim::Slice>& slices, const optim::Optimizer& optimizer) {
  std::vector<FragmentPiece> pieces;
  for (size_t i = 0; i < slices.size(); ++i) {
    const optim::Slice& slice = slices[i];
    const FragmentPiece whole{.values = slice.data, .parameters = {}, .parts = slice.parts};
    int64_t masters = 0;
    for (const optim::State& state : optimizer.StateOf(i)) {
      if (state.name != "master") continue;
      FragmentPiece piece = Cut(whole, state.offset, state.tensor.numel());
      piece.parameters = std::exchange(piece.values, state.tensor);
      pieces.push_back(std::move(piece));
      masters += state.tensor.numel();
    }
    TWOFOLD_CHECK(masters == 0 || masters == slice.data.numel(),
                  slice.name + " has masters of all elements, or of none");
    if (masters == 0 && slice.data.numel() > 0) pieces.push_back(whole);
  }
  return pieces;
}

// Elements [first, end) of all pieces, laid end to end.
std::vector<FragmentPiece> Cut(const std::vector<FragmentPiece>& pieces, int64_t first, int64_t end) {
  std::vector<FragmentPiece> cut;
  int64_t at = 0;
  for (const FragmentPiece& piece : pieces) {
    const int64_t from = std::max(first - at, int64_t{0}), to = std::min(end - at, piece.numel());
    if (from < to) cut.push_back(Cut(piece, from, to - from));
    at += piece.numel();
  }
  return cut;
}

}  // namespace

void LocalUpdate::Begin(nn::Context& ctx, const std::vector<optim::Slice>& slices, ProcessGroup& islands) {
  if (islands.size() == 1) return;
  Work last;  // a group's work runs in order
  for (const optim::Slice& slice : slices) {
    Tensor data = slice.data;
    if (data.numel() > 0) last = islands.Broadcast(data, 0);
  }
  last.WaitOn(ctx.stream);
}

LocalUpdate::LocalUpdate(nn::Context& ctx, const std::vector<optim::Slice>& slices, const optim::Optimizer& optimizer,
                         ProcessGroup& islands, const ReplicaGroups& groups, const LocalUpdateOptions& options)
    : ctx_(ctx), islands_(islands), options_(options) {
  TWOFOLD_CHECK(options_.overlap_steps < options_.every_steps, "a fragment arrives before it is sent again");
  const std::vector<FragmentPiece> pieces = PiecesOf(slices, optimizer);
  int64_t numel = 0;
  for (const FragmentPiece& piece : pieces) numel += piece.numel();
  for (int i = 0; i < options_.fragments; ++i) {
    fragments_.emplace_back(
        ctx, static_cast<size_t>(i), Cut(pieces, numel * i / options_.fragments, numel * (i + 1) / options_.fragments),
        islands, groups,
        Fragment::Options{.outer = options_.outer, .weight = options_.weight, .make_reducer = options_.make_reducer});
  }
}

// Fragments are sent at equal distances, the last one after H steps.
int64_t LocalUpdate::Age(size_t i, int64_t done) const {
  const int64_t every = options_.every_steps, first = every * static_cast<int64_t>(i + 1) / options_.fragments;
  return done < first ? -1 : (done - first) % every;
}

void LocalUpdate::AfterUpdate(int64_t done) {
  for (size_t i = 0; i < fragments_.size(); ++i) {
    const int64_t age = Age(i, done);
    if (age == 0) fragments_[i].Start(ctx_);
    // A reducer's second message gets half of the time.
    if (age > 0 && age == (options_.overlap_steps + 1) / 2) fragments_[i].Advance(ctx_);
    if (age == options_.overlap_steps) fragments_[i].Finish(ctx_);
  }
}

std::vector<FragmentState> LocalUpdate::States() const {
  std::vector<FragmentState> states;
  for (const Fragment& fragment : fragments_) {
    for (FragmentState& state : fragment.States()) states.push_back(std::move(state));
  }
  return states;
}

std::vector<FragmentState> LocalUpdate::Settle() {
  for (Fragment& fragment : fragments_) fragment.Settle(ctx_);
  return States();
}

std::vector<FragmentState> LocalUpdate::Restore(int64_t done) {
  for (size_t i = 0; i < fragments_.size(); ++i) {
    const int64_t age = Age(i, done);
    if (age >= 0 && age < options_.overlap_steps) fragments_[i].Restore(ctx_);
  }
  return States();
}

void LocalUpdate::Forget() {
  for (Fragment& fragment : fragments_) fragment.Forget();
}

void LocalUpdate::Restart() {
  for (Fragment& fragment : fragments_) fragment.Restart(ctx_);
}

}  // namespace twofold
