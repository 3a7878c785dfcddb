// Every kernel of a GPU that is bound by memory against the bandwidth of a copy, those that are bound by arithmetic in
// FLOP/s, and what launching costs the host.
//
// Operands are random, and several sets of them take turns, so that none is found in the L2 cache. A figure is the
// median of batches of launches between two events; bytes and FLOPs are those of the cost rules in core/device/ops/.
// The copy, `copy/1GiB`, is cudaMemcpyAsync within the GPU, of which each byte is read and written; `of_copy` is a
// kernel's share of it.
//
// TWOFOLD_BENCHMARK_TOKENS (32768) is the number of rows where memory is the bound, so many that a kernel takes long
// beside its start and the gap before it, a microsecond or two each; a quarter of it that of products and attention.
// Fewer are for a machine that is slow, or an emulated GPU, where figures mean nothing.
#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "core/memory/allocator.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/streams.h"

namespace twofold {
namespace {

constexpr int kBatches = 15, kMemoryLaunches = 20, kComputeLaunches = 5;

int64_t Tokens() {
  static const int64_t tokens = [] {
    const char* text = std::getenv("TWOFOLD_BENCHMARK_TOKENS");
    const int64_t asked = text == nullptr ? 32768 : std::atoll(text);
    if (asked < 16 || asked % 16 != 0) {
      std::cerr << "TWOFOLD_BENCHMARK_TOKENS must be a multiple of 16 (got \"" << text << "\")\n";
      std::exit(2);
    }
    return asked;
  }();
  return tokens;
}
bool Small() { return Tokens() < 1024; }
int64_t ComputeTokens() { return Small() ? Tokens() : Tokens() / 4; }

struct Gpu {
  Gpu(cuda::AttentionKernels attention, bool graphs)
      : device(allocator, host, 0, 0, {.attention = attention, .graphs = graphs}) {}
  cuda::GpuSource source{0};
  cuda::PinnedSource host_source{0};
  CachingAllocator allocator{source, 0}, host{host_source, 0, "host memory"};
  CudaDevice device;
  cudaStream_t stream = static_cast<cuda::CudaStream&>(device.compute()).raw();
  double l2_bytes = 0;
};
// Of the benchmark that runs.
cuda::AttentionKernels attention_now = cuda::AttentionKernels::kOwn;
bool graphs_now = false;
Gpu& TheGpu() {
  static std::map<std::pair<cuda::AttentionKernels, bool>, Gpu*> gpus;
  Gpu*& gpu = gpus[{attention_now, graphs_now}];
  if (gpu == nullptr) {
    gpu = new Gpu(attention_now, graphs_now);
    int bytes = 0;
    cuda::Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0));
    gpu->l2_bytes = bytes;
  }
  return *gpu;
}

// Makes operands.
class Bench {
 public:
  Tensor New(Shape shape, DType type, double deviation = 1) {
    Gpu& gpu = TheGpu();
    const Tensor out = gpu.device.NewTensor(std::move(shape), type, Category::kOther);
    gpu.device.Launch(gpu.device.compute(),
                      ops::RandomFill{.out = out, .b = deviation, .key = MakeKey(1, static_cast<uint64_t>(++made_))});
    return out;
  }
  // Sums, variances and the like: in [0.5, 1.5).
  Tensor F32(Shape shape) {
    Gpu& gpu = TheGpu();
    const Tensor out = gpu.device.NewTensor(std::move(shape), DType::kF32, Category::kOther);
    const PhiloxKey key = MakeKey(1, static_cast<uint64_t>(++made_));
    gpu.device.Launch(
        gpu.device.compute(),
        ops::RandomFill{.distribution = ops::RandomFill::kUniform, .out = out, .a = 0.5, .b = 1.5, .key = key});
    return out;
  }
  Tensor Bytes(Shape shape) {
    Tensor out = TheGpu().device.NewTensor(std::move(shape), DType::kU8, Category::kOther);
    TheGpu().device.Upload(out, [&](std::span<std::byte> to) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(1 + MakeKey(11, i).value % 255);
    });
    return out;
  }
  Tensor Ids(int64_t n, int64_t limit) {
    Tensor ids = TheGpu().device.NewTensor(Shape{n}, DType::kI32, Category::kOther);
    TheGpu().device.Upload(ids, [&](std::span<std::byte> to) {
      for (int64_t i = 0; i < n; ++i) {
        const auto id = static_cast<int32_t>(MakeKey(7, static_cast<uint64_t>(i)).value % static_cast<uint64_t>(limit));
        std::memcpy(to.data() + i * 4, &id, 4);
      }
    });
    return ids;
  }

 private:
  int made_ = 0;
};

