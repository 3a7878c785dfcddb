#include "strategies/elastic/left_out.h"

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::elastic {

using checkpoint::LocalPiece;

LeftOut LeftOutOf(const std::vector<NamedState>& states) {
  LeftOut all;
  for (const NamedState& kept : states) {
    const ReducerState& state = kept.state;
    const Tensor flat = state.tensor.Flat();
    if (const nn::Parameter* p = state.parameter) {
      all.shared.push_back({.name = StrCat(checkpoint::kReducer, state.name, ".", p->name()),
                            .shape = Shape{flat.numel()},
                            .where = Region::Whole(flat.numel()),
                            .data = flat});
    } else if (state.stage == 0) {
      all.own.emplace(kept.name, flat);
    } else {
      for (const NamedState::Elements& e : kept.holds) {
        all.shared.push_back(
            {.name = StrCat(checkpoint::kReducer, state.name, ".", state.stage, ".", e.parameter->name()),
             .shape = e.parameter->shard_layout().whole,
             .where = e.where,
             .data = flat.Slice(e.at, e.where.count)});
      }
    }
  }
  return all;
}

void CarryOver(nn::Context& ctx, ProcessGroup& everyone, const LeftOut& had, const std::vector<Pieces>& have,
               const LeftOut& to, const std::vector<Pieces>& need) {
  for (const auto& [name, tensor] : to.own) {
    const auto before = had.own.find(name);
    if (before != had.own.end() && before->second.numel() == tensor.numel())
      ctx.Launch(ops::Cast{.in = before->second, .out = tensor});
  }
  const absl::StatusOr<std::vector<Move>> moves = PlanMoves(have, need, Missing::kLeave);
  TWOFOLD_CHECK(moves.ok(), moves.status().message());
  MakeMoves(ctx, everyone, *moves, had.shared, to.shared);
}

}  // namespace twofold::elastic
