// The main CPU kernels at the sizes of small GPTs: 512 rows, hidden sizes 256 and 768; convolutions at those of a
// residual network: 8 images of 16 x 16, 16 to 256 channels. Rates are those of the cost rules in core/device/ops/:
// GFLOP/s and GB/s of operands, which lie in cache or in memory as they fit.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/source.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/reduce.h"

namespace twofold {
namespace {

class Bench {
 public:
  CpuDevice device{allocator(), 1};
  Tensor New(Shape shape, DType t = DType::kF32) {
    const Tensor out = device.NewTensor(std::move(shape), t, Category::kOther);
    device.Launch(device.compute(), ops::RandomFill{.out = out, .key = MakeKey(1, static_cast<uint64_t>(++made_))});
    return out;
  }
  Tensor Ids(int64_t n, int64_t limit) {
    const Tensor ids = device.NewTensor(Shape{n}, DType::kI32, Category::kOther);
    for (int64_t i = 0; i < n; ++i) ids.data<int32_t>()[i] = static_cast<int32_t>(i * 7919 % limit);
    return ids;
  }

 private:
  CachingAllocator& allocator() { return allocator_; }
  MallocSource source_;
  CachingAllocator allocator_{source_, 0};
  int made_ = 0;
};

void Measure(benchmark::State& state, Bench& bench, const ops::Op& op) {
  for (auto _ : state) bench.device.Launch(bench.device.compute(), op);
  const ops::Cost cost = ops::CostOf(op);
  const double runs = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(cost.flops.value() * 1e-9 * runs, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(cost.bytes().value()) * 1e-9 * runs, benchmark::Counter::kIsRate);
}

constexpr int64_t kRows = 512;

void Register(const std::string& name, std::function<ops::Op(Bench&, int64_t hidden, DType t)> make,
              const std::vector<int64_t>& sizes = {256, 768}) {
  for (DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int64_t hidden : sizes) {
      const std::string full = name + "/" + std::to_string(hidden) + "/" + std::string(DTypeName(t));
      benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
        Bench bench;
        Measure(state, bench, make(bench, hidden, t));
      });
    }
  }
}

void RegisterProducts() {
  Register("matmul_nt", [](Bench& b, int64_t c, DType t) {
    return ops::MatMul{
        b.New({kRows, c}, t), b.New({4 * c, c}, t), b.New({kRows, 4 * c}, t), b.New({4 * c}, t), false, true};
  });
  Register("matmul_nn", [](Bench& b, int64_t c, DType t) {
    return ops::MatMul{b.New({kRows, 4 * c}, t), b.New({4 * c, c}, t), b.New({kRows, c}, t), Tensor()};
  });
  Register("matmul_tn", [](Bench& b, int64_t c, DType t) {
    return ops::MatMul{b.New({kRows, 4 * c}, t), b.New({kRows, c}, t), b.New({4 * c, c}), Tensor(), true};
  });
  Register("attention_forward", [](Bench& b, int64_t c, DType t) {
    return ops::AttentionForward{b.New({2, 256, 3 * c}, t), b.New({2, 256, c}, t), b.New({2, c / 64, 256}), c / 64,
                                 c / 64};
  });
  Register("attention_backward", [](Bench& b, int64_t c, DType t) {
    return ops::AttentionBackward{b.New({2, 256, 3 * c}, t),
                                  b.New({2, 256, c}, t),
                                  b.New({2, c / 64, 256}),
                                  b.New({2, 256, c}, t),
                                  b.New({2, 256, 3 * c}, t),
                                  c / 64,
                                  c / 64};
  });
}

void RegisterConvolutions() {
  const auto images = [](Bench& b, int64_t c, DType t) { return b.New({8, 16, 16, c}, t); };
  const std::vector<int64_t> channels = {16, 64, 256};
  Register(
      "conv3x3_forward",
      [=](Bench& b, int64_t c, DType t) {
        return ops::ConvolutionForward{
            .x = images(b, c, t), .w = b.New({3, 3, c, c}, t), .y = images(b, c, t), .padding = 1};
      },
      channels);
  Register(
      "conv3x3_backward",
      [=](Bench& b, int64_t c, DType t) {
        return ops::ConvolutionBackward{
            .dy = images(b, c, t), .w = b.New({3, 3, c, c}, t), .dx = images(b, c, t), .padding = 1};
      },
      channels);
  Register(
      "conv3x3_weights",
      [=](Bench& b, int64_t c, DType t) {
        return ops::ConvolutionWeights{
            .dy = images(b, c, t), .x = images(b, c, t), .dw = b.New({3, 3, c, c}), .padding = 1};
      },
      channels);
}

