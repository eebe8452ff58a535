// transform_columns: the transform along scan columns of row transforms, which makes them G(q, k).
//   in   from   float2 [pixel][rows][q_cols]
//        means  float [pixel], gaps float2 [rows][q_cols]   mean counts x transform of what is missing is added; null: nothing
//   out  to     float2 [pixel][rows][q_cols]                may be `from`
// A block does `batch` neighbouring columns, a power of two, of one pixel: blockIdx.x of the columns, blockIdx.y of the pixels. lines:
// 2 * rows * batch of float2 a block, in shared memory where `scratch` is null. Lengths are checked in correct_spectra.rs.
#include "fft.cuh"

extern "C" __global__ void transform_columns(const float2* from, float2* to, const float* __restrict__ means,
                                             const float2* __restrict__ gaps, const u32* __restrict__ plan,
                                             const float2* __restrict__ roots, float2* scratch, u32 rows, u32 q_cols,
                                             u32 batch) {
    extern __shared__ unsigned char shared[];
    const u64 block = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    float2* data = scratch ? scratch + block * 2 * rows * batch : (float2*)shared;
    const u64 plane = (u64)blockIdx.y * rows * q_cols;
    const u32 first = blockIdx.x * batch, shift = __ffs(batch) - 1;
    for (u32 i = threadIdx.x; i < rows * batch; i += blockDim.x) {
        const u32 row = i >> shift, col = first + (i & (batch - 1));
        float2 value = make_float2(0.0f, 0.0f);
        if (col < q_cols) {
            value = from[plane + (u64)row * q_cols + col];
            if (means) {
                const float2 gap = gaps[(u64)row * q_cols + col];
                const float mean = means[blockIdx.y];
                value = make_float2(value.x + mean * gap.x, value.y + mean * gap.y);
            }
        }
        data[i] = value;
    }
    __syncthreads();
    const float2* z = transform(data, data + rows * batch, plan, roots, batch);
    for (u32 i = threadIdx.x; i < rows * batch; i += blockDim.x) {
        const u32 row = i >> shift, col = first + (i & (batch - 1));
        if (col < q_cols) to[plane + (u64)row * q_cols + col] = z[i];
    }
}
