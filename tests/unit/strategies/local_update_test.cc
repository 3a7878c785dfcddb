// Outer steps against the algorithms of their papers, element by element; what is sent; and copies that stay copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "strategies/compression/coded_reducer.h"
#include "strategies/compression/quantize.h"
#include "strategies/data_parallel/mean_reducer.h"
#include "strategies/local_update/local_update.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace local_update_test {

using test::ExpectOnRanks;

constexpr int kIslands = 3;
constexpr int64_t kFirst = 7, kSecond = 12, kNumel = kFirst + kSecond;

// What an island's own training adds to element i in a step.
double Drift(int island, int64_t step, int64_t i) {
  return 0.01 * std::sin(static_cast<double>(1 + island) * 1.7 + static_cast<double>(step * 3 + i * i));
}
double Initial(int64_t i) { return 0.1 * static_cast<double>(i) - 0.7; }

// The papers' algorithms on scalars: values[island][element] after `steps`.
std::vector<std::vector<double>> Reference(const LocalUpdateOptions& options, int64_t steps) {
  std::vector<std::vector<double>> values(kIslands, std::vector<double>(kNumel));
  const int64_t every = options.every_steps, overlap = options.overlap_steps;
  for (int64_t i = 0; i < kNumel; ++i) {
    int64_t fragment = 0;
    while (i >= kNumel * (fragment + 1) / options.fragments) ++fragment;
    const int64_t first_sent = every * (fragment + 1) / options.fragments;
    double common = Initial(i), momentum = 0, sent = 0;
    for (auto& island : values) island[static_cast<size_t>(i)] = common;
    for (int64_t step = 1; step <= steps; ++step) {
      double mean = 0;
      for (int m = 0; m < kIslands; ++m) {
        double& value = values[static_cast<size_t>(m)][static_cast<size_t>(i)];
        value += Drift(m, step, i);
        mean += value / kIslands;
      }
      if (step >= first_sent && (step - first_sent) % every == 0) sent = mean;
      if (step - overlap < first_sent || (step - overlap - first_sent) % every != 0) continue;
      if (options.outer) {  // Douillard et al. 2023, algorithm 1, lines 10 to 12
        const double outer = common - sent;
        momentum = options.outer->momentum * momentum + outer;
        common -= options.outer->lr * (options.outer->nesterov ? outer + options.outer->momentum * momentum : momentum);
      } else {
        common = sent;
      }
      for (auto& island : values) {
        double& value = island[static_cast<size_t>(i)];
        value = (1 - options.weight) * value + options.weight * common;
      }
    }
  }
  return values;
}

struct Model {
  explicit Model(nn::Context& nn)
      : first("first", Shape{kFirst}, DType::kF32, {}), second("second", Shape{kSecond}, DType::kF32, {}) {
    for (nn::Parameter* p : {&first, &second}) {
      p->set_data(nn.device.NewTensor(p->shape(), DType::kF32, Category::kParameters));
      p->set_gradient(nn.device.NewTensor(p->shape(), DType::kF32, Category::kGradients));
      slices.push_back(optim::WholeSlice(*p));
    }
    for (int64_t i = 0; i < kNumel; ++i) At(i) = static_cast<float>(Initial(i));
    optimizer->Attach(nn, slices);
  }
  float& At(int64_t i) { return i < kFirst ? first.data().data<float>()[i] : second.data().data<float>()[i - kFirst]; }

  nn::Parameter first, second;
  std::vector<optim::Slice> slices;
  std::unique_ptr<optim::Optimizer> optimizer = optim::MakeSgd({});
};

std::string Train(RankContext& ctx, const LocalUpdateOptions& options, int64_t steps) {
  nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 3};
  Model model(nn);
  LocalUpdate local(nn, model.slices, *model.optimizer, ctx.world(), {ctx.world()}, options);
  const std::vector<std::vector<double>> want = Reference(options, steps);
  for (int64_t step = 1; step <= steps; ++step) {
    for (int64_t i = 0; i < kNumel; ++i) model.At(i) += static_cast<float>(Drift(ctx.rank(), step, i));
    local.AfterUpdate(step);
  }
  for (int64_t i = 0; i < kNumel; ++i) {
    const double here = want[static_cast<size_t>(ctx.rank())][static_cast<size_t>(i)];
    if (!(std::abs(model.At(i) - here) < 1e-6)) return StrCat("element ", i, ": ", model.At(i), ", not ", here);
  }
  return "";
}

