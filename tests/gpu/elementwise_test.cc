// Operations that take each element by itself.
//
// Tolerances: F64 1e-13; F32 1e-6; narrow types one rounding, half a unit in the last place.
#include "tests/gpu/own_rounding.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace elementwise_test {

using Elementwise = GpuTest;

constexpr int64_t kSizes[] = {0, 1, 7, 31, 1027, 9001};

// f(type, size) of all.
template <class F>
void ForAll(F f) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) f(t, n);
  }
}

TEST_F(Elementwise, Fill) {
  for (DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    for (int64_t n : kSizes) {
      ExpectLikeCpu(t, OwnRounding(t),
                    [=](Operands& o) -> ops::Op { return ops::Fill{.out = o.OutOf({n}, t), .value = 3.3}; });
    }
  }
}

TEST_F(Elementwise, CastBetweenAllTypes) {
  constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8};
  for (DType from : kAll) {
    for (DType to : kAll) {
      for (int64_t n : {1, 1027}) {
        SCOPED_TRACE(Name(from) + " to " + Name(to));
        ExpectLikeCpu(from, OwnRounding(to), [=](Operands& o) -> ops::Op {
          const Tensor in = !IsFloat(from) || !IsFloat(to) ? o.Ids({n}, 127, from) : o.Normal({n});
          return ops::Cast{.in = in, .out = o.OutOf({n}, to)};
        });
      }
    }
  }
}

TEST_F(Elementwise, AffineOfPixelsAndNumbers) {
  ForAll([](DType t, int64_t n) {
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      return ops::Affine{.in = o.Ids({n}, 256, DType::kU8), .out = o.Out({n}), .scale = 1 / 64.0, .shift = -2};
    });
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      return ops::Affine{.in = o.WideNormal({n}), .out = o.Out({n}), .scale = 1.5, .shift = 0.25};
    });
  });
}

TEST_F(Elementwise, SumsOfTwo) {
  ForAll([](DType t, int64_t n) {
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      return ops::Add{.a = o.Normal({n}), .b = o.Normal({n}), .out = o.Out({n})};
    });
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      return ops::AddRelu{.a = o.Normal({n}), .b = o.Normal({n}), .out = o.Out({n})};
    });
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {  // in place
      const Tensor a = o.InOut(o.Normal({n}));
      return ops::AddRelu{.a = a, .b = o.Normal({n}), .out = a};
    });
  });
}

TEST_F(Elementwise, AddToWiderAndNarrower) {
  for (DType in : kFloats) {
    for (DType out : kFloats) {
      SCOPED_TRACE(Name(in) + " to " + Name(out));
      // What an F64 is added to in F32 is rounded to F32 first.
      const double tolerance = std::max(OwnRounding(out), out != DType::kF64 ? OwnRounding(DType::kF32) : 0);
      ExpectLikeCpu(in, tolerance, [=](Operands& o) -> ops::Op {
        return ops::AddTo{.in = o.Normal({1027}),
                          .out = o.InOut(o.Values(
                              {1027}, [](int64_t i) { return static_cast<double>(i % 19) / 8; }, out))};
      });
    }
  }
}

TEST_F(Elementwise, ScaleByNumberAndByTensor) {
  ForAll([](DType t, int64_t n) {
    ExpectLikeCpu(t, OwnRounding(t),
                  [=](Operands& o) -> ops::Op { return ops::Scale{.x = o.InOut(o.Normal({n})), .factor = 0.3}; });
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      const Tensor x = o.InOut(o.Normal({n}));
      return ops::Scale{.x = x, .factor = 0.3, .by = o.WideUniform({1}, 1, 2)};
    });
  });
}

// Of gradients of a GELU. Where its gate is nearly 1, what it lacks of 1 is as wrong as the gate, 2^-23 or so in f32,
// and is multiplied by up to 36 (of x = 5) beside a slope of 1.
double SlopeRounding(DType t) { return OwnRounding(t) + (t == DType::kF64 ? 0 : 8e-6); }

TEST_F(Elementwise, Activations) {
  for (const auto kind :
       {ops::ActivationForward::kRelu, ops::ActivationForward::kGelu, ops::ActivationForward::kSquaredRelu}) {
    ForAll([=](DType t, int64_t n) {
      const double tolerance = OwnRounding(t),
                   of_slope = kind == ops::ActivationForward::kGelu ? SlopeRounding(t) : tolerance;
      ExpectLikeCpu(t, tolerance, [=](Operands& o) -> ops::Op {
        return ops::ActivationForward{.kind = kind, .x = o.Normal({n}, 3), .y = o.Out({n})};
      });
      ExpectLikeCpu(t, of_slope, [=](Operands& o) -> ops::Op {
        return ops::ActivationBackward{.kind = kind, .x = o.Normal({n}, 3), .dy = o.Normal({n}), .dx = o.Out({n})};
      });
      ExpectLikeCpu(t, of_slope, [=](Operands& o) -> ops::Op {  // in place
        const Tensor x = o.Normal({n}), dy = o.InOut(o.Normal({n}));
        return ops::ActivationBackward{.kind = kind, .x = x, .dy = dy, .dx = dy};
      });
    });
  }
}

TEST_F(Elementwise, ActivationsFarOut) {
  for (DType t : kFloats) {
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      return ops::ActivationForward{.kind = ops::ActivationForward::kGelu,
                                    .x = o.Values(
                                        {41}, [](int64_t i) { return static_cast<double>(i - 20) * 100; }, t),
                                    .y = o.Out({41})};
    });
    ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
      const Tensor x = o.Values(
          {41}, [](int64_t i) { return static_cast<double>(i - 20) * 100; }, t);
      return ops::ActivationBackward{
          .kind = ops::ActivationForward::kGelu, .x = x, .dy = o.Normal({41}), .dx = o.Out({41})};
    });
  }
}

TEST_F(Elementwise, SwiGlu) {
  for (DType t : kFloats) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{0, 8}, {1, 1}, {3, 31}, {5, 128}, {33, 257}, {17, 64}}) {
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
        return ops::SwiGluForward{.x = o.Normal({rows, 2 * columns}, 2), .y = o.Out({rows, columns})};
      });
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
        return ops::SwiGluBackward{
            .x = o.Normal({rows, 2 * columns}, 2), .dy = o.Normal({rows, columns}), .dx = o.Out({rows, 2 * columns})};
      });
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {  // in place
        const Tensor x = o.InOut(o.Normal({rows, 2 * columns}, 2));
        return ops::SwiGluBackward{.x = x, .dy = o.Normal({rows, columns}), .dx = x};
      });
    }
  }
}

}  // namespace elementwise_test
}  // namespace twofold
