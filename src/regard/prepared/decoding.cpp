// One token through the blocks of a decoder, with weights of 8 or 4 bits, and the linear map that they are made of.
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

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define REGARD_VNNI 1
#include <immintrin.h>
#endif

namespace {

constexpr int GROUP = 32;  // inputs that share an activation's scale
constexpr int TILE = 16;   // outputs that stand together
constexpr int UNIT = 32;   // outputs that a thread takes at a time: a group of whoever reads them
constexpr int ROWS = 8;    // rows that share one reading of the weights

enum Activation { NONE = 0, RELU = 1, GELU_TANH = 2, GELU = 3, SWISH = 4 };

inline float from_bf16(uint16_t x) {
    return __builtin_bit_cast(float, uint32_t(x) << 16);
}

inline uint16_t to_bf16(float x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);  // a NaN stays one
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// e^x for -87 <= x <= 88 to a few units in the last place, without branches, so that loops over it become vectors (Cephes'
// polynomial).
inline float exponential_within(float x) {
    float n = std::floor(x * 1.44269504f + 0.5f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * __builtin_bit_cast(float, (int32_t(n) + 127) << 23);
}

inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    return exponential_within(x);
}

// e^{-x} for x >= 0, and e^{-40} beyond 40: what is smaller is lost beside 1 in any case, and numbers so small that they are denormal
// cost a hundred times a product, even in lanes that are not chosen afterwards.
inline float decayed(float x) {
    return exponential_within(x > 40.0f ? -40.0f : -x);
}

inline void activate(float* y, int count, int kind) {
    if (kind == RELU) {
        for (int i = 0; i < count; ++i) y[i] = y[i] < 0 ? 0 : y[i];
    } else if (kind == GELU_TANH) {  // x (1 + tanh(u)) / 2 = x / (1 + e^{-2u})
#pragma omp simd
        for (int i = 0; i < count; ++i) {
            float x = y[i], u = 0.7978845608f * (x + 0.044715f * x * x * x), e = decayed(2.0f * std::fabs(u));
            y[i] = x * (u < 0 ? e : 1.0f) / (1.0f + e);
        }
    } else if (kind == GELU) {  // x (1 + erf(x / sqrt 2)) / 2, erf to 1.5e-7 (Abramowitz and Stegun 7.1.26)
#pragma omp simd
        for (int i = 0; i < count; ++i) {
            float x = y[i], z = std::fabs(x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
            float p = 1.061405429f;
            p = p * t - 1.453152027f;
            p = p * t + 1.421413741f;
            p = p * t - 0.284496736f;
            p = p * t + 0.254829592f;
            float tail = 0.5f * p * t * decayed(z * z);  // of the normal distribution, beyond |x|
            y[i] = x * (x < 0 ? tail : 1.0f - tail);
        }
    } else if (kind == SWISH) {  // x / (1 + e^{-x})
#pragma omp simd
        for (int i = 0; i < count; ++i) {
            float x = y[i], e = decayed(std::fabs(x));
            y[i] = x * (x < 0 ? e : 1.0f) / (1.0f + e);
        }
    }
}

// Rows of activations in bytes. Rows go together in bands of 8, then of 4, 2 and 1: of a band, four bytes of each row stand after
// one another, then the next four of each; and so the scales and the sums, group by group.
struct Bytes {
    int8_t* values;
    float* scales;
    int32_t* sums;
    int rows, inputs;

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
        int first, size = band(row, first), own = row - first;
        float largest = 0, poison = 0;  // what is not finite makes the scale, and with it all that follows, not finite
#pragma omp simd reduction(max : largest) reduction(+ : poison)
        for (int i = 0; i < GROUP; ++i) {
            float magnitude = std::fabs(x[i]);
            largest = magnitude > largest ? magnitude : largest;
            poison += x[i] * 0.0f;
        }
        float inverse = largest > 0 ? 127.0f / largest : 0.0f;
        int8_t bytes[GROUP];
        int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < GROUP; ++i) {
            int32_t value = int32_t(std::nearbyint(x[i] * inverse));
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
        for (int from = 0; from < inputs; from += GROUP) quantise(row, from, x + from);
    }
};

}  // namespace

