// The arithmetic of collectives against the CPU's, bit for bit.
#include "kernels/cuda/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/base/strings.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cuda/error.h"
#include "tests/gpu/against_cpu.h"
#include "tests/seed.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace collectives_test {

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};
constexpr int kMultiprocessors = 2;  // few, so that threads go through the grid more than once

using Data = std::vector<std::byte>;

// Memory on the GPU that begins `offset` bytes behind a multiple of 256; around it lie bytes that must not change.
class OnGpu {
 public:
  static constexpr size_t kMargin = 64;
  OnGpu(const Data& data, size_t offset) : size_(data.size()), offset_(offset + kMargin) {
    Data all(size_ + offset_ + kMargin, kGuard);
    std::ranges::copy(data, all.begin() + static_cast<std::ptrdiff_t>(offset_));
    cuda::Check(cudaMalloc(&base_, all.size()));
    cuda::Check(cudaMemcpy(base_, all.data(), all.size(), cudaMemcpyDefault));
  }
  ~OnGpu() { cudaFree(base_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  char* get() const { return static_cast<char*>(base_) + offset_; }
  Data Read() const {
    Data all(size_ + offset_ + kMargin);
    cuda::Check(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDefault));
    for (size_t i = 0; i < offset_; ++i) EXPECT_EQ(all[i], kGuard) << "before the array";
    for (size_t i = offset_ + size_; i < all.size(); ++i) EXPECT_EQ(all[i], kGuard) << "behind the array";
    return Data(all.begin() + static_cast<std::ptrdiff_t>(offset_), all.end() - kMargin);
  }

 private:
  static constexpr std::byte kGuard{0xa5};
  const size_t size_, offset_;
  void* base_ = nullptr;
};

// Normal numbers, so that no sum or product is a NaN, of which each processor makes its own.
Data RandomData(DType dtype, int64_t count, std::mt19937& random) {
  Data data(static_cast<size_t>(count * ElementSize(dtype)));
  std::uniform_real_distribution<float> small(-3, 3);
  const auto fill = [&]<class T>() {
    for (int64_t i = 0; i < count; ++i) {
      const T value = static_cast<T>(small(random));
      std::memcpy(data.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof value);
    }
  };
  switch (dtype) {
    case DType::kF64: fill.operator()<double>(); break;
    case DType::kF32: fill.operator()<float>(); break;
    case DType::kBF16: fill.operator()<BF16>(); break;
    case DType::kF16: fill.operator()<F16>(); break;
    case DType::kI32:
    case DType::kU8:
      for (std::byte& b : data) b = static_cast<std::byte>(random());
  }
  return data;
}

class CollectivesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) cuda::Check(cudaStreamCreate(&stream_));
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // `ranks` arrays of `count` elements, reduced from `first` on; in place to all, or to one more array.
  void ExpectReduced(DType dtype, ReduceOp op, int ranks, int64_t count, int64_t first, size_t offset, bool in_place) {
    SCOPED_TRACE(StrCat(ReduceOpName(op), " of ", ranks, " x ", DTypeName(dtype), "[", count, "] from ", first, ", ",
                        offset, " bytes off", in_place ? ", in place" : ""));
    std::vector<Data> arrays;
    std::vector<std::unique_ptr<OnGpu>> on_gpu;
    for (int r = 0; r < ranks + (in_place ? 0 : 1); ++r) {
      arrays.push_back(RandomData(dtype, count, random_));
      on_gpu.push_back(std::make_unique<OnGpu>(arrays.back(), offset));
    }
    std::vector<const void*> in, gpu_in;
    std::vector<void*> out, gpu_out;
    for (size_t r = 0; r < arrays.size(); ++r) {
      if (r < static_cast<size_t>(ranks)) in.push_back(arrays[r].data()), gpu_in.push_back(on_gpu[r]->get());
      if (in_place || r == static_cast<size_t>(ranks))
        out.push_back(arrays[r].data()), gpu_out.push_back(on_gpu[r]->get());
    }
    cpu::ReduceSlices(in, out, dtype, op, first, count - first);
    cuda::ReduceSlices(gpu_in, gpu_out, dtype, op, first, count - first, kMultiprocessors, stream_);
    cuda::Check(cudaStreamSynchronize(stream_));
    for (size_t r = 0; r < arrays.size(); ++r) EXPECT_TRUE(on_gpu[r]->Read() == arrays[r]) << "array " << r;
  }

  std::mt19937 random_{TestSeed()};
  cudaStream_t stream_ = nullptr;
};

TEST_F(CollectivesTest, ReduceAsTheCpuDoes) {
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const int ranks : {1, 2, 3, 7}) ExpectReduced(dtype, op, ranks, 257, 0, 0, ranks % 2 == 1);
    }
  }
}

TEST_F(CollectivesTest, DivideAsTheCpuDoes) {
  for (const DType dtype : kTypes) {
    for (const auto& [count, by] : {std::pair(1003, 3), {0, 2}, {257, 4}}) {
      Data data = RandomData(dtype, count, random_);
      const OnGpu on_gpu(data, 0);
      cpu::DivideAll(data.data(), dtype, count, by);
      cuda::DivideAll(on_gpu.get(), dtype, count, by, kMultiprocessors, stream_);
      cuda::Check(cudaStreamSynchronize(stream_));
      EXPECT_TRUE(on_gpu.Read() == data) << DTypeName(dtype) << "[" << count << "] / " << by;
    }
  }
}

TEST_F(CollectivesTest, ReduceAnyCountFromAnywhere) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kU8}) {
    const auto element = static_cast<size_t>(ElementSize(dtype));
    for (const int64_t count : {0, 1, 31, 33, 127, 1003, 20011})
      ExpectReduced(dtype, ReduceOp::kSum, 2, count, 0, 0, true);
    for (const size_t offset : {element, 8 * element}) ExpectReduced(dtype, ReduceOp::kSum, 3, 1003, 0, offset, false);
    for (const int64_t first : {1, 64}) ExpectReduced(dtype, ReduceOp::kMax, 2, 1003, first, 0, false);
  }
}

TEST_F(CollectivesTest, ReduceOfAsManyAsThereMayBe) {
  ExpectReduced(DType::kF32, ReduceOp::kSum, cuda::kMostArrays, 33, 0, 0, true);
}

TEST_F(CollectivesTest, CopyToAllOthers) {
  for (const int64_t bytes : {0, 1, 15, 16, 17, 1003, 70001}) {
    for (const size_t offset : {0, 1, 16}) {
      for (const size_t receivers : {1, 2, 5}) {
        SCOPED_TRACE(StrCat(bytes, " bytes to ", receivers, ", ", offset, " off"));
        const Data data = RandomData(DType::kU8, bytes, random_);
        const OnGpu from(data, 0);
        std::vector<std::unique_ptr<OnGpu>> to;
        std::vector<char*> addresses = {from.get()};  // its own place is left alone
        for (size_t r = 0; r < receivers; ++r) {
          to.push_back(std::make_unique<OnGpu>(Data(data.size()), offset));
          addresses.push_back(to.back()->get());
        }
        cuda::CopyToAll(addresses, from.get(), bytes, kMultiprocessors, stream_);
        cuda::Check(cudaStreamSynchronize(stream_));
        EXPECT_TRUE(from.Read() == data);
        for (const auto& t : to) EXPECT_TRUE(t->Read() == data);
      }
    }
  }
}

}  // namespace collectives_test
}  // namespace twofold
