// Queries over keys and values (K) in bfloat16 or float.

#pragma once

#include "numbers.h"

namespace {

constexpr int TOGETHER = 4;  // queries over the same keys and values that share one reading of them

template <class K>
inline void fetch(const K* row, int width) {
    for (int e = 0; e < width; e += GROUP) __builtin_prefetch(row + e);
}

// Scores become shares that are still to be divided by their sum; what they have to be multiplied by for that: 0 where there are none.
// Not for the compiler to lay out anew for each number of queries: the order of a sum is part of its bits.
__attribute__((noinline)) float exponentiate(float* shares, int columns) {
    float highest = -INFINITY, total = 0;
#pragma omp simd reduction(max : highest)
    for (int c = 0; c < columns; ++c) highest = shares[c] > highest ? shares[c] : highest;
#pragma omp simd reduction(+ : total)
    for (int c = 0; c < columns; ++c) {
        float share = exponential(shares[c] - highest);
        shares[c] = share;
        total += share;
    }
    return total > 0 ? 1.0f / total : 0.0f;
}

// N queries (N, width) over the keys and values in some places, into y (N, width), zeros where there are none; width a multiple of
// GROUP. What comes out of a query is the same to the bit whatever N is. shares: (N, columns).
template <int N, class K>
void attend_together(const float* query, const K* keys, const K* values, const int32_t* places, int columns, int width,
                     float scale, float* shares, float* y) {
    for (int c = 0; c < columns; ++c) {
        const K* key = keys + int64_t(places[c]) * width;
        fetch(key + 16 * width, width);
        fetch(values + int64_t(places[c]) * width, width);  // which are wanted when the keys are through
        Lanes sums[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) sums[n] = Lanes{};
        for (int e = 0; e < width; e += LANES) {
            Lanes own = lanes(key + e);
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) sums[n] += own * lanes(query + n * width + e);
        }
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) shares[n * columns + c] = scale * total(sums[n]);
    }
    float factors[N];
    for (int n = 0; n < N; ++n) factors[n] = exponentiate(shares + n * columns, columns);
    constexpr int V = LANES == 16 || N > 2 ? 2 : 4;  // vectors of what is gathered, whose sums fit the registers
    for (int e = 0; e < width; e += V * LANES) {
        Lanes sums[N][V];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sums[n][v] = Lanes{};
        for (int c = 0; c < columns; ++c) {
            Lanes value[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) value[v] = lanes(values + int64_t(places[c]) * width + e + v * LANES);
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) sums[n][v] += shares[n * columns + c] * value[v];
        }
        for (int n = 0; n < N; ++n)
            for (int v = 0; v < V; ++v) store(y + n * width + e + v * LANES, factors[n] * sums[n][v]);
    }
}

// `count` queries, at most TOGETHER, over those of the first `columns` keys and values that are visible (all where null). scratch
// holds two numbers for each query and column.
template <class K>
void attend(int count, const float* query, const K* keys, const K* values, int columns, int width, float scale,
            const uint8_t* visible, float* scratch, float* y) {
    int32_t* places = reinterpret_cast<int32_t*>(scratch + int64_t(count) * columns);
    int seen = 0;
    for (int c = 0; c < columns; ++c) {
        places[seen] = c;
        seen += !visible || visible[c];
    }
    auto run = count == 1   ? attend_together<1, K>
               : count == 2 ? attend_together<2, K>
               : count == 3 ? attend_together<3, K>
                            : attend_together<4, K>;
    run(query, keys, values, places, seen, width, scale, scratch, y);
}

}  // namespace
