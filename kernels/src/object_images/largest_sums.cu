// largest_sums: the largest of some numbers that are not negative, for several lists of them.
//   in      values   double [list][len]
//   in/out  largest  u64 [list]   bits of a double, which order as the numbers do where none is negative
// Any grid along x; blockIdx.y is the list.
#include "complex.cuh"

extern "C" __global__ void largest_sums(const double* __restrict__ values, u64* largest, u64 len) {
    double most = 0.0;
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < len; at += step) {
        most = fmax(most, values[blockIdx.y * len + at]);
    }
    atomicMax(largest + blockIdx.y, (u64)__double_as_longlong(most));
}
