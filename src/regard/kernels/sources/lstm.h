// A stack of LSTM layers over all steps of a batch, forwards and backwards, alone or with attention after each step, whose result
// is fed to the next step (Luong et al. 2015, section 3).
//
//   i, f, g, o = parts of p + U_1 h_1' [+ F h~']       the lowest layer; p: the projected input, ': of the step before
//   i, f, g, o = parts of W_l (m_l * h_{l-1}) + b_l + U_l h_l'
//   c_l = sigmoid(f) * c_l' + sigmoid(i) * tanh(g),   h_l = sigmoid(o) * tanh(c_l)
//   a_s = softmax_s(h . k_s),   c = sum_s a_s v_s,   h~ = tanh(C [c ; h])           h: of the highest layer
//
// At padding c_l, h_l and h~ stay. Rows are independent, as in recurrent.h.

#pragma once

#include "recurrent.h"

extern "C" {

struct LSTMLayer {
    Linear input, hidden;            // F or W_l with its bias, and U_l; without attention the lowest layer has no F
    Linear input_back, hidden_back;  // transposed; for going backwards only
    const float* mask;               // (steps, rows, width), m_l; null: ones
    const float *first, *first_cell;  // (rows, width) each
};

// Widths are multiples of GROUP. All numbers but the matrices' are in float.
struct LSTM {
    const LSTMLayer* layers;
    Linear combination, combination_back;  // C: (width, 2 width)
    const float* projected;                // (steps, rows, 4, width)
    const uint8_t* real;                   // (steps, rows)
    const float* first;                    // (rows, width), h~ before the first step
    const float *keys, *values;            // (rows, asked, width); null: there is no attention, and nothing is fed
    const uint8_t* visible;                // (rows, asked)
    int64_t rows;
    int32_t count, steps, width, asked;
};

// What is found on the way and needed for the way back.
struct LSTMPassed {
    float *hidden, *cells;  // (layers, steps, rows, width)
    float* inputs;          // (layers, steps, rows, width), m_l * h_{l-1}; of the lowest layer nothing
    float* gates;           // (layers, steps, rows, 4, width), after sigmoid and tanh
    float* attended;        // (steps, rows, asked)
    float* joined;          // (steps, rows, 2, width), c and h
    float* fed;             // (steps, rows, width), h~
};

// Gradients. Those of what comes out are given, and of the cells after the last step.
struct LSTMGradients {
    const float* outputs;      // (steps, rows, width), of h~; without attention of the highest layer's states
    float* gates;              // (layers, steps, rows, 4, width), of their arguments; the lowest layer's is that of the projected
    float* combined;           // (steps, rows, width), of the argument of tanh
    float* contexts;           // (steps, rows, width)
    float* scores;             // (steps, rows, asked)
    float *hidden, *cells;     // (layers, rows, width), of the states before the first step; the cells' after the last are given
    float* first;              // (rows, width)
};
}