extern "C" {

struct Linear {
    int32_t outputs, inputs, bits, activation;  // outputs a multiple of UNIT, inputs of GROUP; what is beyond the real ones is zero
    const uint8_t* weight;
    const void* scale;  // 8 bits: float (outputs); 4 bits: bfloat16 (outputs / TILE, inputs / GROUP, TILE)
    const float* bias;  // (outputs)
};

struct Norm {
    const float* weight;  // null: there is no norm here
    const float* bias;
    float epsilon;
};

struct Block {
    Linear projections, output, inner, outer;
    Norm attention_before, attention_after, feedforward_before, feedforward_after;
    int32_t width, heads, head_width;
    float scale;
    Linear source_query, source_output;  // without weights where there is no source to attend to
    Norm source_before, source_after;
    float source_scale;
};

// What rows attend to. Rows come in groups of `beside`, one group for each text: hypotheses about one source, or a row alone.
struct Cache {
    uint16_t* values;      // bfloat16 (2, rows, blocks, heads, capacity, head_width): keys, then values
    const int64_t* homes;  // (groups) the row of the cache that is each group's; null: in order
    int64_t rows, capacity;
    int32_t columns;  // filled, the new ones of this step among them
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
                        scale *= from_bf16(static_cast<const uint16_t*>(w.scale)[(int64_t(t) * groups + g) * TILE + o]);
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

// UNIT outputs of all rows, from `first` on; y is where those of row 0 go.
void outputs_of(const Linear& w, const Bytes& x, int rows, int first, float* y, int64_t stride) {
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

#ifdef REGARD_VNNI

inline __m512 sixteen(const uint16_t* x) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))), 16));
}

inline float dot(const float* query, const uint16_t* key, int width) {
    __m512 one = _mm512_setzero_ps(), two = _mm512_setzero_ps();
    for (int e = 0; e < width; e += GROUP) {
        one = _mm512_fmadd_ps(_mm512_loadu_ps(query + e), sixteen(key + e), one);
        two = _mm512_fmadd_ps(_mm512_loadu_ps(query + e + TILE), sixteen(key + e + TILE), two);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(one, two));
}

