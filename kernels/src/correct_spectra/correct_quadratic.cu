// correct_quadratic: G times conj gamma, with and without its size, summed over pixels, for C10 and C12 alone.
//   in   spectra   float2 [pixel][q_row][q_col]   from pixel `first` on
//        runs      Run [run]                      pixels in order, none across a split
//        starts    u32 [split + 1]                the first run of each split
//        model     Model
//        detector  Detector
//   out  parts     double [split][sum][q_row][q_col]   sums: corrected re, im, numerator re, im, denominator, transfer
// One thread per q of the half plane; blockIdx.y is the split. Detector pixels are square; lengths are checked in
// correct_spectra.rs.
#include "correct_runs.cuh"

extern "C" __global__ void __launch_bounds__(256, 3)
correct_quadratic(const float2* __restrict__ spectra, const Run* __restrict__ runs, const u32* __restrict__ starts,
                  const Model* __restrict__ model, const Detector* __restrict__ detector, double* __restrict__ parts,
                  u32 first) {
    correct_runs<2>(spectra, runs, starts, *model, *detector, parts, first);
}