using Make = std::function<ops::Op(Bench&)>;

// Seconds of a launch, in batches of `launches`.
double Median(benchmark::State& state, int launches, const std::function<void(int)>& launch) {
  Gpu& gpu = TheGpu();
  cudaEvent_t start = nullptr, end = nullptr;
  cuda::Check(cudaEventCreate(&start));
  cuda::Check(cudaEventCreate(&end));
  if (Small()) launches = 2;
  for (int i = 0; i < launches; ++i) launch(i);
  std::vector<double> seconds;
  for (auto _ : state) {
    cuda::Check(cudaEventRecord(start, gpu.stream));
    for (int i = 0; i < launches; ++i) launch(i);
    cuda::Check(cudaEventRecord(end, gpu.stream));
    cuda::Check(cudaEventSynchronize(end));
    float ms = 0;
    cuda::Check(cudaEventElapsedTime(&ms, start, end));
    seconds.push_back(static_cast<double>(ms) * 1e-3 / launches);
    state.SetIterationTime(seconds.back());
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

double MedianOf(benchmark::State& state, int launches, const Make& make) {
  Gpu& gpu = TheGpu();
  Bench bench;
  std::vector<ops::Op> sets;
  double bytes = 0;
  do {
    sets.push_back(make(bench));
    bytes += static_cast<double>(ops::CostOf(sets.back()).bytes().value());
  } while (sets.size() < 2 || (bytes < 4 * gpu.l2_bytes && sets.size() < 64 && !Small()));
  return Median(state, launches,
                [&](int i) { gpu.device.Launch(gpu.device.compute(), sets[static_cast<size_t>(i) % sets.size()]); });
}

double copy_rate = 0;  // bytes/s

void Copy(benchmark::State& state) {
  Gpu& gpu = TheGpu();
  const int64_t bytes = Small() ? 1 << 20 : int64_t{1} << 30;
  const Tensor from = gpu.device.NewTensor({bytes}, DType::kU8, Category::kOther),
               to = gpu.device.NewTensor({bytes}, DType::kU8, Category::kOther);
  const double seconds = Median(state, kMemoryLaunches, [&](int) {
    cuda::Check(cudaMemcpyAsync(reinterpret_cast<void*>(to.address()), reinterpret_cast<const void*>(from.address()),
                                static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, gpu.stream));
  });
  copy_rate = 2 * static_cast<double>(bytes) / seconds;
  state.counters["GB/s"] = copy_rate * 1e-9;
}

benchmark::internal::Benchmark* Timed(benchmark::internal::Benchmark* b) {
  return b->UseManualTime()->Iterations(Small() ? 3 : kBatches)->Unit(benchmark::kMicrosecond);
}

// What goes wrong in one is said of it, and leaves the others; but for errors of kernels, which stay.
void Named(const std::string& name, const std::function<void(benchmark::State&)>& measure) {
  Timed(benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    attention_now = cuda::AttentionKernels::kOwn;
    try {
      measure(state);
    } catch (const std::exception& e) {
      state.SkipWithError(e.what());
    }
  }));
}
// Bound by memory.
void Register(const std::string& name, const Make& make) {
  Named("memory/" + name, [=](benchmark::State& state) {
    const double seconds = MedianOf(state, kMemoryLaunches, make);
    Bench bench;
    const double rate = static_cast<double>(ops::CostOf(make(bench)).bytes().value()) / seconds;
    state.counters["GB/s"] = rate * 1e-9;
    if (copy_rate > 0) state.counters["of_copy"] = rate / copy_rate;
  });
}
// Bound by arithmetic.
void RegisterFlops(const std::string& name, const Make& make,
                   cuda::AttentionKernels attention = cuda::AttentionKernels::kOwn) {
  Named("compute/" + name, [=](benchmark::State& state) {
    attention_now = attention;
    const double seconds = MedianOf(state, kComputeLaunches, make);
    Bench bench;
    state.counters["TFLOP/s"] = ops::CostOf(make(bench)).flops.value() * 1e-12 / seconds;
  });
}

