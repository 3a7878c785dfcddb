#include "experiments/program/bench/expectation.h"

#include <algorithm>
#include <cmath>

#include "core/base/philox.h"
#include "core/tensor/visit_type.h"

namespace twofold::bench {
namespace {

// A prime, so that blocks of usual sizes begin at different points of the period.
constexpr int64_t kPeriod = 8191;
constexpr int64_t kMovedValues = 250;  // values that are only moved or compared may be any byte
constexpr int kFactors = 7;            // ranks that may contribute a 2 to a product: 2^7 fits every type

// Whole numbers up to this are exact; integers wrap beyond their own largest value.
double LargestExact(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 0x1p53;
    case DType::kF32: return 0x1p24;
    case DType::kBF16: return 0x1p8;
    case DType::kF16: return 0x1p11;
    case DType::kI32: return 0x1p31 - 1;
    case DType::kU8: return 255;
  }
  return 0;
}

// Relative rounding error; 0 for exact types.
double Rounding(DType dtype) { return IsFloat(dtype) ? 1 / LargestExact(dtype) : 0; }

}  // namespace

void Write(DType dtype, std::span<std::byte> data, int64_t first, absl::FunctionRef<int64_t(int64_t)> value) {
  VisitType(dtype, [&]<class T>() {
    T* const to = reinterpret_cast<T*>(data.data());
    const auto count = static_cast<int64_t>(data.size() / sizeof(T));
    for (int64_t i = 0; i < count; ++i) to[i] = ConvertTo<T>(value(first + i));
  });
}

int64_t CountWrong(DType dtype, std::span<const std::byte> data, int64_t first,
                   absl::FunctionRef<double(int64_t)> expected, double tolerance) {
  return VisitType(dtype, [&]<class T>() {
    const T* const from = reinterpret_cast<const T*>(data.data());
    const auto count = static_cast<int64_t>(data.size() / sizeof(T));
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double right = expected(first + i);
      wrong += !(std::abs(ConvertTo<double>(from[i]) - right) <= tolerance * right);  // written so that NaN is wrong
    }
    return wrong;
  });
}

Expectation::Expectation(const Operation& operation, DType dtype, ReduceOp reduce, int root, int ranks, int rank)
    : operation_(operation), dtype_(dtype), reduce_(reduce), root_(root), ranks_(ranks), rank_(rank) {
  const bool adds = operation.reduces && (reduce == ReduceOp::kSum || reduce == ReduceOp::kAvg);
  const double exact = LargestExact(dtype);
  most_ = adds ? static_cast<int64_t>(std::clamp(exact / ranks, 1.0, 3.0)) : kMovedValues;
  if (adds && static_cast<double>(most_) * ranks > exact) tolerance_ = (ranks - 1) * Rounding(dtype);
  // 1/n and the products with it round too
  if (adds && reduce == ReduceOp::kAvg) tolerance_ = (ranks + 1) * Rounding(dtype);
  if (!operation.reduces) return;
  for (int64_t i = 0; i < kPeriod; ++i) reduced_.push_back(ReduceAll(i));
}

int64_t Expectation::Input(int rank, int64_t i) const {
  i %= kPeriod;
  const auto bits = static_cast<int64_t>(MakeKey(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)).value >> 32);
  if (!operation_.reduces || reduce_ != ReduceOp::kProduct) return 1 + bits % most_;
  return (rank + i) % ranks_ < kFactors ? 1 + bits % 2 : 1;
}

double Expectation::Reduced(int64_t i) const { return reduced_[static_cast<size_t>(i % kPeriod)]; }

double Expectation::ReduceAll(int64_t i) const {
  int64_t value = Input(0, i);
  for (int r = 1; r < ranks_; ++r) {
    const int64_t x = Input(r, i);
    switch (reduce_) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg: value += x; break;
      case ReduceOp::kProduct: value *= x; break;
      case ReduceOp::kMin: value = std::min(value, x); break;
      case ReduceOp::kMax: value = std::max(value, x); break;
    }
  }
  if (dtype_ == DType::kU8) value &= 0xff;  // sums over many ranks wrap
  if (reduce_ != ReduceOp::kAvg) return static_cast<double>(value);
  if (!IsFloat(dtype_)) return static_cast<double>(value / ranks_);
  return static_cast<double>(value) / ranks_;
}

double Expectation::Output(int64_t i, int64_t block) const {
  const auto input = [this](int64_t rank, int64_t at) {
    return static_cast<double>(Input(static_cast<int>(rank), at));
  };
  switch (operation_.kind) {
    case Communication::kAllReduce: return Reduced(i);
    // on other ranks nothing changes
    case Communication::kReduce: return rank_ == root_ ? Reduced(i) : input(rank_, i);
    case Communication::kBroadcast: return input(root_, i);
    case Communication::kAllGather:
    case Communication::kGather: return input(i / block, i % block);
    case Communication::kReduceScatter: return Reduced(rank_ * block + i);
    case Communication::kScatter: return input(root_, rank_ * block + i);
    case Communication::kAllToAll: return input(i / block, rank_ * block + i % block);
    case Communication::kBatch: return input((rank_ + ranks_ - 1) % ranks_, i);
    case Communication::kSend:
    case Communication::kRecv:
    case Communication::kAllToAllV: break;
    case Communication::kBarrier: break;
  }
  TWOFOLD_CHECK(false, "an operation of the table");
  return 0;
}

void Expectation::FillInput(Device& device, Tensor& in) const {
  if (in.empty()) return;
  device.Upload(in, [this](std::span<std::byte> bytes) {
    Write(dtype_, bytes, 0, [this](int64_t i) { return Input(rank_, i); });
  });
}

int64_t Expectation::CountWrong(Device& device, const Tensor& out, int64_t block) const {
  if (out.empty()) return 0;
  constexpr int64_t kAtOnce = 1 << 18;  // elements
  std::vector<std::byte> part;
  int64_t wrong = 0;
  for (int64_t first = 0; first < out.numel(); first += kAtOnce) {
    const Tensor slice = out.Slice(first, std::min(kAtOnce, out.numel() - first));
    part.resize(static_cast<size_t>(slice.bytes().value()));
    device.Download(slice, part);
    wrong += bench::CountWrong(
        dtype_, part, first, [this, block](int64_t i) { return Output(i, block); }, tolerance_);
  }
  return wrong;
}

}  // namespace twofold::bench
