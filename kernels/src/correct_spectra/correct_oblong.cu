// correct_oblong: the same as correct_spectra, for detector pixels that are not square.
//   in   spectra  float2 [pixel][q_row][q_col]
//        pixels   Pixel [pixel]
//        model    Model
//   out  parts    double [split][sum][q_row][q_col]   sums: corrected re, im, numerator re, im, denominator, transfer
// One thread per q of the half plane; blockIdx.y is the split, `per_split` pixels in order. Lengths are checked in
// correct_spectra.rs.
#include "gamma.cuh"

// Pixels whose products are added in float before they go to the sums in double.
#define SUMMED_IN_FLOAT 16

extern "C" __global__ void __launch_bounds__(256)
correct_oblong(const float2* __restrict__ spectra, const Pixel* __restrict__ pixels, const Model* __restrict__ model_,
               double* __restrict__ parts, u32 num_pixels, u32 per_split) {
    const Model& model = *model_;
    const u32 plane = model.rows * model.q_cols, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= plane) return;
    double sums[6] = {0, 0, 0, 0, 0, 0}, angles[2][2];
    float weight = 1.0f;
    const int signs = angles_of(model, q, angles, &weight);
    const u32 first = blockIdx.y * per_split, end = min(first + per_split, num_pixels);
    for (int s = 0; s < signs; s++) {
        const AtQ<6> at = at_q<6>(model, angles[s]);
        for (u32 begin = first; begin < end; begin += SUMMED_IN_FLOAT) {
            float run[6] = {0, 0, 0, 0, 0, 0};
            const u32 run_end = min(begin + SUMMED_IN_FLOAT, end);
            for (u32 k = begin; k < run_end; k++) {
                const Pixel pixel = pixels[k];
                Overlap gamma;
                if (!overlap<6>(model, pixel, at, &gamma)) continue;
                const float2 g = __ldcs(spectra + ((u64)k * plane + q));
                const float re = gamma.unit.x * g.x - gamma.unit.y * g.y, im = gamma.unit.x * g.y + gamma.unit.y * g.x;
                const float size = gamma.size * pixel.aperture, share = fminf(size * 1e8f, 1.0f);
                run[0] += re * share;
                run[1] += im * share;
                run[2] += re * size;
                run[3] += im * size;
                run[4] += size * size;
                run[5] += size;
            }
            for (int i = 0; i < 6; i++) sums[i] += (double)run[i];
        }
    }
    for (int i = 0; i < 6; i++) parts[((u64)blockIdx.y * 6 + i) * plane + q] = sums[i] * (double)weight;
}
