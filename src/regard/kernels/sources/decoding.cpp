// Tokens of each row through the blocks of a decoder, in one call. This is the file that is compiled: it includes all others.

#include "additive.h"
#include "attention.h"
#include "candidates.h"
#include "choosing.h"
#include "lstm.h"
#include "glove.h"
#include "linear.h"
#include "recurrent.h"
#include "runtime.h"
#include "texts.h"
#include "texts_training.h"
#include "training.h"
#include "word2vec.h"

extern "C" {

struct Norm {
    const float* weight;  // null: there is no norm here
    const float* bias;    // null: by the root of the mean square (RMSNorm), else by mean and variance
    float epsilon;
};

// Pairs of a head's first channels are turned by their token's position.
struct Rotary {
    const float* cosines;  // (positions, turned / 2), of each angle; null: nothing is turned
    const float* sines;
    int32_t turned;      // channels
    int32_t neighbours;  // whether pairs are of neighbours, 2k and 2k + 1; else of halves, k and k + turned / 2
};

struct Block {
    Linear query, key, value, output;
    Linear inner, gate, outer;  // the gate without weights where there is none, and then the activation is the inner map's
    Norm attention_before, attention_after, feedforward_before, feedforward_after;
    Norm query_norm, key_norm;  // of each head
    Rotary rotary;
    int32_t width, heads, key_heads, head_width;
    float scale;
    Linear source_query, source_output;  // without weights where there is no source to attend to
    Norm source_before, source_after;
    float source_scale;
    int32_t parallel;  // whether the feed-forward net reads what attention reads; then no norm follows attention
};

// What comes after the blocks, to logits (rows, real); real counts the outputs without what they are filled up with.
struct Head {
    Norm norm;
    Linear output;
    int32_t real;
};

// What rows attend to. Rows come in groups of `group_rows`, one group for each text: hypotheses about one source, or a single row.
struct Cache {
    void* values;          // (2, rows, blocks, key heads, capacity, head_width): keys, then values
    const int64_t* homes;  // (groups) the row of the cache that is each group's; null: in order
    int64_t rows, capacity;
    int32_t columns;  // filled, the new ones of this step among them
    int32_t bits;     // 16: bfloat16; 32: float
};
}

namespace {

void normalise(const Norm& norm, const float* x, float* y, int width) {
    if (!norm.weight) {
        if (x != y) std::memcpy(y, x, width * sizeof(float));
        return;
    }
    float mean = 0, variance = 0;
    if (norm.bias) {
#pragma omp simd reduction(+ : mean)
        for (int i = 0; i < width; ++i) mean += x[i];
        mean /= width;
    }
#pragma omp simd reduction(+ : variance)
    for (int i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
    float inverse = 1.0f / std::sqrt(variance / width + norm.epsilon);
    if (norm.bias) {
#pragma omp simd
        for (int i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * norm.weight[i] + norm.bias[i];
    } else {
#pragma omp simd
        for (int i = 0; i < width; ++i) y[i] = x[i] * inverse * norm.weight[i];
    }
}

// Rows that go through a block together. What they are on the way stays in the nearer caches, and more of them would make no more
// of reading the weights once.
constexpr int BAND = 128;

// Floats of a row that a thread needs: a head, or a unit of what is gated and of its gate.
int64_t unit_room(const Block& b) { return b.head_width < 2 * UNIT ? 2 * UNIT : b.head_width; }

// Bytes of scratch memory for a thread's attention: the shares of TOGETHER queries, and the places of their columns.
int64_t attention_bytes(int columns) { return rounded(int64_t(columns) * (TOGETHER + 1) * 4); }

void turn(const Rotary& rotary, int64_t position, float* x) {
    const int pairs = rotary.turned / 2;
    const float *cosines = rotary.cosines + position * pairs, *sines = rotary.sines + position * pairs;
    if (rotary.neighbours) {
#pragma omp simd
        for (int k = 0; k < pairs; ++k) {
            float one = x[2 * k], two = x[2 * k + 1];
            x[2 * k] = one * cosines[k] - two * sines[k];
            x[2 * k + 1] = two * cosines[k] + one * sines[k];
        }
    } else {
#pragma omp simd
        for (int k = 0; k < pairs; ++k) {
            float one = x[k], two = x[k + pairs];
            x[k] = one * cosines[k] - two * sines[k];
            x[k + pairs] = two * cosines[k] + one * sines[k];
        }
    }
}

}  // namespace

extern "C" {

// Whether rows are rounded to bfloat16 and multiplied so by weights in bfloat16.
int32_t regard_multiplies_bfloat16() {
#if defined(REGARD_BF16)
    return 1;
#else
    return 0;
#endif
}

// Floats of a vector register.
int32_t regard_lanes() { return LANES; }

// Bytes of scratch memory for `regard_linear`.
int64_t regard_linear_scratch(const Linear* w, int32_t rows) {
    return bytes_of(rows, w->inputs) + rounded(int64_t(rows) * UNIT * 4);
}

// x (rows, w.inputs) to y (rows, real), the activation included; real counts the outputs without what they are filled up with.
void regard_linear(const Linear* w, const float* x, int32_t rows, float* y, int32_t real, uint8_t* scratch) {
    Bytes bytes = laid_in(scratch, rows, w->inputs, w->bits, x);
    float* last = floats_in(scratch, int64_t(rows) * UNIT);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int row = 0; row < rows; ++row) bytes.quantise_row(row, x + int64_t(row) * w->inputs);
#pragma omp for schedule(static)
        for (int first = 0; first < w->outputs; first += UNIT) unit_of(*w, bytes, rows, first, y, real, last);
    }
}

// x (rows, width) to y (rows, width), each row by the norm.
void regard_normalise(const Norm* norm, const float* x, int64_t rows, int32_t width, float* y) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) normalise(*norm, x + row * width, y + row * width, width);
}

