// Options of the libraries, on a device of its own.
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace libraries_test {

class LibrariesOnGpu : public GpuTest {};

constexpr int64_t kSide = 65;

// The product of two fixed matrices of F32, by a device with these options: several times, the last result.
std::vector<float> Product(const CudaDevice::Options& options, int times = 1) {
  cuda::GpuSource source(0);
  cuda::PinnedSource host_source(0);
  CachingAllocator allocator(source, 0), host(host_source, 0, "host memory");
  CudaDevice device(allocator, host, 0, 0, options);
  const auto matrix = [&](double step) {
    Tensor t = device.NewTensor({kSide, kSide}, DType::kF32, Category::kOther);
    device.Upload(t, [step](std::span<std::byte> to) {
      for (size_t i = 0; i < to.size() / 4; ++i) {
        const auto x = static_cast<float>(std::sin(step * static_cast<double>(i)));
        std::memcpy(&to[4 * i], &x, 4);
      }
    });
    return t;
  };
  const Tensor a = matrix(0.37), b = matrix(0.73), out = matrix(1);
  for (int i = 0; i < times; ++i) device.Launch(device.compute(), ops::MatMul{.a = a, .b = b, .out = out});
  std::vector<float> values(static_cast<size_t>(kSide * kSide));
  device.Download(out, std::as_writable_bytes(std::span(values)));
  return values;
}
double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

TEST_F(LibrariesOnGpu, RoundToTf32WhereAsked) {
  std::vector<float> exact;
  for (int64_t row = 0; row < kSide; ++row) {
    for (int64_t column = 0; column < kSide; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < kSide; ++k) {
        const double a = std::sin(0.37 * static_cast<double>(row * kSide + k)),
                     b = std::sin(0.73 * static_cast<double>(k * kSide + column));
        sum += static_cast<double>(static_cast<float>(a)) * static_cast<double>(static_cast<float>(b));
      }
      exact.push_back(static_cast<float>(sum));
    }
  }
  EXPECT_LT(LargestDifference(Product({}), exact), 2e-5);
  const double tf32 = LargestDifference(Product({.tf32 = true}), exact);  // 65 terms, each within 2^-10 of 1
  EXPECT_GT(tf32, 2e-4);
  EXPECT_LT(tf32, 3e-2);
}

TEST_F(LibrariesOnGpu, TimedAlgorithmsAreRightToo) {
  EXPECT_LT(LargestDifference(Product({.time_algorithms = true}, 3), Product({})), 2e-5);
}

TEST_F(LibrariesOnGpu, GiveTheSameBitsOnEveryDevice) { EXPECT_EQ(Product({}), Product({}, 3)); }

}  // namespace libraries_test
}  // namespace twofold