// The host's time for a launch: of as many as a stream's queue holds without making the host wait, of so little work
// that the GPU keeps up. (With an emulated GPU and TWOFOLD_EMULATED_DISCARD=1 nothing is done, and what is left is our
// own part of it.) `host_graphs`: of launches that repeat, by CUDA graphs (cuda.graphs).
void RegisterHost(const std::string& name, const Make& make, bool graphs) {
  constexpr int kLaunches = 500;
  Named((graphs ? "host_graphs/" : "host/") + name, [=](benchmark::State& state) {
    graphs_now = graphs;
    Gpu& gpu = TheGpu();
    Bench bench;
    const ops::Op op = make(bench);
    const auto launch_all = [&] {
      for (int i = 0; i < kLaunches; ++i) gpu.device.Launch(gpu.device.compute(), op);
      if (graphs) gpu.device.compute().Record();  // they are launched now
    };
    for (int i = 0; i < 2; ++i) launch_all();  // the second time graphs are made
    std::vector<double> seconds;
    for (auto _ : state) {
      gpu.device.compute().Synchronize();
      const auto start = std::chrono::steady_clock::now();
      launch_all();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kLaunches);
      state.SetIterationTime(seconds.back());
    }
    gpu.device.compute().Synchronize();
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    state.counters["host_us"] = seconds[seconds.size() / 2] * 1e6;
    graphs_now = false;
  });
}
void RegisterHost(const std::string& name, const Make& make) {
  RegisterHost(name, make, false);
  RegisterHost(name, make, true);
}

void RegisterLaunches() {
  const DType t = DType::kBF16;
  const auto rows = [=](Bench& b) { return b.New({64, 64}, t); };
  RegisterHost("add", [=](Bench& b) { return ops::Add{rows(b), rows(b), rows(b)}; });
  RegisterHost("layer_norm_forward", [=](Bench& b) {
    return ops::LayerNormForward{rows(b), b.New({64}, t), b.New({64}, t), rows(b), b.F32({64}), b.F32({64})};
  });
  RegisterHost("column_sum", [=](Bench& b) { return ops::ColumnSum{rows(b), b.F32({64})}; });  // two kernels
  RegisterHost("product", [=](Bench& b) {
    return ops::MatMul{.a = rows(b), .b = rows(b), .out = rows(b), .bias = b.New({64}, t), .transpose_b = true};
  });
  RegisterHost("attention_forward", [=](Bench& b) {
    return ops::AttentionForward{.qkv = b.New({1, 64, 192}, t), .out = b.New({1, 64, 64}, t), .lse = b.F32({1, 1, 64})};
  });
  RegisterHost("adamw", [=](Bench& b) {
    return ops::AdamStep{.param = rows(b),
                         .grad = rows(b),
                         .m = b.F32({64 * 64}),
                         .v = b.F32({64 * 64}),
                         .master = b.F32({64 * 64}),
                         .lr = 1e-4};
  });
}

// ---- Bound by memory: rows of a GPT-2 1.5B (1600) and a Llama 1B (2048) ----

int64_t Hidden() { return Small() ? 64 : 1600; }
int64_t Wide() { return Small() ? 128 : 2048; }
int64_t Vocabulary() { return Small() ? 256 : 50304; }
int64_t LossRows() { return Small() ? 16 : Tokens() / 4; }
int64_t Flat() { return Small() ? 4096 : int64_t{32} << 20; }  // parameters of a unit

