// Damages good inputs at random, seeded: for tests that every input is accepted or refused, and nothing else.
//
//     Mutator mutator(TestSeed(), {.words = kWords, .hot = 16});
//     for (int i = 0; i < Mutants(); ++i) Read(mutator.Damage(good[i % good.size()]));
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "tests/seed.h"

namespace twofold::test {

class Mutator {
 public:
  struct Options {
    std::span<const std::string_view> words;  // inserted whole: names, brackets, extreme numbers; may be empty
    size_t hot = 0;                           // half of the changes are within this many first bytes: a header
    bool numbers = true;                      // also replaces whole numbers written in digits
  };
  Mutator(uint64_t seed, Options options) : random_(seed), options_(options) {}

  // One to four changes.
  std::string Damage(std::string text) {
    for (size_t n = 1 + Below(4); n > 0; --n) Once(text);
    return text;
  }
  size_t Below(size_t n) { return random_() % n; }

 private:
  size_t Place(size_t size) {
    if (options_.hot > 0 && Below(2) == 0) return Below(std::min(options_.hot, size) + 1);
    return Below(size + 1);
  }
  void Once(std::string& text) {
    const size_t at = Place(text.size()), length = std::min(Below(12), text.size() - at);
    switch (Below(8)) {
      case 0: text.erase(at, length); return;
      case 1: text.insert(at, text.substr(at, length)); return;
      case 2:
        if (!options_.words.empty()) text.insert(at, options_.words[Below(options_.words.size())]);
        return;
      case 3:
      case 4: options_.numbers ? ReplaceNumber(text, at) : SetNumber(text, at); return;
      case 5:
        if (Below(8) == 0) text.resize(at);  // cut short
        return;
      case 6:  // another part of it in its place
        if (!text.empty()) text.replace(at, length, text.substr(Below(text.size()), length));
        return;
      case 7:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        return;
    }
  }
  // Another number in place of the next one: the change that most often leaves a readable text.
  void ReplaceNumber(std::string& text, size_t from) {
    static constexpr std::string_view kNumbers[] = {"0",
                                                    "1",
                                                    "2",
                                                    "3",
                                                    "4",
                                                    "8",
                                                    "64",
                                                    "-5",
                                                    "0.5",
                                                    "1e-9",
                                                    "1e308",
                                                    "4096",
                                                    "4611686018427387904",
                                                    "-9223372036854775808",
                                                    "18446744073709551616"};
    const size_t at = text.find_first_of("0123456789", from);
    if (at == std::string::npos) return;
    const size_t end = text.find_first_not_of("0123456789.e-", at);
    text.replace(at, end == std::string::npos ? std::string::npos : end - at, kNumbers[Below(std::size(kNumbers))]);
  }
  // Four bytes that are a small, an extreme or any number, in either order of bytes.
  void SetNumber(std::string& text, size_t at) {
    static constexpr uint32_t kNumbers[] = {0, 1, 2, 255, 256, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff};
    uint32_t number = Below(4) == 0 ? static_cast<uint32_t>(random_()) : kNumbers[Below(std::size(kNumbers))];
    if (Below(2) == 0) number = __builtin_bswap32(number);
    at -= at % 4;
    for (size_t i = 0; i < 4 && at + i < text.size(); ++i) text[at + i] = static_cast<char>(number >> (8 * i));
  }

  std::mt19937_64 random_;
  Options options_;
};

}  // namespace twofold::test
