// Helpers of the tests of modules and optimizers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/nn/module.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold::test {

// A CPU device of one thread and a context on it.
struct Cpu {
  MallocSource source;
  CachingAllocator allocator{source, /*rank=*/0};
  CpuDevice device{allocator, /*threads=*/1};
  nn::Context ctx{.device = device, .stream = device.compute(), .seed = 7};

  Bytes Live(Category c) { return allocator.ledger().stats().live_by_category[static_cast<size_t>(c)]; }
  Tensor New(Shape shape, DType dtype) { return device.NewTensor(std::move(shape), dtype, Category::kActivations); }
};

// What a NO_SHARD layout does: every parameter whole, with its initial value and a gradient; every buffer.
inline void Materialize(nn::Context& ctx, nn::Module& module, uint64_t seed = 3) {
  for (nn::Parameter* p : module.Parameters()) {
    p->set_data(ctx.device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
    p->set_gradient(ctx.device.NewTensor(p->shape(), p->dtype(), Category::kGradients));
    p->Initialize(ctx.device, ctx.stream, seed, p->data());
  }
  for (nn::Parameter* b : module.Buffers()) {
    b->set_data(ctx.device.NewTensor(b->shape(), b->dtype(), Category::kParameters));
    b->Initialize(ctx.device, ctx.stream, seed, b->data());
  }
}

inline void FillRandom(Tensor t, uint64_t seed, double scale = 1) {
  double* x = t.data<double>();
  for (int64_t i = 0; i < t.numel(); ++i) x[i] = scale * NormalAt(MakeKey(seed, "fill"), static_cast<uint64_t>(i));
}

// Parameters away from their initial values, whose zeros and ones would hide errors.
inline void Scatter(nn::Module& module, double scale = 0.5) {
  uint64_t seed = 1000;
  for (nn::Parameter* p : module.Parameters()) FillRandom(p->data(), seed++, scale);
}

inline Tensor Random(Cpu& cpu, Shape shape, uint64_t seed) {
  Tensor t = cpu.New(std::move(shape), DType::kF64);
  FillRandom(t, seed);
  return t;
}

inline Tensor RandomIds(Cpu& cpu, Shape shape, int64_t below, uint64_t seed) {
  Tensor t = cpu.New(std::move(shape), DType::kI32);
  for (int64_t i = 0; i < t.numel(); ++i) {
    t.data<int32_t>()[i] =
        static_cast<int32_t>(Philox(MakeKey(seed, "ids"), static_cast<uint64_t>(i))[0] % static_cast<uint32_t>(below));
  }
  return t;
}

inline std::vector<double> Values(const Tensor& t) { return {t.data<double>(), t.data<double>() + t.numel()}; }

inline std::vector<std::vector<double>> Gradients(const nn::Module& module) {
  std::vector<std::vector<double>> all;
  for (nn::Parameter* p : module.Parameters()) all.push_back(Values(p->gradient()));
  return all;
}

inline void ZeroGradients(nn::Module& module) {
  for (nn::Parameter* p : module.Parameters()) p->ZeroGradient();
}

}  // namespace twofold::test
