// A gated recurrent network over all steps of a batch, forwards and backwards, with additive attention before each step or without
// (Bahdanau et al. 2015, appendix A).
//
//   a_j  = softmax_j(v . tanh(Q s + k_j)),   c = sum_j a_j h_j          where there is something to attend to
//   r, z = sigmoid(p_rz + C_rz c + U_rz s)
//   n    = tanh(p_n + C_n c + U_n (r * s))
//   s'   = s + m z (n - s)                    p: the projected input; m: 1 at a real token, 0 at padding
//
// Rows are independent, so each thread takes some of them through all steps without waiting for others. What comes out of a row is
// the same to the bit on any number of threads. Gradients of the matrices are products over all steps, which are the caller's.

#pragma once

#include "additive.h"
#include "linear.h"

extern "C" {

// Widths are multiples of GROUP. All numbers but the matrices' are in float.
struct Recurrent {
    Linear gates, candidate, context, query;                          // U_rz, U_n, C, Q
    Linear gates_back, candidate_back, context_back, query_back;      // the same, transposed; for going backwards only
    const float* projected;  // (steps, rows, 3, width)
    const uint8_t* real;     // (steps, rows)
    const float* first;      // (rows, width)
    const float* keys;       // (rows, asked, query.outputs); null: there is nothing to attend to
    const float* values;     // (rows, asked, context.inputs)
    const float* weight;     // (query.outputs), v
    const uint8_t* visible;  // (rows, asked)
    int64_t rows;
    int32_t steps, width, asked;
};

// What is found on the way and needed for the way back.
struct Passed {
    float* states;    // (steps, rows, width), s'
    float* gates;     // (steps, rows, 3, width), r, z and n
    float* queries;   // (steps, rows, query.outputs), Q s
    float* attended;  // (steps, rows, asked), a
    float* contexts;  // (steps, rows, context.inputs), c
};

// Gradients; that of the states is given.
struct PassedGradients {
    const float* states;  // (steps, rows, width)
    float* contexts;      // (steps, rows, context.inputs); given, and what comes through the gates is added
    float* projected;     // (steps, rows, 3, width)
    float* queries;       // as the queries
    float* keys;          // as the keys
    float* weights;       // (rows, query.outputs), of v, the part of each row
    float* first;         // (rows, width)
};
}

