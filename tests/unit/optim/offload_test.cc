// State that lives in the host's memory and visits the device: the same bits, in other memory.
#include <cmath>
#include <utility>

#include "core/optim/clip.h"
#include "core/optim/optimizer.h"
#include "core/optim/staging.h"
#include "gtest/gtest.h"
#include "kernels/cpu/convert.h"
#include "tests/unit/nn/testing.h"

namespace twofold::optim {
namespace offload_test {

using twofold::test::Cpu;

constexpr int kSteps = 3;

Tensor RandomOf(Cpu& cpu, int64_t n, DType dtype, uint64_t salt) {
  Tensor t = cpu.New(Shape{n}, dtype);
  if (n > 0) cpu.ctx.Launch(ops::Cast{.in = twofold::test::Random(cpu, Shape{n}, salt), .out = t});
  return t;
}

std::vector<double> Values(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.numel()));
  cpu::Convert(t.raw(), t.dtype(), values.data(), DType::kF64, t.numel());
  return values;
}

Tensor ToHost(Cpu& cpu, const Tensor& t) {
  Tensor host = cpu.device.NewHostTensor(t.shape(), t.dtype(), Category::kParameters);
  TransferStream(cpu.device, "device to host").Copy(t, host).Wait();
  return host;
}

struct Case {
  bool adam;
  DType dtype, gradient;
  int64_t chunk;
  bool all;  // parameters and gradients, too
};

// Parameters after kSteps updates, then each slice's states.
std::vector<std::vector<double>> Train(const Case& c, bool offload) {
  Cpu cpu;
  std::vector<Slice> slices;
  const nn::Parameter w("w", Shape{1000}, c.dtype, {}), b("b", Shape{500}, c.dtype, {}, nn::Role::kBias);
  for (const int64_t n : {1000, 0, 1, 300, 129}) {
    const auto salt = static_cast<uint64_t>(n);
    Slice slice{.name = "s",
                .data = RandomOf(cpu, n, c.dtype, salt),
                .gradient = RandomOf(cpu, n, c.gradient, salt + 1),
                .parts = {{n == 300 ? &b : &w, 0, 0, n}}};
    if (n == 1000) slice.parts = {{&w, 0, 0, 400}, {&b, 0, 400, 500}, {&w, 400, 900, 90}};
    if (offload && c.all) slice.data = ToHost(cpu, slice.data), slice.gradient = ToHost(cpu, slice.gradient);
    slices.push_back(std::move(slice));
  }
  const Offload where{.state = offload, .chunk = c.chunk};
  const auto optimizer = c.adam ? MakeAdam({.weight_decay = 0.1}, where)
                                : MakeSgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}, where);
  optimizer->Attach(cpu.ctx, slices);
  std::vector<Tensor> gradients;
  for (const Slice& s : slices) gradients.push_back(s.gradient);
  for (int i = 0; i < kSteps; ++i) {
    const Tensor factor = ClipFactor(cpu.ctx, SquaredNorm(cpu.ctx, gradients), 0.5);
    optimizer->Step(cpu.ctx, 0.1, factor);
  }
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < slices.size(); ++i) {
    values.push_back(Values(slices[i].data));
    for (const State& s : optimizer->StateOf(i)) {
      EXPECT_EQ(cpu.device.IsOnHost(s.tensor), offload);
      EXPECT_EQ(s.tensor.shape(), slices[i].data.shape());
      values.push_back(Values(s.tensor));
    }
  }
  return values;
}

TEST(Offload, ChangesNoBit) {
  for (const bool adam : {false, true})
    for (const bool all : {false, true})
      for (const auto& [dtype, gradient] : {std::pair(DType::kF32, DType::kF32), std::pair(DType::kBF16, DType::kF32),
                                            std::pair(DType::kF64, DType::kF64)})
        for (const int64_t chunk : {int64_t{100}, int64_t{128}, int64_t{333}, int64_t{1} << 20}) {
          const Case c{adam, dtype, gradient, chunk, all};
          EXPECT_EQ(Train(c, true), Train(c, false)) << adam << all << static_cast<int>(dtype) << " " << chunk;
        }
}

