// Additive attention's scores, forwards and backwards: a network of one hidden layer on each query and key (Bahdanau et al.
// 2015, appendix A.1.2).
//
//   e_ls = v . t_ls,   t_ls = tanh(q_l + k_s)
//   dq_l = sum_s g_ls v (1 - t_ls^2),   dk_s = sum_l g_ls v (1 - t_ls^2),   dv = sum_ls g_ls t_ls        g: the gradient of e
//
// Everything is computed in float. No t is stored: going backwards, it is computed again.

#pragma once

#include "numbers.h"
#include "runtime.h"

extern "C" {

struct Additive {
    const void* queries;  // (texts, asking, width)
    const void* keys;     // (texts, asked, width)
    const float* weight;  // (width), v
    int64_t texts;
    int32_t asking, asked, width;
    int32_t bits;  // of queries, keys and their gradients: 16: bfloat16; 32: float
};
}

namespace {

// tanh(x) to 3e-7 of it: x P(x^2) / Q(x^2), of which P and Q were fitted to the least largest relative error on [0, 8].
inline float hyperbolic_tangent(float x) {
    x = x < -8.0f ? -8.0f : x;
    x = x > 8.0f ? 8.0f : x;  // NaN stays NaN
    const float z = x * x;
    float p = 1.523058888e-8f, q = 8.522516674e-7f;
    p = p * z + 2.189478606e-5f;
    q = q * z + 3.411304442e-4f;
    p = p * z + 3.571605681e-3f;
    q = q * z + 2.616447224e-2f;
    p = p * z + 1.344450449e-1f;
    q = q * z + 4.677783182e-1f;
    p = p * z + 1.0f;
    q = q * z + 1.0f;
    return x * p / q;
}

template <class K>
void additive_scores(const Additive& all, float* scores, int threads) {
    const K *queries = static_cast<const K*>(all.queries), *keys = static_cast<const K*>(all.keys);
    const int64_t width = all.width, count = all.texts * all.asking * all.asked;
#pragma omp parallel num_threads(threads)
    {
        const int64_t own = omp_get_thread_num(), every = omp_get_num_threads();
        for (int64_t n = count * own / every; n < count * (own + 1) / every; ++n) {
            const int64_t asking = n / all.asked, text = asking / all.asking;
            const K *query = queries + asking * width, *key = keys + (text * all.asked + n % all.asked) * width;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t e = 0; e < width; ++e)
                sum += all.weight[e] * hyperbolic_tangent(as_float(query[e]) + as_float(key[e]));
            scores[n] = sum;
        }
    }
}

// `slopes`: (asking + 1, width) for the sums of a text's queries and of one key.
template <class K>
void additive_gradient_of_text(const Additive& all, const K* queries, const K* keys, const float* upstream, float* slopes,
                               K* of_queries, K* of_keys, float* of_weight) {
    const int width = all.width, asking = all.asking, asked = all.asked;
    float* of_key = slopes + int64_t(asking) * width;
    std::memset(slopes, 0, sizeof(float) * size_t(asking) * size_t(width));
    std::memset(of_weight, 0, sizeof(float) * size_t(width));
    for (int64_t s = 0; s < asked; ++s) {
        const K* key = keys + s * width;
        std::memset(of_key, 0, sizeof(float) * size_t(width));
        for (int64_t l = 0; l < asking; ++l) {
            const K* query = queries + l * width;
            float *of_query = slopes + l * width, g = upstream[l * asked + s];
            if (g == 0) continue;  // padding
#pragma omp simd
            for (int e = 0; e < width; ++e) {
                const float t = hyperbolic_tangent(as_float(query[e]) + as_float(key[e]));
                const float slope = g * all.weight[e] * (1.0f - t * t);
                of_query[e] += slope;
                of_key[e] += slope;
                of_weight[e] += g * t;
            }
        }
#pragma omp simd
        for (int e = 0; e < width; ++e) keep(of_keys[s * width + e], of_key[e]);
    }
#pragma omp simd
    for (int64_t e = 0; e < int64_t(asking) * width; ++e) keep(of_queries[e], slopes[e]);
}

template <class K>
void additive_gradients(const Additive& all, const float* upstream, int threads, float* scratch, void* of_queries,
                        void* of_keys, float* of_weights) {
    const int64_t side = int64_t(all.asking) * all.width, other = int64_t(all.asked) * all.width;
#pragma omp parallel num_threads(threads)
    {
        const int64_t own = omp_get_thread_num(), every = omp_get_num_threads();
        for (int64_t text = all.texts * own / every; text < all.texts * (own + 1) / every; ++text)
            additive_gradient_of_text(all, static_cast<const K*>(all.queries) + text * side,
                                      static_cast<const K*>(all.keys) + text * other,
                                      upstream + text * all.asking * all.asked, scratch + own * (side + all.width),
                                      static_cast<K*>(of_queries) + text * side, static_cast<K*>(of_keys) + text * other,
                                      of_weights + text * all.width);
    }
}

}  // namespace

extern "C" {

// scores: (texts, asking, asked) float.
void regard_additive(const Additive* all, int32_t threads, float* scores) {
    (all->bits == 32 ? additive_scores<float> : additive_scores<uint16_t>)(*all, scores, threads);
}

// upstream: as the scores. scratch: (threads, asking + 1, width) float. of_queries, of_keys: as queries and keys.
// of_weights: (texts, width) float, the part of each text.
void regard_additive_gradient(const Additive* all, const float* upstream, int32_t threads, float* scratch, void* of_queries,
                              void* of_keys, float* of_weights) {
    auto run = all->bits == 32 ? additive_gradients<float> : additive_gradients<uint16_t>;
    run(*all, upstream, threads, scratch, of_queries, of_keys, of_weights);
}
}
