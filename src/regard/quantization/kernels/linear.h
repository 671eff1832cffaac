// The linear layer: weights of 8 or 4 bits and activations in bytes, or weights in bfloat16 or float and activations in float.
//
// Reading a token is reading the weights: everything here serves to take them from memory once, in order, by all threads, and
// to be done with the arithmetic meanwhile. Weights stand in tiles of 16 outputs, four inputs after one another, as the
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
// Weights in bfloat16 (16 bits) and float (32 bits) stand as PyTorch has them: an output's inputs after one another.

#pragma once

#include "numbers.h"

extern "C" {

struct Linear {
    int32_t outputs, inputs, bits, activation;  // outputs a multiple of UNIT, inputs of GROUP; what is beyond the real ones is zero
    const uint8_t* weight;
    const void* scale;  // 8 bits: float (outputs); 4 bits: bfloat16 (outputs / TILE, inputs / GROUP, TILE); of others none
    const float* bias;  // (outputs)
};
}

namespace {

// Rows of activations in bytes. Rows go together in bands of 8, then of 4, 2 and 1: of a band, four bytes of each row stand after
// one another, then the next four of each; and so the scales and the sums, group by group.
struct Bytes {
    int8_t* values;
    float* scales;
    int32_t* sums;
    int rows, inputs;
    const float* plain;  // the rows as they are (rows, inputs), where weights want them so; then there are no bytes

    // The band that a row belongs to: how many rows it has, its first one.
    int band(int row, int& first) const {
        first = row / ROWS * ROWS;
        if (first + ROWS <= rows) return ROWS;
        for (int size = ROWS / 2;; size /= 2)
            if (rows - rows / ROWS * ROWS & size) {
                if (row < first + size) return size;
                first += size;
            }
    }

    void quantise(int row, int from, const float* x) const {  // one group
        if (plain) return;
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

#ifdef REGARD_VNNI

template <int R, int T>  // R rows times T tiles of outputs
inline void tiles8(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    const int groups = w.inputs / GROUP;
    const int8_t* values = x.values + int64_t(row) * w.inputs;
    const float* scales = x.scales + int64_t(row) * groups;
    const int32_t* offsets = x.sums + int64_t(row) * groups;
    const uint8_t* weight = w.weight + int64_t(tile) * TILE * w.inputs;
    const int64_t next = int64_t(TILE) * w.inputs;
    __m512 sums[R][T];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sums[r][t] = _mm512_setzero_ps();
    for (int g = 0; g < groups; ++g) {
        __m512i part[R][T];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) part[r][t] = _mm512_set1_epi32(-128 * offsets[g * R + r]);
#pragma GCC unroll 8
        for (int k = 0; k < GROUP / 4; ++k)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) {
                const uint8_t* here = weight + t * next + (g * (GROUP / 4) + k) * 64;
                __builtin_prefetch(here + T * next);  // what this thread comes to next
                __m512i bytes = _mm512_loadu_si512(here);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    int32_t four;
                    std::memcpy(&four, values + ((g * (GROUP / 4) + k) * R + r) * 4, 4);
                    part[r][t] = _mm512_dpbusd_epi32(part[r][t], bytes, _mm512_set1_epi32(four));
                }
            }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            __m512 scale = _mm512_set1_ps(scales[g * R + r]);
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(part[r][t]), scale, sums[r][t]);
        }
    }
    const float* own = static_cast<const float*>(w.scale) + tile * TILE;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
            __m512 found = _mm512_fmadd_ps(sums[r][t], _mm512_loadu_ps(own + t * TILE),
                                           _mm512_loadu_ps(w.bias + (tile + t) * TILE));
            _mm512_storeu_ps(y + r * stride + t * TILE, found);
        }
}

template <int R, int T>
inline void tiles4(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    const int groups = w.inputs / GROUP;
    const int64_t next = int64_t(TILE) * w.inputs / 2;
    const uint8_t* weight = w.weight + tile * next;
    const uint16_t* stored = static_cast<const uint16_t*>(w.scale) + int64_t(tile) * groups * TILE;
    const int8_t* values = x.values + int64_t(row) * w.inputs;
    const float* scales = x.scales + int64_t(row) * groups;
    const int32_t* offsets = x.sums + int64_t(row) * groups;
    const __m512i low = _mm512_set1_epi8(15);
    __m512 sums[R][T];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sums[r][t] = _mm512_setzero_ps();
    for (int g = 0; g < groups; ++g) {
        __m512i part[R][T];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) part[r][t] = _mm512_set1_epi32(-8 * offsets[g * R + r]);
#pragma GCC unroll 8
        for (int k = 0; k < GROUP / 8; ++k)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t) {
                const uint8_t* here = weight + t * next + (g * (GROUP / 8) + k) * 64;
                __builtin_prefetch(here + T * next);
                __m512i both = _mm512_loadu_si512(here);
                __m512i first = _mm512_and_si512(both, low);
                __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    const int8_t* own = values + ((g * (GROUP / 4) + 2 * k) * R + r) * 4;
                    int32_t four;
                    std::memcpy(&four, own, 4);
                    part[r][t] = _mm512_dpbusd_epi32(part[r][t], first, _mm512_set1_epi32(four));
                    std::memcpy(&four, own + 4 * R, 4);
                    part[r][t] = _mm512_dpbusd_epi32(part[r][t], second, _mm512_set1_epi32(four));
                }
            }
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
            __m256i halves = _mm256_loadu_si256((const __m256i*)(stored + (int64_t(t) * groups + g) * TILE));
            __m512 own = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                __m512 scale = _mm512_mul_ps(own, _mm512_set1_ps(scales[g * R + r]));
                sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(part[r][t]), scale, sums[r][t]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
            _mm512_storeu_ps(y + r * stride + t * TILE,
                             _mm512_add_ps(sums[r][t], _mm512_loadu_ps(w.bias + (tile + t) * TILE)));
}

