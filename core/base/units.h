// Units as types, so that bytes cannot be mistaken for elements, nor seconds for microseconds.
//
// Each unit wraps one number. Construction is explicit, and arithmetic keeps the unit. The few meaningful products and
// quotients across units (bytes / rate = seconds) are defined below.
#pragma once

#include <compare>
#include <cstdint>

namespace twofold {

template <class Tag, class Rep>
class Unit {
 public:
  constexpr Unit() = default;
  constexpr explicit Unit(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  constexpr Unit& operator+=(Unit o) {
    value_ += o.value_;
    return *this;
  }
  constexpr Unit& operator-=(Unit o) {
    value_ -= o.value_;
    return *this;
  }
  friend constexpr Unit operator+(Unit a, Unit b) { return Unit(a.value_ + b.value_); }
  friend constexpr Unit operator-(Unit a, Unit b) { return Unit(a.value_ - b.value_); }
  friend constexpr Unit operator*(Unit a, Rep k) { return Unit(a.value_ * k); }
  friend constexpr Unit operator*(Rep k, Unit a) { return Unit(a.value_ * k); }
  friend constexpr Unit operator/(Unit a, Rep k) { return Unit(a.value_ / k); }
  friend constexpr double operator/(Unit a, Unit b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  friend constexpr auto operator<=>(Unit, Unit) = default;

 private:
  Rep value_{};
};

using Bytes = Unit<struct BytesTag, int64_t>;
using Seconds = Unit<struct SecondsTag, double>;
using Flops = Unit<struct FlopsTag, double>;
using BytesPerSecond = Unit<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Unit<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(static_cast<double>(b.value()) / r.value()); }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value() / r.value()); }
constexpr BytesPerSecond operator/(Bytes b, Seconds s) {
  return BytesPerSecond(static_cast<double>(b.value()) / s.value());
}

constexpr Bytes KiB(int64_t n) { return Bytes(n << 10); }
constexpr Bytes MiB(int64_t n) { return Bytes(n << 20); }
constexpr Bytes GiB(int64_t n) { return Bytes(n << 30); }
constexpr Seconds Microseconds(double us) { return Seconds(us * 1e-6); }
constexpr BytesPerSecond GigabytesPerSecond(double rate) { return BytesPerSecond(rate * 1e9); }

}  // namespace twofold
