// sum_phases: planes that were transformed along columns, transformed back along rows; their phases summed over pixels.
//   in   planes   float2 [pixel][scan_row][q_col]   swapped: .y is the real part
//   out  phases   double [split][scan_row][scan_col]   sum of atan(u / dc)
//        squares  double [split][scan_row]             sum of their squares along the row
// A block does one scan row (blockIdx.x) of `per_split` pixels (blockIdx.y is the split), two at a time: z = a + i b.
// line: 2 * cols of float2 and cols of double a block, in shared memory where `scratch` is null.
#include "fft.cuh"

extern "C" __global__ void sum_phases(const float2* __restrict__ planes, double* __restrict__ phases,
                                      double* __restrict__ squares, const u32* __restrict__ plan,
                                      const float2* __restrict__ roots, unsigned char* scratch, u32 num_pixels,
                                      u32 per_split, u32 cols, float inverse_dc) {
    extern __shared__ unsigned char shared[];
    const u32 rows = gridDim.x, row = blockIdx.x, q_cols = cols / 2 + 1;
    const u64 block = (u64)blockIdx.y * rows + row;
    double* sums = (double*)(scratch ? scratch + block * 24 * cols : shared);
    float2* data = (float2*)(sums + cols);
    __shared__ double of_threads[256];
    double square = 0.0;
    for (u32 col = threadIdx.x; col < cols; col += blockDim.x) sums[col] = 0.0;
    const u32 first = blockIdx.y * per_split, end = min(first + per_split, num_pixels);
    for (u32 k = first; k < end; k += 2) {
        const bool has_second = k + 1 < end;
        const float2* a = planes + ((u64)k * rows + row) * q_cols;
        const float2* b = a + (u64)rows * q_cols;
        for (u32 q = threadIdx.x; q < q_cols; q += blockDim.x) {
            const float2 one = a[q], other = has_second ? b[q] : make_float2(0.0f, 0.0f);
            const u32 mirrored = q ? cols - q : 0;
            if (mirrored == q) {  // such a column is real
                data[q] = make_float2(other.y, one.y);
            } else {
                data[q] = make_float2(one.x + other.y, one.y - other.x);
                data[mirrored] = make_float2(other.y - one.x, one.y + other.x);
            }
        }
        __syncthreads();
        const float2* u = transform(data, data + cols, plan, roots, 1u);
        for (u32 col = threadIdx.x; col < cols; col += blockDim.x) {
            const float one = atanf(u[col].y * inverse_dc);
            const float other = has_second ? atanf(u[col].x * inverse_dc) : 0.0f;
            sums[col] += (double)one + (double)other;
            square += (double)one * one + (double)other * other;
        }
        __syncthreads();
    }
    for (u32 col = threadIdx.x; col < cols; col += blockDim.x) phases[block * cols + col] = sums[col];
    of_threads[threadIdx.x] = square;
    __syncthreads();
    if (threadIdx.x) return;
    square = 0.0;
    for (u32 t = 0; t < blockDim.x; t++) square += of_threads[t];
    squares[block] = square;
}
