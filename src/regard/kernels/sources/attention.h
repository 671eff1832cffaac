// Queries over keys and values (K) in bfloat16 or float.
//
//   y = sum_c softmax_c(scale q . k_c) v_c        over the columns c that the query may attend to
//
// What comes out of a query is the same to the bit whatever other queries are computed with it, and whether its columns are
// given one by one or as a range: products are summed over the width in the same order, and shares over the columns in theirs.

#pragma once

#include "numbers.h"

extern "C" {

// The columns `first` to `end` - 1, which a query may attend to.
struct Span {
    int32_t first, end;
};
}

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
            for (int n = 0; n < N; ++n) sums[n] = plus_product(sums[n], own, lanes(query + n * width + e));
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
                for (int v = 0; v < V; ++v)
                    sums[n][v] = plus_product(sums[n][v], everywhere(shares[n * columns + c]), value[v]);
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

// The products of N queries with the keys of all columns from `first` to `end`, times `scale`, into shares (N, room).
template <int N, class K>
inline void score_range(const float* const* queries, const K* keys, int first, int end, int width, float scale, float* shares,
                        int64_t room) {
    constexpr int C = LANES == 16 ? 4 : 2;  // columns whose sums fit the registers
    static const float nothing[C] = {};
    int c = first;
    for (; c + C <= end; c += C) {
        Lanes sums[N][C];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
            for (int i = 0; i < C; ++i) sums[n][i] = Lanes{};
        for (int e = 0; e < width; e += LANES) {
            Lanes own[C];
#pragma GCC unroll 4
            for (int i = 0; i < C; ++i) {
                own[i] = lanes(keys + int64_t(c + i) * width + e);
                keep_in_register(own[i]);
            }
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) {
                Lanes query = lanes(queries[n] + e);
                keep_in_register(query);
#pragma GCC unroll 4
                for (int i = 0; i < C; ++i) sums[n][i] = plus_product(sums[n][i], own[i], query);
            }
        }
        totals(sums, nothing, shares + c - first, room);
    }
    for (; c < end; ++c)
        for (int n = 0; n < N; ++n) {
            Lanes sum = {};
            for (int e = 0; e < width; e += LANES)
                sum = plus_product(sum, lanes(keys + int64_t(c) * width + e), lanes(queries[n] + e));
            shares[n * room + c - first] = total(sum);
        }
    for (int n = 0; n < N; ++n)
#pragma omp simd
        for (int i = 0; i < end - first; ++i) shares[n * room + i] *= scale;
}

// V vectors of what N queries gather, from the values at `values` on: each over its own span; shares begin at column `first`.
template <int N, int V, class K>
inline void gather_range(const K* values, const Span* spans, int first, const float* shares, int64_t room, int width,
                         const float* factors, float* const* y, int e) {
    int begin = spans[0].first, end = spans[0].end;  // of the columns that all attend to
    for (int n = 1; n < N; ++n) {
        begin = spans[n].first > begin ? spans[n].first : begin;
        end = spans[n].end < end ? spans[n].end : end;
    }
    Lanes sums[N][V];
    auto alone = [&](int n, int from, int to) {
        for (int c = from; c < to; ++c)
            for (int v = 0; v < V; ++v)
                sums[n][v] = plus_product(sums[n][v], everywhere(shares[n * room + c - first]),
                                          lanes(values + int64_t(c) * width + e + v * LANES));
    };
    for (int n = 0; n < N; ++n) {
        for (int v = 0; v < V; ++v) sums[n][v] = Lanes{};
        alone(n, spans[n].first, begin);
    }
    for (int c = begin; c < end; ++c) {
        Lanes value[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            value[v] = lanes(values + int64_t(c) * width + e + v * LANES);
            keep_in_register(value[v]);
        }
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
            Lanes share = everywhere(shares[n * room + c - first]);
            keep_in_register(share);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sums[n][v] = plus_product(sums[n][v], share, value[v]);
        }
    }
    for (int n = 0; n < N; ++n) {
        alone(n, end, spans[n].end);
        for (int v = 0; v < V; ++v) store(y[n] + e + v * LANES, factors[n] * sums[n][v]);
    }
}

// N queries, each over the columns of its span, into y; all have some columns in common. shares: (N, room), room for all columns.
template <int N, class K>
void attend_spans_together(const float* const* queries, const K* keys, const K* values, const Span* spans, int width,
                           float scale, float* shares, int64_t room, float* const* y) {
    int first = spans[0].first, end = spans[0].end;  // of the columns that any attends to
    for (int n = 1; n < N; ++n) {
        first = spans[n].first < first ? spans[n].first : first;
        end = spans[n].end > end ? spans[n].end : end;
    }
    score_range<N>(queries, keys, first, end, width, scale, shares, room);
    float factors[N];
    for (int n = 0; n < N; ++n) {
        factors[n] = exponentiate(shares + n * room + spans[n].first - first, spans[n].end - spans[n].first);
    }
    constexpr int V = LANES == 16 || N > 2 ? 2 : 4;
    int e = 0;
    if constexpr (LANES == 16)
        for (; e + 2 * V * LANES <= width; e += 2 * V * LANES)
            gather_range<N, 2 * V>(values, spans, first, shares, room, width, factors, y, e);
    for (; e < width; e += V * LANES) gather_range<N, V>(values, spans, first, shares, room, width, factors, y, e);
}

// As `attend`, of at most TOGETHER queries over one span each; those that follow each other and have columns in common are
// computed together. shares: (TOGETHER, room).
template <class K>
void attend_spans(int count, const float* const* queries, const K* keys, const K* values, const Span* spans, int width,
                  float scale, float* shares, int64_t room, float* const* y) {
    for (int from = 0; from < count;) {
        int begin = spans[from].first, end = spans[from].end, together = 1;
        while (from + together < count) {
            const Span& next = spans[from + together];
            begin = next.first > begin ? next.first : begin;
            end = next.end < end ? next.end : end;
            if (begin >= end) break;
            ++together;
        }
        auto run = together == 1   ? attend_spans_together<1, K>
                   : together == 2 ? attend_spans_together<2, K>
                   : together == 3 ? attend_spans_together<3, K>
                                   : attend_spans_together<4, K>;
        run(queries + from, keys, values, spans + from, width, scale, shares, room, y + from);
        from += together;
    }
}

}  // namespace
