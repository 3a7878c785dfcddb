// What tests of kernels stand on: a device whose memory is full of NaN, random tensors, and comparison with
// values computed plainly in double.
#pragma once

#include <malloc.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/device/ops.h"
#include "core/memory/allocator.h"
#include "core/memory/source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/seed.h"

namespace twofold {

// Every byte is 0xff, which is NaN in every float type: results, and scratch memory, that a kernel forgets
// show.
class PoisonedSource : public MallocSource {
 public:
  PoisonedSource() { mallopt(M_MMAP_THRESHOLD, 1 << 30); }  // pages stay with the process: thousands of cases are quick
  std::optional<Address> Reserve(Bytes size) override {
    const auto address = MallocSource::Reserve(size);
    if (address) std::memset(reinterpret_cast<void*>(*address), 0xff, static_cast<size_t>(size.value()));
    return address;
  }
};

using Values = std::vector<double>;

inline Values ValuesOf(const Tensor& t) {
  Values values(static_cast<size_t>(t.numel()));
  cpu::Convert(t.raw(), t.dtype(), values.data(), DType::kF64, t.numel());
  return values;
}

// A device and the tensors of one case. Every tensor begins `offset` elements into its buffer.
class Lab {
 public:
  Lab(int threads, int64_t offset) : device(allocator_, threads), rng(TestSeed()), offset_(offset) {
    if (see) device.SetObserver([](const ops::Op& op, double, double) { see(op); });
  }
  static inline std::function<void(const ops::Op&)> see;  // what all labs launch, where a program wants to know

  Tensor Blank(const Shape& shape, DType t) {  // NaN
    return device.NewTensor(Shape{shape.numel() + offset_}, t, Category::kOther).Slice(offset_, shape);
  }
  Tensor Of(const Shape& shape, DType t, const Values& values) {
    Tensor tensor = Blank(shape, t);
    cpu::Convert(values.data(), DType::kF64, tensor.raw(), t, tensor.numel());
    return tensor;
  }
  Tensor Normal(const Shape& shape, DType t, double deviation = 1) {
    Values values(static_cast<size_t>(shape.numel()));
    std::normal_distribution<double> draw(0, deviation);
    for (double& v : values) v = draw(rng);
    return Of(shape, t, values);
  }
  Tensor Positive(const Shape& shape, DType t) {
    Values values(static_cast<size_t>(shape.numel()));
    std::uniform_real_distribution<double> draw(0.1, 2);
    for (double& v : values) v = draw(rng);
    return Of(shape, t, values);
  }
  Tensor Ids(int64_t count, DType t, int64_t limit) {
    Values values(static_cast<size_t>(count));
    std::uniform_int_distribution<int64_t> draw(0, limit - 1);
    for (double& v : values) v = static_cast<double>(draw(rng));
    return Of({count}, t, values);
  }
  // NaN, or random values to be added to.
  Tensor Output(const Shape& shape, DType t, bool accumulate) {
    return accumulate ? Normal(shape, t) : Blank(shape, t);
  }
  Tensor Copy(const Tensor& t) { return Of(t.shape(), t.dtype(), ValuesOf(t)); }
  void Run(const ops::Op& op) { device.Launch(device.compute(), op); }

 private:
  PoisonedSource source_;
  CachingAllocator allocator_{source_, 0};

 public:
  CpuDevice device;
  std::mt19937 rng;

 private:
  int64_t offset_;
};

// What a tensor must hold. `scale` is the size of the terms that the value is a sum of.
struct Expected {
  Tensor got;
  Values want;
  double scale = 1;
  DType computed = DType::kF32;  // in which type the arithmetic was done; narrower ones count as f32
};

// Half a unit in the last place of the stored type, as the result is to be rounded once, and an error of the
// arithmetic: 4e-6 of the scale in f32, 1e-13 in f64.
inline double Tolerance(const Expected& e, double want) {
  const double half_ulp[] = {0x1p-53, 0x1p-24, 0x1p-8, 0x1p-11};
  const bool wide = e.computed == DType::kF64;
  const double subnormal = e.got.dtype() == DType::kF16 ? 0x1p-25 : 0;
  return 1.001 * half_ulp[static_cast<int>(e.got.dtype())] * std::abs(want) + subnormal +
         (wide ? 1e-13 : 4e-6) * e.scale;
}

inline void ExpectValues(const Expected& e) {
  const Values got = ValuesOf(e.got);
  ASSERT_EQ(got.size(), e.want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], e.want[i], Tolerance(e, e.want[i])) << "element " << i << " of " << e.got.ToString();
  }
}

inline std::string BitsOf(const Tensor& t) {
  return std::string(static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes().value()));
}

// Runs a case with 1 and 3 threads, each twice with aligned tensors and once with tensors that are not: the
// values must be right, and equal to the bit at every alignment and in every run.
using Case = std::function<std::vector<Expected>(Lab&)>;
inline void Verify(const std::string& name, const Case& run) {
  SCOPED_TRACE(name);
  for (int threads : {1, 3}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    std::vector<std::string> first;
    for (int64_t offset : {0, 0, 3}) {
      SCOPED_TRACE("offset " + std::to_string(offset));
      Lab lab(threads, offset);
      std::vector<std::string> bits;
      for (const Expected& e : run(lab)) {
        ASSERT_NO_FATAL_FAILURE(ExpectValues(e));
        bits.push_back(BitsOf(e.got));
      }
      if (first.empty()) first = bits;
      for (size_t i = 0; i < bits.size(); ++i) ASSERT_TRUE(bits[i] == first[i]) << "output " << i << " differs in bits";
    }
  }
}

inline constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
inline DType Wide(DType t) { return ops::AccumulationType(t); }
inline std::string Name(DType t) { return std::string(DTypeName(t)); }
inline size_t At(int64_t i) { return static_cast<size_t>(i); }

}  // namespace twofold
