// G times conj gamma over runs of detector pixels: the body of correct_quadratic.cu and correct_spectra.cu.
//
// Lengths are detector pixels in the detector's own frame, in which a run has one row and columns one apart. There
//   conj gamma = A(k) exp(-iO) [(A(k-q) - A(k+q)) cos E + i (A(k-q) + A(k+q)) sin E].
// With C10 and C12 alone E depends on q alone and O is linear in k: exp(-iO) is evaluated once a run and turned by eight
// constants of q within it. With higher orders chi is a polynomial in the column along a run, in double, because float could
// not take two large phases off each other. Pixels that neither aperture reaches are not read.
#pragma once
#include "gamma.cuh"

#define RUN_PIXELS 8
// Threads of a block.
#define CORRECT_THREADS 256

// Neighbouring pixels of one detector row.
struct Run {
    double row, col;                // of the first pixel, from the beam's centre
    double chi_turns[RUN_PIXELS];   // chi(k)
    float aperture[RUN_PIXELS];     // A(k), 0 where there is no pixel or it takes no part
    u32 first;                      // its first pixel among the spectra
    u32 pixels;                     // how many there are
    u32 is_whole;                   // eight pixels, all with A(k) = 1
    u32 unused;
};

struct Detector {
    double frame[2][2];       // angle in the scan frame to (row, col)
    double chi_turns[7][7];   // of row^i col^j
    float edge;               // A(v) = edge - |v|, cut to 0..1
    float unused;
};

