// The linear layer: weights of 8 or 4 bits and activations in bytes, or weights in bfloat16 or float and activations in float.
//
// Reading a token is reading the weights: everything here serves to take them from memory once, in order, by all threads, and
// to be done with the arithmetic meanwhile. Weights are stored in tiles of 16 outputs, four consecutive inputs of each, as the
// instruction `vpdpbusd` multiplies them: 64 bytes times one broadcast word of four activations, summed into 16 numbers of 32
// bits. Weights are unsigned with an offset (128 or 8), activations signed; the offset times the sum of the activations is taken
// off again, exactly, because the sums are of integers.
//
//   y_o = w_o sum_g s_g sum_{k in g} W_ok X_k                 8 bits: one scale w for each output
//   y_o = sum_g w_og s_g sum_{k in g} W_ok X_k                4 bits: one for each output and group
//
// with X_k = round(x_k / s_g), s_g = max |x_k| / 127 over a group of 32 inputs. Sums over integers do not depend on their order,
// and those over groups are taken in theirs, so a row's result is the same to the bit whatever else is in the batch, and on any
// number of threads.
//
// Weights in bfloat16 (16 bits) and float (32 bits) are stored as in PyTorch: the inputs of an output are consecutive. Where the
// processor multiplies bfloat16 (`vdpbf16ps`), activations are rounded to bfloat16 before a product with such weights, as PyTorch
// rounds them; elsewhere they stay in float.

#pragma once

#include "numbers.h"

extern "C" {

struct Linear {
    int32_t outputs, inputs, bits, activation;  // inputs a multiple of GROUP, of 8 and 4 bits outputs one of UNIT, filled with zeros
    const uint8_t* weight;
    const void* scale;  // 8 bits: float (outputs); 4 bits: bfloat16 (outputs / TILE, inputs / GROUP, TILE); of others none
    const float* bias;  // (outputs)
};
}

namespace {

// Rows of activations in bytes. Rows go together in bands of 8, then of 4, 2 and 1: a band has four bytes of each
// row in turn, then the next four of each; likewise the scales and the sums, group by group.
struct Bytes {
    int8_t* values;
    float* scales;
    int32_t* sums;
    int rows, inputs;
    const float* plain;  // the rows as they are (rows, inputs), for weights in float; then there are no bytes
    uint16_t* halves;    // the rows in bfloat16 (rows, inputs), for weights in bfloat16; then there are no bytes

    Bytes of(int fewer) const {  // the same memory for so many rows
        Bytes found = *this;
        found.rows = fewer;
        return found;
    }

    // The band that a row belongs to: how many rows it has, its first one.
    int band(int row, int& first) const {
        first = row / ROWS * ROWS;
        if (first + ROWS <= rows) return ROWS;
        for (int size = ROWS / 2;; size /= 2)
            if (rows % ROWS & size) {
                if (row < first + size) return size;
                first += size;
            }
    }

    void quantise(int row, int from, const float* x) const {  // one group
        if (plain) return;
#if defined(REGARD_BF16)
        if (halves) {
            __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + LANES), _mm512_loadu_ps(x));
            std::memcpy(halves + int64_t(row) * inputs + from, &both, sizeof(both));
            return;
        }
#endif
        int first, size = band(row, first), own = row - first;
        float largest = 0, poison = 0;  // what is not finite makes the scale, and with it all that follows, not finite
#pragma omp simd reduction(max : largest) reduction(+ : poison)
        for (int i = 0; i < GROUP; ++i) {
            float magnitude = std::fabs(x[i]);
            largest = magnitude > largest ? magnitude : largest;
            poison += x[i] * 0.0f;
        }
        float inverse = largest > 1e-36f ? 127.0f / largest : 0.0f;  // of anything smaller it would be infinite
        int8_t bytes[GROUP];
        int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < GROUP; ++i) {
            float share = std::nearbyint(x[i] * inverse);
            int32_t value = int32_t(std::fabs(share) <= 127.0f ? share : 0.0f);  // NaN is none; the scale keeps it
            bytes[i] = int8_t(value);
            sum += value;
        }
        int8_t* to = values + int64_t(first) * inputs + (int64_t(from) * size + own * 4);
        for (int i = 0; i < GROUP; i += 4) std::memcpy(to + i * size, bytes + i, 4);
        int64_t group = int64_t(first) * (inputs / GROUP) + from / GROUP * size + own;
        scales[group] = largest / 127.0f + poison;
        sums[group] = sum;
    }

    void quantise_row(int row, const float* x) const {
        if (plain) return;
        for (int from = 0; from < inputs; from += GROUP) quantise(row, from, x + from);
    }
};

}  // namespace