namespace {

inline float sigmoid(float x) {
    const float e = decayed(std::fabs(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

// y (rows, outputs) of x (rows, inputs), by this thread alone.
inline void product(const Linear& w, const float* x, int rows, float* y, uint8_t* place) {
    const Bytes bytes = laid_in(place, rows, w.inputs, w.bits, x);
    for (int row = 0; row < rows; ++row) bytes.quantise_row(row, x + int64_t(row) * w.inputs);
    for (int first = 0; first < w.outputs; first += UNIT) outputs_of(w, bytes, rows, first, y + first, w.outputs);
}

inline void add(float* y, const float* x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

// y (width) = the sum of shares_j times values_j (width), over what is visible.
inline void sum_of_values(const float* values, const uint8_t* visible, const float* shares, int count, int width, float* y) {
    for (int e = 0; e < width; e += GROUP) {
        Lanes sums[GROUP / LANES] = {};
        for (int j = 0; j < count; ++j) {
            if (!visible[j]) continue;
            const float* value = values + int64_t(j) * width + e;
            for (int i = 0; i < GROUP / LANES; ++i)
                sums[i] = plus_product(sums[i], everywhere(shares[j]), lanes(value + i * LANES));
        }
        for (int i = 0; i < GROUP / LANES; ++i) store(y + e + i * LANES, sums[i]);
    }
}

// One row's query over its keys and values: the shares a, zeros at what is not visible, and the context c.
inline void attend_additively(const Recurrent& all, const float* query, int64_t row, float* shares, float* context) {
    const int width = all.query.outputs, wide = all.context.inputs, asked = all.asked;
    const uint8_t* visible = all.visible + row * asked;
    float highest = -INFINITY, sum = 0;
    for (int j = 0; j < asked; ++j) {
        const float* key = all.keys + (row * asked + j) * width;
        float score = 0;
        if (visible[j]) {
#pragma omp simd reduction(+ : score)
            for (int e = 0; e < width; ++e) score += all.weight[e] * hyperbolic_tangent(query[e] + key[e]);
            highest = score > highest || score != score ? score : highest;
        }
        shares[j] = score;
    }
    for (int j = 0; j < asked; ++j) {
        shares[j] = visible[j] ? exponential(shares[j] - highest) : 0.0f;
        sum += shares[j];
    }
    const float factor = sum == 0 ? 0.0f : 1.0f / sum;  // of NaN it is NaN
    for (int j = 0; j < asked; ++j) shares[j] *= factor;
    sum_of_values(all.values + row * asked * wide, visible, shares, asked, wide, context);
}

// The way back: of the gradient of c, those of the row's query, keys and v; the last two are added to. slopes: (asked).
inline void attend_additively_back(const Recurrent& all, const float* query, int64_t row, const float* shares,
                                   const float* of_context, float* slopes, float* of_query, float* of_keys,
                                   float* of_weight) {
    const int width = all.query.outputs, wide = all.context.inputs, asked = all.asked;
    const uint8_t* visible = all.visible + row * asked;
    float mean = 0;
    for (int j = 0; j < asked; ++j) {
        const float* value = all.values + (row * asked + j) * wide;
        float slope = 0;
        if (visible[j]) {
#pragma omp simd reduction(+ : slope)
            for (int e = 0; e < wide; ++e) slope += of_context[e] * value[e];
            mean += shares[j] * slope;
        }
        slopes[j] = slope;
    }
    std::memset(of_query, 0, sizeof(float) * size_t(width));
    for (int j = 0; j < asked; ++j) {
        if (!visible[j]) continue;
        const float g = shares[j] * (slopes[j] - mean);
        const float* key = all.keys + (row * asked + j) * width;
        float* of_key = of_keys + (row * asked + j) * width;
#pragma omp simd
        for (int e = 0; e < width; ++e) {
            const float t = hyperbolic_tangent(query[e] + key[e]), slope = g * all.weight[e] * (1.0f - t * t);
            of_query[e] += slope;
            of_key[e] += slope;
            of_weight[e] += g * t;
        }
    }
}

// f(first row, rows, scratch memory) of a part of all rows in each thread, which has so many bytes.
template <typename F>
inline void by_parts(int64_t rows, int threads, int64_t room, uint8_t* scratch, F f) {
    const int64_t each = (rows + threads - 1) / threads;
#pragma omp parallel num_threads(threads)
    {
        for (int64_t part = omp_get_thread_num(); part < threads; part += omp_get_num_threads()) {
            const int64_t begin = part * each, end = begin + each < rows ? begin + each : rows;
            if (begin < end) f(begin, int(end - begin), scratch + part * room);
        }
    }
}

inline int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }

// Bytes of scratch memory for one of so many threads.
inline int64_t recurrent_room(const Recurrent& all, int threads) {
    const int64_t rows = (all.rows + threads - 1) / threads, width = all.width;
    const int64_t asking = all.keys ? all.query.outputs : 0, wide = all.keys ? all.context.inputs : 0;
    const int64_t widest = larger(3 * width, larger(asking, wide));
    return bytes_of(int(rows), int(widest)) + 3 * rounded(4 * rows * widest) + rounded(4 * int64_t(all.asked));
}

// Of the rows from `begin` on, all steps.
void run_forwards(const Recurrent& all, const Passed& passed, int64_t begin, int rows, uint8_t* place) {
    const int64_t width = all.width, three = 3 * width;
    const int64_t asking = all.keys ? all.query.outputs : 0, wide = all.keys ? all.context.inputs : 0;
    float* inside = floats_in(place, rows * three);
    float* made = floats_in(place, rows * larger(three, asking));
    float* kept = floats_in(place, rows * width);  // r * s
    for (int64_t t = 0; t < all.steps; ++t) {
        const int64_t at = t * all.rows + begin;
        const float* state = t ? passed.states + (at - all.rows) * width : all.first + begin * width;
        float* gates = passed.gates + at * three;
        std::memcpy(inside, all.projected + at * three, sizeof(float) * size_t(rows * three));
        if (all.keys) {
            float *queries = passed.queries + at * asking, *contexts = passed.contexts + at * wide;
            product(all.query, state, rows, queries, place);
            for (int64_t row = 0; row < rows; ++row)
                attend_additively(all, queries + row * asking, begin + row, passed.attended + (at + row) * all.asked,
                                  contexts + row * wide);
            product(all.context, contexts, rows, made, place);
            add(inside, made, rows * three);
        }
        product(all.gates, state, rows, made, place);
        for (int64_t row = 0; row < rows; ++row) {
            float *reset = gates + row * three, *update = reset + width;
            const float *given = inside + row * three, *own = made + row * 2 * width, *s = state + row * width;
#pragma omp simd
            for (int64_t e = 0; e < width; ++e) {
                reset[e] = sigmoid(given[e] + own[e]);
                update[e] = sigmoid(given[width + e] + own[width + e]);
                kept[row * width + e] = reset[e] * s[e];
            }
        }
        product(all.candidate, kept, rows, made, place);
        for (int64_t row = 0; row < rows; ++row) {
            const float *update = gates + row * three + width, *given = inside + row * three + 2 * width;
            const float *own = made + row * width, *s = state + row * width;
            float *candidate = gates + row * three + 2 * width, *after = passed.states + (at + row) * width;
            const float real = all.real[at + row] ? 1.0f : 0.0f;
#pragma omp simd
            for (int64_t e = 0; e < width; ++e) {
                candidate[e] = hyperbolic_tangent(given[e] + own[e]);
                after[e] = s[e] + real * update[e] * (candidate[e] - s[e]);
            }
        }
    }
}

// Of the rows from `begin` on, all steps from the last to the first.
void run_backwards(const Recurrent& all, const Passed& passed, const PassedGradients& of, int64_t begin, int rows,
                   uint8_t* place) {
    const int64_t width = all.width, three = 3 * width;
    const int64_t asking = all.keys ? all.query.outputs : 0, wide = all.keys ? all.context.inputs : 0;
    float* of_state = of.first + begin * width;  // of the step's own, then of the one before
    float* made = floats_in(place, rows * larger(width, wide));
    float* of_gates = floats_in(place, rows * 2 * width);
    float* of_candidate = floats_in(place, rows * width);
    float* slopes = floats_in(place, all.asked);
    std::memset(of_state, 0, sizeof(float) * size_t(rows * width));
    if (all.keys) {
        std::memset(of.keys + begin * all.asked * asking, 0, sizeof(float) * size_t(rows * all.asked * asking));
        std::memset(of.weights + begin * asking, 0, sizeof(float) * size_t(rows * asking));
    }
    for (int64_t t = all.steps - 1; t >= 0; --t) {
        const int64_t at = t * all.rows + begin;
        const float* state = t ? passed.states + (at - all.rows) * width : all.first + begin * width;
        const float* gates = passed.gates + at * three;
        float* of_inside = of.projected + at * three;
        add(of_state, of.states + at * width, rows * width);
        for (int64_t row = 0; row < rows; ++row) {
            const float *update = gates + row * three + width, *candidate = update + width, *s = state + row * width;
            float *of_s = of_state + row * width, *of_update = of_inside + row * three + width, *of_new = of_update + width;
            const float real = all.real[at + row] ? 1.0f : 0.0f;
#pragma omp simd
            for (int64_t e = 0; e < width; ++e) {
                const float g = real * of_s[e], z = update[e], n = candidate[e];
                of_new[e] = g * z * (1.0f - n * n);
                of_update[e] = g * (n - s[e]) * z * (1.0f - z);
                of_s[e] -= g * z;
                of_candidate[row * width + e] = of_new[e];
                of_gates[row * 2 * width + width + e] = of_update[e];
            }
        }
        product(all.candidate_back, of_candidate, rows, made, place);
        for (int64_t row = 0; row < rows; ++row) {
            const float *reset = gates + row * three, *s = state + row * width, *of_kept = made + row * width;
            float *of_s = of_state + row * width, *of_reset = of_inside + row * three;
#pragma omp simd
            for (int64_t e = 0; e < width; ++e) {
                const float r = reset[e];
                of_reset[e] = of_kept[e] * s[e] * r * (1.0f - r);
                of_s[e] += of_kept[e] * r;
                of_gates[row * 2 * width + e] = of_reset[e];
            }
        }
        product(all.gates_back, of_gates, rows, made, place);
        add(of_state, made, rows * width);
        if (!all.keys) continue;
        float *of_query = of.queries + at * asking, *of_context = of.contexts + at * wide;
        product(all.context_back, of_inside, rows, made, place);
        add(of_context, made, rows * wide);
        for (int64_t row = 0; row < rows; ++row)
            attend_additively_back(all, passed.queries + (at + row) * asking, begin + row,
                                   passed.attended + (at + row) * all.asked, of_context + row * wide, slopes,
                                   of_query + row * asking, of.keys, of.weights + (begin + row) * asking);
        product(all.query_back, of_query, rows, made, place);
        add(of_state, made, rows * width);
    }
}

}  // namespace

extern "C" {

// Bytes of scratch memory for so many threads.
int64_t regard_recurrent_scratch(const Recurrent* all, int32_t threads) { return threads * recurrent_room(*all, threads); }

void regard_recurrent(const Recurrent* all, const Passed* passed, int32_t threads, uint8_t* scratch) {
    by_parts(all->rows, threads, recurrent_room(*all, threads), scratch,
             [=](int64_t begin, int rows, uint8_t* place) { run_forwards(*all, *passed, begin, rows, place); });
}

void regard_recurrent_gradient(const Recurrent* all, const Passed* passed, const PassedGradients* of, int32_t threads,
                               uint8_t* scratch) {
    by_parts(all->rows, threads, recurrent_room(*all, threads), scratch,
             [=](int64_t begin, int rows, uint8_t* place) { run_backwards(*all, *passed, *of, begin, rows, place); });
}
}
