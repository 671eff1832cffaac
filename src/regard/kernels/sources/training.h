// What training computes between its matrix products: the loss over a vocabulary with its gradient, and dropout.

#pragma once

#include "numbers.h"
#include "runtime.h"

extern "C" {

// Logits z, and which entry is right in each row.
//
//   loss = - sum_v t_v log softmax(z)_v,   t = (1 - smoothing) onehot(label) + share
//
// where each entry but `never` has the share smoothing / V, or smoothing / (V - 1) with a `never`.
struct Loss {
    const void* logits;     // (rows, vocabulary)
    const int64_t* labels;  // (rows), in [0, vocabulary) where a row counts
    const uint8_t* counts;  // (rows), whether a row counts; one that does not has no loss and no gradient
    int64_t rows, vocabulary;
    int64_t never;  // -1: there is none
    float smoothing, share;
    int32_t bits;  // of logits and gradient: 16: bfloat16; 32: float
};
}

namespace {

constexpr int AT_ONCE = 256;  // logits that are looked at together, as floats

template <class T>
inline void read_floats(const T* x, int count, float* y) {
#pragma omp simd
    for (int i = 0; i < count; ++i) y[i] = as_float(x[i]);
}

inline Lanes sum_of(const float* x) {  // of AT_ONCE numbers
    Lanes sum = lanes(x);
    for (int i = LANES; i < AT_ONCE; i += LANES) sum += lanes(x + i);
    return sum;
}

// The natural logarithm of a normal number to a few units in the last place (Cephes' polynomial); of anything else NaN. The C
// library's own would tie a wheel to releases of it.
inline float natural_logarithm(float x) {
    if (!(x >= 1.2e-38f && x < INFINITY)) return NAN;
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    float m = __builtin_bit_cast(float, (bits & 0x7fffff) | 0x3f000000), e = float(int32_t(bits >> 23) - 126);
    const bool low = m < 0.70710678f;
    m = low ? m + m - 1 : m - 1;
    e = low ? e - 1 : e;
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z - e * 2.12194440e-4f - 0.5f * z;
    return m + p + e * 0.693359375f;
}

// e^{z - largest - log sum}, the softmax of a logit; 0 where it would be less than any normal float.
inline float share_of(float z, float highest, float logarithm) {
    const float x = (z - highest) - logarithm;
    return x < -87.0f ? 0.0f : exponential(x);
}

// Loss, the largest logit, the logarithm of the sum of e^{z - largest}, and whether the label's logit is larger than all others.
template <class T>
void loss_of_row(const Loss& loss, const T* z, int64_t label, float* found, float* highest, float* logarithm, uint8_t* right) {
    const int64_t count = loss.vocabulary;
    float others = -INFINITY;
    alignas(64) float part[AT_ONCE];
    auto in_parts = [&](auto&& work) {
        for (int64_t first = 0; first < count; first += AT_ONCE) {
            const int own = int(count - first < AT_ONCE ? count - first : AT_ONCE);
            read_floats(z + first, own, part);
            work(first, own);
        }
    };
    in_parts([&](int64_t first, int own) {
        if (label >= first && label < first + own) part[label - first] = -INFINITY;
        float high = -INFINITY;
#pragma omp simd reduction(max : high)
        for (int i = 0; i < own; ++i) high = part[i] > high ? part[i] : high;
        others = high > others ? high : others;
    });
    const float own_logit = as_float(z[label]), high = own_logit > others ? own_logit : others;
    Lanes shares = {}, logits = {};
    in_parts([&](int64_t first, int own) {
        if (loss.share > 0) {
            const int64_t gap = loss.never - first;
            const float kept = gap >= 0 && gap < own ? part[gap] : 0;
            if (gap >= 0 && gap < own) part[gap] = 0;
            for (int i = own; i < AT_ONCE; ++i) part[i] = 0;
            logits += sum_of(part);
            if (gap >= 0 && gap < own) part[gap] = kept;
        }
#pragma omp simd
        for (int i = 0; i < own; ++i) part[i] = share_of(part[i], high, 0);
        for (int i = own; i < AT_ONCE; ++i) part[i] = 0;
        shares += sum_of(part);
    });
    *highest = high;
    *logarithm = natural_logarithm(total(shares));
    *found = high + *logarithm - (1 - loss.smoothing) * own_logit;
    if (loss.share > 0) *found -= loss.share * total(logits);
    *right = own_logit > others;
}

template <class T>
void gradient_of_row(const Loss& loss, const T* z, int64_t label, float highest, float logarithm, float scale, T* gradient) {
    const int64_t count = loss.vocabulary;
    alignas(64) float part[AT_ONCE];
    for (int64_t first = 0; first < count; first += AT_ONCE) {
        const int own = int(count - first < AT_ONCE ? count - first : AT_ONCE);
        read_floats(z + first, own, part);
        const int64_t gap = loss.never - first, right = label - first;
        const float without = gap >= 0 && gap < own ? share_of(part[gap], highest, logarithm) : 0;
#pragma omp simd
        for (int i = 0; i < own; ++i) part[i] = share_of(part[i], highest, logarithm) - loss.share;
        if (gap >= 0 && gap < own) part[gap] = without;
        if (right >= 0 && right < own) part[right] += loss.smoothing - 1;
#pragma omp simd
        for (int i = 0; i < own; ++i) keep(gradient[first + i], part[i] * scale);
    }
}

template <class T>
void losses_of(const Loss& loss, float* losses, float* highest, float* logarithms, uint8_t* right, int threads) {
    const T* logits = static_cast<const T*>(loss.logits);
#pragma omp parallel num_threads(threads)
    {
        const int64_t own = omp_get_thread_num(), every = omp_get_num_threads();
        for (int64_t row = loss.rows * own / every; row < loss.rows * (own + 1) / every; ++row) {
            losses[row] = highest[row] = logarithms[row] = 0;
            right[row] = 0;
            if (loss.counts[row])
                loss_of_row(loss, logits + row * loss.vocabulary, loss.labels[row], losses + row, highest + row, logarithms + row,
                            right + row);
        }
    }
}

template <class T>
void gradients_of(const Loss& loss, const float* highest, const float* logarithms, float scale, T* gradient, int threads) {
    const T* logits = static_cast<const T*>(loss.logits);
#pragma omp parallel num_threads(threads)
    {
        const int64_t own = omp_get_thread_num(), every = omp_get_num_threads();
        for (int64_t row = loss.rows * own / every; row < loss.rows * (own + 1) / every; ++row) {
            const int64_t start = row * loss.vocabulary;
            if (loss.counts[row])
                gradient_of_row(loss, logits + start, loss.labels[row], highest[row], logarithms[row], scale, gradient + start);
            else
                std::memset(gradient + start, 0, size_t(loss.vocabulary) * sizeof(T));
        }
    }
}

// The random bits of four entries: the counter-based generator SplitMix64 (Steele et al. 2014).
inline uint64_t random_bits(uint64_t seed, uint64_t number) {
    uint64_t x = seed + (number + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

template <class T>
void drop(const T* x, int64_t count, uint64_t seed, int32_t least, float scale, T* y, int threads) {
    constexpr int WORDS = AT_ONCE / 4;
    const int64_t parts = (count + AT_ONCE - 1) / AT_ONCE;
#pragma omp parallel num_threads(threads)
    {
        const int64_t own = omp_get_thread_num(), every = omp_get_num_threads();
        alignas(64) uint64_t words[WORDS];
        alignas(64) uint16_t halves[AT_ONCE];
        for (int64_t part = parts * own / every; part < parts * (own + 1) / every; ++part) {
            const int64_t first = part * AT_ONCE;
            const int size = int(count - first < AT_ONCE ? count - first : AT_ONCE);
#pragma omp simd
            for (int i = 0; i < WORDS; ++i) words[i] = random_bits(seed, uint64_t(part) * WORDS + uint64_t(i));
            std::memcpy(halves, words, sizeof(halves));
#pragma omp simd
            for (int i = 0; i < size; ++i)
                keep(y[first + i], as_float(x[first + i]) * (int32_t(halves[i]) >= least ? scale : 0.0f));
        }
    }
}

}  // namespace

extern "C" {

// losses, highest, logarithms: (rows) float; right: (rows), whether the label's logit is larger than all others.
void regard_loss(const Loss* loss, float* losses, float* highest, float* logarithms, uint8_t* right, int32_t threads) {
    (loss->bits == 32 ? losses_of<float> : losses_of<uint16_t>)(*loss, losses, highest, logarithms, right, threads);
}

// gradient: (rows, vocabulary), scale * (softmax(z) - t); it may be the logits themselves, which are then overwritten.
void regard_loss_gradient(const Loss* loss, const float* highest, const float* logarithms, float scale, void* gradient,
                          int32_t threads) {
    if (loss->bits == 32)
        gradients_of(*loss, highest, logarithms, scale, static_cast<float*>(gradient), threads);
    else
        gradients_of(*loss, highest, logarithms, scale, static_cast<uint16_t*>(gradient), threads);
}

// y = scale * x where an entry's 16 random bits are at least `least`, else 0 * x; entry n has the bits n % 4 of word n / 4.
void regard_dropout(const void* x, int64_t count, int32_t bits, uint64_t seed, int32_t least, float scale, void* y,
                    int32_t threads) {
    if (bits == 32)
        drop(static_cast<const float*>(x), count, seed, least, scale, static_cast<float*>(y), threads);
    else
        drop(static_cast<const uint16_t*>(x), count, seed, least, scale, static_cast<uint16_t*>(y), threads);
}
}
