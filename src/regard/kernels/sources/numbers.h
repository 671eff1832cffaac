// Numbers of other formats, functions of numbers, and what the kernels share.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define REGARD_VNNI 1
#if defined(__AVX512BF16__)
#define REGARD_BF16 1
#endif
#elif defined(__AVX2__) && defined(__FMA__)
#define REGARD_AVX2 1
#endif
#ifdef __AVX__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

constexpr int GROUP = 32;  // inputs that share an activation's scale
constexpr int TILE = 16;   // outputs that are stored together
constexpr int UNIT = 32;   // outputs that a thread takes at a time: a group of whoever reads them
constexpr int ROWS = 8;    // rows that share one reading of the weights

inline float as_float(float x) { return x; }

inline float as_float(uint16_t x) {  // bfloat16
    return __builtin_bit_cast(float, uint32_t(x) << 16);
}

#if defined(__AVX512F__)
constexpr int LANES = 16;  // floats of a register
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef float Lanes __attribute__((vector_size(LANES * 4)));
typedef uint32_t Words __attribute__((vector_size(LANES * 4)));

inline Lanes lanes(const float* x) {
    Lanes y;
    std::memcpy(&y, x, sizeof(y));
    return y;
}

inline Lanes lanes(const uint16_t* x) {  // bfloat16
    typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));
    Halves halves;
    std::memcpy(&halves, x, sizeof(halves));
    return __builtin_bit_cast(Lanes, __builtin_convertvector(halves, Words) << 16);
}

inline Lanes everywhere(float x) { return x - Lanes{}; }  // - 0 changes no number, + 0 would change -0

// sum + x * y, rounded once where the processor can do that. Left to the compiler, `sum += x * y` is rounded once or twice as suits
// the processor that it tunes for (GCC 12 for Zen, newer ones in general) and the loop around it, and the same row would have
// other bits beside other rows.
inline Lanes plus_product(Lanes sum, Lanes x, Lanes y) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(x, y, sum);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(x, y, sum);
#elif defined(__aarch64__)
    return vfmaq_f32(sum, x, y);
#else
    return sum + x * y;
#endif
}

// Numbers that serve several products, to be read into a register once: the compiler would read them for each product, and the
// processor reads one vector while it multiplies one. Where memory is the limit it is better left to the compiler.
inline void keep_in_register(Lanes& x) {
#if defined(__AVX512F__)
    asm("" : "+v"(x));
#elif defined(__AVX__)
    asm("" : "+x"(x));
#else
    (void)x;
#endif
}

inline void store(float* place, Lanes x) { std::memcpy(place, &x, sizeof(x)); }

// The sum of all lanes, always in the same order.
inline float total(Lanes x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps(x);
#elif defined(__AVX__)
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}

// The totals of R rows times O outputs, and the bias of each output added; the same to the bit as one `total` after another.
template <int R, int O>
inline void totals(const Lanes (&sums)[R][O], const float* bias, float* y, int64_t stride) {
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < O; ++o) y[r * stride + o] = total(sums[r][o]) + bias[o];
}

#if defined(__AVX512F__)
// Sixteen at once: halves, quarters, pairs and single lanes of vectors are added to their neighbours', as in `total`.
template <>
inline void totals<4, 4>(const Lanes (&sums)[4][4], const float* bias, float* y, int64_t stride) {
    __m512 outputs[4];  // of each output, a quarter for each row
    for (int o = 0; o < 4; ++o) {
        __m512 a = sums[0][o], b = sums[1][o], c = sums[2][o], d = sums[3][o];
        __m512 ab = _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
        __m512 cd = _mm512_shuffle_f32x4(c, d, 0x44) + _mm512_shuffle_f32x4(c, d, 0xee);
        outputs[o] = _mm512_shuffle_f32x4(ab, cd, 0x88) + _mm512_shuffle_f32x4(ab, cd, 0xdd);
    }
    __m512 one = _mm512_shuffle_ps(outputs[0], outputs[1], 0x44) + _mm512_shuffle_ps(outputs[0], outputs[1], 0xee);
    __m512 two = _mm512_shuffle_ps(outputs[2], outputs[3], 0x44) + _mm512_shuffle_ps(outputs[2], outputs[3], 0xee);
    __m512 all = _mm512_shuffle_ps(one, two, 0x88) + _mm512_shuffle_ps(one, two, 0xdd);
    all += _mm512_broadcast_f32x4(_mm_loadu_ps(bias));
    _mm_storeu_ps(y, _mm512_extractf32x4_ps(all, 0));
    _mm_storeu_ps(y + stride, _mm512_extractf32x4_ps(all, 1));
    _mm_storeu_ps(y + 2 * stride, _mm512_extractf32x4_ps(all, 2));
    _mm_storeu_ps(y + 3 * stride, _mm512_extractf32x4_ps(all, 3));
}

