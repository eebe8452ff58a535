// sum_parts: adds the parts of a sum in their order.
//   in      parts  double [part][len]
//   in/out  sums   double [len]
// One thread per sum.
#include "complex.cuh"

extern "C" __global__ void sum_parts(const double* __restrict__ parts, double* __restrict__ sums, u32 num_parts, u64 len) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= len) return;
    double sum = sums[at];
    for (u32 part = 0; part < num_parts; part++) sum += parts[part * len + at];
    sums[at] = sum;
}
