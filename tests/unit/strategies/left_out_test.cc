// What becomes of what gradient compression has left out when members are lost and come.
#include "strategies/elastic/left_out.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "core/nn/mlp_model.h"
#include "strategies/compression/coded_reducer.h"
#include "strategies/compression/power_sgd.h"
#include "strategies/compression/quantize.h"
#include "strategies/data_parallel/ddp.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold::elastic {
namespace left_out_test {

using checkpoint::LocalPiece;

// A member's reducers in one generation. Buckets hold a parameter or two.
struct Member {
  Member(RankContext& ctx, ProcessGroup& everyone, const MakeReducer& make)
      : nn{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 1},
        layout(nn, OneChunk(Model()), everyone, {.bucket = Bytes(100), .first_bucket = Bytes(100)}, make) {}
  static std::unique_ptr<nn::Module> Model() {
    auto model = std::make_unique<nn::MlpModel>(nn::MlpConfig{.inputs = 5, .hidden = {7}, .classes = 3});
    model->Finalize();
    return model;
  }
  LeftOut left_out() const { return LeftOutOf(layout.ReducerStates()); }
  nn::Context nn;
  DistributedDataParallel layout;
};

// Visits every element of what is shared: its name in words, and the element.
void ForShared(const LeftOut& of, const std::function<void(const std::string& which, float& value)>& visit) {
  for (const LocalPiece& piece : of.shared) {
    for (int64_t i = 0; i < piece.where.count; ++i)
      visit(StrCat(piece.name, "[", piece.where.IndexOf(i), "]"), piece.data.data<float>()[i]);
  }
}
float Own(int rank, int64_t i) { return static_cast<float>(1000 * (rank + 1) + static_cast<int>(i)); }
float Shared(const std::string& which) { return static_cast<float>(std::hash<std::string>()(which) % 9999 + 1); }

// "" or what is wrong. `own`: whose values its own are; -1: nobody's, but zeros. `lost`: elements that are zero.
std::string Wrong(const LeftOut& left_out, int own, const std::set<std::string>& lost) {
  for (const auto& [name, tensor] : left_out.own) {
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const float value = tensor.data<float>()[i], want = own < 0 ? 0 : Own(own, i);
      if (value != want) return StrCat("element ", i, " of ", name, " is ", value, ", not ", want);
    }
  }
  std::string wrong;
  ForShared(left_out, [&](const std::string& which, float& value) {
    const float want = lost.contains(which) ? 0 : Shared(which);
    if (value != want) wrong = StrCat(which, " is ", value, ", not ", want);
  });
  return wrong;
}

// Of 4 members, number 2 is lost; then another one comes in its place.
void ExpectThatSurvivorsKeepTheirOwn(const MakeReducer& make, bool encodes_means) {
  std::array<Pieces, 4> have, need;
  const auto carry_over = [&](RankContext& ctx, ProcessGroup& everyone, const std::vector<size_t>& members,
                              const LeftOut& had, const Member& to) {
    const auto me = static_cast<size_t>(ctx.rank());
    have[me] = Describe(had.shared), need[me] = Describe(to.left_out().shared);
    everyone.Barrier().Wait();
    std::vector<Pieces> all_have, all_need;
    for (const size_t m : members) all_have.push_back(have[m]), all_need.push_back(need[m]);
    nn::Context nn = to.nn;
    CarryOver(nn, everyone, had, all_have, to.left_out(), all_need);
    everyone.Barrier().Wait();
  };
  std::set<std::string> lost;
  test::ExpectOnRanks(4, [&](RankContext& ctx) -> std::string {
    const int me = ctx.rank();
    const auto three = ctx.world().Split(me == 2 ? -1 : 0, me, "three");
    const Member first(ctx, ctx.world(), make);
    const LeftOut before = first.left_out();
    if (before.own.empty()) return "there is nothing to keep";
    for (const auto& [name, tensor] : before.own)
      for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = Own(me, i);
    ForShared(before, [&](const std::string& which, float& value) {
      value = Shared(which);
      if (me == 2 && encodes_means) lost.insert(which);
    });
    ctx.world().Barrier().Wait();
    if (encodes_means == lost.empty()) return "the lost member encoded a part of the mean";
    std::unique_ptr<Member> second;
    std::string wrong;
    if (me != 2) {
      second = std::make_unique<Member>(ctx, *three, make);
      carry_over(ctx, *three, {0, 1, 3}, before, *second);
      wrong = Wrong(second->left_out(), me, lost);
    }
    ctx.world().Barrier().Wait();
    const Member third(ctx, ctx.world(), make);
    carry_over(ctx, ctx.world(), {0, 1, 2, 3}, second ? second->left_out() : LeftOut(), third);
    return wrong.empty() ? Wrong(third.left_out(), me == 2 ? -1 : me, lost) : wrong;
  });
}

TEST(LeftOut, SurvivorsKeepTheirOwnAndOneEncodesWhatALostMemberDid) {
  ExpectThatSurvivorsKeepTheirOwn(CodedReducers(QuantizeCodecs({.bits = 4}), {}), true);
}

TEST(LeftOut, ANewMemberTakesFactorsFromTheOthers) {
  ExpectThatSurvivorsKeepTheirOwn(PowerSgdReducers({.rank = 1, .start_step = 0, .min_compression = 0}), false);
}

}  // namespace left_out_test
}  // namespace twofold::elastic