struct Method {
  const char* name;
  LocalUpdateOptions options;
};
std::vector<Method> Methods() {
  const MakeReducer mean = MeanReducers(DType::kF32);
  const OuterOptimizer nesterov{}, heavy{.lr = 0.9, .momentum = 0.8, .nesterov = false};
  return {
      {"local sgd", {.every_steps = 4, .outer = {}, .make_reducer = mean}},
      {"diloco", {.every_steps = 3, .outer = nesterov, .make_reducer = mean}},
      {"without nesterov", {.every_steps = 2, .outer = heavy, .make_reducer = mean}},
      {"streaming",
       {.every_steps = 6, .outer = nesterov, .fragments = 3, .overlap_steps = 3, .weight = 0.5, .make_reducer = mean}},
      {"streaming averages",
       {.every_steps = 5, .outer = {}, .fragments = 2, .overlap_steps = 1, .weight = 0.7, .make_reducer = mean}},
      {"fragments at once", {.every_steps = 4, .outer = nesterov, .fragments = 4, .make_reducer = mean}},
      {"more fragments than elements",
       {.every_steps = 26,
        .outer = nesterov,
        .fragments = 26,
        .overlap_steps = 2,
        .weight = 0.5,
        .make_reducer = mean}},
      {"one step to overlap",
       {.every_steps = 2,
        .outer = nesterov,
        .overlap_steps = 1,
        .weight = 1,
        .make_reducer = CodedReducers(QuantizeCodecs({.bits = 32}), {})}}};
}

TEST(LocalUpdate, IsThePapersAlgorithm) {
  for (const Method& method : Methods()) {
    SCOPED_TRACE(method.name);
    ExpectOnRanks(kIslands, [&](RankContext& ctx) { return Train(ctx, method.options, 41); });
  }
}

TEST(LocalUpdate, BeginsEqual) {
  ExpectOnRanks(kIslands, [](RankContext& ctx) -> std::string {
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
    Model model(nn);
    model.At(3) += static_cast<float>(ctx.rank());
    LocalUpdate::Begin(nn, model.slices, ctx.world());
    return model.At(3) == static_cast<float>(Initial(3)) ? "" : StrCat("rank ", ctx.rank(), " has ", model.At(3));
  });
}

// Rank r sends 2 * 4 P (I - 1) / I bytes in H steps: all-reduces of all values, whatever the fragments.
TEST(LocalUpdate, SendsEachValueOnceInHSteps) {
  for (const Method& method : Methods()) {
    if (std::string(method.name) == "one step to overlap") continue;  // sends as its codec does
    SCOPED_TRACE(method.name);
    ExpectOnRanks(kIslands, [&](RankContext& ctx) -> std::string {
      const int64_t steps = 4 * method.options.every_steps;
      if (const std::string wrong = Train(ctx, method.options, steps); !wrong.empty()) return wrong;
      int64_t bytes = 0;
      for (const auto& [key, entry] : ctx.communication().entries()) bytes += entry.bytes.value();
      return bytes == 4 * 4 * kNumel ? "" : StrCat(bytes, " bytes");
    });
  }
}

// Ranks 0, 1 and 2, 3 share a copy of the model: they hold copies of a bias beside matrices that differ, and codes of 4
// bits share a scale.
TEST(LocalUpdate, CopiesOnRanksOfOneModelStayCopies) {
  ExpectOnRanks(4, [](RankContext& ctx) -> std::string {
    using Pattern = ProcessGroup::Pattern;
    const nn::GroupTag tag{1};
    const auto tensor = ctx.world().SplitEvenly(2, Pattern::kConsecutive, "tensor"),
               islands = ctx.world().SplitEvenly(2, Pattern::kStrided, "islands");
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 3};
    Model model(nn);
    model.first.set_shard_layout(
        nn::ShardLayout::Whole(model.first.shape(), tensor->rank() == 0, tag, /*partial=*/true));
    LocalUpdate local(
        nn, model.slices, *model.optimizer, *islands, {ctx.world(), {{tag, tensor.get()}}},
        {.every_steps = 2, .outer = OuterOptimizer{}, .make_reducer = CodedReducers(QuantizeCodecs({.bits = 4}), {})});
    for (int64_t step = 1; step <= 6; ++step) {
      for (int64_t i = 0; i < kNumel; ++i)
        model.At(i) += static_cast<float>(Drift(i < kFirst ? islands->rank() : ctx.rank(), step, i));
      local.AfterUpdate(step);
      if (step % 2 != 0) continue;
      Tensor largest = nn.device.NewTensor(Shape{kFirst}, DType::kF32, Category::kOther);
      std::copy_n(model.first.data().data<float>(), kFirst, largest.data<float>());
      ctx.world().AllReduce(largest, ReduceOp::kMax).Wait();
      if (!std::equal(largest.data<float>(), largest.data<float>() + kFirst, model.first.data().data<float>()))
        return StrCat("the copies differ after step ", step);
    }
    return "";
  });
}

}  // namespace local_update_test
}  // namespace twofold
