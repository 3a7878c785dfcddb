// Optimizers against the formulas of the papers, in double.
#include "core/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <utility>

#include "core/base/strings.h"
#include "core/optim/state.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::optim {
namespace optimizer_test {

using twofold::test::Cpu;
using twofold::test::FillRandom;
using twofold::test::Random;
using twofold::test::Values;

constexpr int64_t kElements = 13;
constexpr int kSteps = 6;

// Slices "a" (decays) and "b" (does not), with fresh gradients for each step.
struct Problem {
  Cpu cpu;
  nn::Parameter a{"a", Shape{kElements}, DType::kF64, {}}, b{"b", Shape{kElements}, DType::kF64, {}, nn::Role::kBias};
  std::vector<Slice> slices{
      {"a", Random(cpu, Shape{kElements}, 1), cpu.New(Shape{kElements}, DType::kF64), {{&a, 0, 0, kElements}}},
      {"b", Random(cpu, Shape{kElements}, 2), cpu.New(Shape{kElements}, DType::kF64), {{&b, 0, 0, kElements}}}};
  void NewGradients(int step) {
    for (size_t i = 0; i < 2; ++i) FillRandom(slices[i].gradient, 100 + 10 * static_cast<uint64_t>(step) + i);
  }
};

double Rate(int step) { return 0.1 / (1 + step); }

// `expected(p, g, state, decay, lr, step)` is one update of one element.
struct State {
  double first = 0, second = 0;
};
using Rule = std::function<void(double& p, double g, State& s, bool decay, double lr, int step)>;

void ExpectFollows(std::unique_ptr<Optimizer> given, const Rule& rule) {
  Problem problem;
  const std::unique_ptr<Optimizer> optimizer = std::move(given);  // its state is gone before the device is
  optimizer->Attach(problem.cpu.ctx, problem.slices);
  std::vector<double> p[2] = {Values(problem.slices[0].data), Values(problem.slices[1].data)};
  std::vector<State> state[2] = {std::vector<State>(kElements), std::vector<State>(kElements)};
  for (int step = 0; step < kSteps; ++step) {
    problem.NewGradients(step);
    optimizer->Step(problem.cpu.ctx, Rate(step));
    for (size_t s = 0; s < 2; ++s) {
      const std::vector<double> g = Values(problem.slices[s].gradient), actual = Values(problem.slices[s].data);
      for (size_t i = 0; i < kElements; ++i) {
        rule(p[s][i], g[i], state[s][i], s == 0, Rate(step), step);
        EXPECT_NEAR(actual[i], p[s][i], 1e-12 * (1 + std::abs(p[s][i]))) << "slice " << s << " step " << step;
      }
    }
  }
}

TEST(SgdTest, PlainWithDecay) {
  ExpectFollows(MakeSgd({.weight_decay = 0.1}),
                [](double& p, double g, State&, bool decay, double lr, int) { p -= lr * (g + (decay ? 0.1 : 0) * p); });
}

TEST(SgdTest, MomentumAndNesterov) {
  for (const bool nesterov : {false, true}) {
    ExpectFollows(MakeSgd({.momentum = 0.9, .weight_decay = 0.05, .nesterov = nesterov}),
                  [&](double& p, double g, State& s, bool decay, double lr, int) {
                    g += (decay ? 0.05 : 0) * p;
                    s.first = 0.9 * s.first + g;
                    p -= lr * (nesterov ? g + 0.9 * s.first : s.first);
                  });
  }
}

TEST(AdamTest, CoupledAndDecoupledDecay) {
  for (const bool decoupled : {false, true}) {
    ExpectFollows(MakeAdam({.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1, .decoupled = decoupled}),
                  [&](double& p, double g, State& s, bool decays, double lr, int step) {
                    const double decay = decays ? 0.1 : 0;
                    if (decoupled)
                      p -= lr * decay * p;
                    else
                      g += decay * p;
                    s.first = 0.8 * s.first + 0.2 * g;
                    s.second = 0.95 * s.second + 0.05 * g * g;
                    const double m = s.first / (1 - std::pow(0.8, step + 1)),
                                 v = s.second / (1 - std::pow(0.95, step + 1));
                    p -= lr * m / (std::sqrt(v) + 1e-3);
                  });
  }
}

// Stochastic rounding draws by an element's place in its parameter: as a whole, as pieces of flat slices, or visiting
// the device in chunks from the host's memory, it becomes the same bits.
TEST(StochasticRounding, GoesByTheElementsPlace) {
  constexpr int64_t kWhole = 53, kCut = 20;
  const nn::Parameter p("p", Shape{kWhole}, DType::kBF16, {}), q("q", Shape{9}, DType::kBF16, {});
  const auto update = [&p](const std::vector<SlicePart>& parts_of_first, const Offload& offload, int64_t updates) {
    Cpu cpu;
    const auto optimizer = MakeAdam({.lr = 0.01}, offload, {.kind = LowPrecisionUpdate::kStochastic, .seed = 3});
    // Where "p" lies: elements [0, kCut) at 5 of a slice, the others at 0 of the next one; or all of it.
    std::vector<Slice> slices;
    const bool flat = !parts_of_first.empty();
    if (flat) {
      slices.push_back(
          {"a", cpu.New(Shape{5 + kCut}, DType::kBF16), cpu.New(Shape{5 + kCut}, DType::kF32), parts_of_first});
      slices.push_back({"b",
                        cpu.New(Shape{kWhole - kCut + 2}, DType::kBF16),
                        cpu.New(Shape{kWhole - kCut + 2}, DType::kF32),
                        {{&p, kCut, 0, kWhole - kCut}}});
    } else {
      slices.push_back(
          {"p", cpu.New(Shape{kWhole}, DType::kBF16), cpu.New(Shape{kWhole}, DType::kF32), {{&p, 0, 0, kWhole}}});
    }
    const auto place = [&](int64_t i) {
      return !flat ? std::pair(0, i) : i < kCut ? std::pair(0, 5 + i) : std::pair(1, i - kCut);
    };
    for (const Slice& slice : slices) {
      for (const Tensor& t : {slice.data, slice.gradient}) cpu.ctx.Launch(ops::Fill{.out = t, .value = 0});
    }
    for (int64_t i = 0; i < kWhole; ++i) {
      const auto [slice, at] = place(i);
      slices[static_cast<size_t>(slice)].data.data<BF16>()[at] = BF16(static_cast<float>(i) - 20.25f);
      slices[static_cast<size_t>(slice)].gradient.data<float>()[at] = static_cast<float>(i % 7) - 3;
    }
    optimizer->Attach(cpu.ctx, slices);
    optimizer->set_updates(updates);
    for (int step = 0; step < 4; ++step) optimizer->Step(cpu.ctx, 0.01);
    EXPECT_EQ(optimizer->StateOf(0).size(), 2u) << "no masters";
    std::vector<double> values;
    for (int64_t i = 0; i < kWhole; ++i) {
      const auto [slice, at] = place(i);
      values.push_back(
          static_cast<double>(static_cast<float>(slices[static_cast<size_t>(slice)].data.data<BF16>()[at])));
    }
    return values;
  };
  const std::vector<SlicePart> flat = {{&q, 4, 0, 5}, {&p, 0, 5, kCut}};
  const std::vector<double> whole = update({}, {}, 0);
  EXPECT_EQ(update(flat, {}, 0), whole);
  EXPECT_EQ(update(flat, {.state = true, .chunk = 7}, 0), whole);
  EXPECT_EQ(update({}, {.state = true, .chunk = 11}, 0), whole);
  EXPECT_NE(update({}, {}, 1), whole) << "each update has draws of its own";
}

// A flat slice of parts, some of which decay, and padding: one operation, and the values and states of the parts as
// slices.
TEST(FlatSliceTest, OneOperationDoesWhatOneForEachPartDoes) {
  struct Place {
    int64_t offset, count;
    bool decay;
  };
  const std::vector<Place> places = {{0, 7, false},  {7, 3, true},   {10, 0, false},
                                     {12, 5, false}, {20, 2, false}, {22, 9, true}};
  for (const bool adam : {false, true}) {
    Cpu cpu;
    const nn::Parameter decays("p", Shape{9}, DType::kF64, {}), stays("n", Shape{9}, DType::kF64, {}, nn::Role::kNorm);
    Slice flat{"flat", cpu.New(Shape{33}, DType::kF64), cpu.New(Shape{33}, DType::kF64)};
    for (const Tensor& t : {flat.data, flat.gradient}) cpu.ctx.Launch(ops::Fill{.out = t, .value = 0});
    std::vector<Slice> apart;
    for (const Place& p : places) {
      const uint64_t seed = static_cast<uint64_t>(p.offset);
      const nn::Parameter* of = p.decay ? &decays : &stays;
      apart.push_back(
          {"p", Random(cpu, Shape{p.count}, seed), Random(cpu, Shape{p.count}, 100 + seed), {{of, 0, 0, p.count}}});
      flat.parts.push_back({of, 0, p.offset, p.count});
      for (int64_t i = 0; i < p.count; ++i) {
        flat.data.data<double>()[p.offset + i] = apart.back().data.data<double>()[i];
        flat.gradient.data<double>()[p.offset + i] = apart.back().gradient.data<double>()[i];
      }
    }
    const auto make = [&] {
      return adam ? MakeAdam({.weight_decay = 0.3}) : MakeSgd({.momentum = 0.5, .weight_decay = 0.3});
    };
    const auto of_flat = make(), of_parts = make();
    of_flat->Attach(cpu.ctx, {&flat, 1});
    of_parts->Attach(cpu.ctx, apart);
    int launched = 0;
    for (int step = 0; step < 3; ++step) {
      cpu.device.SetObserver([&](const ops::Op&, double, double) { ++launched; });
      of_flat->Step(cpu.ctx, Rate(step));
      cpu.device.SetObserver(nullptr);
      of_parts->Step(cpu.ctx, Rate(step));
    }
    EXPECT_EQ(launched, 3);
    std::vector<double> expected(33, 0);
    for (size_t p = 0; p < places.size(); ++p) {
      for (int64_t i = 0; i < places[p].count; ++i)
        expected[static_cast<size_t>(places[p].offset + i)] = apart[p].data.data<double>()[i];
    }
    EXPECT_EQ(Values(flat.data), expected) << adam;
  }
}

TEST(FlatSliceTest, DecayIsSaidInAsFewRangesAsItTakes) {
  const auto decay = [](const std::vector<SlicePart>& parts, double rate) {
    return DecayOf(Slice{.name = "s", .data = Tensor(), .gradient = Tensor(), .parts = parts}, rate);
  };
  const nn::Parameter matrix("w", Shape{9}, DType::kF64, {}), bias("b", Shape{9}, DType::kF64, {}, nn::Role::kBias);
  const auto part = [&](int64_t offset, int64_t count, bool decays) {
    return SlicePart{decays ? &matrix : &bias, 0, offset, count};
  };
  EXPECT_EQ(decay({part(0, 3, false), part(3, 2, false)}, 0.1).rate, 0);
  EXPECT_EQ(decay({part(0, 3, true)}, 0).undecayed, nullptr);
  EXPECT_EQ(decay({part(0, 3, true), part(3, 0, false)}, 0.1).undecayed, nullptr);
  const Decay some = decay({part(0, 3, false), part(4, 2, false), part(6, 1, true), part(7, 5, false)}, 0.1);
  EXPECT_EQ(some.rate, 0.1);
  ASSERT_EQ(some.undecayed->size(), 2u);
  EXPECT_EQ(some.undecayed->at(0).begin, 0);
  EXPECT_EQ(some.undecayed->at(0).end, 6);
  EXPECT_EQ(some.undecayed->at(1).begin, 7);
  EXPECT_EQ(some.undecayed->at(1).end, 12);
}

// Steps too small for bf16 to show add up in the master.
TEST(MasterTest, NarrowParametersFollowTheirMaster) {
  for (const bool adam : {false, true}) {
    Cpu cpu;
    const nn::Parameter w("w", Shape{4}, DType::kBF16, {});
    const Slice slice{"w", cpu.New(Shape{4}, DType::kBF16), cpu.New(Shape{4}, DType::kBF16), {{&w, 0, 0, 4}}};
    for (int i = 0; i < 4; ++i) {
      slice.data.data<BF16>()[i] = BF16(1.0f);
      slice.gradient.data<BF16>()[i] = BF16(1.0f);
    }
    const auto optimizer = adam ? MakeAdam({}) : MakeSgd({});
    optimizer->Attach(cpu.ctx, {&slice, 1});
    EXPECT_GE(cpu.Live(Category::kOptimizerState), Bytes(16));
    const double lr = 1.0 / 2048;  // bf16 has no number between 1 - 1/256 and 1
    optimizer->Step(cpu.ctx, lr);
    EXPECT_EQ(static_cast<float>(slice.data.data<BF16>()[0]), 1.0f);
    for (int step = 1; step < 64; ++step) optimizer->Step(cpu.ctx, lr);  // a gradient of 1 moves either by lr
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(static_cast<float>(slice.data.data<BF16>()[i]), 1 - 64 * lr, 1.0 / 512);
  }
}

TEST(OptimizerStateTest, OnlyWhatIsNeededIsAllocated) {
  struct Case {
    std::unique_ptr<Optimizer> optimizer;
    DType dtype;
    int64_t tensors;
  };
  Case cases[] = {{MakeSgd({}), DType::kF32, 0},
                  {MakeSgd({.momentum = 0.9}), DType::kF32, 1},
                  {MakeSgd({.momentum = 0.9}), DType::kBF16, 2},
                  {MakeAdam({}), DType::kF32, 2},
                  {MakeAdam({}), DType::kF16, 3}};
  for (Case& c : cases) {
    Cpu cpu;
    const Slice slice{"w", cpu.New(Shape{256}, c.dtype), cpu.New(Shape{256}, c.dtype)};
    cpu.device.Launch(cpu.ctx.stream, ops::Fill{.out = slice.data, .value = 1});
    const std::unique_ptr<Optimizer> optimizer = std::move(c.optimizer);
    optimizer->Attach(cpu.ctx, {&slice, 1});
    EXPECT_EQ(cpu.Live(Category::kOptimizerState), Bytes(c.tensors * 256 * 4));
  }
}

TEST(OptimizerStateTest, AnEmptyShardIsLeftAlone) {
  for (const bool adam : {false, true}) {
    Cpu cpu;
    const Slice slice{"empty", cpu.New(Shape{0}, DType::kBF16), cpu.New(Shape{0}, DType::kBF16)};
    const auto optimizer = adam ? MakeAdam({}) : MakeSgd({.momentum = 0.5});
    optimizer->Attach(cpu.ctx, {&slice, 1});
    int launched = 0;
    cpu.device.SetObserver([&](const ops::Op&, double, double) { ++launched; });
    optimizer->Step(cpu.ctx, 1);
    EXPECT_EQ(launched, 0);
  }
}

// ---- Groups of roles ----

// Two Adams, for matrices and embeddings and for norms and biases, do to parameters of both kinds what each does alone:
// of whole parameters, and of a flat slice that has some of each, with padding between and after them.
TEST(Grouped, DoesWhatEachGroupsOptimizerDoesAlone) {
  struct Place {
    nn::Role role;
    int64_t offset, count;
  };
  const std::vector<Place> places = {{nn::Role::kMatrix, 0, 4},
                                     {nn::Role::kEmbedding, 6, 3},
                                     {nn::Role::kNorm, 9, 5},
                                     {nn::Role::kBias, 14, 2},
                                     {nn::Role::kMatrix, 17, 6}};
  const auto adam = [](bool small) {
    return MakeAdam({.lr = small ? 0.02 : 0.1, .weight_decay = 0.3, .decoupled = !small});
  };
  const auto small = [](nn::Role role) { return role == nn::Role::kNorm || role == nn::Role::kBias; };
  for (const bool whole : {true, false}) {
    Cpu cpu;
    std::deque<nn::Parameter> parameters;
    std::vector<Slice> given, alone[2];
    Slice flat{"flat", cpu.New(Shape{25}, DType::kF64), cpu.New(Shape{25}, DType::kF64)};
    for (const Tensor& t : {flat.data, flat.gradient}) cpu.ctx.Launch(ops::Fill{.out = t, .value = 0});
    for (const Place& p : places) {
      const auto seed = static_cast<uint64_t>(p.offset);
      parameters.emplace_back(StrCat("p", p.offset), Shape{p.count}, DType::kF64, nn::Init{}, p.role);
      const auto slice = [&](Tensor data, Tensor gradient) {
        return Slice{"s", std::move(data), std::move(gradient), {{&parameters.back(), 0, 0, p.count}}};
      };
      alone[small(p.role)].push_back(slice(Random(cpu, Shape{p.count}, seed), Random(cpu, Shape{p.count}, 50 + seed)));
      const Slice& copied = alone[small(p.role)].back();
      cpu.ctx.Launch(ops::Cast{.in = copied.data, .out = flat.data.Slice(p.offset, p.count)});
      cpu.ctx.Launch(ops::Cast{.in = copied.gradient, .out = flat.gradient.Slice(p.offset, p.count)});
      flat.parts.push_back({&parameters.back(), 0, p.offset, p.count});
      if (whole) given.push_back(slice(flat.data.Slice(p.offset, p.count), flat.gradient.Slice(p.offset, p.count)));
    }
    if (!whole) given.push_back(flat);
    std::vector<RoleGroup> groups;
    groups.push_back({{nn::Role::kMatrix, nn::Role::kEmbedding}, adam(false)});
    groups.push_back({{nn::Role::kNorm, nn::Role::kBias}, adam(true)});
    const auto grouped = MakeGrouped(std::move(groups));
    const std::unique_ptr<Optimizer> large_alone = adam(false), small_alone = adam(true);
    grouped->Attach(cpu.ctx, given);
    large_alone->Attach(cpu.ctx, alone[0]);
    small_alone->Attach(cpu.ctx, alone[1]);
    EXPECT_EQ(grouped->learning_rate(), 0.1);
    for (const double lr : {0.1, 0.05, 0.2}) {
      grouped->Step(cpu.ctx, lr);
      large_alone->Step(cpu.ctx, lr);
      small_alone->Step(cpu.ctx, 0.02 * (lr / 0.1));
    }
    EXPECT_EQ(grouped->updates(), 3);
    // The state of a flat slice is that of its stretches, each from its offset on.
    std::vector<double> moments(25), expected(25), values(25);
    for (size_t i = 0; i < given.size(); ++i) {
      const int64_t begin = whole ? places[i].offset : 0;
      for (const twofold::optim::State& state : grouped->StateOf(i)) {
        if (state.name != "exp_avg_sq") continue;
        for (int64_t e = 0; e < state.tensor.numel(); ++e)
          moments[static_cast<size_t>(begin + state.offset + e)] = state.tensor.data<double>()[e];
      }
    }
    size_t next[2] = {0, 0};
    for (const Place& p : places) {
      const size_t i = next[small(p.role)]++;
      const std::vector<double> data = Values(alone[small(p.role)][i].data),
                                square = Values((small(p.role) ? small_alone : large_alone)->StateOf(i)[1].tensor);
      std::copy(data.begin(), data.end(), values.begin() + p.offset);
      std::copy(square.begin(), square.end(), expected.begin() + p.offset);
    }
    EXPECT_EQ(Values(flat.data), values) << whole;
    EXPECT_EQ(moments, expected) << whole;
  }
}

// Two matrices, then two biases.
TEST(Grouped, ASliceHoldsOneParameterWhereTheGroupSaysSo) {
  Cpu cpu;
  const nn::Parameter a("a", Shape{4}, DType::kF64, {}), b("b", Shape{3}, DType::kF64, {}),
      c("c", Shape{2}, DType::kF64, {}, nn::Role::kBias), d("d", Shape{1}, DType::kF64, {}, nn::Role::kBias);
  const Slice slice{"s",
                    Random(cpu, Shape{12}, 1),
                    Random(cpu, Shape{12}, 2),
                    {{&a, 0, 0, 4}, {&b, 0, 6, 3}, {&c, 0, 9, 2}, {&d, 0, 11, 1}}};
  std::vector<RoleGroup> groups;
  groups.push_back({{nn::Role::kMatrix}, MakeSgd({.momentum = 0.5}), /*by_parameter=*/true});
  groups.push_back({{nn::Role::kBias}, MakeSgd({.momentum = 0.5})});
  const auto grouped = MakeGrouped(std::move(groups));
  grouped->Attach(cpu.ctx, {&slice, 1});
  std::vector<std::pair<int64_t, int64_t>> states;
  for (const twofold::optim::State& state : grouped->StateOf(0)) states.push_back({state.offset, state.tensor.numel()});
  const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 4}, {6, 3}, {9, 3}};
  EXPECT_EQ(states, expected);
}

