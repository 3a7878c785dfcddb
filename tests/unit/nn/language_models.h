// What holds for every model of token sequences.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/nn/language_model.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::test {

// The mean and deviation of a parameter's values, to 6 % of the deviation.
inline void ExpectMoments(const nn::Parameter& p, double mean, double deviation) {
  double sum = 0, squares = 0;
  for (double v : Values(p.data())) sum += v, squares += v * v;
  const auto n = static_cast<double>(p.numel());
  EXPECT_NEAR(sum / n, mean, 0.06 * deviation) << p.name();
  EXPECT_NEAR(std::sqrt(std::max(0.0, squares / n - sum / n * sum / n)), deviation, 0.06 * deviation) << p.name();
}

// Three parts, one after the other, give the bits of the whole. `config`: of 3 layers or more, f64.
template <class Model, class Config>
void ExpectPartsInARowAreTheWhole(Config config) {
  for (const bool tied : {true, false}) {
    Cpu cpu;
    config.tied = tied;
    Model whole(config), first(config, {0, 1, true, false}), middle(config, {1, 2, false, false}),
        last(config, {2, config.layers, false, true});
    for (Model* m : {&whole, &first, &middle, &last}) {
      m->Finalize();
      Materialize(cpu.ctx, *m);
    }
    const Tensor ids = RandomIds(cpu, Shape{2, config.sequence}, config.vocab, 1);
    nn::Saved saved[4];
    const Tensor expected = whole.Forward(cpu.ctx, ids, saved[0]);
    Tensor h = first.Forward(cpu.ctx, ids, saved[1]);
    h = middle.Forward(cpu.ctx, h, saved[2]);
    h = last.Forward(cpu.ctx, h, saved[3]);
    EXPECT_EQ(h.shape(), (Shape{2, config.sequence, config.vocab}));
    EXPECT_EQ(Values(h), Values(expected));
    const int64_t parts = first.ParameterCount() + middle.ParameterCount() + last.ParameterCount();
    EXPECT_EQ(parts, whole.ParameterCount() + (tied ? config.vocab * config.hidden : 0))
        << "a tied table is on both ends";
  }
}

}  // namespace twofold::test
