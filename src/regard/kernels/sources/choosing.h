// The vector of a token, and the token of the largest logit: what greedy search does between two tokens.

#pragma once

#include "numbers.h"

extern "C" {

// The embedding of tokens: x = scale * values[token] + position.
struct Embedding {
    const void* values;      // (tokens, width)
    const float* positions;  // (steps, width), of each step, the same for all rows
    float scale;
    int32_t bits;  // of `values`: 16: bfloat16; 32: float
};
}

namespace {

template <class T>
void embed_as(const Embedding& table, int64_t token, int64_t step, int width, float* x) {
    const T* own = static_cast<const T*>(table.values) + token * width;
    const float* position = table.positions + step * width;
    for (int i = 0; i < width; ++i) x[i] = as_float(own[i]);
    if (table.scale != 1) {
        for (int i = 0; i < width; ++i) x[i] *= table.scale;
    }
    for (int i = 0; i < width; ++i) x[i] += position[i];
}

void embed(const Embedding& table, int64_t token, int64_t step, int width, float* x) {
    (table.bits == 32 ? embed_as<float> : embed_as<uint16_t>)(table, token, step, width, x);
}

// The index of the largest number, the lowest of equal ones; -1 where one is NaN or the largest is infinite.
int64_t largest(const float* x, int64_t count) {
    constexpr int64_t BLOCK = 256;
    float highest = -INFINITY;
    int64_t found = -1;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int own = int(count - first < BLOCK ? count - first : BLOCK);
        float high = -INFINITY;
        uint32_t nan = 0;
#pragma omp simd reduction(max : high) reduction(| : nan)
        for (int i = 0; i < own; ++i) {
            float number = x[first + i];
            high = number > high ? number : high;
            nan |= uint32_t((__builtin_bit_cast(uint32_t, number) & 0x7fffffff) > 0x7f800000);
        }
        if (nan) return -1;
        if (high > highest) highest = high, found = first;
    }
    if (found < 0 || highest == INFINITY) return -1;
    while (x[found] != highest) ++found;
    return found;
}

// The same without the indices `never`; the numbers are as before afterwards.
int64_t largest_allowed(float* x, int64_t count, const int64_t* never, int32_t excluded) {
    int64_t found = largest(x, count);
    for (int32_t n = 0; n < excluded; ++n) {
        if (found != never[n]) continue;
        const float kept = x[found];
        x[found] = -INFINITY;
        const int64_t other = largest_allowed(x, count, never, excluded);
        x[found] = kept;
        return other;
    }
    return found;
}

}  // namespace