// Nothing of the state is on the device between updates; and during one, no more than the chunks in flight.
TEST(Offload, LeavesTheDevice) {
  Cpu cpu;
  constexpr int64_t kElements = 100'000, kChunk = 1024;
  const std::vector<Slice> slices = {
      {"s", RandomOf(cpu, kElements, DType::kBF16, 1), RandomOf(cpu, kElements, DType::kF32, 2)}};
  const MemoryLedger& ledger = cpu.device.allocator().ledger();
  const Bytes before = ledger.stats().live;
  {
    const auto optimizer = MakeAdam({}, {.state = true, .chunk = kChunk});
    optimizer->Attach(cpu.ctx, slices);
    EXPECT_EQ(ledger.stats().live, before);
    optimizer->Step(cpu.ctx, 0.1);
    EXPECT_EQ(ledger.stats().live, before);
    const auto state = static_cast<size_t>(Category::kOptimizerState);
    EXPECT_EQ(ledger.stats().peak_by_category[state], Bytes(3 * ChunkStaging::kInFlight * kChunk * 4));
    EXPECT_GE(cpu.device.host_allocator().ledger().stats().live, Bytes(3 * 4 * kElements));
  }
  EXPECT_EQ(cpu.device.host_allocator().ledger().stats().live, Bytes(0));
}

// Every chunk comes once, in order, with what its home holds, and goes back; what only comes leaves its home as it is.
TEST(ChunkStaging, ChunksComeAndGo) {
  Cpu cpu;
  const Tensor home = ToHost(cpu, RandomOf(cpu, 1000, DType::kF32, 3)),
               read = ToHost(cpu, RandomOf(cpu, 1000, DType::kF32, 4));
  const Tensor here = RandomOf(cpu, 1000, DType::kF32, 5);
  const std::vector<double> homes = Values(home), reads = Values(read);
  std::vector<Chunk> chunks;
  for (int64_t first = 0; first < 1000; first += 100) {
    chunks.push_back({{.home = home.Slice(first, 100), .goes_back = true},
                      {.home = read.Slice(first, 100)},
                      {.home = here.Slice(first, 100)}});
  }
  size_t next = 0;
  ChunkStaging(cpu.device, Category::kOther).Run(chunks, [&](size_t i, std::span<const Tensor> visitors) {
    EXPECT_EQ(i, next++);
    EXPECT_EQ(visitors[2].address(), here.Slice(static_cast<int64_t>(i) * 100, 100).address()) << "it is on the device";
    for (const Tensor& t : visitors) EXPECT_FALSE(cpu.device.IsOnHost(t));
    cpu.ctx.Launch(ops::AddTo{.in = visitors[1], .out = visitors[0]});
    cpu.ctx.Launch(ops::Fill{.out = visitors[1], .value = -1});
  });
  EXPECT_EQ(next, chunks.size());
  EXPECT_EQ(Values(read), reads);
  const std::vector<double> sums = Values(home);
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i], static_cast<double>(static_cast<float>(homes[i]) + static_cast<float>(reads[i])));
}

class CountsStreams : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  std::unique_ptr<Stream> NewStream(std::string_view name) override {
    ++made;
    return CpuDevice::NewStream(name);
  }
  int made = 0;
};

// A stream of a GPU takes as long to make as many launches: what visits nobody makes none, and what only comes one.
TEST(ChunkStaging, MakesTheStreamsThatItNeeds) {
  Cpu cpu;
  CountsStreams device(cpu.allocator, 1);
  Tensor here = device.NewTensor({10}, DType::kF32, Category::kOther),
         home = device.NewHostTensor({10}, DType::kF32, Category::kOther);
  const auto streams_for = [&device](const Visitor& visitor) {
    device.made = 0;
    ChunkStaging(device, Category::kOther).Run(std::vector<Chunk>{{visitor}}, [](size_t, std::span<const Tensor>) {});
    return device.made;
  };
  EXPECT_EQ(streams_for({.home = here, .goes_back = true}), 0);
  EXPECT_EQ(streams_for({.home = home}), 1);
  EXPECT_EQ(streams_for({.home = home, .goes_back = true}), 2);
}

}  // namespace offload_test
}  // namespace twofold::optim
