// overlap_function: gamma(k, q) itself.
//   in   pixels  Pixel [pixel]
//        model   Model
//   out  gamma   float2 [pixel][q_row][q_col]
// One thread per q of the half plane; blockIdx.y is the pixel.
#include "gamma.cuh"

extern "C" __global__ void overlap_function(const Pixel* __restrict__ pixels, const Model* __restrict__ model_,
                                            float2* __restrict__ gamma) {
    const Model& model = *model_;
    const u32 plane = model.rows * model.q_cols, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= plane) return;
    double angles[2][2];
    float weight = 1.0f;
    const int signs = angles_of(model, q, angles, &weight);
    float2 value = make_float2(0.0f, 0.0f);
    for (int s = 0; s < signs; s++) {
        const Pixel pixel = pixels[blockIdx.y];
        Overlap gamma;
        if (!overlap<6>(model, pixel, at_q<6>(model, angles[s]), &gamma)) continue;
        const float size = weight * gamma.size * pixel.aperture;
        value = make_float2(value.x + size * gamma.unit.x, value.y - size * gamma.unit.y);
    }
    gamma[(u64)blockIdx.y * plane + q] = value;
}
