// The overlap function gamma(k, q) of correct_spectra/gamma.rs: angles in units of the semi-angle, (row, col) in the scan frame.
//
// conj gamma = A(k) exp(-iO) [(A(k-q) - A(k+q)) cos E + i (A(k-q) + A(k+q)) sin E], E and O the even and odd parts of chi
// about k. With C10 and C12 alone E depends on q alone and O is linear in k. With higher orders chi is evaluated in double:
// float could not take two large phases off each other.
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
    float inverse_pixel;     // 1 / size of a detector pixel where it is square, else 0
    u32 rows, cols, q_cols;  // scan positions, and cols / 2 + 1
};

// conj gamma over A(k) as a unit number, and its size: gamma is unit * size * A(k).
struct Overlap {
    float2 unit;
    float size;
};

// What depends on q alone.
template <int POWER> struct AtQ {
    double row, col;
    float row_f, col_f;
    float2 even;               // POWER 2: cos E, sin E
    float odd_row, odd_col;    // POWER 2: O in turns is odd_row k_row + odd_col k_col
};

// 1 - |v| over the size of a detector pixel along v, + 1/2: the soft aperture before it is cut to 0..1. Exactly on the side of
// zero on which double says it is.
__device__ __forceinline__ float aperture_ramp(const Model& model, float x, float y, double row, double col, float sign,
                                               const double* q) {
    const float square = x * x + y * y;
    float ramp;
    if (model.inverse_pixel > 0.0f) {
        ramp = (1.0f - sqrtf(square)) * model.inverse_pixel + 0.5f;
    } else {
        const float a = x * (float)model.pixel[0], b = y * (float)model.pixel[1];
        ramp = square < 1e-12f ? 1.0f : (1.0f - sqrtf(square)) * sqrtf(square) * rsqrtf(a * a + b * b) + 0.5f;
    }
    if (fabsf(ramp) < 1e-4f) {
        const double r = row + (double)sign * q[0], c = col + (double)sign * q[1];
        const double exact = sqrt(r * r + c * c), a = r * model.pixel[0], b = c * model.pixel[1];
        ramp = (float)((1.0 - exact) * exact / sqrt(a * a + b * b) + 0.5);
    }
    return ramp;
}

template <int POWER> __device__ __forceinline__ double chi_turns(const Model& model, double row, double col) {
    double sum = 0.0;
#pragma unroll
    for (int i = POWER; i >= 0; i--) {
        double line = 0.0;
#pragma unroll
        for (int j = POWER - i; j >= 0; j--) line = fma(line, col, model.chi_turns[i][j]);
        sum = fma(sum, row, line);
    }
    return sum;
}

// cos and sin of a phase in turns.
__device__ __forceinline__ float2 turned(float turns) {
    float sin, cos;
    __sincosf(6.28318530718f * (turns - rintf(turns)), &sin, &cos);
    return make_float2(cos, sin);
}
__device__ __forceinline__ float2 turned(double turns) { return turned((float)(turns - rint(turns))); }
// The same, good to the last bits where the phase is small: gamma vanishes there.
__device__ __forceinline__ float2 turned_well(double turns) {
    float sin, cos;
    sincospif(2.0f * (float)(turns - rint(turns)), &sin, &cos);
    return make_float2(cos, sin);
}

template <int POWER> __device__ __forceinline__ AtQ<POWER> at_q(const Model& model, const double* q) {
    AtQ<POWER> at;
    at.row = q[0];
    at.col = q[1];
    at.row_f = (float)q[0];
    at.col_f = (float)q[1];
    if (POWER == 2) {
        // chi = c20 r^2 + c11 r c + c02 c^2 + linear and constant terms, which E does not see
        const double c20 = model.chi_turns[2][0], c11 = model.chi_turns[1][1], c02 = model.chi_turns[0][2];
        at.even = turned_well(c20 * q[0] * q[0] + c11 * q[0] * q[1] + c02 * q[1] * q[1]);
        at.odd_row = (float)(2.0 * c20 * q[0] + c11 * q[1]);
        at.odd_col = (float)(c11 * q[0] + 2.0 * c02 * q[1]);
    }
    return at;
}

// False where gamma is zero.
template <int POWER>
__device__ __forceinline__ bool overlap(const Model& model, const Pixel& k, const AtQ<POWER>& q, Overlap* value) {
    const float row = (float)k.row, col = (float)k.col;
    const double exact[2] = {q.row, q.col};
    const float minus_ramp = aperture_ramp(model, row - q.row_f, col - q.col_f, k.row, k.col, -1.0f, exact);
    const float plus_ramp = aperture_ramp(model, row + q.row_f, col + q.col_f, k.row, k.col, 1.0f, exact);
    if (!(fmaxf(minus_ramp, plus_ramp) > 0.0f) || !(k.aperture > 0.0f)) return false;
    const float minus = __saturatef(minus_ramp), plus = __saturatef(plus_ramp);
    float2 even, odd;
    if (POWER == 2) {
        even = q.even;
        odd = turned(fmaf(q.odd_row, row, q.odd_col * col));
    } else {
        const double before = k.chi_turns - chi_turns<POWER>(model, k.row - q.row, k.col - q.col);
        const double after = chi_turns<POWER>(model, k.row + q.row, k.col + q.col) - k.chi_turns;
        even = turned_well(0.5 * (after - before));
        odd = turned(0.5 * (after + before));
    }
    const float p = (minus - plus) * even.x, r = (minus + plus) * even.y;
    const float square = p * p + r * r;
    if (!(square > 0.0f)) return false;
    const float inverse = rsqrtf(square);
    value->size = square * inverse;
    value->unit = make_float2((odd.x * p + odd.y * r) * inverse, (odd.x * r - odd.y * p) * inverse);
    return true;
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