void RegisterElementwise(DType t) {
  const std::string suffix = "/" + std::string(DTypeName(t));
  const auto of = [=](Bench& b) { return b.New({Tokens(), 4 * Hidden()}, t); };
  Register("fill" + suffix, [=](Bench& b) { return ops::Fill{of(b), 1}; });
  Register("cast_to_f32" + suffix, [=](Bench& b) { return ops::Cast{of(b), b.F32({Tokens(), 4 * Hidden()})}; });
  Register("affine" + suffix, [=](Bench& b) { return ops::Affine{of(b), of(b), 2, 1}; });
  Register("add" + suffix, [=](Bench& b) { return ops::Add{of(b), of(b), of(b)}; });
  Register("add_relu" + suffix, [=](Bench& b) { return ops::AddRelu{of(b), of(b), of(b)}; });
  Register("add_to" + suffix, [=](Bench& b) { return ops::AddTo{of(b), of(b)}; });
  Register("scale" + suffix, [=](Bench& b) { return ops::Scale{of(b), 1.0}; });
  Register("gelu_forward" + suffix, [=](Bench& b) {
    return ops::ActivationForward{ops::ActivationForward::kGelu, of(b), of(b)};
  });
  Register("gelu_backward" + suffix, [=](Bench& b) {
    return ops::ActivationBackward{ops::ActivationForward::kGelu, of(b), of(b), of(b)};
  });
  Register("dropout" + suffix, [=](Bench& b) { return ops::Dropout{of(b), of(b), 0.1, MakeKey(1, uint64_t{2})}; });
  Register("swiglu_forward" + suffix, [=](Bench& b) {
    return ops::SwiGluForward{b.New({Tokens(), 4 * Wide()}, t), b.New({Tokens(), 2 * Wide()}, t)};
  });
  Register("swiglu_backward" + suffix, [=](Bench& b) {
    return ops::SwiGluBackward{b.New({Tokens(), 4 * Wide()}, t), b.New({Tokens(), 2 * Wide()}, t),
                               b.New({Tokens(), 4 * Wide()}, t)};
  });
}

