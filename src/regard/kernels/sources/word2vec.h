// Word embeddings by negative sampling (Mikolov et al. 2013; Bojanowski et al. 2017): a pass over a piece of a text.

#pragma once

#include "numbers.h"

extern "C" {

enum Word2Vec { SKIPGRAM = 0, CBOW = 1, FASTTEXT = 2 };

struct WordTables {
    float* inputs;   // (rows, stride): the vectors that predict: of words, and for fastText of n-grams behind them
    float* outputs;  // (words, stride): the vectors that are predicted
    int64_t stride;  // floats of a row, a multiple of 16; those behind the vectors' width are 0 and stay so
};

// A piece of a text, one sentence after another.
struct Text {
    const int32_t* words;      // (count)
    const int32_t* begins;     // (count): the window of position i is begins[i] <= j < ends[i] without i itself
    const int32_t* ends;       // (count)
    const int32_t* negatives;  // sampled words, `negative` for each position; for fastText for each word of each window
    const int32_t* parts;      // for fastText: rows of `inputs`, of one word after another
    const int64_t* part_ends;  // for fastText, (words): where each word's end
    int64_t count;
    int32_t negative;
};
}

namespace {

// What a window reads and changes.
struct Window {
    float* x;          // (inputs, stride)
    float* change;     // (inputs, stride): of x since the window began
    float* y;          // (outputs, stride)
    float* steps;      // (inputs, outputs)
    float* wanted;     // (outputs): 1, for negatives 0
    int32_t* rows;     // (outputs): whose vectors y are
    int64_t inputs, outputs;

    void want(const WordTables& tables, int32_t row, float label) {
        std::memcpy(y + outputs * tables.stride, tables.outputs + row * tables.stride, tables.stride * sizeof(float));
        rows[outputs] = row;
        wanted[outputs++] = label;
    }
};

// The objective of x and y is log σ(x·y) where y is wanted, else log σ(-x·y). Its gradient is (wanted - σ(x·y)) y for x, and the
// same times x for y. All products are of the vectors as they were before. Changes the outputs' vectors, x and `change`.
void learn(const WordTables& tables, const Window& window, float rate) {
    const int64_t stride = tables.stride, inputs = window.inputs, outputs = window.outputs;
    for (int64_t n = 0; n < inputs; ++n) {
        float* steps = window.steps + n * outputs;
        for (int64_t o = 0; o < outputs; ++o) {
            const float *x = window.x + n * stride, *y = window.y + o * stride;
            Lanes sum = lanes(x) * lanes(y);
            for (int64_t i = LANES; i < stride; i += LANES) sum += lanes(x + i) * lanes(y + i);
            steps[o] = total(sum);
        }
#pragma omp simd
        for (int64_t o = 0; o < outputs; ++o) {
            float e = decayed(std::fabs(steps[o])), less = e / (1.0f + e);  // σ(-|x·y|)
            steps[o] = rate * (window.wanted[o] - (steps[o] < 0 ? less : 1.0f - less));
        }
    }
    for (int64_t o = 0; o < outputs; ++o) {
        float* y = tables.outputs + window.rows[o] * stride;
        for (int64_t i = 0; i < stride; i += LANES) {
            Lanes sum = lanes(y + i);
            for (int64_t n = 0; n < inputs; ++n) sum += lanes(window.x + n * stride + i) * window.steps[n * outputs + o];
            store(y + i, sum);
        }
    }
    for (int64_t n = 0; n < inputs; ++n) {
        for (int64_t i = 0; i < stride; i += LANES) {
            Lanes sum = {};
            for (int64_t o = 0; o < outputs; ++o) sum += lanes(window.y + o * stride + i) * window.steps[n * outputs + o];
            float *x = window.x + n * stride + i, *change = window.change + n * stride + i;
            store(x, lanes(x) + sum);
            store(change, lanes(change) + sum);
        }
    }
}

// y += factor * x
inline void add_to(float* y, const float* x, float factor, int64_t stride) {
    for (int64_t i = 0; i < stride; i += LANES) store(y + i, lanes(y + i) + lanes(x + i) * factor);
}

inline void fetch(const float* table, int32_t row, int64_t stride) {
    for (int64_t i = 0; i < stride; i += 16) __builtin_prefetch(table + row * stride + i, 1, 3);
}

}  // namespace

extern "C" {

// Bytes of `scratch` for windows of at most `window` words on each side.
int64_t regard_word2vec_scratch(int64_t stride, int64_t window, int64_t negative) {
    const int64_t inputs = 2 * window, outputs = inputs * (1 + negative);
    return ((2 * inputs + outputs) * stride + inputs * (1 + negative) + 2 * outputs + inputs) * int64_t(sizeof(float)) + 64;
}

// Train on a piece of a text, whose windows have at most `widest` words on each side. Several threads may train the same tables at
// once; a change may then be lost (Recht et al. 2011).
void regard_word2vec(
    const WordTables* tables, const Text* text, int32_t method, int64_t widest, float rate, void* scratch
) {
    const int64_t stride = tables->stride, most = 2 * widest * (1 + text->negative);
    Window window;
    window.x = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch) + 63) / 64 * 64);
    window.change = window.x + 2 * widest * stride;
    window.y = window.change + 2 * widest * stride;
    window.steps = window.y + most * stride;
    window.wanted = window.steps + most;
    window.rows = reinterpret_cast<int32_t*>(window.wanted + most);
    int32_t* around = window.rows + most;
    const int32_t* sampled = text->negatives;
    for (int64_t at = 0; at < text->count; ++at) {
        const int32_t own = text->words[at], end = text->ends[at];
        int64_t contexts = 0;
        for (int32_t j = text->begins[at]; j < end; ++j)
            if (j != at) around[contexts++] = text->words[j];
        const int64_t wanted = method == FASTTEXT ? contexts : 1;
        const int32_t *wants = method == FASTTEXT ? around : &own, *after = sampled + wanted * text->negative;
        if (at + 1 < text->count && text->ends[at + 1] - text->begins[at + 1] > 1) {  // what only the next window needs
            for (int32_t k = 0; k < text->negative; ++k) fetch(tables->outputs, after[k], stride);
            if (text->ends[at + 1] > end) fetch(tables->inputs, text->words[end], stride);
        }
        if (!contexts) {
            sampled = after;
            continue;
        }
        const int64_t first = method == FASTTEXT && own ? text->part_ends[own - 1] : 0;
        const int32_t* sources = method == FASTTEXT ? text->parts + first : around;
        const int64_t count = method == FASTTEXT ? text->part_ends[own] - first : contexts;
        window.inputs = method == SKIPGRAM ? count : 1;
        std::memset(window.x, 0, window.inputs * stride * sizeof(float));
        std::memset(window.change, 0, window.inputs * stride * sizeof(float));
        for (int64_t n = 0; n < count; ++n)
            add_to(window.x + n % window.inputs * stride, tables->inputs + sources[n] * stride,
                   float(window.inputs) / count, stride);
        for (int64_t n = 0; n < wanted; ++n) {
            window.outputs = 0;
            window.want(*tables, wants[n], 1);
            for (int32_t k = 0; k < text->negative; ++k, ++sampled)
                if (*sampled != wants[n]) window.want(*tables, *sampled, 0);
            learn(*tables, window, rate);
        }
        for (int64_t n = 0; n < count; ++n)
            add_to(tables->inputs + sources[n] * stride, window.change + n % window.inputs * stride, 1.0f, stride);
    }
}
}
