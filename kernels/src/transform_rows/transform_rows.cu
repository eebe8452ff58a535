// transform_rows: one scan row of every bright-field pixel, transformed along the row.
//   in   counts   u32 [pixel][scan_col]       0 counts where a position is not covered, whatever stands there
//        covered  u8 [scan_col]
//   out  spectra  float2 [pixel][rows][q_col]  row `row` of it; q_col in 0..=cols/2
// A block transforms `pairs` pairs of pixels, two as real and imaginary part of one. lines: 2 * cols * pairs of float2 a
// block, in shared memory where `scratch` is null. Lengths are checked in transform_rows.rs.
#include "fft.cuh"

extern "C" __global__ void transform_rows(const u32* __restrict__ counts, const u8* __restrict__ covered,
                                          float2* __restrict__ spectra, const u32* __restrict__ plan,
                                          const float2* __restrict__ roots, float2* scratch, u32 pixels, u32 rows,
                                          u32 cols, u32 row, u32 pairs) {
    extern __shared__ unsigned char shared[];
    float2* data = scratch ? scratch + (u64)blockIdx.x * 2 * cols * pairs : (float2*)shared;
    const u32 first = blockIdx.x * pairs * 2;
    for (u32 i = threadIdx.x; i < cols * pairs; i += blockDim.x) {
        const u32 pair = i / cols, col = i - pair * cols, pixel = first + 2 * pair;
        const bool is_there = covered[col] != 0;
        const float a = is_there && pixel < pixels ? (float)counts[(u64)pixel * cols + col] : 0.0f;
        const float b = is_there && pixel + 1 < pixels ? (float)counts[(u64)(pixel + 1) * cols + col] : 0.0f;
        data[col * pairs + pair] = make_float2(a, b);
    }
    __syncthreads();
    const float2* z = transform(data, data + cols * pairs, plan, roots, pairs);
    const u32 q_cols = cols / 2 + 1;
    for (u32 i = threadIdx.x; i < q_cols * pairs; i += blockDim.x) {
        const u32 pair = i / q_cols, q = i - pair * q_cols, pixel = first + 2 * pair;
        const float2 at = z[q * pairs + pair], mirrored = z[(q ? cols - q : 0) * pairs + pair];
        float2* to = spectra + ((u64)pixel * rows + row) * q_cols + q;
        // first = (z + conj z(-q)) / 2, second = (z - conj z(-q)) / 2i
        if (pixel < pixels) *to = make_float2(0.5f * (at.x + mirrored.x), 0.5f * (at.y - mirrored.y));
        if (pixel + 1 < pixels)
            to[(u64)rows * q_cols] = make_float2(0.5f * (at.y + mirrored.y), 0.5f * (mirrored.x - at.x));
    }
}
