// correct_quadratic: the same as correct_spectra for C10 and C12 alone.
//   in   spectra  float2 [pixel][q_row][q_col]
//        pixels   Pixel [pixel]
//        model    Model
//   out  parts    double [split][sum][q_row][q_col]   sums: corrected re, im, numerator re, im, denominator, transfer
// One thread per q of the half plane; blockIdx.y is the split, `per_split` pixels in order. Lengths are checked in
// correct_spectra.rs.
#include "correct.cuh"

extern "C" __global__ void __launch_bounds__(256)
correct_quadratic(const float2* __restrict__ spectra, const Pixel* __restrict__ pixels, const Model* __restrict__ model,
                  double* __restrict__ parts, u32 num_pixels, u32 per_split) {
    correct<2>(spectra, pixels, *model, parts, num_pixels, per_split);
}
