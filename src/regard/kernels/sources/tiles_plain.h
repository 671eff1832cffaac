// Products of bytes in plain C++, for processors without the others' instructions; read by linear.h.

#pragma once

namespace {

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

}  // namespace
