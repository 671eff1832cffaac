// Products of bytes by AVX-512 and `vpdpbusd`; read by linear.h.

#pragma once

namespace {

template <int R, int T>  // R rows times T tiles of outputs
inline void tiles8(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    const int groups = w.inputs / GROUP;
    const int8_t* values = x.values + int64_t(row) * w.inputs;
    const float* scales = x.scales + int64_t(row) * groups;
    const int32_t* offsets = x.sums + int64_t(row) * groups;
    const uint8_t* weight = w.weight + int64_t(tile) * TILE * w.inputs;
    const int64_t next = int64_t(TILE) * w.inputs;
    __m512 sums[R][T];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sums[r][t] = _mm512_setzero_ps();
    for (int g = 0; g < groups; ++g) {
        __m512i part[R][T];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) part[r][t] = _mm512_set1_epi32(-128 * offsets[g * R + r]);
#pragma GCC unroll 8
        for (int k = 0; k < GROUP / 4; ++k)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) {
                const uint8_t* here = weight + t * next + (g * (GROUP / 4) + k) * 64;
                __builtin_prefetch(here + T * next, 0, 2);  // what this thread comes to next
                __m512i bytes = _mm512_loadu_si512(here);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    int32_t four;
                    std::memcpy(&four, values + ((g * (GROUP / 4) + k) * R + r) * 4, 4);
                    part[r][t] = _mm512_dpbusd_epi32(part[r][t], bytes, _mm512_set1_epi32(four));
                }
            }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            __m512 scale = _mm512_set1_ps(scales[g * R + r]);
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(part[r][t]), scale, sums[r][t]);
        }
    }
    const float* own = static_cast<const float*>(w.scale) + tile * TILE;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
            __m512 found = _mm512_fmadd_ps(sums[r][t], _mm512_loadu_ps(own + t * TILE),
                                           _mm512_loadu_ps(w.bias + (tile + t) * TILE));
            _mm512_storeu_ps(y + r * stride + t * TILE, found);
        }
}

template <int R, int T>
inline void tiles4(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    const int groups = w.inputs / GROUP;
    const int64_t next = int64_t(TILE) * w.inputs / 2;
    const uint8_t* weight = w.weight + tile * next;
    const uint16_t* stored = static_cast<const uint16_t*>(w.scale) + int64_t(tile) * groups * TILE;
    const int8_t* values = x.values + int64_t(row) * w.inputs;
    const float* scales = x.scales + int64_t(row) * groups;
    const int32_t* offsets = x.sums + int64_t(row) * groups;
    const __m512i low = _mm512_set1_epi8(15);
    __m512 sums[R][T];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sums[r][t] = _mm512_setzero_ps();
    for (int g = 0; g < groups; ++g) {
        __m512i part[R][T];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) part[r][t] = _mm512_set1_epi32(-8 * offsets[g * R + r]);
#pragma GCC unroll 8
        for (int k = 0; k < GROUP / 8; ++k)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) {
                const uint8_t* here = weight + t * next + (g * (GROUP / 8) + k) * 64;
                __builtin_prefetch(here + T * next, 0, 2);
                __m512i both = _mm512_loadu_si512(here);
                __m512i first = _mm512_and_si512(both, low);
                __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    const int8_t* own = values + ((g * (GROUP / 4) + 2 * k) * R + r) * 4;
                    int32_t four;
                    std::memcpy(&four, own, 4);
                    part[r][t] = _mm512_dpbusd_epi32(part[r][t], first, _mm512_set1_epi32(four));
                    std::memcpy(&four, own + 4 * R, 4);
                    part[r][t] = _mm512_dpbusd_epi32(part[r][t], second, _mm512_set1_epi32(four));
                }
            }
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
            __m256i halves = _mm256_loadu_si256((const __m256i*)(stored + (int64_t(t) * groups + g) * TILE));
            __m512 own = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                __m512 scale = _mm512_mul_ps(own, _mm512_set1_ps(scales[g * R + r]));
                sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(part[r][t]), scale, sums[r][t]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
            _mm512_storeu_ps(y + r * stride + t * TILE,
                             _mm512_add_ps(sums[r][t], _mm512_loadu_ps(w.bias + (tile + t) * TILE)));
}

template <int R>
inline void unit(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    // Two tiles at a time even of 8 rows, whose sums are then in memory: what is read of the rows serves twice, and no product
    // waits for the one before.
    if (w.bits == 8)
        tiles8<R, UNIT / TILE>(w, x, row, tile, y, stride);
    else
        tiles4<R, UNIT / TILE>(w, x, row, tile, y, stride);
}

}  // namespace