void RegisterRows(DType t) {
  const std::string suffix = "/" + std::string(DTypeName(t));
  const auto rows = [=](Bench& b, int64_t columns) { return b.New({Tokens(), columns}, t); };
  const auto statistics = [=](Bench& b) { return b.F32({Tokens()}); };
  Register("layer_norm_forward" + suffix, [=](Bench& b) {
    return ops::LayerNormForward{rows(b, Hidden()), b.New({Hidden()}, t), b.New({Hidden()}, t),
                                 rows(b, Hidden()), statistics(b),        statistics(b)};
  });
  Register("layer_norm_backward" + suffix, [=](Bench& b) {
    return ops::LayerNormBackward{rows(b, Hidden()), rows(b, Hidden()), b.New({Hidden()}, t),
                                  statistics(b),     statistics(b),     rows(b, Hidden())};
  });
  Register("layer_norm_forward_of_a_sum" + suffix, [=](Bench& b) {
    return ops::LayerNormForward{.x = rows(b, Hidden()),
                                 .gamma = b.New({Hidden()}, t),
                                 .beta = b.New({Hidden()}, t),
                                 .y = rows(b, Hidden()),
                                 .mean = statistics(b),
                                 .rstd = statistics(b),
                                 .branch = rows(b, Hidden()),
                                 .sum = rows(b, Hidden())};
  });
  Register("layer_norm_backward_plus" + suffix, [=](Bench& b) {
    return ops::LayerNormBackward{.dy = rows(b, Hidden()),
                                  .x = rows(b, Hidden()),
                                  .gamma = b.New({Hidden()}, t),
                                  .mean = statistics(b),
                                  .rstd = statistics(b),
                                  .dx = rows(b, Hidden()),
                                  .past = rows(b, Hidden())};
  });
  Register("layer_norm_weights" + suffix, [=](Bench& b) {
    return ops::LayerNormWeights{rows(b, Hidden()), rows(b, Hidden()), statistics(b),
                                 statistics(b),     b.F32({Hidden()}), b.F32({Hidden()})};
  });
  Register("rms_norm_forward" + suffix, [=](Bench& b) {
    return ops::RmsNormForward{rows(b, Wide()), b.New({Wide()}, t), rows(b, Wide()), statistics(b)};
  });
  Register("rms_norm_backward" + suffix, [=](Bench& b) {
    return ops::RmsNormBackward{rows(b, Wide()), rows(b, Wide()), b.New({Wide()}, t), statistics(b), rows(b, Wide())};
  });
  Register("rms_norm_forward_of_a_sum" + suffix, [=](Bench& b) {
    return ops::RmsNormForward{.x = rows(b, Wide()),
                               .gamma = b.New({Wide()}, t),
                               .y = rows(b, Wide()),
                               .rstd = statistics(b),
                               .branch = rows(b, Wide()),
                               .sum = rows(b, Wide())};
  });
  Register("rms_norm_backward_plus" + suffix, [=](Bench& b) {
    return ops::RmsNormBackward{.dy = rows(b, Wide()),
                                .x = rows(b, Wide()),
                                .gamma = b.New({Wide()}, t),
                                .rstd = statistics(b),
                                .dx = rows(b, Wide()),
                                .past = rows(b, Wide())};
  });
  Register("rms_norm_weights" + suffix, [=](Bench& b) {
    return ops::RmsNormWeights{rows(b, Wide()), rows(b, Wide()), statistics(b), b.F32({Wide()})};
  });
  Register("column_sum" + suffix, [=](Bench& b) {
    return ops::ColumnSum{rows(b, 4 * Hidden()), b.F32({4 * Hidden()})};
  });
  Register("add_bias" + suffix, [=](Bench& b) {
    return ops::AddBias{rows(b, Hidden()), b.New({Hidden()}, t), rows(b, Hidden())};
  });
  Register("embedding_forward" + suffix, [=](Bench& b) {
    return ops::EmbeddingForward{b.Ids(Tokens(), Vocabulary()), b.New({Vocabulary(), Hidden()}, t), rows(b, Hidden())};
  });
  Register("embedding_backward" + suffix, [=](Bench& b) {
    return ops::EmbeddingBackward{b.Ids(Tokens(), Vocabulary()), rows(b, Hidden()), b.New({Vocabulary(), Hidden()}, t),
                                  true};
  });
  const int64_t sequence = Small() ? 16 : 1024;
  const auto sequences = [=](Bench& b, int64_t columns) { return b.New({Tokens() / sequence, sequence, columns}, t); };
  Register("position_forward" + suffix, [=](Bench& b) {
    return ops::PositionForward{sequences(b, Hidden()), b.New({sequence, Hidden()}, t), sequences(b, Hidden())};
  });
  Register("position_backward" + suffix, [=](Bench& b) {
    return ops::PositionBackward{sequences(b, Hidden()), b.F32({sequence, Hidden()})};
  });
  Register("rotary" + suffix, [=](Bench& b) {
    const int64_t heads = Wide() / 64;
    return ops::Rotary{.x = sequences(b, 3 * Wide()),
                       .table = b.F32({sequence, 64}),
                       .y = sequences(b, 3 * Wide()),
                       .heads = 2 * heads};
  });
  Register("copy_columns" + suffix, [=](Bench& b) {
    return ops::CopyColumns{
        .in = rows(b, 3 * Hidden()), .out = rows(b, Hidden()), .in_column = Hidden(), .columns = Hidden()};
  });
  Register("cross_entropy_forward" + suffix, [=](Bench& b) {
    return ops::CrossEntropyForward{b.New({LossRows(), Vocabulary()}, t), b.Ids(LossRows(), Vocabulary()),
                                    b.F32({LossRows()}), b.F32({LossRows()})};
  });
  Register("cross_entropy_backward" + suffix, [=](Bench& b) {
    const Tensor logits = b.New({LossRows(), Vocabulary()}, t);
    return ops::CrossEntropyBackward{logits, b.Ids(LossRows(), Vocabulary()), b.F32({LossRows()}), logits};
  });
}