#if defined(REGARD_VNNI)
#include "tiles_vnni.h"
#elif defined(REGARD_AVX2)
#include "tiles_avx2.h"
#else
#include "tiles_plain.h"
#endif

namespace {

constexpr int AHEAD = 8192;  // bytes of weights between what is multiplied and what is fetched

// Into which cache weights are fetched (the third argument of __builtin_prefetch): the nearest, or the next one where several
// rows share them, since the rows fill the nearest.
template <int R>
constexpr int LEVEL = R < 2 ? 3 : 2;

// R rows times O outputs of weights W; the sum of a row is taken in the same order whatever R and O are.
template <int R, int O, class W>
inline void some_outputs(const W* weight, const float* bias, int inputs, const float* x, float* y, int64_t stride) {
    Lanes sums[R][O];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) sums[r][o] = Lanes{};
    const char* ahead = reinterpret_cast<const char*>(weight) + AHEAD;
    for (int k = 0; k < inputs; k += LANES) {
        constexpr int BYTES = O * LANES * sizeof(W);  // of a step, fetched in the order of memory, not output by output
#pragma GCC unroll 8
        for (int byte = 0; byte < BYTES; byte += 64) __builtin_prefetch(ahead + byte, 0, LEVEL<R>);
        ahead += BYTES;
        Lanes own[O];
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) own[o] = lanes(weight + int64_t(o) * inputs + k);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            Lanes read = lanes(x + int64_t(r) * inputs + k);
#pragma GCC unroll 8
            for (int o = 0; o < O; ++o) sums[r][o] = plus_product(sums[r][o], own[o], read);
        }
    }
    totals(sums, bias, y, stride);
}

#if defined(REGARD_BF16)
// The same as `some_outputs` of weights and rows in bfloat16.
template <int R, int O, class W>
inline void some_outputs(const W* weight, const float* bias, int inputs, const uint16_t* x, float* y, int64_t stride) {
    Lanes sums[R][O];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) sums[r][o] = Lanes{};
    const char* ahead = reinterpret_cast<const char*>(weight) + AHEAD;
    for (int k = 0; k < inputs; k += GROUP) {
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) __builtin_prefetch(ahead + o * 64, 0, LEVEL<R>);
        ahead += O * 64;
        __m512bh own[O];
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) own[o] = (__m512bh)_mm512_loadu_si512(weight + int64_t(o) * inputs + k);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            __m512bh read = (__m512bh)_mm512_loadu_si512(x + int64_t(r) * inputs + k);
#pragma GCC unroll 8
            for (int o = 0; o < O; ++o) sums[r][o] = (Lanes)_mm512_dpbf16_ps((__m512)sums[r][o], own[o], read);
        }
    }
    totals(sums, bias, y, stride);
}
#endif

// Eight rows of floats at once read their part of the inputs from the nearest cache: 8 x 192 of them stay in it beside the
// weights, but not many more. The sums of a part go on from those before, so they are the same to the bit as without parts.
constexpr int PART = 192;

