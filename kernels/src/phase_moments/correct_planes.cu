// correct_planes: u = -i G conj(gamma) / max(|gamma|, 1e-8) of single pixels, real and imaginary part swapped.
//   in   spectra  float2 [pixel][q_row][q_col]
//        pixels   Pixel [pixel]
//        model    Model
//   out  planes   float2 [pixel][q_row][q_col]   may be `spectra`
// One thread per q of the half plane; blockIdx.y is the pixel.
#include "gamma.cuh"

extern "C" __global__ void correct_planes(const float2* spectra, const Pixel* __restrict__ pixels,
                                          const Model* __restrict__ model_, float2* planes) {
    const Model& model = *model_;
    const u32 plane = model.rows * model.q_cols, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= plane) return;
    const u64 at = (u64)blockIdx.y * plane + q;
    double angles[2][2];
    float weight = 1.0f;
    const int signs = angles_of(model, q, angles, &weight);
    float2 value = make_float2(0.0f, 0.0f);
    if (signs) {
        const float2 g = spectra[at];
        for (int s = 0; s < signs; s++) {
            const Pixel pixel = pixels[blockIdx.y];
            Overlap gamma;
            if (!overlap<6>(model, pixel, at_q<6>(model, angles[s]), &gamma)) continue;
            const float share = weight * fminf(gamma.size * pixel.aperture * 1e8f, 1.0f);
            // -i C swapped: (-C_re, C_im)
            value.x -= (gamma.unit.x * g.x - gamma.unit.y * g.y) * share;
            value.y += (gamma.unit.x * g.y + gamma.unit.y * g.x) * share;
        }
    }
    planes[at] = value;
}