// Bytes of scratch memory for `regard_blocks`; columns: the most of any cache. The blocks are of one shape.
int64_t regard_blocks_scratch(const Block* b, int32_t rows, int32_t columns, int32_t threads) {
    const int64_t inner = int64_t(b->heads) * b->head_width, wide = b->inner.outputs, band = rows < BAND ? rows : BAND;
    return bytes_of(band, b->width) + bytes_of(band, inner) + bytes_of(band, wide) + rounded(band * b->width * 4) +
           rounded(rows * inner * 4) + rounded(band * inner * 4) + rounded(band * wide * 4) + rounded(band * UNIT * 4) +
           threads * (rounded(band * unit_room(*b) * 4) + attention_bytes(columns));
}
}

namespace {

// Tokens of each row through all blocks: x (rows, width) is changed in place.
//
// positions: (rows) of each token in its text; null where no block turns anything.
// past: of the tokens before; those of this step join it, a column for each row of a group, the last `group_rows` of its columns.
// visible: of each block (rows, past columns), true = may be attended to; null = all.
// spans: the same of each block as a range of columns for each row (rows); null = as `visible` says.
// source: of the sources, which all blocks that have weights for it attend to; source_visible (groups, source columns) likewise.
// asked: the block whose queries to the source (rows, heads * head_width) are wanted in `queries`; -1 = of none.
// head: what makes `logits` of x after them; null where they are not wanted.
template <class K>  // of keys and values
void through_blocks(const Block* blocks, int32_t count, float* x, int32_t rows, int32_t group_rows, const int64_t* positions,
                    const Cache* past, const uint8_t* const* visible, const Span* const* spans, const Cache* source,
                    const uint8_t* source_visible, int32_t asked, float* queries, const Head* head, float* logits,
                    int32_t threads, uint8_t* scratch) {
    const int width = blocks->width, heads = blocks->heads, key_heads = blocks->key_heads, each = blocks->head_width;
    const int inner = heads * each, every = heads + 2 * key_heads, wide = blocks->inner.outputs, group = heads / key_heads;
    const int bits = blocks->query.bits, band = rows < BAND ? rows : BAND;
    const int most = source && source->columns > past->columns ? source->columns : past->columns;
    float* asking = floats_in(scratch, int64_t(rows) * inner);
    float* normal = floats_in(scratch, int64_t(band) * width);
    float* gathered = floats_in(scratch, int64_t(band) * inner);
    float* inside = floats_in(scratch, int64_t(band) * wide);
    float* last = floats_in(scratch, int64_t(band) * UNIT);
    const Bytes input = laid_in(scratch, band, width, bits, normal), attended = laid_in(scratch, band, inner, bits, gathered),
                hidden = laid_in(scratch, band, wide, bits, inside);
    const int64_t unit_bytes = rounded(band * unit_room(*blocks) * 4), thread_bytes = unit_bytes + attention_bytes(most);
    auto unit_of_thread = [=] { return reinterpret_cast<float*>(scratch + omp_get_thread_num() * thread_bytes); };
    auto shares_of_thread = [=] {
        return reinterpret_cast<float*>(scratch + omp_get_thread_num() * thread_bytes + unit_bytes);
    };

    // The keys in a cache for a row and a head of keys; the values are `apart` further on.
    auto keys_of = [=](const Cache* cache, int row, int number, int head) {
        int64_t home = cache->homes ? cache->homes[row / group_rows] : row / group_rows;
        return static_cast<K*>(cache->values) + ((home * count + number) * key_heads + head) * cache->capacity * each;
    };
    auto apart = [=](const Cache* cache) { return cache->rows * count * key_heads * cache->capacity * each; };

    // The parts of a block, of `size` rows from `top` on; each is shared out among the threads, which wait for each other at its
    // end. A row's place in what only a band has is counted from `top`.
    auto normalised = [=](int top, int size, const Norm& after, const Norm& before) {  // of what was added to, and of what comes next
        const Bytes to = input.of(size);
#pragma omp for schedule(static)
        for (int row = 0; row < size; ++row) {
            float* own = x + int64_t(top + row) * width;
            normalise(after, own, own, width);
            normalise(before, own, normal + int64_t(row) * width, width);
            to.quantise_row(row, normal + int64_t(row) * width);
        }
    };
    auto projected = [=](int top, int size, int number) {  // to queries, and to keys and values in their columns
        const Block* b = blocks + number;
        const Bytes from = input.of(size);
        float* made_here = unit_of_thread();
#pragma omp for schedule(static)
        for (int part = 0; part < every; ++part) {  // the heads of the queries, of the keys, of the values
            const bool asks = part < heads, answers = !asks && part < heads + key_heads;
            const Linear& w = asks ? b->query : answers ? b->key : b->value;
            const int own = asks ? part : answers ? part - heads : part - heads - key_heads;
            float* to = asks ? asking + int64_t(top) * inner + own * each : made_here;
            const int64_t step = asks ? inner : each;
            for (int e = 0; e < each; e += UNIT) outputs_of(w, from, size, own * each + e, to + e, step);
            for (int row = 0; row < size; ++row) {
                float* made = to + row * step;
                if (asks || answers) {
                    normalise(asks ? b->query_norm : b->key_norm, made, made, each);
                    if (b->rotary.cosines) turn(b->rotary, positions[top + row], made);
                }
                if (asks) continue;
                int64_t column = past->columns - group_rows + (top + row) % group_rows;
                K* place = keys_of(past, top + row, number, own) + (answers ? 0 : apart(past)) + column * each;
                for (int e = 0; e < each; ++e) keep(place[e], made[e]);
            }
        }
    };
    auto asked_of_source = [=](int top, int size, int number) {
        const Bytes from = input.of(size);
        float* to = asking + int64_t(top) * inner;
#pragma omp for schedule(static)
        for (int first = 0; first < inner; first += UNIT)
            outputs_of(blocks[number].source_query, from, size, first, to + first, inner);
        if (number != asked) return;
#pragma omp for schedule(static) nowait
        for (int row = top; row < top + size; ++row)
            std::memcpy(queries + int64_t(row) * inner, asking + int64_t(row) * inner, inner * sizeof(float));
    };
    // Every query over what a cache has for it; `seen` has a row of the mask for each `rows_sharing` rows.
    auto attended_to = [=](int top, int size, const Cache* cache, int number, float scale, const uint8_t* seen, int rows_sharing) {
        const int64_t all = int64_t(size) * heads, threads = omp_get_num_threads(), own = omp_get_thread_num();
        const int64_t end = all * (own + 1) / threads;
        const Bytes to = attended.of(size);
        for (int64_t pair = all * own / threads; pair < end;) {  // a row and a head; as many together as share their keys
            const int row = int(pair / heads), head = int(pair % heads);
            int together = group - head % group;
            together = together < TOGETHER ? together : TOGETHER;
            together = together < end - pair ? together : int(end - pair);
            const K* keys = keys_of(cache, top + row, number, head / group);
            float* y = gathered + int64_t(row) * inner + head * each;
            attend(together, asking + int64_t(top + row) * inner + head * each, keys, keys + apart(cache), cache->columns, each,
                   scale, seen ? seen + int64_t((top + row) / rows_sharing) * cache->columns : nullptr, shares_of_thread(), y);
            for (int e = 0; e < together * each; e += GROUP) to.quantise(row, head * each + e, y + e);
            pair += together;
        }
#pragma omp barrier
    };
    // The same over `past`, with a range of columns for each row. The threads take a few rows of a head of the keys in turns, as
    // those at the end of a text attend to more.
    auto attended_in_spans = [=](int top, int size, int number, float scale, const Span* ranges) {
        constexpr int FEW = 16;
        const int all = (size + FEW - 1) / FEW * key_heads;
        const Bytes to = attended.of(size);
        for (int part = omp_get_thread_num(); part < all; part += omp_get_num_threads()) {
            const int head = part % key_heads, from = part / key_heads * FEW;
            const int end = (from + FEW < size ? from + FEW : size) * group;
            for (int next = from * group; next < end;) {  // a row and a head of those that share this head of the keys
                const int text = (top + next / group) / group_rows, first = next;
                const K* keys = keys_of(past, top + next / group, number, head);
                const float* asks[TOGETHER];
                float* y[TOGETHER];
                Span own[TOGETHER];
                int together = 0;
                for (; together < TOGETHER && next < end && (top + next / group) / group_rows == text; ++together, ++next) {
                    const int64_t row = next / group, place = (head * group + next % group) * each;
                    asks[together] = asking + (top + row) * inner + place;
                    y[together] = gathered + row * inner + place;
                    own[together] = ranges[top + row];
                }
                attend_spans(together, asks, keys, keys + apart(past), own, each, scale, shares_of_thread(), past->columns, y);
                for (int n = 0; n < together; ++n)
                    for (int e = 0; e < each; e += GROUP)
                        to.quantise((first + n) / group, (head * group + (first + n) % group) * each + e, y[n] + e);
            }
        }
#pragma omp barrier
    };
    auto added = [=](int top, int size, const Linear& w, const Bytes& whole) {
        const Bytes from = whole.of(size);
        float* found = unit_of_thread();
#pragma omp for schedule(static)
        for (int first = 0; first < width; first += UNIT) {
            outputs_of(w, from, size, first, found, UNIT);
            for (int row = 0; row < size; ++row) {
                float *own = x + int64_t(top + row) * width + first, *more = found + row * UNIT;
                for (int o = 0; o < UNIT; ++o) own[o] += more[o];
            }
        }
    };
    auto widened = [=](int size, const Block* b) {  // the inner maps of the feed-forward net and their activation
        const Bytes from = input.of(size), to = hidden.of(size);
        // Rows that are wanted as they are stand where they are wanted.
        const int64_t step = to.plain ? wide : UNIT;
        float *unit = unit_of_thread(), *gates = unit + band * UNIT;
#pragma omp for schedule(static)
        for (int first = 0; first < wide; first += UNIT) {
            float* found = to.plain ? inside + first : unit;
            outputs_of(b->inner, from, size, first, found, step);
            if (b->gate.weight) outputs_of(b->gate, from, size, first, gates, UNIT);
            for (int row = 0; row < size; ++row) {
                float *own = found + row * step, *gate = gates + row * UNIT;
                if (b->gate.weight) {
                    activate(gate, UNIT, b->gate.activation);
                    for (int o = 0; o < UNIT; ++o) own[o] *= gate[o];
                } else {
                    activate(own, UNIT, b->inner.activation);
                }
                to.quantise(row, first, own);
            }
        }
    };

    const Norm none = {nullptr, nullptr, 0.0f};
    auto through = [=](int top, int size, int number) {  // after the keys and values of all rows
        const Block* b = blocks + number;
        if (spans && spans[number])
            attended_in_spans(top, size, number, b->scale, spans[number]);
        else
            attended_to(top, size, past, number, b->scale, visible[number], 1);
        if (b->parallel) {  // here, where x is still what attention read
            normalised(top, size, none, b->feedforward_before);
            widened(size, b);
        }
        added(top, size, b->output, attended);
        if (source && b->source_query.weight) {
            normalised(top, size, b->attention_after, b->source_before);
            asked_of_source(top, size, number);
            attended_to(top, size, source, number, b->source_scale, source_visible, group_rows);
            added(top, size, b->source_output, attended);
            normalised(top, size, b->source_after, b->feedforward_before);
        } else if (!b->parallel) {
            normalised(top, size, b->attention_after, b->feedforward_before);
        }
        if (!b->parallel) widened(size, b);
        added(top, size, b->outer, hidden);
        // Without waiting: what comes next begins with other rows, or with the same on the same threads.
#pragma omp for schedule(static) nowait
        for (int row = top; row < top + size; ++row) {
            float* own = x + int64_t(row) * width;
            normalise(b->feedforward_after, own, own, width);
        }
    };
    auto in_bands = [=](auto&& work) {
        for (int top = 0; top < rows; top += BAND) work(top, rows - top < BAND ? rows - top : BAND);
    };

#pragma omp parallel num_threads(threads)
    {
        for (int number = 0; number < count; ++number) {
            in_bands([=](int top, int size) {
                normalised(top, size, none, blocks[number].attention_before);
                projected(top, size, number);
            });
            in_bands([=](int top, int size) { through(top, size, number); });
        }
        if (head) in_bands([=](int top, int size) {
            normalised(top, size, none, head->norm);
            const Bytes from = input.of(size);
#pragma omp for schedule(static)
            for (int first = 0; first < head->output.outputs; first += UNIT)
                unit_of(head->output, from, size, first, logits + int64_t(top) * head->real, head->real, last);
        });
    }
}
}  // namespace