// 4 rows times 4 outputs of `count` inputs, added to `sums`; ahead: the weights to fetch meanwhile, null for none.
template <class W>
inline void some_outputs_of_part(const W* weight, int inputs, int count, const float* x, Lanes (&sums)[4][4], const W* ahead) {
    Lanes own[4][4];
    std::memcpy(own, sums, sizeof(own));
    for (int k = 0; k < count; k += LANES) {
        if (ahead)
#pragma GCC unroll 4
            for (int o = 0; o < 4; ++o) __builtin_prefetch(ahead + int64_t(o) * inputs + k, 0, LEVEL<4>);
        Lanes read[4];
#pragma GCC unroll 4
        for (int o = 0; o < 4; ++o) read[o] = lanes(weight + int64_t(o) * inputs + k);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
            Lanes row = lanes(x + int64_t(r) * inputs + k);
#pragma GCC unroll 4
            for (int o = 0; o < 4; ++o) own[r][o] = plus_product(own[r][o], read[o], row);
        }
    }
    std::memcpy(sums, own, sizeof(own));
}

// ROWS rows times TILE outputs, part by part.
template <class W>
void tile_by_parts(const W* weight, const float* bias, int inputs, const float* x, float* y, int64_t stride) {
    Lanes sums[TILE / 4][ROWS / 4][4][4] = {};
    for (int from = 0; from < inputs; from += PART) {
        const int count = inputs - from < PART ? inputs - from : PART;
        for (int o = 0; o < TILE; o += 4) {
            const W* own = weight + int64_t(o) * inputs + from;
            const W* ahead = o + 8 < TILE           ? own + int64_t(8) * inputs
                             : from + PART < inputs ? own + PART - int64_t(TILE - 8) * inputs
                                                    : own - from + int64_t(8) * inputs;
            for (int r = 0; r < ROWS; r += 4)
                some_outputs_of_part(own, inputs, count, x + int64_t(r) * inputs + from, sums[o / 4][r / 4], r ? nullptr : ahead);
        }
    }
    for (int r = 0; r < ROWS; r += 4)
        for (int o = 0; o < TILE; o += 4) totals(sums[o / 4][r / 4], bias + o, y + r * stride + o, stride);
}

#if defined(__AVX__)
// Of more rows, SIDE outputs at a time go over 3 rows: their weights stay in the nearest cache, and each reading of a row from the
// next one serves SIDE products. The sum of a row is taken in the same order as above.

inline Lanes read_of(const float* x, float) { return lanes(x); }

inline Lanes read_of(const uint16_t* x, float) { return lanes(x); }

inline Lanes plus_product_of(Lanes sum, Lanes weight, Lanes row, float) { return plus_product(sum, weight, row); }

#if defined(REGARD_BF16)
inline Lanes read_of(const uint16_t* x, uint16_t) { return (Lanes)_mm512_loadu_si512(x); }  // twice as many

inline Lanes plus_product_of(Lanes sum, Lanes weight, Lanes row, uint16_t) {
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weight, (__m512bh)row);
}
#endif

// R rows in X times SIDE outputs; ahead: the weights to fetch meanwhile, null for none.
template <int R, class W, class X, class A>
inline void side_of_outputs(const W* weight, const float* bias, int inputs, const X* x, float* y, int64_t stride,
                            const A* ahead) {
    Lanes sums[R][SIDE];
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int o = 0; o < SIDE; ++o) sums[r][o] = Lanes{};
    for (int k = 0; k < inputs; k += LANES * 4 / int(sizeof(X))) {
        if (ahead)
#pragma GCC unroll 8
            for (int o = 0; o < SIDE; ++o) __builtin_prefetch(ahead + int64_t(o) * inputs + k, 0, LEVEL<R>);
        Lanes rows[R];
#pragma GCC unroll 3
        for (int r = 0; r < R; ++r) {
            rows[r] = read_of(x + int64_t(r) * inputs + k, X());
            keep_in_register(rows[r]);
        }
#pragma GCC unroll 8
        for (int o = 0; o < SIDE; ++o) {
            Lanes own = read_of(weight + int64_t(o) * inputs + k, X());
            keep_in_register(own);
#pragma GCC unroll 3
            for (int r = 0; r < R; ++r) sums[r][o] = plus_product_of(sums[r][o], own, rows[r], X());
        }
    }