void RegisterElementwise() {
  Register("gelu_forward", [](Bench& b, int64_t c, DType t) {
    return ops::ActivationForward{ops::ActivationForward::kGelu, b.New({kRows, 4 * c}, t), b.New({kRows, 4 * c}, t)};
  });
  Register("gelu_backward", [](Bench& b, int64_t c, DType t) {
    return ops::ActivationBackward{ops::ActivationForward::kGelu, b.New({kRows, 4 * c}, t), b.New({kRows, 4 * c}, t),
                                   b.New({kRows, 4 * c}, t)};
  });
  Register("add", [](Bench& b, int64_t c, DType t) {
    return ops::Add{b.New({kRows, c}, t), b.New({kRows, c}, t), b.New({kRows, c}, t)};
  });
  Register("add_to", [](Bench& b, int64_t c, DType t) { return ops::AddTo{b.New({kRows, c}, t), b.New({kRows, c})}; });
  Register("dropout", [](Bench& b, int64_t c, DType t) {
    return ops::Dropout{b.New({kRows, c}, t), b.New({kRows, c}, t), 0.1, MakeKey(1, uint64_t{2})};
  });
  Register("random_normal", [](Bench& b, int64_t c, DType t) { return ops::RandomFill{.out = b.New({kRows, c}, t)}; });
}

void RegisterRows() {
  Register("layer_norm_forward", [](Bench& b, int64_t c, DType t) {
    return ops::LayerNormForward{b.New({kRows, c}, t), b.New({c}, t),  b.New({c}, t),
                                 b.New({kRows, c}, t), b.New({kRows}), b.New({kRows})};
  });
  Register("layer_norm_backward", [](Bench& b, int64_t c, DType t) {
    return ops::LayerNormBackward{b.New({kRows, c}, t), b.New({kRows, c}, t), b.New({c}, t),
                                  b.New({kRows}),       b.New({kRows}),       b.New({kRows, c}, t)};
  });
  Register("layer_norm_weights", [](Bench& b, int64_t c, DType t) {
    return ops::LayerNormWeights{b.New({kRows, c}, t), b.New({kRows, c}, t), b.New({kRows}),
                                 b.New({kRows}),       b.New({c}),           b.New({c})};
  });
  Register("column_sum", [](Bench& b, int64_t c, DType t) {
    return ops::ColumnSum{b.New({kRows, 4 * c}, t), b.New({4 * c})};
  });
  Register("embedding_forward", [](Bench& b, int64_t c, DType t) {
    return ops::EmbeddingForward{b.Ids(kRows, 1000), b.New({1000, c}, t), b.New({kRows, c}, t)};
  });
  Register("embedding_backward", [](Bench& b, int64_t c, DType t) {
    return ops::EmbeddingBackward{b.Ids(kRows, 1000), b.New({kRows, c}, t), b.New({1000, c}, t), true};
  });
  Register("cross_entropy_forward", [](Bench& b, int64_t, DType t) {
    return ops::CrossEntropyForward{b.New({kRows, 8192}, t), b.Ids(kRows, 8192), b.New({kRows}), b.New({kRows})};
  });
  Register("cross_entropy_backward", [](Bench& b, int64_t, DType t) {
    return ops::CrossEntropyBackward{b.New({kRows, 8192}, t), b.Ids(kRows, 8192), b.New({kRows}),
                                     b.New({kRows, 8192}, t)};
  });
}

void RegisterOptimizer() {
  Register("adam_step", [](Bench& b, int64_t c, DType t) {
    const Shape n{4 * c * c};
    const Tensor v = b.New(n);
    b.device.Launch(b.device.compute(), ops::Fill{v, 1});
    return ops::AdamStep{b.New(n, t), b.New(n, t), b.New(n), v, t == DType::kF32 ? Tensor() : b.New(n), 1e-6};
  });
  Register("sgd_step", [](Bench& b, int64_t c, DType t) {
    const Shape n{4 * c * c};
    return ops::SgdStep{b.New(n, t), b.New(n, t), b.New(n), t == DType::kF32 ? Tensor() : b.New(n), 1e-6, 0.9};
  });
  Register("squared_norm", [](Bench& b, int64_t c, DType t) {
    return ops::SquaredNorm{b.New({4 * c * c}, t), b.New({1})};
  });
}

// Four ranks' arrays into their sum, in place. GB/s counts every array read and written once.
void RegisterReduce() {
  for (DType t : {DType::kF32, DType::kBF16}) {
    for (int64_t n : {int64_t{1} << 14, int64_t{1} << 22}) {
      const std::string name = "reduce_sum_of_4/" + std::to_string(n) + "/" + std::string(DTypeName(t));
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        Bench bench;
        std::vector<Tensor> ranks;
        for (int i = 0; i < 4; ++i) ranks.push_back(bench.New({n}, t));
        std::vector<void*> out;
        for (const Tensor& r : ranks) out.push_back(r.raw());
        const std::vector<const void*> in(out.begin(), out.end());
        for (auto _ : state) cpu::ReduceSlices(in, out, t, ReduceOp::kAvg, 0, n);
        state.counters["GB/s"] =
            benchmark::Counter(8e-9 * static_cast<double>(n * ElementSize(t)) * static_cast<double>(state.iterations()),
                               benchmark::Counter::kIsRate);
      });
    }
  }
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  twofold::RegisterProducts();
  twofold::RegisterConvolutions();
  twofold::RegisterElementwise();
  twofold::RegisterRows();
  twofold::RegisterOptimizer();
  twofold::RegisterReduce();
  benchmark::RunSpecifiedBenchmarks();
}
