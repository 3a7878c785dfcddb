// CPU kernels of gradient codecs on a bucket of 16 MiB, one thread. of_copy: their rate as a share of the rate at which
// the same bucket is copied, both in bytes of gradients per second; of_products (PowerSGD): the share of the time that
// its products take alone. Each share is a median of pairs that run one after the other, so that other work on the
// machine slows down both.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/source.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold {
namespace {

constexpr int64_t kNumel = 4 << 20;  // F32

struct Bench {
  Tensor New(int64_t numel, DType type) { return device.NewTensor(Shape{numel}, type, Category::kOther); }
  Tensor Random(Shape shape) {
    const Tensor out = device.NewTensor(std::move(shape), DType::kF32, Category::kOther);
    device.Launch(device.compute(), ops::RandomFill{.out = out, .key = MakeKey(1, 1)});
    return out;
  }
  double Seconds(const std::vector<ops::Op>& all) {
    const auto begin = std::chrono::steady_clock::now();
    for (const ops::Op& op : all) device.Launch(device.compute(), op);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  MallocSource source;
  CachingAllocator allocator{source, 0};
  CpuDevice device{allocator, 1};
};

// `what` against `base`.
void Measure(benchmark::State& state, Bench& bench, const char* share, const std::vector<ops::Op>& what,
             const std::vector<ops::Op>& base) {
  std::vector<double> shares;
  bench.Seconds(base), bench.Seconds(what);  // touch all memory
  for (auto _ : state) {
    const double base_seconds = bench.Seconds(base), seconds = bench.Seconds(what);
    shares.push_back(base_seconds / seconds);
    state.SetIterationTime(seconds);
  }
  std::nth_element(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2), shares.end());
  state.counters[share] = shares[shares.size() / 2];
  state.counters["GB/s"] =
      benchmark::Counter(4e-9 * static_cast<double>(kNumel * state.iterations()), benchmark::Counter::kIsRate);
}

using Make = std::function<std::vector<ops::Op>(Bench&, const Tensor& in, const Tensor& residual)>;

void Register(const char* name, Make make) {
  benchmark::RegisterBenchmark(name, [make = std::move(make)](benchmark::State& state) {
    Bench bench;
    const Tensor in = bench.Random(Shape{kNumel}), copy = bench.New(kNumel, DType::kF32);
    Measure(state, bench, "of_copy", make(bench, in, copy), {ops::Cast{.in = in, .out = copy}});
  })->UseManualTime();
}

ops::Quantise Quantised(Bench& b, const Tensor& in, const Tensor& residual, int bits, bool stochastic) {
  return ops::Quantise{.in = in,
                       .codes = b.New(ops::CodeBytes(kNumel, bits), DType::kU8),
                       .scales = b.New(kNumel / 256, DType::kF32),
                       .residual = residual,
                       .stochastic = stochastic,
                       .key = MakeKey(1, 2),
                       .bits = bits};
}

void RegisterAll() {
  for (const int bits : {8, 4}) {
    const std::string name = "quantize/" + std::to_string(bits);
    Register(name.c_str(), [bits](Bench& b, const Tensor& in, const Tensor&) {
      return std::vector<ops::Op>{Quantised(b, in, {}, bits, false)};
    });
    Register((name + "/residual").c_str(), [bits](Bench& b, const Tensor& in, const Tensor& residual) {
      return std::vector<ops::Op>{Quantised(b, in, residual, bits, false)};
    });
    Register((name + "/stochastic").c_str(), [bits](Bench& b, const Tensor& in, const Tensor&) {
      return std::vector<ops::Op>{Quantised(b, in, {}, bits, true)};
    });
    Register((name + "/decode").c_str(), [bits](Bench& b, const Tensor& in, const Tensor& out) {
      const ops::Quantise q = Quantised(b, in, {}, bits, false);
      b.device.Launch(b.device.compute(), q);
      return std::vector<ops::Op>{ops::Dequantise{.codes = q.codes, .scales = q.scales, .out = out, .bits = bits}};
    });
  }
  const auto signs = [](Bench& b, const Tensor& in, const Tensor& residual) {
    return ops::SignPack{.in = in,
                         .signs = b.New(kNumel / 8, DType::kU8),
                         .scales = b.New(kNumel / ops::kSignBlock, DType::kF32),
                         .residual = residual};
  };
  Register("one_bit",
           [signs](Bench& b, const Tensor& in, const Tensor&) { return std::vector<ops::Op>{signs(b, in, {})}; });
  Register("one_bit/residual", [signs](Bench& b, const Tensor& in, const Tensor& residual) {
    return std::vector<ops::Op>{signs(b, in, residual)};
  });
  Register("one_bit/decode", [signs](Bench& b, const Tensor& in, const Tensor& out) {
    const ops::SignPack pack = signs(b, in, {});
    b.device.Launch(b.device.compute(), pack);
    return std::vector<ops::Op>{ops::SignUnpack{.signs = pack.signs, .scales = pack.scales, .out = out}};
  });
  const auto top_k = [](Bench& b, const Tensor& in, const Tensor& residual) {
    constexpr int64_t kChosen = kNumel / 100;
    return ops::TopK{
        .in = in, .values = b.New(kChosen, DType::kF32), .indices = b.New(kChosen, DType::kI32), .residual = residual};
  };
  Register("top_k",
           [top_k](Bench& b, const Tensor& in, const Tensor&) { return std::vector<ops::Op>{top_k(b, in, {})}; });
  Register("top_k/residual", [top_k](Bench& b, const Tensor& in, const Tensor& residual) {
    return std::vector<ops::Op>{top_k(b, in, residual)};
  });
  // What strategies/compression/power_sgd.cc does to one matrix, messages aside.
  benchmark::RegisterBenchmark("power_sgd/4", [](benchmark::State& state) {
    constexpr int64_t kSide = 2048, kRank = 4;
    Bench b;
    const Tensor in = b.Random(Shape{kSide, kSide}), mean = b.Random(Shape{kSide, kSide}),
                 p = b.Random(Shape{kSide, kRank}), q = b.Random(Shape{kSide, kRank});
    const ops::MatMul to_p{.a = in, .b = q, .out = p}, to_q{.a = in, .b = p, .out = q, .transpose_a = true},
        decode{.a = p, .b = q, .out = mean, .transpose_b = true},
        left{.a = p, .b = q, .out = in, .transpose_b = true, .accumulate = true};
    Measure(state, b, "of_products",
            {to_p, ops::Orthogonalise{.x = p}, to_q, decode, ops::Scale{.x = p, .factor = -1}, left},
            {to_p, to_q, decode, left});
  })->UseManualTime();
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  twofold::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
