// Arrays on a GPU, and numbers of 16-bit types, for tests of single instructions. For .cu files only.
#pragma once

#include <bit>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/error.h"
#include "kernels/cuda/numbers.h"
#include "tests/seed.h"

namespace twofold::cuda {

// An array on the GPU with a copy here.
template <class T>
class OnGpu {
 public:
  explicit OnGpu(std::vector<T> values) : here(std::move(values)) {
    Check(cudaMalloc(reinterpret_cast<void**>(&there_), here.size() * sizeof(T)));
    Check(cudaMemcpy(there_, here.data(), here.size() * sizeof(T), cudaMemcpyDefault));
  }
  ~OnGpu() { cudaFree(there_); }
  T* get() const { return there_; }
  const std::vector<T>& Read() {
    Check(cudaStreamSynchronize(nullptr));
    Check(cudaMemcpy(here.data(), there_, here.size() * sizeof(T), cudaMemcpyDefault));
    return here;
  }
  std::vector<T> here;

 private:
  T* there_ = nullptr;
};

template <class T>
T Of(float value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return std::bit_cast<T>(twofold::BF16(value));
  else
    return std::bit_cast<T>(twofold::F16(value));
}
// Whole numbers up to 15: exact in both types, and so are sums of their products in f32.
template <class T>
std::vector<T> Numbers(size_t count, uint64_t salt) {
  std::mt19937 random(TestSeed(salt));
  std::vector<T> numbers(count);
  for (T& x : numbers) x = Of<T>(static_cast<float>(static_cast<int>(random() % 31) - 15));
  return numbers;
}
template <class T>
float Value(T x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return static_cast<float>(std::bit_cast<twofold::BF16>(x.bits));
  else
    return static_cast<float>(std::bit_cast<twofold::F16>(x.bits));
}

}  // namespace twofold::cuda
