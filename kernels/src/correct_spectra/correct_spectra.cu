// correct_spectra: G times conj gamma, with and without its size, summed over pixels.
//   in   spectra  float2 [pixel][q_row][q_col]
//        pixels   Pixel [pixel]
//        model    Model
//   out  parts    double [split][sum][q_row][q_col]   sums: corrected re, im, numerator re, im, denominator, transfer
// One thread per q of the half plane; blockIdx.y is the split, `per_split` pixels in order. Lengths are checked in
// correct_spectra.rs.
#include "gamma.cuh"

extern "C" __global__ void __launch_bounds__(256)
correct_spectra(const float2* __restrict__ spectra, const Pixel* __restrict__ pixels, const Model* __restrict__ model_,
                double* __restrict__ parts, u32 num_pixels, u32 per_split) {
    const Model& model = *model_;
    const u32 plane = model.rows * model.q_cols, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= plane) return;
    double sums[6] = {0, 0, 0, 0, 0, 0}, angles[2][2];
    float weight = 1.0f;
    const int signs = angles_of(model, q, angles, &weight);
    const u32 first = blockIdx.y * per_split, end = min(first + per_split, num_pixels);
    if (signs) {
        for (u32 k = first; k < end; k++) {
            const Pixel pixel = pixels[k];
            for (int s = 0; s < signs; s++) {
                const Overlap gamma = overlap(model, pixel, angles[s][0], angles[s][1]);
                if (!(gamma.size > 0.0f)) continue;
                const float2 g = spectra[(u64)k * plane + q];
                const float re = gamma.re * g.x - gamma.im * g.y, im = gamma.re * g.y + gamma.im * g.x;
                const float inverse = weight / fmaxf(gamma.size, 1e-8f);
                sums[0] += re * inverse;
                sums[1] += im * inverse;
                sums[2] += re * weight;
                sums[3] += im * weight;
                sums[4] += gamma.size * gamma.size * weight;
                sums[5] += gamma.size * weight;
            }
        }
    }
    for (int i = 0; i < 6; i++) parts[((u64)blockIdx.y * 6 + i) * plane + q] = sums[i];
}