void RegisterFlat() {
  Register("adamw/bf16_with_master", [](Bench& b) {
    return ops::AdamStep{.param = b.New({Flat()}, DType::kBF16),
                         .grad = b.New({Flat()}, DType::kBF16),
                         .m = b.F32({Flat()}),
                         .v = b.F32({Flat()}),
                         .master = b.F32({Flat()}),
                         .lr = 1e-4,
                         .weight_decay = 0.1};
  });
  Register("adamw/f32", [](Bench& b) {
    return ops::AdamStep{.param = b.F32({Flat()}),
                         .grad = b.F32({Flat()}),
                         .m = b.F32({Flat()}),
                         .v = b.F32({Flat()}),
                         .lr = 1e-4,
                         .weight_decay = 0.1};
  });
  const auto blocks = [](int64_t of) { return (Flat() + of - 1) / of; };
  Register("quantise/f32", [=](Bench& b) {
    return ops::Quantise{
        .in = b.F32({Flat()}), .codes = b.Bytes({Flat()}), .scales = b.F32({blocks(256)}), .residual = b.F32({Flat()})};
  });
  Register("dequantise/f32", [=](Bench& b) {
    return ops::Dequantise{b.Bytes({Flat()}), b.F32({blocks(256)}), b.F32({Flat()})};
  });
  Register("sign_pack/f32", [=](Bench& b) {
    return ops::SignPack{b.F32({Flat()}), b.Bytes({Flat() / 8}), b.F32({blocks(ops::kSignBlock)}), b.F32({Flat()})};
  });
  Register("sign_unpack/f32", [=](Bench& b) {
    return ops::SignUnpack{b.Bytes({Flat() / 8}), b.F32({blocks(ops::kSignBlock)}), b.F32({Flat()})};
  });
  Register("squared_norm/f32", [](Bench& b) { return ops::SquaredNorm{b.F32({Flat()}), b.F32({1})}; });
  Register("sum/f32", [](Bench& b) { return ops::Sum{b.F32({Flat()}), b.F32({1})}; });
}

// ---- Bound by arithmetic ----

void RegisterProducts() {
  struct Layer {
    const char* model;
    int64_t hidden, ffn, qkv, vocabulary;
  };
  std::vector<Layer> layers = {{"gpt2_124m", 768, 3072, 2304, 50304},
                               {"gpt2_1.5b", 1600, 6400, 4800, 50304},
                               {"llama_1b", 2048, 16384, 3072, 128256}};
  if (Small()) layers = {{"tiny", 64, 256, 192, 256}};
  const DType t = DType::kBF16;
  for (const Layer& l : layers) {
    const int64_t rows = ComputeTokens();
    const auto three = [=](const std::string& name, int64_t n, int64_t k) {
      const std::string prefix = "product/" + std::string(l.model) + "/" + name;
      // y = x w^T, dx = dy w, dw = dy^T x
      RegisterFlops(prefix + "/forward", [=](Bench& b) {
        return ops::MatMul{
            .a = b.New({rows, k}, t), .b = b.New({n, k}, t), .out = b.New({rows, n}, t), .transpose_b = true};
      });
      RegisterFlops(prefix + "/input", [=](Bench& b) {
        return ops::MatMul{.a = b.New({rows, n}, t), .b = b.New({n, k}, t), .out = b.New({rows, k}, t)};
      });
      RegisterFlops(prefix + "/weight", [=](Bench& b) {
        return ops::MatMul{
            .a = b.New({rows, n}, t), .b = b.New({rows, k}, t), .out = b.New({n, k}, t), .transpose_a = true};
      });
    };
    three("qkv", l.qkv, l.hidden);
    three("out", l.hidden, l.hidden);
    three("up", l.ffn, l.hidden);
    three("head", l.vocabulary, l.hidden);
    if (l.ffn != 4 * l.hidden) continue;
    const std::string prefix = "product/" + std::string(l.model);
    RegisterFlops(prefix + "/up/forward_gelu", [=](Bench& b) {
      return ops::MatMul{.a = b.New({rows, l.hidden}, t),
                         .b = b.New({l.ffn, l.hidden}, t),
                         .out = b.New({rows, l.ffn}, t),
                         .bias = b.New({l.ffn}, t),
                         .transpose_b = true,
                         .epilogue = ops::MatMul::kGelu,
                         .aux = b.New({rows, l.ffn}, t)};
    });
    RegisterFlops(prefix + "/down/input_gelu_slope", [=](Bench& b) {
      return ops::MatMul{.a = b.New({rows, l.hidden}, t),
                         .b = b.New({l.hidden, l.ffn}, t),
                         .out = b.New({rows, l.ffn}, t),
                         .epilogue = ops::MatMul::kGeluSlope,
                         .aux = b.New({rows, l.ffn}, t)};
    });
  }
}

