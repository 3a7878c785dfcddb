#include "kernels/cuda/emulated/nccl/arithmetic.h"

#include <cstdint>
#include <iterator>
#include <type_traits>

#include "core/base/check.h"
#include "core/tensor/dtype.h"

namespace twofold::emulated {
namespace {

struct TypeText {
  size_t bytes;
  const char* name;
};
constexpr TypeText kTypes[] = {{1, "ncclInt8"},    {1, "ncclUint8"},   {4, "ncclInt32"},   {4, "ncclUint32"},
                               {8, "ncclInt64"},   {8, "ncclUint64"},  {2, "ncclFloat16"}, {4, "ncclFloat32"},
                               {8, "ncclFloat64"}, {2, "ncclBfloat16"}};
constexpr const char* kOps[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};

template <class F>
void ForType(ncclDataType_t type, F f) {
  switch (type) {
    case ncclInt8: return f.template operator()<int8_t>();
    case ncclUint8: return f.template operator()<uint8_t>();
    case ncclInt32: return f.template operator()<int32_t>();
    case ncclUint32: return f.template operator()<uint32_t>();
    case ncclInt64: return f.template operator()<int64_t>();
    case ncclUint64: return f.template operator()<uint64_t>();
    case ncclFloat16: return f.template operator()<F16>();
    case ncclFloat32: return f.template operator()<float>();
    case ncclFloat64: return f.template operator()<double>();
    case ncclBfloat16: return f.template operator()<BF16>();
    default: TWOFOLD_CHECK(false, "the emulation supports the type");
  }
}

template <class T>
constexpr bool kNarrow = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

// The compute type of T: T itself, unsigned if it may overflow, float for low-precision types.
template <class T>
auto Wide(T x) {
  if constexpr (kNarrow<T>)
    return static_cast<float>(x);
  else
    return x;
}

template <class T>
T Combined(T a, T b, ncclRedOp_t op) {
  auto x = Wide(a), y = Wide(b);
  switch (op) {
    case ncclMax: return T(x < y ? y : x);
    case ncclMin: return T(y < x ? y : x);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    const auto i = static_cast<uint64_t>(x), j = static_cast<uint64_t>(y);  // wraps
    return static_cast<T>(op == ncclProd ? i * j : i + j);
  } else {
    return T(op == ncclProd ? x * y : x + y);
  }
}

template <class T>
void ReduceType(std::span<const std::byte* const> from, int first, std::byte* to, size_t count, ncclRedOp_t op) {
  const int ranks = static_cast<int>(from.size());
  const auto at = [&](int step) {
    return reinterpret_cast<const T*>(from[static_cast<size_t>((first + step) % ranks)]);
  };
  const auto of_rank = [&](int step, size_t i) {
    const T x = at(step)[i];
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      const T part = T(Wide(T(1.0f)) / static_cast<float>(ranks));
      return op == ncclAvg ? T(Wide(x) * Wide(part)) : x;
    }
  };
  for (size_t i = 0; i < count; ++i) {
    T sum = of_rank(0, i);
    for (int step = 1; step < ranks; ++step) sum = Combined(of_rank(step, i), sum, op);
    if constexpr (std::is_integral_v<T>) {
      if (op == ncclAvg) sum = static_cast<T>(sum / static_cast<T>(ranks));
    }
    reinterpret_cast<T*>(to)[i] = sum;
  }
}

}  // namespace

size_t SizeOf(ncclDataType_t type) {
  return type >= 0 && type < static_cast<int>(std::size(kTypes)) ? kTypes[type].bytes : 0;
}
const char* NameOf(ncclDataType_t type) { return SizeOf(type) != 0 ? kTypes[type].name : "?"; }
const char* NameOf(ncclRedOp_t op) { return op >= 0 && op < ncclNumOps ? kOps[op] : "?"; }

void Reduce(std::span<const std::byte* const> from, int first, std::byte* to, size_t count, ncclDataType_t type,
            ncclRedOp_t op) {
  ForType(type, [&]<class T>() { ReduceType<T>(from, first, to, count, op); });
}

}  // namespace twofold::emulated