extern "C" {

// See `through_blocks`.
void regard_blocks(const Block* blocks, int32_t count, float* x, int32_t rows, int32_t group_rows, const int64_t* positions,
                   const Cache* past, const uint8_t* const* visible, const Span* const* spans, const Cache* source,
                   const uint8_t* source_visible, int32_t asked, float* queries, const Head* head, float* logits,
                   int32_t threads, uint8_t* scratch) {
    auto run = past->bits == 32 ? through_blocks<float> : through_blocks<uint16_t>;
    run(blocks, count, x, rows, group_rows, positions, past, visible, spans, source, source_visible, asked, queries, head,
        logits, threads, scratch);
}

// Greedy search: several tokens of each row, each the one of the largest logit after the token before. Returns the number of
// complete steps. It stops after a step in which a row came to one of `ends`, and before one in which a row has no token to
// choose: its logits have a NaN, or the largest of those that are allowed is infinite.
//
// tokens: (steps + 1, rows), the first row given: the tokens whose successors are wanted.
// positions: (steps, rows); null where no block turns anything.
// past: of the tokens before, and a column for the first of these.
// logits: (steps, rows, head->real), of each step, as the model gives them.
// never: tokens that are not chosen; their number is `excluded`. ends: tokens after which the search stops.
// x: (rows, width), for the kernel alone; scratch as of `regard_blocks` with `steps` - 1 columns more.
int32_t regard_greedy(const Block* blocks, int32_t count, const Embedding* table, int64_t* tokens, int32_t steps, int32_t rows,
                      const int64_t* positions, const Cache* past, const uint8_t* const* visible, const Head* head,
                      float* logits, const int64_t* never, int32_t excluded, const int64_t* ends, int32_t ending, float* x,
                      int32_t threads, uint8_t* scratch) {
    const int width = blocks->width;
    for (int32_t step = 0; step < steps; ++step) {
        const int64_t* given = tokens + int64_t(step) * rows;
        int64_t* made = tokens + int64_t(step + 1) * rows;
        float* own = logits + int64_t(step) * rows * head->real;
        for (int32_t row = 0; row < rows; ++row) embed(*table, given[row], step, width, x + int64_t(row) * width);
        Cache now = *past;
        now.columns += step;
        regard_blocks(blocks, count, x, rows, 1, positions ? positions + int64_t(step) * rows : nullptr, &now, visible, nullptr,
                      nullptr, nullptr, -1, nullptr, head, own, threads, scratch);
        bool none = false, ended = false;
        for (int32_t row = 0; row < rows; ++row) {
            made[row] = largest_allowed(own + int64_t(row) * head->real, head->real, never, excluded);
            none |= made[row] < 0;
            for (int32_t n = 0; n < ending; ++n) ended |= made[row] == ends[n];
        }
        if (none) return step;
        if (ended) return step + 1;
    }
    return steps;
}
}
