// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").
//
// The n-th number of a key is a pure function of (key, n). So every shard of every layout can draw its own part, in any
// order, without the others. A key combines the run's seed with a stable hash of the purpose (a parameter's name, a
// dropout site).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace twofold {

struct PhiloxKey {
  uint64_t value = 0;
  friend bool operator==(const PhiloxKey&, const PhiloxKey&) = default;
};

// FNV-1a: stable across machines and runs (std::hash is not).
constexpr uint64_t StableHash(std::string_view text, uint64_t seed = 0xcbf29ce484222325ull) {
  uint64_t h = seed;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return h;
}

// splitmix64's finaliser: spreads (seed, stream) over the key space.
constexpr PhiloxKey MakeKey(uint64_t seed, uint64_t stream) {
  uint64_t z = seed * 0x9e3779b97f4a7c15ull + stream;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return PhiloxKey{z ^ (z >> 31)};
}
constexpr PhiloxKey MakeKey(uint64_t seed, std::string_view name) { return MakeKey(seed, StableHash(name)); }

// Four 32-bit numbers for counter `index`.
constexpr std::array<uint32_t, 4> Philox(PhiloxKey key, uint64_t index) {
  uint32_t k0 = static_cast<uint32_t>(key.value), k1 = static_cast<uint32_t>(key.value >> 32);
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32), c2 = 0, c3 = 0;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n1 = static_cast<uint32_t>(p1);
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1, n3 = static_cast<uint32_t>(p0);
    c0 = n0, c1 = n1, c2 = n2, c3 = n3;
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// Uniform in [0, 1) with 24 random bits.
constexpr float ToUniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Half of a number: element i is the lower (even i) or upper 16 bits of number i / 2 of the key's sequence.
constexpr uint16_t HalfAt(PhiloxKey key, uint64_t index) {
  return static_cast<uint16_t>(Philox(key, index / 8)[index / 2 % 4] >> (index % 2 * 16));
}
// Uniform in (0, 1), in the middle of one of 2^16 parts.
constexpr float HalfToUniform(uint16_t half) { return (static_cast<float>(half) + 0.5f) * 0x1p-16f; }

// The element at `index` of the key's uniform / standard normal sequence. Element i uses lane i % 4 (uniform) or
// pair (i / 2) % 2 with Box-Muller (normal) of counter i / 4.
inline float UniformAt(PhiloxKey key, uint64_t index) { return ToUniform(Philox(key, index / 4)[index % 4]); }
inline float NormalAt(PhiloxKey key, uint64_t index) {
  const auto r = Philox(key, index / 4);
  const uint64_t pair = (index % 4) / 2 * 2;
  const double u = (static_cast<double>(r[pair]) + 1.0) * 0x1p-32;  // in (0, 1]
  const double angle = 6.283185307179586 * static_cast<double>(r[pair + 1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

}  // namespace twofold
