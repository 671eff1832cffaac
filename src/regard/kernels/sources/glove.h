// GloVe (Pennington et al. 2014): AdaGrad over co-occurrence counts, one after another, as in its authors' program.

#pragma once

#include "numbers.h"

extern "C" {

struct Count {
    int32_t row, column;
    float count;
};

// Rows (vector, bias, 1, 0, ...) of words and (vector, 1, bias, 0, ...) of contexts, so that a product has both biases in it. What
// stays as it is has an infinite sum of squares.
struct CountTables {
    float *words, *contexts;                  // (N, stride)
    float *word_squares, *context_squares;    // (N, stride): sums of squared steps
    int64_t stride;                           // a multiple of 16
};
}

namespace {

// x, but at most `bound` and at least -`bound`; NaN stays NaN.
inline Lanes within(Lanes x, float bound) {
    const Lanes high = Lanes{} + bound, low = -high;
    x = x > high ? high : x;
    return x < low ? low : x;
}

inline Lanes over_root(Lanes x, Lanes squares) {
#if defined(__AVX512F__)
    return x / _mm512_sqrt_ps(squares);
#elif defined(__AVX__)
    return x / _mm256_sqrt_ps(squares);
#else
    for (int i = 0; i < LANES; ++i) x[i] /= std::sqrt(squares[i]);
    return x;
#endif
}

}  // namespace

extern "C" {

// Go through counts with their logarithms and weights. Returns the sum of weight * (product - logarithm)^2 / 2, each before its
// step. A step is learning rate * gradient, whose numbers are at most `clip`, over the root of the sum of squares before it.
double regard_glove(
    const CountTables* tables, const Count* counts, const float* logarithms, const float* weights, int64_t number,
    float rate, float clip
) {
    const int64_t stride = tables->stride;
    constexpr int64_t AHEAD = 4;
    double cost = 0;
    for (int64_t n = 0; n < number; ++n) {
        if (n + AHEAD < number) {
            const int64_t row = counts[n + AHEAD].row * stride, column = counts[n + AHEAD].column * stride;
            for (int64_t i = 0; i < stride; i += 16) {
                __builtin_prefetch(tables->words + row + i, 1, 3);
                __builtin_prefetch(tables->word_squares + row + i, 1, 3);
                __builtin_prefetch(tables->contexts + column + i, 1, 3);
                __builtin_prefetch(tables->context_squares + column + i, 1, 3);
            }
        }
        const int64_t row = counts[n].row * stride, column = counts[n].column * stride;
        float *x = tables->words + row, *y = tables->contexts + column;
        float *x_squares = tables->word_squares + row, *y_squares = tables->context_squares + column;
        Lanes sum = lanes(x) * lanes(y);
        for (int64_t i = LANES; i < stride; i += LANES) sum += lanes(x + i) * lanes(y + i);
        const float wrong = total(sum) - logarithms[n], pull = weights[n] * wrong;
        cost += 0.5 * double(pull) * wrong;
        for (int64_t i = 0; i < stride; i += LANES) {
            const Lanes own = lanes(x + i), other = lanes(y + i);
            const Lanes own_squares = lanes(x_squares + i), other_squares = lanes(y_squares + i);
            const Lanes step = within(other * pull, clip) * rate, other_step = within(own * pull, clip) * rate;
            store(x + i, own - over_root(step, own_squares));
            store(y + i, other - over_root(other_step, other_squares));
            store(x_squares + i, own_squares + step * step);
            store(y_squares + i, other_squares + other_step * other_step);
        }
    }
    return cost;
}
}