#pragma GCC unroll 3
    for (int r = 0; r < R; ++r) totals_of_side(sums[r], bias, y + r * stride);
}

// `rows` rows times SIDE outputs.
template <class W, class X, class A>
inline void side_of_many(const W* weight, const float* bias, int inputs, const X* x, int rows, float* y, int64_t stride,
                         const A* ahead) {
    for (int row = 0; row < rows; row += 3, ahead = nullptr) {
        auto run = rows - row >= 3   ? side_of_outputs<3, W, X, A>
                   : rows - row == 2 ? side_of_outputs<2, W, X, A>
                                     : side_of_outputs<1, W, X, A>;
        run(weight, bias, inputs, x + int64_t(row) * inputs, y + row * stride, stride, ahead);
    }
}

constexpr int WIDENED = 4096;  // the most inputs of an output whose weights are made floats once for all rows, on the stack

// `rows` rows times UNIT outputs.
template <class W, class X>
void unit_of_many(const W* weight, const float* bias, int inputs, const X* x, int rows, float* y, int64_t stride) {
    for (int o = 0; o < UNIT; o += SIDE, weight += int64_t(SIDE) * inputs) {
        const W* ahead = weight + int64_t(SIDE) * inputs;
        if constexpr (sizeof(W) < sizeof(X))
            if (inputs <= WIDENED) {
                alignas(64) float widened[SIDE * WIDENED];
                for (int k = 0; k < SIDE * inputs; k += LANES) store(widened + k, lanes(weight + k));
                side_of_many(widened, bias + o, inputs, x, rows, y + o, stride, ahead);
                continue;
            }
        side_of_many(weight, bias + o, inputs, x, rows, y + o, stride, ahead);
    }
}
#endif

// Rows in X: float, or bfloat16.
template <class W, class X>
void plain_outputs(const Linear& w, const X* x, int rows, int first, float* y, int64_t stride) {
    constexpr int FEW = LANES == 16 ? 4 : 2;  // sums of four rows that fit the registers together with what is read
    const int end = first + UNIT < w.outputs ? first + UNIT : w.outputs;
#if defined(__AVX__)
    // From so many rows on arithmetic is the limit, not memory. Weights that are made floats once should stay in the nearest cache.
    const bool near = w.inputs <= 1024;
    const int enough = sizeof(W) < sizeof(X) ? (LANES == 16 ? (near ? 7 : 24) : (near ? 5 : 10))
                       : sizeof(X) < 4       ? 2 * ROWS
                       : LANES == 16         ? ROWS + 1
                                             : 14;
    if (end == first + UNIT && rows >= enough)
        return unit_of_many(reinterpret_cast<const W*>(w.weight) + int64_t(first) * w.inputs, w.bias + first, w.inputs, x, rows,
                            y, stride);
#endif
    if constexpr (LANES == 16 && std::is_same<X, float>::value) {
        if (end == first + UNIT)
            for (; rows >= ROWS; rows -= ROWS, x += int64_t(ROWS) * w.inputs, y += ROWS * stride)
                for (int o = 0; o < UNIT; o += TILE)
                    tile_by_parts(reinterpret_cast<const W*>(w.weight) + int64_t(first + o) * w.inputs, w.bias + first + o,
                                  w.inputs, x, y + o, stride);
    }
    for (int o = first; o < end;) {
        const W* weight = reinterpret_cast<const W*>(w.weight) + int64_t(o) * w.inputs;
        const bool few = end - o < 4;
        for (int row = 0; row < rows;) {
            const X* own = x + int64_t(row) * w.inputs;
            float* to = y + row * stride + o - first;
            int size = few ? 1 : rows - row >= 4 ? 4 : rows - row >= 2 ? 2 : 1;
            if (few)
                some_outputs<1, 1>(weight, w.bias + o, w.inputs, own, to, stride);
            else if (size == 4)
                for (int part = 0; part < 4; part += FEW)
                    some_outputs<4, FEW>(weight + int64_t(part) * w.inputs, w.bias + o + part, w.inputs, own, to + part,
                                         stride);
            else if (size == 2)
                some_outputs<2, 4>(weight, w.bias + o, w.inputs, own, to, stride);
            else
                some_outputs<1, 4>(weight, w.bias + o, w.inputs, own, to, stride);
            row += size;
        }
        o += few ? 1 : 4;
    }
}

