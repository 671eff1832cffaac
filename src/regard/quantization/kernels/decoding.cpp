// One token of each row through the blocks of a decoder, in one call.

#include "attention.h"
#include "linear.h"

extern "C" {

struct Norm {
    const float* weight;  // null: there is no norm here
    const float* bias;
    float epsilon;
};

struct Block {
    Linear query, key, value, output, inner, outer;
    Norm attention_before, attention_after, feedforward_before, feedforward_after;
    int32_t width, heads, head_width;
    float scale;
    Linear source_query, source_output;  // without weights where there is no source to attend to
    Norm source_before, source_after;
    float source_scale;
};

// What rows attend to. Rows come in groups of `beside`, one group for each text: hypotheses about one source, or a row alone.
struct Cache {
    void* values;          // (2, rows, blocks, heads, capacity, head_width): keys, then values
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
#pragma omp simd reduction(+ : mean)
    for (int i = 0; i < width; ++i) mean += x[i];
    mean /= width;
#pragma omp simd reduction(+ : variance)
    for (int i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
    float inverse = 1.0f / std::sqrt(variance / width + norm.epsilon);
#pragma omp simd
    for (int i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * norm.weight[i] + norm.bias[i];
}

}  // namespace

extern "C" {

// Bytes of scratch memory for `regard_linear`.
int64_t regard_linear_scratch(const Linear* w, int32_t rows) {
    return bytes_of(rows, w->inputs) + rounded(int64_t(rows) * UNIT * 4);
}

// x (rows, w.inputs) to y (rows, real), the activation included; real counts the outputs without what they are filled up with.
void regard_linear(const Linear* w, const float* x, int32_t rows, float* y, int32_t real, uint8_t* scratch) {
    Bytes bytes = laid_in(scratch, rows, w->inputs);
    float* last = floats_in(scratch, int64_t(rows) * UNIT);  // a unit that is not all real
    if (w->bits > 8) bytes.plain = x;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int row = 0; row < rows; ++row) bytes.quantise_row(row, x + int64_t(row) * w->inputs);
#pragma omp for schedule(static)
        for (int first = 0; first < w->outputs; first += UNIT) {
            bool whole = first + UNIT <= real;
            float* to = whole ? y + first : last;
            int64_t stride = whole ? real : UNIT;
            outputs_of(*w, bytes, rows, first, to, stride);
            for (int row = 0; row < rows; ++row) {
                activate(to + row * stride, UNIT, w->activation);
                if (!whole && first < real)
                    std::memcpy(y + int64_t(row) * real + first, last + row * UNIT, (real - first) * sizeof(float));
            }
        }
    }
}

// Bytes of scratch memory for `regard_blocks`; columns: the most of any cache. The blocks are of one shape.
int64_t regard_blocks_scratch(const Block* b, int32_t rows, int32_t columns) {
    int64_t inner = b->heads * b->head_width;
    return bytes_of(rows, b->width) + bytes_of(rows, inner) + bytes_of(rows, b->inner.outputs) +
           rounded(int64_t(rows) * b->width * 4) + rounded(int64_t(rows) * 3 * inner * 4) +
           rounded(int64_t(rows) * inner * 4) + rounded(int64_t(rows) * b->inner.outputs * 4) +
           int64_t(rows) * b->heads * rounded(int64_t(columns) * 8);
}
}

