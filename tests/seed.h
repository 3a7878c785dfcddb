// Random seeds of tests, and the amount of random testing.
//
//     std::mt19937 random(TestSeed());
//
// A test's numbers depend only on its own full name and the base seed, not on other tests or on the clock. The base is
// 19 unless TWOFOLD_TEST_SEED sets another; tests/run.sh --full uses the date. A test that fails prints the base that
// reproduces it. A failure found with such a base becomes a test case of its own: with the printed input, or with
// SeedOf() and that base.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

namespace twofold {

inline constexpr uint64_t kBaseSeed = 19;

inline uint64_t BaseSeed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("TWOFOLD_TEST_SEED");
    return given == nullptr ? kBaseSeed : std::strtoull(given, nullptr, 10);
  }();
  return seed;
}

// FNV-1a of the name, mixed with base and salt as in splitmix64: the same on every machine and in every build.
inline uint64_t SeedOf(uint64_t base, std::string_view test, uint64_t salt = 0) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : test) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  for (const uint64_t part : {base, salt}) {
    hash += part + 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
    hash ^= hash >> 31;
  }
  return hash;
}

// After a failed test that used its seed, prints how to repeat it. With a base other than the default, prints it at the
// start.
class SaysTheSeed : public ::testing::EmptyTestEventListener {
 public:
  static inline std::atomic<bool> drawn = false;
  void OnTestProgramStart(const ::testing::UnitTest&) override {
    if (BaseSeed() != kBaseSeed) std::cout << "TWOFOLD_TEST_SEED=" << BaseSeed() << std::endl;
  }
  void OnTestStart(const ::testing::TestInfo&) override { drawn = false; }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (drawn && test.result()->Failed())
      std::cout << "TWOFOLD_TEST_SEED=" << BaseSeed() << " repeats this" << std::endl;
  }
};

inline const bool kSaysTheSeed = (::testing::UnitTest::GetInstance()->listeners().Append(new SaysTheSeed), true);

// The seed of the running test; each salt gives another one.
inline uint64_t TestSeed(uint64_t salt = 0) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  SaysTheSeed::drawn = kSaysTheSeed;
  return SeedOf(BaseSeed(), test == nullptr ? "" : std::string(test->test_suite_name()) + "." + test->name(), salt);
}

// Whether all tests are to run, however long they take: tests/run.sh --full.
inline bool Full() {
  static const bool full = [] {
    const char* given = std::getenv("TWOFOLD_TEST_FULL");
    return given != nullptr && std::string_view(given) == "1";
  }();
  return full;
}

// The number of damaged inputs to try for each kind of user input.
inline int Mutants() { return Full() ? 100000 : 5000; }

}  // namespace twofold
