#include "tests/fuzz/allocations.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

std::atomic<int64_t> g_live = 0, g_start = 0, g_peak = 0, g_largest = 0;

void Raise(std::atomic<int64_t>& highest, int64_t value) {
  for (int64_t seen = highest.load(); seen < value && !highest.compare_exchange_weak(seen, value);) {
  }
}

}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {  // std::stable_sort's
  void* p = std::malloc(size == 0 ? 1 : size);
  if (p == nullptr) return nullptr;
  Raise(g_largest, static_cast<int64_t>(size));
  const auto held = static_cast<int64_t>(malloc_usable_size(p));
  Raise(g_peak, g_live.fetch_add(held) + held);
  return p;
}

void* operator new(size_t size) {
  void* p = operator new(size, std::nothrow);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void operator delete(void* p) noexcept {
  if (p != nullptr) g_live.fetch_sub(static_cast<int64_t>(malloc_usable_size(p)));
  std::free(p);
}

void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
void operator delete(void* p, const std::nothrow_t&) noexcept { operator delete(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { operator delete(p); }
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete(void* p, size_t) noexcept { operator delete(p); }
void operator delete[](void* p, size_t) noexcept { operator delete(p); }

namespace twofold::test {

Allocations::Allocations() {
  g_start = g_live.load();
  g_peak = g_live.load();
  g_largest = 0;
}
int64_t Allocations::peak() const { return g_peak.load() - g_start.load(); }
int64_t Allocations::largest() const { return g_largest.load(); }

// In every program that is linked with this file: else a bound that is never reached would be no bound.
TEST(AllocationsTest, SeeWhatIsTakenAndGivenBack) {
  constexpr int64_t kLarge = 1 << 20;
  const Allocations allocations;
  EXPECT_EQ(allocations.peak(), 0);
  for (int i = 0; i < 3; ++i) const std::string held(kLarge, 'x');  // one after the other
  EXPECT_EQ(allocations.largest(), kLarge + 1);
  EXPECT_GE(allocations.peak(), kLarge);
  EXPECT_LT(allocations.peak(), 3 * kLarge / 2);
  std::vector<std::unique_ptr<char[]>> held;
  for (int i = 0; i < 3; ++i) held.push_back(std::make_unique<char[]>(kLarge));  // all at once
  EXPECT_GE(allocations.peak(), 3 * kLarge);
  held.clear();
  const Allocations later;
  EXPECT_EQ(later.peak(), 0) << "what was held before does not count";
  EXPECT_EQ(later.largest(), 0);
}

}  // namespace twofold::test
