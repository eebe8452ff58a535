// finish_images: phase and amplitude of O = real + i u, in float.
//   in   images   double [2][position]   u, and the least-squares phase
//   out  outputs  float [4][position]    u, phase, amplitude, least-squares phase
// One thread per position.
#include "complex.cuh"

extern "C" __global__ void finish_images(const double* __restrict__ images, float* __restrict__ outputs, u64 positions,
                                         double real) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= positions) return;
    const double u = images[at];
    outputs[at] = (float)u;
    outputs[positions + at] = (float)atan(u / real);
    outputs[2 * positions + at] = (float)sqrt(real * real + u * u);
    outputs[3 * positions + at] = (float)images[positions + at];
}
