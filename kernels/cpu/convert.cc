#include "kernels/cpu/convert.h"

#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace twofold::cpu {
namespace {

template <class To, class From>
void ConvertAll(const From* in, To* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = ConvertTo<To>(in[i]);
}

#if defined(__AVX512F__)
// The compiler does not vectorise _Float16. This rounds in the same way, to nearest even, 16 elements at a time.
__m256i Halves(const float* in, __mmask16 mask) {
  return _mm512_maskz_cvtps_ph(mask, _mm512_maskz_loadu_ps(mask, in), _MM_FROUND_TO_NEAREST_INT);
}
template <>
void ConvertAll<F16, float>(const float* in, F16* out, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), Halves(in + i, 0xffff));
  const __m256i rest = Halves(in + i, static_cast<__mmask16>((1u << (n - i)) - 1));
  std::memcpy(static_cast<void*>(out + i), &rest, static_cast<size_t>(n - i) * sizeof(F16));
}
template <>
void ConvertAll<float, F16>(const F16* in, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    _mm512_storeu_ps(out + i, _mm512_maskz_cvtph_ps(0xffff, half));
  }
  const auto mask = static_cast<__mmask16>((1u << (n - i)) - 1);
  __m256i rest = _mm256_setzero_si256();
  std::memcpy(&rest, in + i, static_cast<size_t>(n - i) * sizeof(F16));
  _mm512_mask_storeu_ps(out + i, mask, _mm512_maskz_cvtph_ps(mask, rest));
}
#endif

}  // namespace

void Convert(const void* in, DType from, void* out, DType to, int64_t n) {
  if (n <= 0) return;
  if (from == to) {
    std::memmove(out, in, static_cast<size_t>(n * ElementSize(from)));
    return;
  }
  VisitType(from, [&]<class From>() {
    VisitType(to, [&]<class To>() { ConvertAll(static_cast<const From*>(in), static_cast<To*>(out), n); });
  });
}

}  // namespace twofold::cpu