// The totals of one row, SIDE outputs at once, in the same order.
constexpr int SIDE = 8;
inline void totals_of_side(const Lanes (&sums)[SIDE], const float* bias, float* y) {
    __m512 halves[4], quarters[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        __m512 a = sums[2 * i], b = sums[2 * i + 1];
        halves[i] = _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        __m512 a = halves[2 * i], b = halves[2 * i + 1];
        quarters[i] = _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
    }
    __m512 pairs = _mm512_shuffle_ps(quarters[0], quarters[1], 0x44) + _mm512_shuffle_ps(quarters[0], quarters[1], 0xee);
    __m512 all = _mm512_shuffle_ps(pairs, pairs, 0x88) + _mm512_shuffle_ps(pairs, pairs, 0xdd);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    __m256 in_order = _mm512_castps512_ps256(_mm512_permutexvar_ps(order, all));
    _mm256_storeu_ps(y, _mm256_add_ps(in_order, _mm256_loadu_ps(bias)));
}
#elif defined(__AVX__)
constexpr int SIDE = 4;
inline void totals_of_side(const Lanes (&sums)[SIDE], const float* bias, float* y) {
    __m256 ab = _mm256_permute2f128_ps(sums[0], sums[1], 0x20) + _mm256_permute2f128_ps(sums[0], sums[1], 0x31);
    __m256 cd = _mm256_permute2f128_ps(sums[2], sums[3], 0x20) + _mm256_permute2f128_ps(sums[2], sums[3], 0x31);
    __m256 low = _mm256_shuffle_ps(ab, cd, 0x44) + _mm256_shuffle_ps(ab, cd, 0xee);  // of a, c, b and d, two pairs
    __m256 all = _mm256_shuffle_ps(low, low, 0x88) + _mm256_shuffle_ps(low, low, 0xdd);  // a, c, a, c; b, d, b, d
    __m128 in_order = _mm_unpacklo_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
    _mm_storeu_ps(y, _mm_add_ps(in_order, _mm_loadu_ps(bias)));
}
#endif

enum Activation { NONE = 0, RELU = 1, GELU_TANH = 2, GELU = 3, SWISH = 4 };

inline void keep(float& place, float x) { place = x; }

inline void keep(uint16_t& place, float x) {  // in bfloat16, rounded to nearest
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    bool nan = (bits & 0x7fffffff) > 0x7f800000;  // which stays one
    place = nan ? uint16_t(bits >> 16 | 0x40) : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// e^x for -87 <= x <= 88 to a few units in the last place, without branches, so that loops over it become vectors (Cephes'
// polynomial); of NaN it is NaN. Added to 1.5 * 2^23 a float is rounded to a whole number n, which is then its lowest bits.
template <class X>
inline X exponential_within(X x) {  // a float, or Lanes
    using Bits = std::conditional_t<std::is_same_v<X, float>, uint32_t, Words>;
    constexpr float whole = 12582912.0f;
    const X shifted = x * 1.44269504f + whole, n = shifted - whole, r = x - n * 0.693359375f + n * 2.12194440e-4f;
    X p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * __builtin_bit_cast(X, (__builtin_bit_cast(Bits, shifted) << 23) + 0x3f800000);
}

inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    return exponential_within(x);
}

// e^{-x} for x >= 0, and e^{-40} beyond 40: what is smaller is lost when it is added to 1 in any case, and numbers so small that
// they are denormal cost a hundred times a product, even in lanes that are not chosen afterwards.
inline float decayed(float x) {
    return exponential_within(x > 40.0f ? -40.0f : -x);
}

inline void activate(float* y, int count, int kind) {
    if (kind == RELU) {
        for (int i = 0; i < count; ++i) y[i] = y[i] < 0 ? 0 : y[i];
    } else if (kind == GELU_TANH) {  // x (1 + tanh(u)) / 2 = x / (1 + e^{-2u})
#pragma omp simd
        for (int i = 0; i < count; ++i) {
            float x = y[i], u = 0.7978845608f * (x + 0.044715f * x * x * x), e = decayed(2.0f * std::fabs(u));
            y[i] = x * (u < 0 ? e : 1.0f) / (1.0f + e);
        }
    } else if (kind == GELU) {  // x (1 + erf(x / sqrt 2)) / 2, erf to 1.5e-7 (Abramowitz and Stegun 7.1.26)
#pragma omp simd
        for (int i = 0; i < count; ++i) {
            float x = y[i], z = std::fabs(x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
            float p = 1.061405429f;
            p = p * t - 1.453152027f;
            p = p * t + 1.421413741f;
            p = p * t - 0.284496736f;
            p = p * t + 0.254829592f;
            float tail = 0.5f * p * t * decayed(z * z);  // of the normal distribution, beyond |x|
            y[i] = x * (x < 0 ? tail : 1.0f - tail);
        }
    } else if (kind == SWISH) {  // x / (1 + e^{-x})
#pragma omp simd
        for (int i = 0; i < count; ++i) {
            float x = y[i], e = decayed(std::fabs(x));
            y[i] = x * (x < 0 ? e : 1.0f) / (1.0f + e);
        }
    }
}

}  // namespace
