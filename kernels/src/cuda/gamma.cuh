// The overlap function gamma(k, q) of correct_spectra/gamma.rs: angles in units of the semi-angle, (row, col) in the scan frame.
//
// conj gamma = A(k) exp(-iO) [(A(k-q) - A(k+q)) cos E + i (A(k-q) + A(k+q)) sin E], E and O the even and odd parts of chi
// about k. chi is evaluated in double: float could not take two large phases off each other.
#pragma once
#include "complex.cuh"

struct Pixel {
    double row, col;   // k
    double chi_turns;  // chi(k)
    float aperture;    // A(k), 0 for a pixel that takes no part
    float unused;
};

struct Model {
    double chi_turns[7][7];  // of row^i col^j
    double pixel[2];         // size of a detector pixel
    double frequency[2];     // q index / positions to angle
    double support;          // beyond this |q| gamma is zero
    u32 power;               // highest power in chi: 2, 4 or 6
    u32 rows, cols, q_cols;  // scan positions, and cols / 2 + 1
};

struct Overlap {
    float re, im;  // conj gamma
    float size;    // |gamma|
};

// A(v) = clamp((1 - |v|) / d + 1/2), d one detector pixel along v. Exactly zero where double says so.
__device__ __forceinline__ float soft_aperture(const Model& model, double row, double col) {
    const float x = (float)row, y = (float)col, size_row = (float)model.pixel[0], size_col = (float)model.pixel[1];
    const float radius = sqrtf(x * x + y * y);
    const float stretched = sqrtf(x * size_row * (x * size_row) + y * size_col * (y * size_col));
    float ramp = radius < 1e-6f ? 1.0f : (1.0f - radius) * radius / stretched + 0.5f;
    if (fabsf(ramp) < 1e-4f) {
        const double exact = sqrt(row * row + col * col);
        const double a = row * model.pixel[0], b = col * model.pixel[1];
        ramp = (float)((1.0 - exact) * exact / sqrt(a * a + b * b) + 0.5);
    }
    return fminf(fmaxf(ramp, 0.0f), 1.0f);
}

__device__ __forceinline__ double chi_turns(const Model& model, double row, double col) {
    const int power = (int)model.power;
    double sum = 0.0;
    for (int i = power; i >= 0; i--) {
        double line = 0.0;
        for (int j = power - i; j >= 0; j--) line = line * col + model.chi_turns[i][j];
        sum = sum * row + line;
    }
    return sum;
}

// sin and cos of a phase in turns.
__device__ __forceinline__ float2 unit(double turns) {
    float sin, cos;
    sincospif(2.0f * (float)(turns - rint(turns)), &sin, &cos);
    return make_float2(cos, sin);
}

__device__ __forceinline__ Overlap overlap(const Model& model, const Pixel& k, double q_row, double q_col) {
    const Overlap none = {0.0f, 0.0f, 0.0f};
    if (!(k.aperture > 0.0f)) return none;
    const float minus = soft_aperture(model, k.row - q_row, k.col - q_col);
    const float plus = soft_aperture(model, k.row + q_row, k.col + q_col);
    if (minus == 0.0f && plus == 0.0f) return none;
    const double before = k.chi_turns - chi_turns(model, k.row - q_row, k.col - q_col);
    const double after = chi_turns(model, k.row + q_row, k.col + q_col) - k.chi_turns;
    const float2 even = unit(0.5 * (after - before)), odd = unit(0.5 * (after + before));
    const float p = (minus - plus) * even.x, r = (minus + plus) * even.y;
    Overlap value;
    value.re = k.aperture * (odd.x * p + odd.y * r);
    value.im = k.aperture * (odd.x * r - odd.y * p);
    value.size = k.aperture * sqrtf(p * p + r * r);
    return value;
}

// The angles of one sample of the half plane: itself, and at a Nyquist frequency of an even axis its mirror image too, each
// with weight 1/2. Gives their number: 0 at q = 0 and beyond the support.
__device__ __forceinline__ int angles_of(const Model& model, u32 q, double (*angles)[2], float* weight) {
    const u32 row = q / model.q_cols, col = q - row * model.q_cols;
    if (q == 0) return 0;
    const bool row_is_nyquist = 2 * row == model.rows, col_is_nyquist = 2 * col == model.cols;
    const int signs = row_is_nyquist || col_is_nyquist ? 2 : 1;
    *weight = 1.0f / (float)signs;
    const double i = 2 * row < model.rows ? (double)row : (double)row - (double)model.rows;
    const double j = 2 * col < model.cols ? (double)col : (double)col - (double)model.cols;
    for (int s = 0; s < signs; s++) {
        angles[s][0] = (s && row_is_nyquist ? -i : i) / (double)model.rows * model.frequency[0];
        angles[s][1] = (s && col_is_nyquist ? -j : j) / (double)model.cols * model.frequency[1];
    }
    const double* first = angles[0];
    return sqrt(first[0] * first[0] + first[1] * first[1]) <= model.support ? signs : 0;
}
