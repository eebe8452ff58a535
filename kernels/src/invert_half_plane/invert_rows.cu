// invert_rows: rows of half Hermitian planes to real rows.
//   in   planes  double2 [plane][scan_row][q_col]    real and imaginary part swapped
//   out  images  double [plane][scan_row][scan_col]  times `scale`
// A block does one row, blockIdx.x, of one plane, blockIdx.y. lines: 2 * cols of double2 a block, in shared memory where `scratch` is null.
#include "fft.cuh"

extern "C" __global__ void invert_rows(const double2* __restrict__ planes, double* __restrict__ images,
                                       const u32* __restrict__ plan, const double2* __restrict__ roots, double2* scratch,
                                       u32 cols, double scale) {
    extern __shared__ unsigned char shared[];
    const u32 q_cols = cols / 2 + 1;
    const u64 row = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    double2* data = scratch ? scratch + row * 2 * cols : (double2*)shared;
    const double2* line = planes + row * q_cols;
    for (u32 q = threadIdx.x; q < q_cols; q += blockDim.x) {
        const double2 value = line[q];
        const u32 mirrored = q ? cols - q : 0;
        // a column that mirrors itself is real
        data[q] = make_double2(mirrored == q ? 0.0 : value.x, value.y);
        if (mirrored != q) data[mirrored] = make_double2(-value.x, value.y);
    }
    __syncthreads();
    const double2* z = transform(data, data + cols, plan, roots, 1u);
    for (u32 col = threadIdx.x; col < cols; col += blockDim.x) images[row * cols + col] = z[col].y * scale;
}
