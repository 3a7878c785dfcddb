#include "experiments/program/calibrate/arena.h"

#include <algorithm>
#include <cstring>

namespace twofold::calibrate {

Tensor Arena::Input(Shape shape, DType dtype) { return Take(Use::kInput, std::move(shape), dtype); }
Tensor Arena::Output(Shape shape, DType dtype) { return Take(Use::kOutput, std::move(shape), dtype); }
Tensor Arena::State(Shape shape, DType dtype) { return Take(Use::kState, std::move(shape), dtype); }
Tensor Arena::Ids(Shape shape) { return Take(Use::kIds, std::move(shape), DType::kU8); }
Tensor Arena::Centres(Shape shape) { return Take(Use::kCentres, std::move(shape), DType::kU8); }

ops::Choices Arena::Choices(int64_t tokens, int64_t k, int64_t experts) {
  ops::Choices& choices = choices_[{tokens, k, experts}];
  if (!choices.experts.empty()) return choices;
  choices = {.experts = Numbers({tokens, k}, [experts](int64_t i) { return i % experts; }),
             .places = Numbers({tokens, k}, [experts](int64_t i) { return i / experts; })};
  return choices;
}

Tensor Arena::Places(int64_t k, int64_t n) {
  Tensor& places = places_[{k, n}];
  if (places.empty()) places = Numbers({k}, [=](int64_t i) { return i * n / k; });
  return places;
}

Tensor Arena::Numbers(Shape shape, const std::function<int64_t(int64_t)>& value_of) {
  Tensor t = device_.NewTensor(std::move(shape), DType::kI32, Category::kOther);
  device_.Upload(t, [&](std::span<std::byte> bytes) {
    for (int64_t i = 0; i < t.numel(); ++i) {
      const auto value = static_cast<int32_t>(value_of(i));
      std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(value)), &value, sizeof(value));
    }
  });
  return t;
}

Arena::Pool Arena::MakePool(Use use, DType dtype) {
  const bool narrow = ElementSize(dtype) < 4, state = use == Use::kState;
  const Bytes size = state ? (narrow ? sizes_.narrow_state : sizes_.state) : narrow ? sizes_.narrow : sizes_.wide;
  Pool pool;
  pool.all = device_.NewTensor(Shape{size.value() / ElementSize(dtype)}, dtype, Category::kOther);
  if (use == Use::kIds) {
    device_.Upload(pool.all, [](std::span<std::byte> bytes) {
      uint32_t x = 1;
      for (std::byte& b : bytes) x = x * 1664525u + 1013904223u, b = static_cast<std::byte>(x >> 16 & (kIds - 1));
    });
    return pool;
  }
  if (use == Use::kCentres) {
    device_.Upload(pool.all, [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{4}); });
    return pool;
  }
  if (!IsFloat(dtype)) {
    device_.Launch(device_.compute(), ops::Fill{.out = pool.all});
    return pool;
  }
  ops::RandomFill fill{.out = pool.all, .key = MakeKey(1, "calibrate")};
  if (use == Use::kState) fill.distribution = ops::RandomFill::kUniform, fill.a = 0.5, fill.b = 1;
  device_.Launch(device_.compute(), fill);
  return pool;
}

Tensor Arena::Take(Use use, Shape shape, DType dtype) {
  auto it = pools_.find({use, dtype});
  if (it == pools_.end()) it = pools_.emplace(std::pair(use, dtype), MakePool(use, dtype)).first;
  Pool& pool = it->second;
  const int64_t count = shape.numel();
  TWOFOLD_CHECK_LE(count, pool.all.numel());
  if (pool.next + count > pool.all.numel()) pool.next = 0;
  Tensor taken = pool.all.Slice(pool.next, std::move(shape));
  constexpr int64_t kAlign = 128;  // elements: every slice begins on its own cache line
  pool.next = (pool.next + count + kAlign - 1) / kAlign * kAlign;
  return taken;
}

}  // namespace twofold::calibrate
