// Texts of an encoder, one after another without padding, that attend to themselves in both directions.
//
//   y_t = sum_s softmax_s(scale q_t . k_s) v_s        over the tokens s of t's text
//
// Of a text and a head, keys are laid out with their tokens side by side and values with theirs one below the other, in float,
// so that scores and sums are products of one number and a vector: nothing is added up across a vector. What comes out of a
// text is the same to the bit whatever others are read with it, and on any number of threads.

#pragma once

#include "attention.h"
#include "runtime.h"

namespace {

constexpr int ASKING = 4;  // queries that share one reading of keys and values

inline int64_t in_lanes(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

// Numbers for a text of so many tokens: keys, values, scores, queries, what is gathered.
inline int64_t text_room(int64_t tokens, int64_t width) {
    return in_lanes(tokens) * width + tokens * in_lanes(width) + ASKING * (in_lanes(tokens) + width + in_lanes(width));
}

#if defined(REGARD_BF16)
struct Pair {  // two numbers in bfloat16
    int32_t word;
};

struct Pairs {
    Lanes words;
};

inline Pairs everywhere(Pair x) { return {(Lanes)_mm512_set1_epi32(x.word)}; }

inline void keep_in_register(Pairs& x) { keep_in_register(x.words); }

inline Lanes plus_product(Lanes sum, Pairs x, Lanes row) {
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x.words, (__m512bh)row);
}
#endif

// y (ASKING, V vectors) = the sum over `count` of x (ASKING, count) times rows (count, V vectors).
template <int V, class X>
inline void mix(const X* x, int64_t x_stride, const float* rows, int64_t stride, int64_t count, float* y,
                int64_t y_stride) {
    Lanes sums[ASKING][V];
#pragma GCC unroll 4
    for (int n = 0; n < ASKING; ++n)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[n][v] = Lanes{};
    for (int64_t i = 0; i < count; ++i) {
        Lanes row[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            row[v] = lanes(rows + i * stride + v * LANES);
            keep_in_register(row[v]);
        }
#pragma GCC unroll 4
        for (int n = 0; n < ASKING; ++n) {
            auto own = everywhere(x[n * x_stride + i]);
            keep_in_register(own);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sums[n][v] = plus_product(sums[n][v], own, row[v]);
        }
    }
    for (int n = 0; n < ASKING; ++n)
        for (int v = 0; v < V; ++v) store(y + n * y_stride + v * LANES, sums[n][v]);
}

// The same of any number of vectors: `width` numbers, a multiple of LANES.
template <class X>
inline void mix_all(const X* x, int64_t x_stride, const float* rows, int64_t width, int64_t count, float* y,
                    int64_t y_stride) {
    constexpr int V = LANES == 16 ? 4 : 2;  // vectors whose sums fit the registers
    int64_t from = 0;
    for (; from + V * LANES <= width; from += V * LANES) mix<V>(x, x_stride, rows + from, width, count, y + from, y_stride);
    const int64_t rest = (width - from) / LANES;
    if (rest == 3)
        mix<3>(x, x_stride, rows + from, width, count, y + from, y_stride);
    else if (rest == 2)
        mix<2>(x, x_stride, rows + from, width, count, y + from, y_stride);
    else if (rest == 1)
        mix<1>(x, x_stride, rows + from, width, count, y + from, y_stride);
}

// Rows (tokens, `first` to `width`) become columns (width, side) in float; in those beyond `tokens` is anything.
template <class K>
inline void turn_rest(const K* rows, int64_t stride, int tokens, int first, int width, float* turned, int64_t side) {
    for (int c = 0; c < tokens; ++c)
        for (int e = first; e < width; ++e) turned[e * side + c] = as_float(rows[c * stride + e]);
    for (int e = first; e < width; ++e)
        for (int64_t c = tokens; c < side; ++c) turned[e * side + c] = 0;
}

#if defined(__AVX512F__)
// Word e of row c becomes word c of row e.
inline void turn_words(__m512i (&rows)[16]) {
    __m512i pairs[16], fours[16];
    for (int c = 0; c < 16; c += 2) {
        pairs[c] = _mm512_unpacklo_epi32(rows[c], rows[c + 1]);
        pairs[c + 1] = _mm512_unpackhi_epi32(rows[c], rows[c + 1]);
    }
    for (int c = 0; c < 16; c += 4)
        for (int half = 0; half < 2; ++half) {
            fours[c + 2 * half] = _mm512_unpacklo_epi64(pairs[c + half], pairs[c + 2 + half]);
            fours[c + 2 * half + 1] = _mm512_unpackhi_epi64(pairs[c + half], pairs[c + 2 + half]);
        }
    for (int e = 0; e < 4; ++e) {  // fours[4 q + e] has words e, 4 + e, 8 + e and 12 + e of rows 4 q to 4 q + 3
        __m512i even = _mm512_shuffle_i32x4(fours[e], fours[4 + e], 0x88);
        __m512i odd = _mm512_shuffle_i32x4(fours[e], fours[4 + e], 0xdd);
        __m512i even_after = _mm512_shuffle_i32x4(fours[8 + e], fours[12 + e], 0x88);
        __m512i odd_after = _mm512_shuffle_i32x4(fours[8 + e], fours[12 + e], 0xdd);
        rows[e] = _mm512_shuffle_i32x4(even, even_after, 0x88);
        rows[8 + e] = _mm512_shuffle_i32x4(even, even_after, 0xdd);
        rows[4 + e] = _mm512_shuffle_i32x4(odd, odd_after, 0x88);
        rows[12 + e] = _mm512_shuffle_i32x4(odd, odd_after, 0xdd);
    }
}

// Rows (tokens, width) become columns (width, side) in float, or, with pairs for X, columns of pairs (width / 2, side).
template <class X, class K>
inline void turn_all(const K* rows, int64_t stride, int tokens, int width, float* turned, int64_t side) {
    constexpr int EACH = 64 / sizeof(K);  // numbers of a row that are turned together; two in bfloat16 are a word
    int first = 0;
    for (; first + EACH <= width; first += EACH)
        for (int c = 0; c < side; c += 16) {
            __m512i own[16];
            for (int i = 0; i < 16; ++i)  // the last token once more where there are fewer
                own[i] = _mm512_loadu_si512(rows + (c + i < tokens ? c + i : tokens - 1) * stride + first);
            turn_words(own);
            for (int i = 0; i < 16; ++i) {
                if constexpr (sizeof(K) == 4) {
                    _mm512_storeu_si512(turned + (first + i) * side + c, own[i]);
                } else if constexpr (!std::is_same<X, float>::value) {
                    _mm512_storeu_si512(turned + (first / 2 + i) * side + c, own[i]);
                } else {
                    _mm512_storeu_si512(turned + (first + 2 * i) * side + c, _mm512_slli_epi32(own[i], 16));
                    _mm512_storeu_si512(turned + (first + 2 * i + 1) * side + c,
                                        _mm512_and_si512(own[i], _mm512_set1_epi32(int(0xffff0000))));
                }
            }
        }
    turn_rest(rows, stride, tokens, first, width, turned, side);
}
#else
template <class X, class K>
inline void turn_all(const K* rows, int64_t stride, int tokens, int width, float* turned, int64_t side) {
    turn_rest(rows, stride, tokens, 0, width, turned, side);
}
#endif

// As `exponentiate`, of ASKING rows of scores (ASKING, side) times `scale` at once, so that no row waits for another's sum. What
// is beyond `tokens` becomes nothing: whole vectors take no longer than a part.
__attribute__((noinline)) void exponentiate_all(float* shares, int64_t side, int tokens, float scale, float* factors) {
    float *a = shares, *b = a + side, *c = b + side, *d = c + side;
    float of_a = -INFINITY, of_b = -INFINITY, of_c = -INFINITY, of_d = -INFINITY;
#pragma omp simd reduction(max : of_a, of_b, of_c, of_d)
    for (int64_t i = 0; i < tokens; ++i) {
        a[i] *= scale;
        of_a = a[i] > of_a ? a[i] : of_a;
        b[i] *= scale;
        of_b = b[i] > of_b ? b[i] : of_b;
        c[i] *= scale;
        of_c = c[i] > of_c ? c[i] : of_c;
        d[i] *= scale;
        of_d = d[i] > of_d ? d[i] : of_d;
    }
    for (int64_t i = tokens; i < side; ++i) a[i] = b[i] = c[i] = d[i] = -INFINITY;
    float sum_a = 0, sum_b = 0, sum_c = 0, sum_d = 0;
#pragma omp simd reduction(+ : sum_a, sum_b, sum_c, sum_d)
    for (int64_t i = 0; i < side; ++i) {
        sum_a += a[i] = exponential(a[i] - of_a);
        sum_b += b[i] = exponential(b[i] - of_b);
        sum_c += c[i] = exponential(c[i] - of_c);
        sum_d += d[i] = exponential(d[i] - of_d);
    }
    factors[0] = 1.0f / sum_a;
    factors[1] = 1.0f / sum_b;
    factors[2] = 1.0f / sum_c;
    factors[3] = 1.0f / sum_d;
}

// One head of a text: queries, keys and values (tokens, width) with `stride` from token to token, into y with `y_stride`.
// X: float, or pairs of bfloat16, of which scores are sums of exact products too.
template <class X, class K>
void attend_in_text(const K* queries, const K* keys, const K* values, int64_t stride, int tokens, int width, float scale,
                    float* scratch, K* y, int64_t y_stride) {
    const int64_t side = in_lanes(tokens), wide = in_lanes(width);
    const int steps = std::is_same<X, float>::value ? width : width / 2;
    float *turned = scratch, *below = turned + side * width, *shares = below + tokens * wide;
    float *asking = shares + ASKING * side, *found = asking + ASKING * width;
    turn_all<X>(keys, stride, tokens, width, turned, side);
    for (int c = 0; c < tokens; ++c) {
        for (int e = 0; e < width; ++e) below[c * wide + e] = as_float(values[c * stride + e]);
        for (int64_t e = width; e < wide; ++e) below[c * wide + e] = 0;
    }
    for (int first = 0; first < tokens; first += ASKING) {
        const int real = tokens - first < ASKING ? tokens - first : ASKING;
        for (int n = 0; n < ASKING; ++n) {  // the last one once more where there are fewer
            const K* query = queries + int64_t(first + (n < real ? n : real - 1)) * stride;
            if constexpr (std::is_same<X, float>::value)
                for (int e = 0; e < width; ++e) asking[n * width + e] = as_float(query[e]);
            else
                std::memcpy(asking + n * steps, query, steps * sizeof(X));
        }
        mix_all(reinterpret_cast<const X*>(asking), steps, turned, side, steps, shares, side);
        float factors[ASKING];
        exponentiate_all(shares, side, tokens, scale, factors);
        mix_all(shares, side, below, wide, tokens, found, wide);
        for (int n = 0; n < real; ++n)
            for (int e = 0; e < width; ++e) keep(y[int64_t(first + n) * y_stride + e], factors[n] * found[n * wide + e]);
    }
}

template <class K>
void attend_in_texts(const K* projected, const int32_t* ends, int texts, int heads, int width, float scale, int threads,
                     float* scratch, int64_t room, K* y) {
    const int64_t inner = int64_t(heads) * width;
    auto run = attend_in_text<float, K>;
#if defined(REGARD_BF16)
    if constexpr (sizeof(K) == 2) run = width % 32 ? run : attend_in_text<Pair, K>;
#endif
#pragma omp parallel num_threads(threads)
    {
        const int64_t all = int64_t(texts) * heads, own = omp_get_thread_num(), every = omp_get_num_threads();
        for (int64_t pair = all * own / every; pair < all * (own + 1) / every; ++pair) {
            const int64_t text = pair / heads, head = pair % heads, start = text ? ends[text - 1] : 0;
            const K* at = projected + start * 3 * inner + head * width;
            run(at, at + inner, at + 2 * inner, 3 * inner, int(ends[text] - start), width, scale, scratch + own * room,
                y + start * inner + head * width, inner);
        }
    }
}

}  // namespace

extern "C" {

// Numbers that `regard_texts` needs for each thread, the longest text having so many tokens.
int64_t regard_texts_scratch(int32_t tokens, int32_t width) { return in_lanes(text_room(tokens, width)); }

// projected: (tokens of all texts, 3, heads, width), queries, keys and values, in float (bits 32) or bfloat16 (16).
// ends: (texts), where each text ends; the first begins at 0.
// scratch: (threads, room) float; `room` as `regard_texts_scratch` says.
// y: (tokens of all texts, heads, width), of the same kind.
void regard_texts(const void* projected, const int32_t* ends, int32_t texts, int32_t heads, int32_t width, int32_t bits,
                  float scale, int32_t threads, float* scratch, int64_t room, void* y) {
    if (bits == 32)
        attend_in_texts(static_cast<const float*>(projected), ends, texts, heads, width, scale, threads, scratch, room,
                        static_cast<float*>(y));
    else
        attend_in_texts(static_cast<const uint16_t*>(projected), ends, texts, heads, width, scale, threads, scratch, room,
                        static_cast<uint16_t*>(y));
}
}
