// One query over keys and values (K) in bfloat16 or float.

#pragma once

#include "numbers.h"

namespace {

#ifdef REGARD_VNNI

inline __m512 sixteen(const uint16_t* x) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))), 16));
}

inline __m512 sixteen(const float* x) { return _mm512_loadu_ps(x); }

template <class K>
inline float dot(const float* query, const K* key, int width) {
    __m512 one = _mm512_setzero_ps(), two = _mm512_setzero_ps();
    for (int e = 0; e < width; e += GROUP) {
        one = _mm512_fmadd_ps(_mm512_loadu_ps(query + e), sixteen(key + e), one);
        two = _mm512_fmadd_ps(_mm512_loadu_ps(query + e + TILE), sixteen(key + e + TILE), two);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(one, two));
}

// V vectors of 16 entries of what is gathered.
template <int V, class K, class Place>
inline void gather_some(const K* values, const float* shares, int columns, Place place, int width, float factor,
                        float* y) {
    __m512 sums[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[v] = _mm512_setzero_ps();
    for (int c = 0; c < columns; ++c) {
        __m512 share = _mm512_set1_ps(shares[c]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            sums[v] = _mm512_fmadd_ps(share, sixteen(values + place(c) * width + v * TILE), sums[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(y + v * TILE, _mm512_mul_ps(sums[v], _mm512_set1_ps(factor)));
}

template <class K, class Place>
inline void gather(const K* values, const float* shares, int columns, Place place, int width, float factor,
                   float* y) {
    int e = 0;
    for (; e + 2 * GROUP <= width; e += 2 * GROUP)
        gather_some<4>(values + e, shares, columns, place, width, factor, y + e);
    for (; e < width; e += GROUP) gather_some<2>(values + e, shares, columns, place, width, factor, y + e);
}

#else

template <class K>
inline float dot(const float* query, const K* key, int width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int e = 0; e < width; ++e) sum += query[e] * as_float(key[e]);
    return sum;
}

template <class K, class Place>
inline void gather(const K* values, const float* shares, int columns, Place place, int width, float factor,
                   float* y) {
    for (int e = 0; e < width; ++e) y[e] = 0;
    for (int c = 0; c < columns; ++c)
        for (int e = 0; e < width; ++e) y[e] += factor * shares[c] * as_float(values[place(c) * width + e]);
}

#endif

template <class K>
inline void fetch(const K* row, int width) {
    for (int e = 0; e < width; e += GROUP) __builtin_prefetch(row + e);
}

// One query over the keys and values in `columns` places, into y (width, a multiple of GROUP); zeros where there are none.
template <class K, class Place>
void attend_to(const float* query, const K* keys, const K* values, int columns, Place place, int width,
               float scale, float* shares, float* y) {
    float highest = -INFINITY;
    for (int c = 0; c < columns; ++c) {
        fetch(keys + (place(c) + 16) * width, width);
        fetch(values + place(c) * width, width);  // which are wanted when the keys are through
        shares[c] = scale * dot(query, keys + place(c) * width, width);
        highest = shares[c] > highest ? shares[c] : highest;
    }
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int c = 0; c < columns; ++c) {
        float share = exponential(shares[c] - highest);
        shares[c] = share;
        total += share;
    }
    gather(values, shares, columns, place, width, total > 0 ? 1.0f / total : 0.0f, y);
}

// The same over those of the first `columns` places that are visible (all where null); scratch holds two numbers for each.
template <class K>
void attend(const float* query, const K* keys, const K* values, int columns, int width, float scale,
            const uint8_t* visible, float* scratch, float* y) {
    if (!visible) {
        attend_to(query, keys, values, columns, [](int c) { return int64_t(c); }, width, scale, scratch, y);
        return;
    }
    int32_t* places = reinterpret_cast<int32_t*>(scratch + columns);
    int seen = 0;
    for (int c = 0; c < columns; ++c) {
        places[seen] = c;
        seen += visible[c] != 0;
    }
    attend_to(query, keys, values, seen, [=](int c) { return int64_t(places[c]); }, width, scale, scratch, y);
}

}  // namespace