// One instruction each; an error of a few parts in 10^7 does no harm here.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ float quick_root(float x) { float r; asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
__device__ __forceinline__ float quick_inverse_root(float x) { float r; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
__device__ __forceinline__ float quick_root(float x) { return sqrtf(x); }
__device__ __forceinline__ float quick_inverse_root(float x) { return rsqrtf(x); }
#endif

struct Sums {
    float2 corrected, numerator;
    float denominator, transfer;
};

// One q.
template <int POWER> struct AtFrequency {
    float row, col;
    float2 even;                      // POWER 2: cos E, sin E
    double odd_row, odd_col;          // POWER 2: O in turns is odd_row k_row + odd_col k_col
    float2 turn[POWER == 2 ? RUN_PIXELS : 1];   // POWER 2: exp(-iO) from the first pixel of a run to the others
    double exact_row, exact_col;
};

// The polynomial in the column that chi is along one row.
template <int POWER> __device__ __forceinline__ void along_row(const Detector& detector, double row, double* line) {
#pragma unroll
    for (int j = 0; j <= POWER; j++) {
        double sum = detector.chi_turns[POWER - j][j];
#pragma unroll
        for (int i = POWER - j - 1; i >= 0; i--) sum = fma(sum, row, detector.chi_turns[i][j]);
        line[j] = sum;
    }
}

template <int POWER> __device__ __forceinline__ double at_column(const double* line, double col) {
    double sum = line[POWER];
#pragma unroll
    for (int j = POWER - 1; j >= 0; j--) sum = fma(sum, col, line[j]);
    return sum;
}

template <int POWER, bool IS_WHOLE>
__device__ __forceinline__ Sums sum_of_run(const float2* __restrict__ spectra, u32 plane, const Run& run,
                                           const AtFrequency<POWER>& q, float edge, const double* minus_line,
                                           const double* plus_line) {
    const float minus_row = (float)run.row - q.row, plus_row = (float)run.row + q.row;
    const float minus_col = (float)run.col - q.col, plus_col = (float)run.col + q.col;
    const float minus_square = minus_row * minus_row, plus_square = plus_row * plus_row, outside = edge * edge;
    float2 values[RUN_PIXELS];
    float minus[RUN_PIXELS], plus[RUN_PIXELS];
#pragma unroll
    for (int j = 0; j < RUN_PIXELS; j++) {
        const float a = minus_col + (float)j, b = plus_col + (float)j;
        minus[j] = fmaf(a, a, minus_square);
        plus[j] = fmaf(b, b, plus_square);
        bool is_reached = fminf(minus[j], plus[j]) < outside;
        if (!IS_WHOLE) is_reached = is_reached && run.aperture[j] > 0.0f;
        values[j] = make_float2(0.0f, 0.0f);
        if (is_reached) values[j] = __ldcs(spectra + (u64)j * plane);
    }
    Sums sums = {make_float2(0.0f, 0.0f), make_float2(0.0f, 0.0f), 0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < RUN_PIXELS; j++) {
        const float a_minus = __saturatef(edge - quick_root(minus[j])), a_plus = __saturatef(edge - quick_root(plus[j]));
        float x = a_minus - a_plus, y = a_minus + a_plus;
        if (!IS_WHOLE) {
            x *= run.aperture[j];
            y *= run.aperture[j];
        }
        float2 turn;
        if (POWER == 2) {
            x *= q.even.x;
            y *= q.even.y;
            turn = q.turn[j];
        } else {
            const double col = run.col + (double)j;
            const double before = run.chi_turns[j] - at_column<POWER>(minus_line, col - q.exact_col);
            const double after = at_column<POWER>(plus_line, col + q.exact_col) - run.chi_turns[j];
            const float2 even = turned(0.5 * (after - before));
            x *= even.x;
            y *= even.y;
            turn = turned(-0.5 * (after + before));
        }
        const float2 g = product(turn, values[j]);
        const float square = fmaf(x, x, y * y);
        const float inverse = fminf(quick_inverse_root(square), 1e8f);
        const float re = x * g.x - y * g.y, im = x * g.y + y * g.x;
        sums.corrected.x = fmaf(re, inverse, sums.corrected.x);
        sums.corrected.y = fmaf(im, inverse, sums.corrected.y);
        sums.numerator.x += re;
        sums.numerator.y += im;
        sums.denominator += square;
        sums.transfer = fmaf(square, inverse, sums.transfer);
    }
    return sums;
}

// One thread per q of the half plane; blockIdx.y is the split, runs `starts[split]` up to the next in order. `spectra` begins
// with pixel `first`.
template <int POWER>
__device__ __forceinline__ void correct_runs(const float2* __restrict__ spectra, const Run* __restrict__ runs,
                                             const u32* __restrict__ starts, const Model& model,
                                             const Detector& detector, double* __restrict__ parts, u32 first) {
    const u32 plane = model.rows * model.q_cols, index = blockIdx.x * blockDim.x + threadIdx.x;
    double angles[2][2] = {{0.0, 0.0}, {0.0, 0.0}};
    float weight = 1.0f;
    // all threads of a warp go on: they ask one another
    const int signs = index < plane ? angles_of(model, index, angles, &weight) : 0;
    const float edge = detector.edge;
    // not in registers: the walk along a run needs them
    __shared__ double all_sums[6][CORRECT_THREADS];
    double* sums = &all_sums[0][threadIdx.x];
    for (int i = 0; i < 6; i++) sums[i * CORRECT_THREADS] = 0.0;
    for (int s = 0; s < 2; s++) {
        const bool takes_part = s < signs;
        if (!__any_sync(0xffffffffu, takes_part)) break;
        AtFrequency<POWER> q;
        q.exact_row = detector.frame[0][0] * angles[s][0] + detector.frame[0][1] * angles[s][1];
        q.exact_col = detector.frame[1][0] * angles[s][0] + detector.frame[1][1] * angles[s][1];
        // one that takes no part is where no aperture reaches
        q.row = takes_part ? (float)q.exact_row : 1e6f;
        q.col = (float)q.exact_col;
        if (POWER == 2) {
            const double c20 = detector.chi_turns[2][0], c11 = detector.chi_turns[1][1], c02 = detector.chi_turns[0][2];
            const double row = q.exact_row, col = q.exact_col;
            q.even = turned_well(c20 * row * row + c11 * row * col + c02 * col * col);
            q.odd_row = 2.0 * c20 * row + c11 * col;
            q.odd_col = c11 * row + 2.0 * c02 * col;
#pragma unroll
            for (int j = 0; j < RUN_PIXELS; j++) q.turn[j] = turned(-q.odd_col * (double)j);
        }
        double minus_line[POWER + 1], plus_line[POWER + 1], line_row = 1e30;
        const u32 end = starts[blockIdx.y + 1];
        for (u32 r = starts[blockIdx.y]; r < end; r++) {
            const Run& run = runs[r];
            const float row = (float)run.row, middle = (float)run.col + 0.5f * (RUN_PIXELS - 1);
            const float minus_row = row - q.row, plus_row = row + q.row;
            const float minus_col = fmaxf(fabsf(middle - q.col) - 0.5f * (RUN_PIXELS - 1), 0.0f);
            const float plus_col = fmaxf(fabsf(middle + q.col) - 0.5f * (RUN_PIXELS - 1), 0.0f);
            const float nearest = fminf(fmaf(minus_row, minus_row, minus_col * minus_col),
                                        fmaf(plus_row, plus_row, plus_col * plus_col));
            if (!__any_sync(0xffffffffu, nearest < edge * edge)) continue;
            if (POWER > 2 && run.row != line_row) {
                line_row = run.row;
                along_row<POWER>(detector, line_row - q.exact_row, minus_line);
                along_row<POWER>(detector, line_row + q.exact_row, plus_line);
            }
            const float2* values = spectra + ((u64)(run.first - first) * plane + min(index, plane - 1));
            const Sums of_run = run.is_whole
                                    ? sum_of_run<POWER, true>(values, plane, run, q, edge, minus_line, plus_line)
                                    : sum_of_run<POWER, false>(values, plane, run, q, edge, minus_line, plus_line);
            float2 corrected = of_run.corrected, numerator = of_run.numerator;
            if (POWER == 2) {
                const float2 turn = turned(-(q.odd_row * run.row + q.odd_col * run.col));
                corrected = product(turn, corrected);
                numerator = product(turn, numerator);
            }
            sums[0 * CORRECT_THREADS] += (double)corrected.x;
            sums[1 * CORRECT_THREADS] += (double)corrected.y;
            sums[2 * CORRECT_THREADS] += (double)numerator.x;
            sums[3 * CORRECT_THREADS] += (double)numerator.y;
            sums[4 * CORRECT_THREADS] += (double)of_run.denominator;
            sums[5 * CORRECT_THREADS] += (double)of_run.transfer;
        }
    }
    if (index >= plane) return;
    for (int i = 0; i < 6; i++) {
        parts[((u64)blockIdx.y * 6 + i) * plane + index] = sums[i * CORRECT_THREADS] * (double)weight;
    }
}
