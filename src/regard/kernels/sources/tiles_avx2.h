// Products of bytes by AVX2; read by linear.h.
//
// `vpmaddubsw` multiplies unsigned bytes by signed ones and adds two products in 16 bits, where they must have room:
//
//   8 bits: |W_k| times X_k with W_k's sign, at most 2 * 127 * 127 = 32,258; every such sum is widened before the next is added
//   4 bits: W_k + 8 times X_k, at most 2 * 15 * 127 = 3,810; the eight of a group are added first and widened once
//
// and the 8 times the sum of the activations is taken off again. A vector is half a tile: 8 outputs.

#pragma once

namespace {

constexpr int EIGHT = 8;                // outputs of a vector
constexpr int VECTORS = UNIT / EIGHT;  // of a unit

inline const uint8_t* half_tile(const uint8_t* weight, int vector, int64_t tile_bytes) {
    return weight + vector / 2 * tile_bytes + vector % 2 * 32;
}

inline __m256i bytes_at(const void* place) { return _mm256_loadu_si256(static_cast<const __m256i*>(place)); }

inline __m256i four_everywhere(const int8_t* values) {
    int32_t four;
    std::memcpy(&four, values, 4);
    return _mm256_set1_epi32(four);
}

template <int R, int V>  // R rows times V vectors from `vector` on, of the unit whose weights are given
inline void vectors8(const uint8_t* weight, const float* own, const float* bias, const Bytes& x, int row, int vector,
                     float* y, int64_t stride) {
    const int groups = x.inputs / GROUP;
    const int64_t tile_bytes = int64_t(TILE) * x.inputs;
    const int8_t* values = x.values + int64_t(row) * x.inputs;
    const float* scales = x.scales + int64_t(row) * groups;
    const __m256i middle = _mm256_set1_epi8(-128), ones = _mm256_set1_epi16(1);
    __m256 sums[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums[r][v] = _mm256_setzero_ps();
    for (int g = 0; g < groups; ++g) {
        __m256i part[R][V];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) part[r][v] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int k = 0; k < GROUP / 4; ++k)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) {
                const uint8_t* here = half_tile(weight, vector + v, tile_bytes) + (g * (GROUP / 4) + k) * 64;
                // What this thread comes to next; of few rows the processor fetches it itself, and sooner.
                if (R > 2 && (vector + v) % 2 == 0) __builtin_prefetch(here + 2 * tile_bytes);
                __m256i bytes = _mm256_xor_si256(bytes_at(here), middle), sizes = _mm256_abs_epi8(bytes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    __m256i four = four_everywhere(values + ((g * (GROUP / 4) + k) * R + r) * 4);
                    __m256i pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(four, bytes));
                    part[r][v] = _mm256_add_epi32(part[r][v], _mm256_madd_epi16(pairs, ones));
                }
            }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            __m256 scale = _mm256_set1_ps(scales[g * R + r]);
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sums[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(part[r][v]), scale, sums[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            int output = (vector + v) * EIGHT;
            __m256 found = _mm256_fmadd_ps(sums[r][v], _mm256_loadu_ps(own + output), _mm256_loadu_ps(bias + output));
            _mm256_storeu_ps(y + r * stride + output, found);
        }
}

template <int R, int V>
inline void vectors4(const uint8_t* weight, const uint16_t* stored, const float* bias, const Bytes& x, int row, int vector,
                     float* y, int64_t stride) {
    const int groups = x.inputs / GROUP;
    const int64_t tile_bytes = int64_t(TILE) * x.inputs / 2;
    const int8_t* values = x.values + int64_t(row) * x.inputs;
    const float* scales = x.scales + int64_t(row) * groups;
    const int32_t* offsets = x.sums + int64_t(row) * groups;
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256 sums[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums[r][v] = _mm256_setzero_ps();
    for (int g = 0; g < groups; ++g) {
        __m256i part[R][V];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) part[r][v] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int k = 0; k < GROUP / 8; ++k)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) {
                const uint8_t* here = half_tile(weight, vector + v, tile_bytes) + (g * (GROUP / 8) + k) * 64;
                if ((vector + v) % 2 == 0) __builtin_prefetch(here + 2 * tile_bytes);
                __m256i both = bytes_at(here);
                __m256i first = _mm256_and_si256(both, low), second = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    const int8_t* four = values + ((g * (GROUP / 4) + 2 * k) * R + r) * 4;
                    __m256i one = _mm256_maddubs_epi16(first, four_everywhere(four));
                    __m256i other = _mm256_maddubs_epi16(second, four_everywhere(four + 4 * R));
                    part[r][v] = _mm256_add_epi16(part[r][v], _mm256_add_epi16(one, other));
                }
            }
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            const uint16_t* halves = stored + (int64_t((vector + v) / 2) * groups + g) * TILE + (vector + v) % 2 * EIGHT;
            __m128i own = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
            __m256 widths = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(own), 16));
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                __m256i offset = _mm256_set1_epi32(-8 * offsets[g * R + r]);
                __m256 found = _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(part[r][v], ones), offset));
                __m256 scale = _mm256_mul_ps(widths, _mm256_set1_ps(scales[g * R + r]));
                sums[r][v] = _mm256_fmadd_ps(found, scale, sums[r][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            int output = (vector + v) * EIGHT;
            _mm256_storeu_ps(y + r * stride + output, _mm256_add_ps(sums[r][v], _mm256_loadu_ps(bias + output)));
        }
}

template <int R>
inline void unit(const Linear& w, const Bytes& x, int row, int tile, float* y, int64_t stride) {
    // So many vectors at a time as leave room for their sums in 16 registers.
    constexpr int V = R == 1 ? VECTORS : R <= 4 ? 2 : 1;
    const uint8_t* weight = w.weight + int64_t(tile) * TILE * w.inputs / (w.bits == 8 ? 1 : 2);
    const float* bias = w.bias + tile * TILE;
    for (int vector = 0; vector < VECTORS; vector += V)
        if (w.bits == 8) {
            const float* own = static_cast<const float*>(w.scale) + tile * TILE;
            vectors8<R, V>(weight, own, bias, x, row, vector, y, stride);
        } else {
            const uint16_t* own = static_cast<const uint16_t*>(w.scale) + int64_t(tile) * (w.inputs / GROUP) * TILE;
            vectors4<R, V>(weight, own, bias, x, row, vector, y, stride);
        }
}

}  // namespace