namespace {

// One token of each row through all blocks: x (rows, width) is changed in place.
//
// past: of the tokens before; those of this step join it, a column for each row of a group, the last `beside` of its columns.
// visible: of each block (rows, past columns), true = may be attended to; null = all.
// source: of the sources, which all blocks that have weights for it attend to; source_visible (groups, source columns) likewise.
// asked: the block whose queries to the source (rows, heads * head_width) are wanted in `queries`; -1 = of none.
template <class K>  // of keys and values
void through_blocks(const Block* blocks, int32_t count, float* x, int32_t rows, int32_t beside, const Cache* past,
                    const uint8_t* const* visible, const Cache* source, const uint8_t* source_visible, int32_t asked,
                    float* queries, uint8_t* scratch) {
    const int width = blocks->width, heads = blocks->heads, each = blocks->head_width, inner = heads * each;
    const int wide = blocks->inner.outputs, stride = 3 * inner;
    Bytes input = laid_in(scratch, rows, width), attended = laid_in(scratch, rows, inner),
          hidden = laid_in(scratch, rows, wide);
    float* normal = floats_in(scratch, int64_t(rows) * width);
    float* projected = floats_in(scratch, int64_t(rows) * stride);
    float* gathered = floats_in(scratch, int64_t(rows) * inner);
    float* inside = floats_in(scratch, int64_t(rows) * wide);
    if (blocks->query.bits > 8) input.plain = normal, attended.plain = gathered, hidden.plain = inside;
    const int most = source && source->columns > past->columns ? source->columns : past->columns;

    // The head's keys in a cache for a row; the values stand `apart` further on.
    auto keys_of = [=](const Cache* cache, int row, int number, int head) {
        int64_t home = cache->homes ? cache->homes[row / beside] : row / beside;
        return static_cast<K*>(cache->values) + ((home * count + number) * heads + head) * cache->capacity * each;
    };
    auto apart = [=](const Cache* cache) { return cache->rows * count * heads * cache->capacity * each; };
    auto weights_of = [=](int pair) { return reinterpret_cast<float*>(scratch + pair * rounded(int64_t(most) * 8)); };

    // The parts of a block; each is shared out among the threads, which wait for one another at its end.
    auto normalised = [=](const Norm& after, const Norm& before) {  // of what was just added to, and of what comes next
#pragma omp for schedule(static)
        for (int row = 0; row < rows; ++row) {
            float* own = x + int64_t(row) * width;
            normalise(after, own, own, width);
            normalise(before, own, normal + int64_t(row) * width, width);
            input.quantise_row(row, normal + int64_t(row) * width);
        }
    };
    auto mapped = [=](const Linear& w, const Bytes& from, float* to, int64_t step) {
#pragma omp for schedule(static)
        for (int first = 0; first < w.outputs; first += UNIT) outputs_of(w, from, rows, first, to + first, step);
    };
    auto added = [=](const Linear& w, const Bytes& from) {
#pragma omp for schedule(static)
        for (int first = 0; first < width; first += UNIT) {
            outputs_of(w, from, rows, first, normal + first, width);
            for (int row = 0; row < rows; ++row)
                for (int o = first; o < first + UNIT; ++o) x[int64_t(row) * width + o] += normal[int64_t(row) * width + o];
        }
    };
    auto quantised = [=](int row, int head) {
        for (int first = head * each; first < (head + 1) * each; first += GROUP)
            attended.quantise(row, first, gathered + int64_t(row) * inner + first);
    };

#pragma omp parallel
    for (int number = 0; number < count; ++number) {
        const Block* b = blocks + number;
        const Norm none = {nullptr, nullptr, 0.0f};
        normalised(none, b->attention_before);
#pragma omp for schedule(static)
        for (int first = 0; first < stride; first += UNIT) {  // query, key and value of a row, one after another
            const Linear& w = first < inner ? b->query : first < 2 * inner ? b->key : b->value;
            outputs_of(w, input, rows, first % inner, projected + first, stride);
        }
#pragma omp for schedule(static)
        for (int pair = 0; pair < rows * heads; ++pair) {
            int row = pair / heads, head = pair % heads;
            const float* query = projected + int64_t(row) * stride + head * each;
            K* keys = keys_of(past, row, number, head);
            K* values = keys + apart(past);
            int64_t own = int64_t(past->columns - beside + row % beside) * each;
            for (int e = 0; e < each; ++e) {
                keep(keys[own + e], query[inner + e]);
                keep(values[own + e], query[2 * inner + e]);
            }
            const uint8_t* seen = visible[number] ? visible[number] + int64_t(row) * past->columns : nullptr;
            float* y = gathered + int64_t(row) * inner + head * each;
            attend(query, keys, values, past->columns, each, b->scale, seen, weights_of(pair), y);
            quantised(row, head);
        }
        added(b->output, attended);
        if (source && b->source_query.weight) {
            normalised(b->attention_after, b->source_before);
            mapped(b->source_query, input, projected, inner);
#pragma omp for schedule(static)
            for (int pair = 0; pair < rows * heads; ++pair) {
                int row = pair / heads, head = pair % heads;
                const float* query = projected + int64_t(row) * inner + head * each;
                if (number == asked)
                    std::memcpy(queries + int64_t(row) * inner + head * each, query, each * sizeof(float));
                const K* keys = keys_of(source, row, number, head);
                const uint8_t* seen = source_visible ? source_visible + int64_t(row / beside) * source->columns : nullptr;
                float* y = gathered + int64_t(row) * inner + head * each;
                attend(query, keys, keys + apart(source), source->columns, each, b->source_scale, seen, weights_of(pair),
                       y);
                quantised(row, head);
            }
            added(b->source_output, attended);
            normalised(b->source_after, b->feedforward_before);
        } else {
            normalised(b->attention_after, b->feedforward_before);
        }
#pragma omp for schedule(static)
        for (int first = 0; first < wide; first += UNIT) {
            outputs_of(b->inner, input, rows, first, inside + first, wide);
            for (int row = 0; row < rows; ++row) {
                float* own = inside + int64_t(row) * wide + first;
                activate(own, UNIT, b->inner.activation);
                hidden.quantise(row, first, own);
            }
        }
        added(b->outer, hidden);
        // Without waiting: the next block begins with the same rows on the same threads.
#pragma omp for schedule(static) nowait
        for (int row = 0; row < rows; ++row) {
            float* own = x + int64_t(row) * width;
            normalise(b->feedforward_after, own, own, width);
        }
    }
}
}  // namespace

extern "C" {

// See `through_blocks`.
void regard_blocks(const Block* blocks, int32_t count, float* x, int32_t rows, int32_t beside, const Cache* past,
                   const uint8_t* const* visible, const Cache* source, const uint8_t* source_visible, int32_t asked,
                   float* queries, uint8_t* scratch) {
    auto run = past->bits == 32 ? through_blocks<float> : through_blocks<uint16_t>;
    run(blocks, count, x, rows, beside, past, visible, source, source_visible, asked, queries, scratch);
}
}
