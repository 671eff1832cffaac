// Attention of texts in training, forwards and backwards: softmax(scale Q K^T) V of each text and head alone, with dropout.
//
//   S = scale Q K^T,  P = softmax(S),  Y = (P * M) V              M: of dropout, 0 or `factor`
//   dV = (P * M)^T dY,  dP = (dY V^T) * M,  dS = P * (dP - (dP * P) 1),  dQ = scale dS K,  dK = scale dS^T Q
//
// Everything is computed in float, and nothing between the inputs and the outputs is stored: going backwards, P is computed
// again. What comes out of a text is the same to the bit whatever others are read with it, and on any number of threads.

#pragma once

#include "texts.h"
#include "training.h"

extern "C" {

// The texts' queries, keys and values, one text after another. In self-attention both sides have the same ends.
struct Texts {
    const void *queries, *keys, *values;    // (tokens, heads, width)
    const int32_t *query_ends, *key_ends;   // (texts), where each text ends; the first begins at 0
    int32_t texts, heads, width;
    int32_t bits;    // of all numbers in and out: 16: bfloat16; 32: float
    int32_t causal;  // whether a query sees the keys up to its own place alone
    float scale;
    // Dropout keeps weight n where 16 random bits are at least `least` (0: all are kept), as `regard_dropout` for weights of
    // (texts, heads, length, columns).
    int32_t least;
    float factor;
    int32_t length, columns;
    uint64_t seed;
};
}