// V vectors of 16 entries of what is gathered.
template <int V, class Place>
inline void gather_some(const uint16_t* values, const float* shares, int columns, Place place, int width, float factor,
                        float* y) {
    __m512 sums[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[v] = _mm512_setzero_ps();
    for (int c = 0; c < columns; ++c) {
        __m512 share = _mm512_set1_ps(shares[c]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            sums[v] = _mm512_fmadd_ps(share, sixteen(values + place(c) * width + v * TILE), sums[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(y + v * TILE, _mm512_mul_ps(sums[v], _mm512_set1_ps(factor)));
}

template <class Place>
inline void gather(const uint16_t* values, const float* shares, int columns, Place place, int width, float factor,
                   float* y) {
    int e = 0;
    for (; e + 2 * GROUP <= width; e += 2 * GROUP)
        gather_some<4>(values + e, shares, columns, place, width, factor, y + e);
    for (; e < width; e += GROUP) gather_some<2>(values + e, shares, columns, place, width, factor, y + e);
}

#else

inline float dot(const float* query, const uint16_t* key, int width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int e = 0; e < width; ++e) sum += query[e] * from_bf16(key[e]);
    return sum;
}

template <class Place>
inline void gather(const uint16_t* values, const float* shares, int columns, Place place, int width, float factor,
                   float* y) {
    for (int e = 0; e < width; ++e) y[e] = 0;
    for (int c = 0; c < columns; ++c)
        for (int e = 0; e < width; ++e) y[e] += factor * shares[c] * from_bf16(values[place(c) * width + e]);
}

#endif

inline void fetch(const uint16_t* row, int width) {
    for (int e = 0; e < width; e += GROUP) __builtin_prefetch(row + e);
}

// One query over the keys and values in `columns` places, into y (width, a multiple of GROUP); zeros where there are none.
template <class Place>
void attend_to(const float* query, const uint16_t* keys, const uint16_t* values, int columns, Place place, int width,
               float scale, float* shares, float* y) {
    float highest = -INFINITY;
    for (int c = 0; c < columns; ++c) {
        fetch(keys + (place(c) + 16) * width, width);
        fetch(values + place(c) * width, width);  // which are wanted when the keys are through
        shares[c] = scale * dot(query, keys + place(c) * width, width);
        highest = shares[c] > highest ? shares[c] : highest;
    }
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int c = 0; c < columns; ++c) {
        float share = exponential(shares[c] - highest);
        shares[c] = share;
        total += share;
    }
    gather(values, shares, columns, place, width, total > 0 ? 1.0f / total : 0.0f, y);
}

// The same over those of the first `columns` places that are visible (all where null); scratch holds two numbers for each.
void attend(const float* query, const uint16_t* keys, const uint16_t* values, int columns, int width, float scale,
            const uint8_t* visible, float* scratch, float* y) {
    if (!visible) {
        attend_to(query, keys, values, columns, [](int c) { return int64_t(c); }, width, scale, scratch, y);
        return;
    }
    int32_t* places = reinterpret_cast<int32_t*>(scratch + columns);
    int seen = 0;
    for (int c = 0; c < columns; ++c) {
        places[seen] = c;
        seen += visible[c] != 0;
    }
    attend_to(query, keys, values, seen, [=](int c) { return int64_t(places[c]); }, width, scale, scratch, y);
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t bytes_of(int rows, int inputs) {
    return rounded(int64_t(rows) * inputs) + 2 * rounded(int64_t(rows) * (inputs / GROUP) * 4);
}

Bytes laid_in(uint8_t*& place, int rows, int inputs) {
    Bytes bytes;
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

extern "C" {

// Bytes of scratch memory for `regard_linear`.
int64_t regard_linear_scratch(const Linear* w, int32_t rows) {
    return bytes_of(rows, w->inputs) + rounded(int64_t(rows) * UNIT * 4);
}

// x (rows, w.inputs) to y (rows, real), the activation included; real counts the outputs without what they are filled up with.
void regard_linear(const Linear* w, const float* x, int32_t rows, float* y, int32_t real, uint8_t* scratch) {
    Bytes bytes = laid_in(scratch, rows, w->inputs);
    float* last = floats_in(scratch, int64_t(rows) * UNIT);  // a unit that is not all real
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
           rounded(int64_t(rows) * b->width * 4) + rounded(int64_t(rows) * b->projections.outputs * 4) +
           rounded(int64_t(rows) * inner * 4) + rounded(int64_t(rows) * b->inner.outputs * 4) +
           int64_t(rows) * b->heads * rounded(int64_t(columns) * 8);
}

// One token of each row through all blocks: x (rows, width) is changed in place.
//
// past: of the tokens before; those of this step join it, a column for each row of a group, the last `beside` of its columns.
// visible: of each block (rows, past columns), true = may be attended to; null = all.
// source: of the sources, which all blocks that have weights for it attend to; source_visible (groups, source columns) likewise.
// asked: the block whose queries to the source (rows, heads * head_width) are wanted in `queries`; -1 = of none.
void regard_blocks(const Block* blocks, int32_t count, float* x, int32_t rows, int32_t beside, const Cache* past,
                   const uint8_t* const* visible, const Cache* source, const uint8_t* source_visible, int32_t asked,
                   float* queries, uint8_t* scratch) {
    const int width = blocks->width, heads = blocks->heads, each = blocks->head_width, inner = heads * each;
    const int wide = blocks->inner.outputs, stride = blocks->projections.outputs;
    Bytes input = laid_in(scratch, rows, width), attended = laid_in(scratch, rows, inner),
          hidden = laid_in(scratch, rows, wide);
    float* normal = floats_in(scratch, int64_t(rows) * width);
    float* projected = floats_in(scratch, int64_t(rows) * stride);
    float* gathered = floats_in(scratch, int64_t(rows) * inner);
    float* inside = floats_in(scratch, int64_t(rows) * wide);
    const int most = source && source->columns > past->columns ? source->columns : past->columns;

    // The head's keys in a cache for a row; the values stand `apart` further on.
    auto keys_of = [=](const Cache* cache, int row, int number, int head) {
        int64_t home = cache->homes ? cache->homes[row / beside] : row / beside;
        return cache->values + ((home * count + number) * heads + head) * cache->capacity * each;
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
        mapped(b->projections, input, projected, stride);
#pragma omp for schedule(static)
        for (int pair = 0; pair < rows * heads; ++pair) {
            int row = pair / heads, head = pair % heads;
            const float* query = projected + int64_t(row) * stride + head * each;
            uint16_t* keys = keys_of(past, row, number, head);
            uint16_t* values = keys + apart(past);
            int64_t own = int64_t(past->columns - beside + row % beside) * each;
            for (int e = 0; e < each; ++e) {
                keys[own + e] = to_bf16(query[inner + e]);
                values[own + e] = to_bf16(query[2 * inner + e]);
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
                const uint16_t* keys = keys_of(source, row, number, head);
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
}