// UNIT outputs of all rows, from `first` on; y is where those of row 0 go.
void outputs_of(const Linear& w, const Bytes& x, int rows, int first, float* y, int64_t stride) {
    if (w.bits == 32) return plain_outputs<float>(w, x.plain, rows, first, y, stride);
#if defined(REGARD_BF16)
    if (w.bits == 16) return plain_outputs<uint16_t>(w, x.halves, rows, first, y, stride);
#else
    if (w.bits == 16) return plain_outputs<uint16_t>(w, x.plain, rows, first, y, stride);
#endif
    int tile = first / TILE;
    for (int row = 0; row < rows;) {
        int first, size = x.band(row, first);
        float* to = y + row * stride;
        if (size == 8)
            unit<8>(w, x, row, tile, to, stride);
        else if (size == 4)
            unit<4>(w, x, row, tile, to, stride);
        else if (size == 2)
            unit<2>(w, x, row, tile, to, stride);
        else
            unit<1>(w, x, row, tile, to, stride);
        row += size;
    }
}

// As `outputs_of`, into y (rows, real), the activation included; `last` (rows, UNIT) is for a unit that is not all real.
void unit_of(const Linear& w, const Bytes& x, int rows, int first, float* y, int real, float* last) {
    const bool whole = first + UNIT <= real;
    float* to = whole ? y + first : last;
    const int64_t stride = whole ? real : UNIT;
    const int count = whole ? UNIT : real - first;
    outputs_of(w, x, rows, first, to, stride);
    for (int row = 0; row < rows; ++row) {
        activate(to + row * stride, count, w.activation);
        if (!whole) std::memcpy(y + int64_t(row) * real + first, last + row * UNIT, count * sizeof(float));
    }
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Whether rows are wanted as they are, in float, for products with weights of so many bits.
bool wants_floats(int bits) {
#if defined(REGARD_BF16)
    return bits == 32;
#else
    return bits > 8;
#endif
}

int64_t bytes_of(int rows, int inputs) {  // enough for rows in bfloat16 too
    return rounded(int64_t(rows) * inputs * 2) + 2 * rounded(int64_t(rows) * (inputs / GROUP) * 4);
}

// For products with weights of `bits`; `x` are the rows as they are.

Bytes laid_in(uint8_t*& place, int rows, int inputs, int bits, const float* x) {
    Bytes bytes;
    bytes.plain = wants_floats(bits) ? x : nullptr;
    bytes.halves = bits == 16 && !bytes.plain ? reinterpret_cast<uint16_t*>(place) : nullptr;
    bytes.rows = rows;
    bytes.inputs = inputs;
    bytes.values = reinterpret_cast<int8_t*>(place);
    place += rounded(int64_t(rows) * inputs * 2);
    bytes.scales = reinterpret_cast<float*>(place);
    place += rounded(int64_t(rows) * (inputs / GROUP) * 4);
    bytes.sums = reinterpret_cast<int32_t*>(place);
    place += rounded(int64_t(rows) * (inputs / GROUP) * 4);
    return bytes;
}

float* floats_in(uint8_t*& place, int64_t count) {
    float* found = reinterpret_cast<float*>(place);
    place += rounded(count * 4);
    return found;
}

}  // namespace