template <int R>
inline void unit(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    // Two tiles at a time even of 8 rows, whose sums then stand in memory: what is read of the rows serves twice, and no product
    // waits for the one before.
    if (w.bits == 8)
        tiles8<R, UNIT / TILE>(w, x, row, tile, y, stride);
    else
        tiles4<R, UNIT / TILE>(w, x, row, tile, y, stride);
}

#else

template <int R>
inline void unit(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    const int groups = w.inputs / GROUP;
    const int8_t* values = x.values + int64_t(row) * w.inputs;
    for (int t = tile; t < tile + UNIT / TILE; ++t)
        for (int r = 0; r < R; ++r) {
            float sums[TILE] = {0};
            for (int g = 0; g < groups; ++g) {
                int64_t group = int64_t(row) * groups + g * R + r;
                int32_t part[TILE];
                for (int o = 0; o < TILE; ++o) part[o] = -(w.bits == 8 ? 128 : 8) * x.sums[group];
                for (int k = 0; k < GROUP; ++k) {
                    int32_t value = values[((g * (GROUP / 4) + k / 4) * R + r) * 4 + k % 4];
                    const uint8_t* weight;
                    int shift = 0, mask = 255;
                    if (w.bits == 8) {
                        weight = w.weight + int64_t(t) * TILE * w.inputs + (g * (GROUP / 4) + k / 4) * 64 + k % 4;
                    } else {
                        weight = w.weight + int64_t(t) * TILE * w.inputs / 2 + (g * (GROUP / 8) + k / 8) * 64 + k % 4;
                        shift = k % 8 / 4 * 4, mask = 15;
                    }
                    for (int o = 0; o < TILE; ++o) part[o] += (weight[o * 4] >> shift & mask) * value;
                }
                for (int o = 0; o < TILE; ++o) {
                    float scale = x.scales[group];
                    if (w.bits == 4)
                        scale *= as_float(static_cast<const uint16_t*>(w.scale)[(int64_t(t) * groups + g) * TILE + o]);
                    sums[o] = std::fma(float(part[o]), scale, sums[o]);
                }
            }
            for (int o = 0; o < TILE; ++o) {
                float own = w.bits == 8 ? static_cast<const float*>(w.scale)[t * TILE + o] : 1.0f;
                y[r * stride + (t - tile) * TILE + o] = std::fma(sums[o], own, w.bias[t * TILE + o]);
            }
        }
}

#endif

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
typedef float Lanes __attribute__((vector_size(LANES * 4)));

inline Lanes lanes(const float* x) {
    Lanes y;
    std::memcpy(&y, x, sizeof(y));
    return y;
}

inline Lanes lanes(const uint16_t* x) {  // bfloat16
    typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));
    typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
    Halves halves;
    std::memcpy(&halves, x, sizeof(halves));
    return __builtin_bit_cast(Lanes, __builtin_convertvector(halves, Words) << 16);
}

// R rows times 4 outputs of weights W; the sum of a row is taken in the same order whatever R is.
template <int R, class W>
inline void four_outputs(const W* weight, const float* bias, int inputs, const float* x, float* y, int64_t stride) {
    Lanes sums[R][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int o = 0; o < 4; ++o) sums[r][o] = Lanes{};
    for (int k = 0; k < inputs; k += LANES)
#pragma GCC unroll 8
        for (int o = 0; o < 4; ++o) {
            const W* here = weight + int64_t(o) * inputs + k;
            __builtin_prefetch(here + int64_t(4) * inputs);
            Lanes own = lanes(here);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) sums[r][o] += own * lanes(x + int64_t(r) * inputs + k);
        }
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < 4; ++o) {
            float total = 0;
            for (int i = 0; i < LANES; ++i) total += sums[r][o][i];
            y[r * stride + o] = total + bias[o];
        }
}

template <class W>
void plain_outputs(const Linear& w, const Bytes& x, int rows, int first, float* y, int64_t stride) {
    for (int o = first; o < first + UNIT; o += 4) {
        const W* weight = reinterpret_cast<const W*>(w.weight) + int64_t(o) * w.inputs;
        for (int row = 0; row < rows;) {
            const float* own = x.plain + int64_t(row) * w.inputs;
            float* to = y + row * stride + o - first;
            int size = rows - row >= 4 ? 4 : rows - row >= 2 ? 2 : 1;
            if (size == 4)
                four_outputs<4>(weight, w.bias + o, w.inputs, own, to, stride);
            else if (size == 2)
                four_outputs<2>(weight, w.bias + o, w.inputs, own, to, stride);
            else
                four_outputs<1>(weight, w.bias + o, w.inputs, own, to, stride);
            row += size;
        }
    }
}

// UNIT outputs of all rows, from `first` on; y is where those of row 0 go.
void outputs_of(const Linear& w, const Bytes& x, int rows, int first, float* y, int64_t stride) {
    if (w.bits == 32) return plain_outputs<float>(w, x, rows, first, y, stride);
    if (w.bits == 16) return plain_outputs<uint16_t>(w, x, rows, first, y, stride);
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

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t bytes_of(int rows, int inputs) {
    return rounded(int64_t(rows) * inputs) + 2 * rounded(int64_t(rows) * (inputs / GROUP) * 4);
}

Bytes laid_in(uint8_t*& place, int rows, int inputs) {
    Bytes bytes;
    bytes.plain = nullptr;
    bytes.rows = rows;
    bytes.inputs = inputs;
    bytes.values = reinterpret_cast<int8_t*>(place);
    place += rounded(int64_t(rows) * inputs);
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
