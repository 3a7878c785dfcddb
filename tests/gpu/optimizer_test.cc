// Updates of flat pieces: with and without masters, with ranges that do not decay, a factor on the device, gradients of
// any type; and stochastic rounding, whose bits are the CPU's.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace optimizer_test {

class GpuOptimizers : public GpuTest {};

struct TypeCase {
  DType type;
  double tolerance;
};  // narrow: one rounding of the parameter
constexpr TypeCase kTypes[] = {{DType::kF64, 1e-12}, {DType::kF32, 2e-6}, {DType::kBF16, 4e-3}, {DType::kF16, 5e-4}};
constexpr DType kGradients[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

enum Factor { kNone, kF32Factor, kF64Factor };

ops::ElementRanges Every(int64_t n, int64_t period) {
  if (period == 0) return nullptr;
  auto ranges = std::make_shared<std::vector<ops::ElementRange>>();
  for (int64_t at = period / 2; at < n; at += period) ranges->push_back({at, std::min(n, at + period / 3 + 1)});
  return ranges->empty() ? nullptr : ranges;
}

// With 4 elements a thread and 1024 a block: ranges within, across and many; 3003 / 7 are more than go with a launch.
template <class F>
void ForCases(F run) {
  for (const TypeCase& t : kTypes) {
    for (const DType grad : kGradients) {
      run(t, grad, 257, 0, kNone);
      run(t, grad, 1029, 300, kF32Factor);
    }
    run(t, t.type, 1, 0, kF64Factor);
    run(t, t.type, 0, 0, kNone);
    run(t, t.type, 3003, 7, kF32Factor);
    run(t, t.type, 2048, 2048, kNone);
  }
}

// The gradient is rounded to its type on both sides. The CPU's master is its parameter.
Tensor GradientOf(Operands& a, int64_t n, DType type) {
  return a.Values(
      {n}, [](int64_t i) { return std::sin(static_cast<double>(i) * 1.7); }, type);
}
Tensor FactorOf(Operands& a, Factor kind) {
  if (kind == kNone) return Tensor();
  return a.Values(
      {1}, [](int64_t) { return 0.375; }, kind == kF64Factor ? DType::kF64 : DType::kF32);
}

TEST_F(GpuOptimizers, SgdStep) {
  for (const double momentum : {0.0, 0.9}) {
    ForCases([=](TypeCase t, DType grad, int64_t n, int64_t period, Factor factor) {
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        return ops::SgdStep{.param = a.InOut(a.Normal({n})),
                            .grad = GradientOf(a, n, grad),
                            .momentum = momentum > 0 ? a.InOut(a.WideNormal({n})) : Tensor(),
                            .lr = 0.05,
                            .momentum_factor = momentum,
                            .weight_decay = 0.1,
                            .nesterov = period > 0 && momentum > 0,
                            .factor = FactorOf(a, factor),
                            .undecayed = Every(n, period)};
      });
    });
  }
}

TEST_F(GpuOptimizers, AdamStep) {
  for (const bool decoupled : {true, false}) {
    ForCases([=](TypeCase t, DType grad, int64_t n, int64_t period, Factor factor) {
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        return ops::AdamStep{.param = a.InOut(a.Normal({n})),
                             .grad = GradientOf(a, n, grad),
                             .m = a.InOut(a.WideNormal({n})),
                             .v = a.InOut(a.WideUniform({n}, 0.1, 2)),
                             .lr = 0.05,
                             .beta2 = 0.95,
                             .weight_decay = 0.1,
                             .decoupled = decoupled,
                             .step = 3,
                             .factor = FactorOf(a, factor),
                             .undecayed = Every(n, period)};
      });
    });
  }
}

TEST_F(GpuOptimizers, ClipFactor) {
  for (const DType type : {DType::kF64, DType::kF32}) {
    for (const double max_norm : {0.5, 100.0, std::numeric_limits<double>::infinity()}) {
      for (const double squared : {0.0, 2.25, std::nan("")}) {
        ExpectLikeCpu(type, type == DType::kF64 ? 1e-12 : 1e-6, [=](Operands& a) -> ops::Op {
          return ops::ClipFactor{.squared_norm = a.Values(
                                     {1}, [=](int64_t) { return squared; }, type),
                                 .out = a.OutOf({1}, type),
                                 .max_norm = max_norm,
                                 .scale = 0.5};
        });
      }
    }
  }
}

// ---- What the CPU has no f64 of: masters and draws. Both devices in the type itself, whose arithmetic is the same on
// both: the updates are exact in f32. ----

struct Devices {
  cuda::GpuSource source{0};
  cuda::PinnedSource host_source{0};
  CachingAllocator allocator{source, 0}, host{host_source, 0, "host memory"};
  CudaDevice gpu{allocator, host, 0, 0};
  Lab lab{1, 0};

