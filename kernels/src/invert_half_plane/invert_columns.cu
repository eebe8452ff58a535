// invert_columns: the columns of half planes, transformed back, not scaled.
//   in/out  planes  double2 [plane][row][q_col]   in: q_row, out: scan_row; real and imaginary part swapped
// A block does one column, blockIdx.x, of one plane, blockIdx.y. lines: 2 * rows of double2 a block, in shared memory where `scratch` is null.
#include "fft.cuh"

extern "C" __global__ void invert_columns(double2* __restrict__ planes, const u32* __restrict__ plan,
                                          const double2* __restrict__ roots, double2* scratch, u32 rows) {
    extern __shared__ unsigned char shared[];
    const u32 q_cols = gridDim.x, col = blockIdx.x;
    double2* plane = planes + (u64)blockIdx.y * rows * q_cols;
    double2* data = scratch ? scratch + ((u64)blockIdx.y * q_cols + col) * 2 * rows : (double2*)shared;
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) data[row] = swapped(plane[(u64)row * q_cols + col]);
    __syncthreads();
    const double2* z = transform(data, data + rows, plan, roots, 1u);
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) plane[(u64)row * q_cols + col] = z[row];
}