namespace {

// One row's query over its keys and values, as `attend_additively`, of products.
inline void attend_to_source(const LSTM& all, const float* query, int64_t row, float* shares, float* context) {
    const int width = all.width, asked = all.asked;
    const uint8_t* visible = all.visible + row * asked;
    float highest = -INFINITY, sum = 0;
    for (int j = 0; j < asked; ++j) {
        const float* key = all.keys + (row * asked + j) * width;
        float score = 0;
        if (visible[j]) {
#pragma omp simd reduction(+ : score)
            for (int e = 0; e < width; ++e) score += query[e] * key[e];
            highest = score > highest || score != score ? score : highest;
        }
        shares[j] = score;
    }
    for (int j = 0; j < asked; ++j) {
        shares[j] = visible[j] ? exponential(shares[j] - highest) : 0.0f;
        sum += shares[j];
    }
    const float factor = sum == 0 ? 0.0f : 1.0f / sum;
    for (int j = 0; j < asked; ++j) shares[j] *= factor;
    sum_of_values(all.values + row * asked * width, visible, shares, asked, width, context);
}

// Bytes of scratch memory for one of so many threads.
inline int64_t lstm_room(const LSTM& all, int threads) {
    const int64_t rows = (all.rows + threads - 1) / threads, wide = 4 * int64_t(all.width);
    return bytes_of(int(rows), int(wide)) + 2 * rounded(4 * rows * wide);
}

void lstm_forwards(const LSTM& all, const LSTMPassed& passed, int64_t begin, int rows, uint8_t* place) {
    const int64_t width = all.width, four = 4 * width, each = all.steps * all.rows;  // of a layer
    float *made = floats_in(place, rows * four), *more = floats_in(place, rows * four);
    for (int64_t t = 0; t < all.steps; ++t) {
        const int64_t at = t * all.rows + begin;
        const float *before_fed = nullptr, *below = nullptr;
        if (all.keys) below = before_fed = t ? passed.fed + (at - all.rows) * width : all.first + begin * width;
        for (int64_t l = 0; l < all.count; ++l) {
            const LSTMLayer& layer = all.layers[l];
            const int64_t own = l * each + at;
            const float* hidden = t ? passed.hidden + (own - all.rows) * width : layer.first + begin * width;
            const float* cells = t ? passed.cells + (own - all.rows) * width : layer.first_cell + begin * width;
            if (l) {
                float* inputs = passed.inputs + own * width;
                for (int64_t i = 0; i < rows * width; ++i) inputs[i] = below[i] * (layer.mask ? layer.mask[at * width + i] : 1.0f);
                below = inputs;
            }
            product(layer.hidden, hidden, rows, made, place);
            if (l || all.keys) {
                product(layer.input, below, rows, more, place);
                add(made, more, rows * four);
            }
            if (!l) add(made, all.projected + at * four, rows * four);
            for (int64_t row = 0; row < rows; ++row) {
                const float *inside = made + row * four, *h = hidden + row * width, *c = cells + row * width;
                float *gates = passed.gates + (own + row) * four, *after = passed.hidden + (own + row) * width;
                float* after_cell = passed.cells + (own + row) * width;
                const bool real = all.real[at + row];
#pragma omp simd
                for (int64_t e = 0; e < width; ++e) {
                    const float i = sigmoid(inside[e]), f = sigmoid(inside[width + e]);
                    const float g = hyperbolic_tangent(inside[2 * width + e]), o = sigmoid(inside[3 * width + e]);
                    const float cell = f * c[e] + i * g, given = o * hyperbolic_tangent(cell);
                    gates[e] = i;
                    gates[width + e] = f;
                    gates[2 * width + e] = g;
                    gates[3 * width + e] = o;
                    after_cell[e] = real ? cell : c[e];
                    after[e] = real ? given : h[e];
                }
            }
            below = passed.hidden + own * width;
        }
        if (!all.keys) continue;
        float* joined = passed.joined + at * 2 * width;
        for (int64_t row = 0; row < rows; ++row) {
            std::memcpy(joined + (2 * row + 1) * width, below + row * width, sizeof(float) * size_t(width));
            attend_to_source(all, below + row * width, begin + row, passed.attended + (at + row) * all.asked,
                             joined + 2 * row * width);
        }
        product(all.combination, joined, rows, made, place);
        for (int64_t row = 0; row < rows; ++row) {
            const bool real = all.real[at + row];
            float* fed = passed.fed + (at + row) * width;
#pragma omp simd
            for (int64_t e = 0; e < width; ++e)
                fed[e] = real ? hyperbolic_tangent(made[row * width + e]) : before_fed[row * width + e];
        }
    }
}

// The way back of a step from h~ to the state of the highest layer, whose gradient is added to.
inline void attention_back(const LSTM& all, const LSTMPassed& passed, const LSTMGradients& of, int64_t t, int64_t begin, int rows,
                           float* made, uint8_t* place) {
    const int64_t width = all.width, asked = all.asked, at = t * all.rows + begin;
    float* of_fed = of.first + begin * width;
    add(of_fed, of.outputs + at * width, rows * width);
    float* of_combined = of.combined + at * width;
    for (int64_t row = 0; row < rows; ++row) {
        const bool real = all.real[at + row];
        const float* fed = passed.fed + (at + row) * width;
#pragma omp simd
        for (int64_t e = 0; e < width; ++e) {
            const float g = of_fed[row * width + e];
            of_combined[row * width + e] = real ? g * (1.0f - fed[e] * fed[e]) : 0.0f;
            of_fed[row * width + e] = real ? 0.0f : g;
        }
    }
    product(all.combination_back, of_combined, rows, made, place);
    float* of_top = of.hidden + ((all.count - 1) * all.rows + begin) * width;
    for (int64_t row = 0; row < rows; ++row) {
        const float *shares = passed.attended + (at + row) * asked, *of_context = made + 2 * row * width;
        const uint8_t* visible = all.visible + (begin + row) * asked;
        float *slopes = of.scores + (at + row) * asked, *of_h = of_top + row * width, mean = 0;
        std::memcpy(of.contexts + (at + row) * width, of_context, sizeof(float) * size_t(width));
        for (int64_t j = 0; j < asked; ++j) {
            const float* value = all.values + ((begin + row) * asked + j) * width;
            float slope = 0;
            if (visible[j]) {
#pragma omp simd reduction(+ : slope)
                for (int64_t e = 0; e < width; ++e) slope += of_context[e] * value[e];
            }
            slopes[j] = slope;
            mean += shares[j] * slope;
        }
        for (int64_t j = 0; j < asked; ++j) {
            slopes[j] = shares[j] * (slopes[j] - mean);
            if (!visible[j]) continue;
            const float *key = all.keys + ((begin + row) * asked + j) * width, g = slopes[j];
#pragma omp simd
            for (int64_t e = 0; e < width; ++e) of_h[e] += g * key[e];
        }
        add(of_h, of_context + width, width);
    }
}

void lstm_backwards(const LSTM& all, const LSTMPassed& passed, const LSTMGradients& of, int64_t begin, int rows,
                    uint8_t* place) {
    const int64_t width = all.width, four = 4 * width, each = all.steps * all.rows;
    float* made = floats_in(place, rows * four);
    float* of_fed = all.keys ? of.first + begin * width : nullptr;
    auto of_hidden = [&](int64_t l) { return of.hidden + (l * all.rows + begin) * width; };
    auto of_cells = [&](int64_t l) { return of.cells + (l * all.rows + begin) * width; };
    const size_t bytes = sizeof(float) * size_t(rows * width);
    if (all.keys) std::memset(of_fed, 0, bytes);
    for (int64_t l = 0; l < all.count; ++l) std::memset(of_hidden(l), 0, bytes);
    for (int64_t t = all.steps - 1; t >= 0; --t) {
        const int64_t at = t * all.rows + begin;
        if (all.keys)
            attention_back(all, passed, of, t, begin, rows, made, place);
        else
            add(of_hidden(all.count - 1), of.outputs + at * width, rows * width);
        for (int64_t l = all.count - 1; l >= 0; --l) {
            const LSTMLayer& layer = all.layers[l];
            const int64_t own = l * each + at;
            const float* cells = t ? passed.cells + (own - all.rows) * width : layer.first_cell + begin * width;
            float *of_gates = of.gates + own * four, *of_h = of_hidden(l), *of_c = of_cells(l);
            for (int64_t row = 0; row < rows; ++row) {
                const float *gates = passed.gates + (own + row) * four, *after = passed.cells + (own + row) * width;
                const bool real = all.real[at + row];
                float* to = of_gates + row * four;
#pragma omp simd
                for (int64_t e = 0; e < width; ++e) {
                    const int64_t n = row * width + e;
                    const float i = gates[e], f = gates[width + e], g = gates[2 * width + e], o = gates[3 * width + e];
                    const float height = hyperbolic_tangent(after[e]), of_new = real ? of_h[n] : 0.0f;
                    const float of_cell = real ? of_c[n] + of_new * o * (1.0f - height * height) : 0.0f;
                    to[e] = of_cell * g * i * (1.0f - i);
                    to[width + e] = of_cell * cells[n] * f * (1.0f - f);
                    to[2 * width + e] = of_cell * i * (1.0f - g * g);
                    to[3 * width + e] = of_new * height * o * (1.0f - o);
                    of_c[n] = real ? of_cell * f : of_c[n];
                    of_h[n] = real ? 0.0f : of_h[n];
                }
            }
            product(layer.hidden_back, of_gates, rows, made, place);
            add(of_h, made, rows * width);
            if (!l && !all.keys) continue;
            product(layer.input_back, of_gates, rows, made, place);
            float* to = l ? of_hidden(l - 1) : of_fed;
            if (l && layer.mask)
                for (int64_t i = 0; i < rows * width; ++i) to[i] += made[i] * layer.mask[at * width + i];
            else
                add(to, made, rows * width);
        }
    }
}

}  // namespace

extern "C" {

// Bytes of scratch memory for so many threads.
int64_t regard_lstm_scratch(const LSTM* all, int32_t threads) { return threads * lstm_room(*all, threads); }

void regard_lstm(const LSTM* all, const LSTMPassed* passed, int32_t threads, uint8_t* scratch) {
    by_parts(all->rows, threads, lstm_room(*all, threads), scratch,
             [=](int64_t begin, int rows, uint8_t* place) { lstm_forwards(*all, *passed, begin, rows, place); });
}

void regard_lstm_gradient(const LSTM* all, const LSTMPassed* passed, const LSTMGradients* of, int32_t threads, uint8_t* scratch) {
    by_parts(all->rows, threads, lstm_room(*all, threads), scratch,
             [=](int64_t begin, int rows, uint8_t* place) { lstm_backwards(*all, *passed, *of, begin, rows, place); });
}
}
