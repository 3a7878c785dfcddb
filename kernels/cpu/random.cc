// Random numbers and dropout. Element i of the tensor uses element i of the key's sequence, as core/base/philox.h
// defines it: UniformAt and NormalAt, to the bit.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/philox.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/philox_block.h"

namespace twofold::cpu {
namespace {

constexpr int64_t kCounters = 16, kNumbers = 4 * kCounters;  // per block
constexpr uint64_t kLow = 0xffffffff;

// The numbers of kCounters counters from `counter` on: Philox() for all of them in parallel.
void PhiloxBlock(PhiloxKey key, uint64_t counter, uint32_t* out) {
  uint64_t pairs[2][kCounters];
#pragma omp simd
  for (int64_t l = 0; l < kCounters; ++l) {
    const uint64_t index = counter + static_cast<uint64_t>(l);
    uint64_t c0 = index & kLow, c1 = index >> 32, c2 = 0, c3 = 0;  // 32 bits each, ready to be multiplied
    uint32_t k0 = static_cast<uint32_t>(key.value), k1 = static_cast<uint32_t>(key.value >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {  // without branches, so that all stays in registers
      const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
      c0 = (p1 >> 32) ^ c1 ^ k0;
      c1 = p1 & kLow;
      c2 = (p0 >> 32) ^ c3 ^ k1;
      c3 = p0 & kLow;
      k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    pairs[0][l] = c0 | c1 << 32;
    pairs[1][l] = c2 | c3 << 32;
  }
  static_assert(std::endian::native == std::endian::little, "the lower half of a pair comes first");
  for (int64_t l = 0; l < kCounters; ++l) {
    std::memcpy(out + 4 * l, &pairs[0][l], sizeof(uint64_t));
    std::memcpy(out + 4 * l + 2, &pairs[1][l], sizeof(uint64_t));
  }
}

}  // namespace

void Numbers(PhiloxKey key, uint64_t index, int64_t n, uint32_t* out) {
  uint32_t block[kNumbers];
  for (int64_t done = 0; done < n;) {
    const uint64_t at = index + static_cast<uint64_t>(done);
    const int64_t skip = static_cast<int64_t>(at % 4), count = std::min(n - done, kNumbers - skip);
    uint32_t* const to = count == kNumbers ? out + done : block;
    PhiloxBlock(key, at / 4, to);
    if (to == block) std::copy_n(block + skip, count, out + done);
    done += count;
  }
}

void Halves(PhiloxKey key, uint64_t index, int64_t n, uint16_t* out) {
  uint32_t numbers[kChunk / 2 + 1];
  const auto skip = static_cast<int64_t>(index % 2);
  Numbers(key, index / 2, (skip + n + 1) / 2, numbers);
  std::memcpy(out, reinterpret_cast<const char*>(numbers) + 2 * skip, static_cast<size_t>(2 * n));
}

namespace {

// Standard normals [index, index + n), n <= kChunk: Box-Muller on pairs of numbers, in double like NormalAt.
void Normals(PhiloxKey key, uint64_t index, int64_t n, float* out) {
  uint32_t bits[kChunk + 2];
  const uint64_t even = index & ~uint64_t{1};
  const int64_t skip = static_cast<int64_t>(index - even), pairs = (skip + n + 1) / 2;
  Numbers(key, even, 2 * pairs, bits);
  for (int64_t p = 0; p < pairs; ++p) {
    const double u = (static_cast<double>(bits[2 * p]) + 1.0) * 0x1p-32;
    const double angle = 6.283185307179586 * static_cast<double>(bits[2 * p + 1]) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u));
    const int64_t i = 2 * p - skip;
    if (i >= 0) out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < n) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

void Compute(const ops::RandomFill& o, Context& c) {
  const bool normal = o.distribution == ops::RandomFill::kNormal;
  const double offset = o.a, factor = normal ? o.b : o.b - o.a;
  ForChunks(c.pool, o.out.numel(), [&](int64_t first, int64_t count) {
    float drawn[kChunk];
    double scaled[kChunk];
    if (normal) {
      ForRuns(o.where, first, count,
              [&](uint64_t index, int64_t at, int64_t n) { Normals(o.key, index, n, drawn + at); });
    } else {
      uint32_t bits[kChunk];
      ForRuns(o.where, first, count,
              [&](uint64_t index, int64_t at, int64_t n) { Numbers(o.key, index, n, bits + at); });
      MapChunk(count, drawn, static_cast<const uint32_t*>(bits), [](uint32_t b) { return ToUniform(b); });
    }
    MapChunk(count, scaled, static_cast<const float*>(drawn),
             [=](float u) { return offset + factor * static_cast<double>(u); });
    Convert(scaled, DType::kF64, AddressOf(o.out, first), o.out.dtype(), count);
  });
}

namespace {

// Keeps element i if UniformAt(key, where.Of(i)) >= p. `mask` may be null.
template <class Op>
void Drop(const Op& o, uint8_t* mask, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> source(o.x);
    const Sink<A> sink(o.y);
    const A scale = static_cast<A>(1 / (1 - o.p));
    const float p = static_cast<float>(o.p);
    ForChunks(c.pool, o.x.numel(), [&](int64_t first, int64_t count) {
      uint32_t bits[kChunk];
      ForRuns(o.where, first, count,
              [&](uint64_t index, int64_t at, int64_t n) { Numbers(o.key, index, n, bits + at); });
      if (mask != nullptr) {
        MapChunk(count, mask + first, static_cast<const uint32_t*>(bits),
                 [=](uint32_t b) { return static_cast<uint8_t>(ToUniform(b) >= p); });
      }
      A buffer[kChunk], result[kChunk];
      A* y = sink.At(first, result);
      MapChunk(count, y, source.At(first, count, buffer), static_cast<const uint32_t*>(bits),
               [=](A x, uint32_t b) { return ToUniform(b) >= p ? x * scale : A(0); });
      sink.Put(first, count, y);
    });
  });
}

}  // namespace

void Compute(const ops::Dropout& o, Context& c) { Drop(o, nullptr, c); }
void Compute(const ops::MaskedDropoutForward& o, Context& c) { Drop(o, o.mask.data<uint8_t>(), c); }

void Compute(const ops::MaskedDropoutBackward& o, Context& c) {
  VisitWide(o.dy.dtype(), [&]<class A>() {
    const Source<A> source(o.dy);
    const Sink<A> sink(o.dx);
    const A scale = static_cast<A>(1 / (1 - o.p));
    const uint8_t* mask = o.mask.data<uint8_t>();
    ForChunks(c.pool, o.dy.numel(), [&](int64_t first, int64_t count) {
      A buffer[kChunk], result[kChunk];
      A* dx = sink.At(first, result);
      MapChunk(count, dx, source.At(first, count, buffer), mask + first,
               [=](A dy, uint8_t keep) { return keep != 0 ? dy * scale : A(0); });
      sink.Put(first, count, dx);
    });
  });
}

}  // namespace twofold::cpu