void RegisterAttention() {
  struct Heads {
    const char* name;
    int64_t sequence, heads, kv_heads, head_dim;
  };
  std::vector<Heads> all = {
      {"gpt2_124m", 1024, 12, 12, 64}, {"gpt2_1.5b", 1024, 25, 25, 64}, {"llama_1b", 2048, 32, 8, 64}};
  if (Small()) all = {{"tiny", 16, 2, 1, 16}};
  const DType t = DType::kBF16;
  std::vector<std::pair<std::string, cuda::AttentionKernels>> whose = {{"", cuda::AttentionKernels::kOwn}};
  if (WhyNoCudnnAttention().empty()) whose.emplace_back("/cudnn", cuda::AttentionKernels::kCudnn);
  if (!Small() && WhyNoHopperAttention(0).empty()) whose.emplace_back("/hopper", cuda::AttentionKernels::kHopper);
  for (const auto& [name, attention] : whose) {
    for (const Heads& h : all) {
      const int64_t samples = std::max<int64_t>(ComputeTokens() / h.sequence, 1),
                    width = (h.heads + 2 * h.kv_heads) * h.head_dim, out = h.heads * h.head_dim;
      RegisterFlops(
          StrCat("attention_forward/", h.name, name),
          [=](Bench& b) {
            return ops::AttentionForward{b.New({samples, h.sequence, width}, t), b.New({samples, h.sequence, out}, t),
                                         b.F32({samples, h.heads, h.sequence}), h.heads, h.kv_heads};
          },
          attention);
      if (attention == cuda::AttentionKernels::kHopper) continue;  // whose backward pass is our own
      if (attention == cuda::AttentionKernels::kCudnn && cuda::CapabilityOf(0).major < 9)
        continue;  // which wants more workspace there
      RegisterFlops(
          StrCat("attention_backward/", h.name, name),
          [=](Bench& b) {
            return ops::AttentionBackward{b.New({samples, h.sequence, width}, t),
                                          b.New({samples, h.sequence, out}, t),
                                          b.F32({samples, h.heads, h.sequence}),
                                          b.New({samples, h.sequence, out}, t),
                                          b.New({samples, h.sequence, width}, t),
                                          h.heads,
                                          h.kv_heads};
          },
          attention);
    }
  }
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  using namespace twofold;
  if (const std::string why = WhyNoGpu(); !why.empty()) {
    std::cout << "gpu_kernels_benchmark: skipped without a GPU: " << why << "\n";
    return 0;
  }
  Timed(benchmark::RegisterBenchmark("copy/1GiB", Copy));
  for (const DType t : {DType::kBF16, DType::kF32}) {
    RegisterElementwise(t);
    RegisterRows(t);
  }
  RegisterFlat();
  RegisterProducts();
  RegisterAttention();
  RegisterLaunches();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
