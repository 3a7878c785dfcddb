// Hashes of numbers, equal on every machine.
#pragma once

#include <cstdint>
#include <utility>

namespace twofold::sim {

// splitmix64's finaliser, for hashes.
inline uint64_t HashMix(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
inline uint64_t HashMix(uint64_t a, uint64_t b) { return HashMix(HashMix(a) * 31 + b); }

// Two hashes of a sequence of millions of values: one multiplication a value for each.
class SequenceHash {
 public:
  explicit SequenceHash(uint64_t first) : one_(first), other_(~first) {}
  void Add(uint64_t value) {
    one_ = (one_ ^ value) * 0x9e3779b97f4a7c15, one_ ^= one_ >> 32;
    other_ = (other_ ^ value) * 0xbf58476d1ce4e5b9, other_ ^= other_ >> 29;
  }
  std::pair<uint64_t, uint64_t> Get() const { return {HashMix(one_), HashMix(other_)}; }

 private:
  uint64_t one_, other_;
};

}  // namespace twofold::sim