TEST(Grouped, EveryRoleHasAGroup) {
  Cpu cpu;
  std::vector<RoleGroup> groups;
  groups.push_back({{nn::Role::kMatrix}, MakeAdam({})});
  const auto grouped = MakeGrouped(std::move(groups));
  const nn::Parameter bias("b", Shape{4}, DType::kF64, {}, nn::Role::kBias);
  const Slice slice{"b", cpu.New(Shape{4}, DType::kF64), cpu.New(Shape{4}, DType::kF64), {{&bias, 0, 0, 4}}};
  EXPECT_DEATH(grouped->Attach(cpu.ctx, {&slice, 1}), "b has a role that no group of the optimizer has");
}

TEST(OptimizerTest, OneLaunchASlice) {
  Problem problem;
  problem.NewGradients(0);
  const auto optimizer = MakeAdam({.lr = 0.25});
  EXPECT_EQ(optimizer->learning_rate(), 0.25);
  optimizer->Attach(problem.cpu.ctx, problem.slices);
  int launched = 0;
  problem.cpu.device.SetObserver([&](const ops::Op&, double, double) { ++launched; });
  optimizer->Step(problem.cpu.ctx, 0.1);
  EXPECT_EQ(launched, 2);
}

}  // namespace optimizer_test
}  // namespace twofold::optim
