// The fields of an operation, one by one: what an operation consists of, without a list of its fields for each.
//
// An operation is an aggregate (op.h). Its number of fields is the largest number of initializers that it accepts.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace twofold::ops {

namespace fields {

struct Any {
  template <class T>
  operator T() const;  // never defined: only types are asked for
};

template <class T, size_t... kIndices>
constexpr bool Accepts(std::index_sequence<kIndices...>) {
  return requires { T{(static_cast<void>(kIndices), Any{})...}; };
}
inline constexpr size_t kMost = 16;
template <class T, size_t kCount = kMost>
constexpr size_t Count() {
  if constexpr (kCount == 0 || Accepts<T>(std::make_index_sequence<kCount>()))
    return kCount;
  else
    return Count<T, kCount - 1>();
}

}  // namespace fields

// Calls visit(field) for each field of `o`, in order. A field that is itself an aggregate is passed as a whole.
template <class T, class F>
void ForEachField(T& o, F&& visit) {
  using Plain = std::remove_const_t<T>;
  constexpr size_t kCount = fields::Count<Plain>();
  static_assert(kCount > 0, "an aggregate with at most kMost fields");
  const auto each = [&](auto&... field) { (visit(field), ...); };
#define TWOFOLD_FIELDS(count, ...)   \
  if constexpr (kCount == (count)) { \
    auto& [__VA_ARGS__] = o;         \
    each(__VA_ARGS__);               \
  }
  // clang-format off
  TWOFOLD_FIELDS(1, a)
  TWOFOLD_FIELDS(2, a, b)
  TWOFOLD_FIELDS(3, a, b, c)
  TWOFOLD_FIELDS(4, a, b, c, d)
  TWOFOLD_FIELDS(5, a, b, c, d, e)
  TWOFOLD_FIELDS(6, a, b, c, d, e, f)
  TWOFOLD_FIELDS(7, a, b, c, d, e, f, g)
  TWOFOLD_FIELDS(8, a, b, c, d, e, f, g, h)
  TWOFOLD_FIELDS(9, a, b, c, d, e, f, g, h, i)
  TWOFOLD_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  TWOFOLD_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  TWOFOLD_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  TWOFOLD_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  TWOFOLD_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  TWOFOLD_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p)
  TWOFOLD_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p, q)
  // clang-format on
#undef TWOFOLD_FIELDS
}

}  // namespace twofold::ops