  // A copy at `offset` elements after where tensors begin.
  Tensor ToGpu(const Tensor& t, int64_t offset) {
    if (t.empty()) return t;
    Tensor to = gpu.NewTensor({t.numel() + offset}, t.dtype(), Category::kOther).Slice(offset, t.shape());
    gpu.Upload(to, [&t](std::span<std::byte> bytes) {
      if (!bytes.empty()) std::memcpy(bytes.data(), t.raw(), bytes.size());
    });
    return to;
  }
  std::string Bytes(const Tensor& t) {
    std::string bytes(static_cast<size_t>(t.bytes().value()), '\0');
    gpu.Download(t, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  std::string BytesOnCpu(const Tensor& t) {
    return std::string(static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes().value()));
  }
};

// Multiples of 2^-10 up to 2: their sums and differences are exact.
Tensor Grid(Lab& lab, int64_t n, DType type, int64_t seed) {
  Values values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    values[static_cast<size_t>(i)] = static_cast<double>((i * 7919 + seed) % 129 - 64) / 64;
  return lab.Of({n}, type, values);
}

TEST_F(GpuOptimizers, MastersLead) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (const int64_t offset : {0, 1}) {
      Devices d;
      const int64_t n = 1029;
      const Tensor master = Grid(d.lab, n, DType::kF32, 1), param = d.lab.Blank({n}, type),
                   grad = Grid(d.lab, n, DType::kF32, 2), momentum = Grid(d.lab, n, DType::kF32, 3);
      const Tensor gpu_master = d.ToGpu(master, offset), gpu_param = d.ToGpu(param, offset),
                   gpu_grad = d.ToGpu(grad, offset), gpu_momentum = d.ToGpu(momentum, offset);
      const auto step = [](const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& w) {
        return ops::SgdStep{.param = p, .grad = g, .momentum = m, .master = w, .lr = 0x1p-9, .momentum_factor = 0.5};
      };
      d.lab.Run(step(param, grad, momentum, master));
      d.gpu.Launch(d.gpu.compute(), step(gpu_param, gpu_grad, gpu_momentum, gpu_master));
      EXPECT_TRUE(d.Bytes(gpu_master) == d.BytesOnCpu(master)) << Name(type);
      EXPECT_TRUE(d.Bytes(gpu_param) == d.BytesOnCpu(param)) << Name(type);
      EXPECT_TRUE(d.Bytes(gpu_momentum) == d.BytesOnCpu(momentum)) << Name(type);
    }
  }
}

// RoundingKeys that begin anywhere in a counter's four numbers; few ranges, and more than go with a launch.
TEST_F(GpuOptimizers, StochasticRoundingIsTheCpusToTheBit) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (const int64_t offset : {0, 1}) {
      for (const int64_t ranges : {1, 5, 150}) {
        Devices d;
        const int64_t n = 3001;
        auto draws = std::make_shared<std::vector<ops::RoundingKeyRange>>();
        for (int64_t r = 0; r < ranges; ++r)
          draws->push_back({n * r / ranges + r % 4, PhiloxKey{static_cast<uint64_t>(77 + r)}, 1000 + r});
        const Tensor param = Grid(d.lab, n, type, 1), grad = Grid(d.lab, n, DType::kF32, 2);
        const Tensor before = d.lab.Copy(param), gpu_param = d.ToGpu(param, offset), gpu_grad = d.ToGpu(grad, offset);
        for (int64_t step = 1; step < 3; ++step) {
          const auto update = [&](const Tensor& p, const Tensor& g) {
            return ops::SgdStep{.param = p, .grad = g, .lr = 0x1p-9, .rounding_keys = draws, .step = step};
          };
          d.lab.Run(update(param, grad));
          d.gpu.Launch(d.gpu.compute(), update(gpu_param, gpu_grad));
        }
        EXPECT_TRUE(d.Bytes(gpu_param) == d.BytesOnCpu(param)) << Name(type) << " " << ranges << " ranges";
        EXPECT_FALSE(d.BytesOnCpu(before) == d.BytesOnCpu(param));
      }
    }
  }
}

// Whatever piece of a parameter is updated, and by Adam, whose arithmetic may differ from the CPU's in the last bit:
// the draws are those of the place.
TEST_F(GpuOptimizers, StochasticRoundingDoesNotDependOnThePieces) {
  Devices d;
  const int64_t n = 2050;
  const Tensor start = d.lab.Normal({n}, DType::kBF16), grad = d.lab.Normal({n}, DType::kF32),
               zero = d.lab.Of({n}, DType::kF32, Values(n, 0));
  const auto run = [&](const std::vector<int64_t>& cuts) {
    const Tensor param = d.ToGpu(start, 0), g = d.ToGpu(grad, 0), m = d.ToGpu(zero, 0), v = d.ToGpu(zero, 0);
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      const int64_t first = cuts[k], count = cuts[k + 1] - first;
      const auto draws = std::make_shared<const std::vector<ops::RoundingKeyRange>>(
          std::vector<ops::RoundingKeyRange>{{0, PhiloxKey{5}, first + 3}});
      d.gpu.Launch(d.gpu.compute(), ops::AdamStep{.param = param.Slice(first, count),
                                                  .grad = g.Slice(first, count),
                                                  .m = m.Slice(first, count),
                                                  .v = v.Slice(first, count),
                                                  .lr = 0.001,
                                                  .step = 2,
                                                  .rounding_keys = draws});
    }
    return d.Bytes(param);
  };
  const std::string whole = run({0, n});
  EXPECT_TRUE(whole == run({0, 1, 1023, 1026, n}));
}

}  // namespace optimizer_test
}  // namespace twofold
