// object_planes: what is transformed back to the images of an object, and its spectrum.
//   in   sums      double [sum][q_row][q_col]       corrected re, im, numerator re, im, denominator, transfer
//        largest   u64 [1]                          bits of the largest denominator
//   out  planes    double2 [2][q_row][q_col]        u of O = dc + i u, and the least-squares phase
//        spectrum  double2 [q_row][q_col]           mean over pixels, dc at 0; null: not wanted
//        transfer  double [q_row][q_col]            mean over pixels; null: not wanted
// One thread per q.
#include "complex.cuh"

extern "C" __global__ void object_planes(const double* __restrict__ sums, const u64* __restrict__ largest,
                                         double2* __restrict__ planes, double2* __restrict__ spectrum,
                                         double* __restrict__ transfer, u64 plane, double num_pixels, double dc,
                                         double damping, double positions_per_dc) {
    const u64 q = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= plane) return;
    const double2 mean = make_double2(sums[q] / num_pixels, sums[plane + q] / num_pixels);
    const double2 numerator = make_double2(sums[2 * plane + q], sums[3 * plane + q]);
    const double denominator = sums[4 * plane + q] + damping * __longlong_as_double((long long)*largest);
    const double share = q > 0 && denominator > 0.0 ? positions_per_dc / denominator : 0.0;
    const double2 zero = make_double2(0.0, 0.0);
    planes[q] = q > 0 ? turned_back(mean) : zero;
    planes[plane + q] = turned_back(make_double2(numerator.x * share, numerator.y * share));
    if (!spectrum) return;
    spectrum[q] = q > 0 ? mean : make_double2(dc, 0.0);
    transfer[q] = sums[5 * plane + q] / num_pixels;
}