namespace {

inline int64_t in_fours(int64_t count) { return (count + ASKING - 1) / ASKING * ASKING; }

// Numbers for a text of so many queries and keys; going backwards takes all of it.
inline int64_t training_room(int64_t queries, int64_t keys, int64_t width) {
    const int64_t side = in_lanes(keys), wide = in_lanes(width), fours = in_fours(queries);
    return 2 * side * width + keys * wide + 2 * fours * (wide + side) + 2 * in_fours(keys) * fours + ASKING * (width + wide);
}

template <class K>
struct TextOfHead {
    const K *queries, *keys, *values;  // of its first tokens
    int64_t stride;                    // from token to token
    int asking, asked;                 // tokens
    uint64_t weight;                   // the number of its first weight for dropout
};

template <class K>
TextOfHead<K> text_of_head(const Texts& all, int64_t pair) {
    const int64_t text = pair / all.heads, head = pair % all.heads, stride = int64_t(all.heads) * all.width;
    const int64_t query = text ? all.query_ends[text - 1] : 0, key = text ? all.key_ends[text - 1] : 0;
    const int64_t own = head * all.width;
    return {static_cast<const K*>(all.queries) + query * stride + own, static_cast<const K*>(all.keys) + key * stride + own,
            static_cast<const K*>(all.values) + key * stride + own, stride, int(all.query_ends[text] - query),
            int(all.key_ends[text] - key), uint64_t(pair) * uint64_t(all.length) * uint64_t(all.columns)};
}

// Rows (count, width) as floats (count, wide), filled up with zeros.
template <class K>
inline void widen(const K* rows, int64_t stride, int count, int width, float* to, int64_t wide) {
    for (int row = 0; row < count; ++row) {
        read_floats(rows + row * stride, width, to + row * wide);
        for (int64_t e = width; e < wide; ++e) to[row * wide + e] = 0;
    }
}

// Products (rows in fours, side) of rows (count, width) and columns (width, side).
template <class K>
inline void product_with_columns(const K* rows, int64_t stride, int count, int width, const float* columns, int64_t side,
                                 float* four, float* to) {
    for (int first = 0; first < count; first += ASKING) {
        for (int n = 0; n < ASKING; ++n)  // the last one once more where there are fewer
            read_floats(rows + (first + n < count ? first + n : count - 1) * stride, width, four + n * width);
        mix_all(four, width, columns, side, width, to + first * side, side);
    }
}

// A row of scores becomes weights; those beyond `seen` become 0.
inline void soften(float* row, int64_t side, int seen, float scale) {
    float highest = -INFINITY;
#pragma omp simd reduction(max : highest)
    for (int i = 0; i < seen; ++i) {
        row[i] *= scale;
        highest = row[i] > highest ? row[i] : highest;
    }
    for (int64_t i = seen; i < side; ++i) row[i] = -INFINITY;
    Lanes sum = {};
    for (int64_t i = 0; i < side; i += LANES) {
#pragma omp simd
        for (int n = 0; n < LANES; ++n) {
            const float x = row[i + n] - highest;
            row[i + n] = x < -87.0f ? 0.0f : exponential(x);
        }
        sum += lanes(row + i);
    }
    const Lanes factor = everywhere(1.0f / total(sum));
    for (int64_t i = 0; i < side; i += LANES) store(row + i, lanes(row + i) * factor);
}

// The weights of a text and a head, (queries in fours, side).
template <class K>
void weigh(const Texts& all, const TextOfHead<K>& text, float* turned, float* four, float* weights) {
    const int64_t side = in_lanes(text.asked);
    turn_all<float>(text.keys, text.stride, text.asked, all.width, turned, side);
    product_with_columns(text.queries, text.stride, text.asking, all.width, turned, side, four, weights);
    for (int row = 0; row < text.asking; ++row)
        soften(weights + row * side, side, all.causal && row + 1 < text.asked ? row + 1 : text.asked, all.scale);
}

// What dropout multiplies a row of weights with, the first of which has number `first`.
inline void mask_of_row(const Texts& all, uint64_t first, int count, float* mask) {
    constexpr int WORDS = AT_ONCE / 4 + 1;  // the first weight may be any of a word's four
    alignas(64) uint64_t words[WORDS];
    alignas(64) uint16_t halves[WORDS * 4];
    for (int from = 0; from < count; from += AT_ONCE) {
        const uint64_t number = first + uint64_t(from);
        const int own = count - from < AT_ONCE ? count - from : AT_ONCE, skipped = int(number % 4);
        const int wanted = (skipped + own + 3) / 4;
#pragma omp simd
        for (int i = 0; i < wanted; ++i) words[i] = random_bits(all.seed, number / 4 + uint64_t(i));
        std::memcpy(halves, words, size_t(wanted) * sizeof(uint64_t));
#pragma omp simd
        for (int i = 0; i < own; ++i) mask[from + i] = int32_t(halves[skipped + i]) >= all.least ? all.factor : 0.0f;
    }
}

template <class K>
void attend_forwards(const Texts& all, const TextOfHead<K>& text, float* scratch, K* y) {
    const int width = all.width;
    const int64_t side = in_lanes(text.asked), wide = in_lanes(width);
    float *turned = scratch, *below = turned + side * width, *weights = below + text.asked * wide;
    float *four = weights + in_fours(text.asking) * side, *found = four + ASKING * width, *mask = found + ASKING * wide;
    weigh(all, text, turned, four, weights);
    widen(text.values, text.stride, text.asked, width, below, wide);
    for (int row = 0; row < text.asking && all.least; ++row) {
        mask_of_row(all, text.weight + uint64_t(row) * uint64_t(all.columns), text.asked, mask);
        for (int i = 0; i < text.asked; ++i) weights[row * side + i] *= mask[i];
    }
    for (int first = 0; first < text.asking; first += ASKING) {
        mix_all(weights + first * side, side, below, wide, text.asked, found, wide);
        for (int n = 0; n < ASKING && first + n < text.asking; ++n)
            for (int e = 0; e < width; ++e) keep(y[(first + n) * text.stride + e], found[n * wide + e]);
    }
}

// `rows` (count in fours, inner) times `below` (inner, wide), kept as (count, width).
template <class K>
inline void keep_product(const float* rows, int64_t inner_stride, const float* below, int64_t wide, int inner, int count,
                         int width, float* found, K* to, int64_t stride) {
    for (int first = 0; first < count; first += ASKING) {
        mix_all(rows + first * inner_stride, inner_stride, below, wide, inner, found, wide);
        for (int n = 0; n < ASKING && first + n < count; ++n)
            for (int e = 0; e < width; ++e) keep(to[(first + n) * stride + e], found[n * wide + e]);
    }
}

template <class K>
void attend_backwards(const Texts& all, const TextOfHead<K>& text, const K* upstream, float* scratch, K* of_queries,
                      K* of_keys, K* of_values) {
    const int width = all.width, asking = text.asking, asked = text.asked;
    const int64_t side = in_lanes(asked), wide = in_lanes(width), fours = in_fours(asking);
    float *turned = scratch, *turned_values = turned + side * width, *below = turned_values + side * width;
    float *queries = below + asked * wide, *given = queries + fours * wide, *weights = given + fours * wide;
    float *slopes = weights + fours * side, *weights_turned = slopes + fours * side;
    float *slopes_turned = weights_turned + in_fours(asked) * fours, *four = slopes_turned + in_fours(asked) * fours;
    float *found = four + ASKING * width, *mask = turned;  // which is not needed after the weights
    weigh(all, text, turned, four, weights);
    turn_all<float>(text.values, text.stride, asked, width, turned_values, side);
    product_with_columns(upstream, text.stride, asking, width, turned_values, side, four, slopes);
    std::memset(weights_turned, 0, size_t(2 * in_fours(asked) * fours) * sizeof(float));
    for (int row = 0; row < asking; ++row) {
        float *share = weights + row * side, *slope = slopes + row * side;
        if (all.least) {
            mask_of_row(all, text.weight + uint64_t(row) * uint64_t(all.columns), asked, mask);
            for (int i = 0; i < asked; ++i) slope[i] *= mask[i];
        }
        for (int64_t i = asked; i < side; ++i) slope[i] = 0;
        Lanes sum = {};
        for (int64_t i = 0; i < side; i += LANES) sum += lanes(share + i) * lanes(slope + i);
        const float mean = total(sum);
        for (int i = 0; i < asked; ++i) {
            slope[i] = share[i] * (slope[i] - mean) * all.scale;
            slopes_turned[i * fours + row] = slope[i];
            weights_turned[i * fours + row] = all.least ? share[i] * mask[i] : share[i];
        }
    }
    widen(text.keys, text.stride, asked, width, below, wide);
    widen(text.queries, text.stride, asking, width, queries, wide);
    widen(upstream, text.stride, asking, width, given, wide);
    keep_product(slopes, side, below, wide, asked, asking, width, found, of_queries, text.stride);
    keep_product(slopes_turned, fours, queries, wide, asking, asked, width, found, of_keys, text.stride);
    keep_product(weights_turned, fours, given, wide, asking, asked, width, found, of_values, text.stride);
}

template <class K>
void attend_in_training(const Texts& all, const void* upstream, int threads, float* scratch, int64_t room, void* y,
                        void* of_keys, void* of_values) {
    const int64_t pairs = int64_t(all.texts) * all.heads;
#pragma omp parallel num_threads(threads)
    {
        const int64_t own = omp_get_thread_num(), every = omp_get_num_threads();
        float* place = scratch + own * room;
        for (int64_t pair = pairs * own / every; pair < pairs * (own + 1) / every; ++pair) {
            const TextOfHead<K> text = text_of_head<K>(all, pair);
            const int64_t query = text.queries - static_cast<const K*>(all.queries);
            const int64_t key = text.keys - static_cast<const K*>(all.keys);
            K* to = static_cast<K*>(y) + query;
            if (of_keys)
                attend_backwards(all, text, static_cast<const K*>(upstream) + query, place, to,
                                 static_cast<K*>(of_keys) + key, static_cast<K*>(of_values) + key);
            else
                attend_forwards(all, text, place, to);
        }
    }
}

}  // namespace

extern "C" {

// Numbers that `regard_attention` and its gradient need for each thread, for texts of at most so many queries and keys.
int64_t regard_attention_scratch(int32_t queries, int32_t keys, int32_t width) {
    return in_lanes(training_room(queries, keys, width));
}

// scratch: (threads, room) float; `room` as `regard_attention_scratch` says.
// y: (tokens of the queries, heads, width).
void regard_attention(const Texts* texts, int32_t threads, float* scratch, int64_t room, void* y) {
    auto run = texts->bits == 32 ? attend_in_training<float> : attend_in_training<uint16_t>;
    run(*texts, nullptr, threads, scratch, room, y, nullptr, nullptr);
}

// upstream: as y. of_queries, of_keys, of_values: as queries, keys and values.
void regard_attention_gradient(const Texts* texts, const void* upstream, int32_t threads, float* scratch, int64_t room,
                               void* of_queries, void* of_keys, void* of_values) {
    auto run = texts->bits == 32 ? attend_in_training<float> : attend_in_training<uint16_t>;
    run(*texts, upstream, threads, scratch, room, of_queries, of_keys, of_values);
}
}
