// G times conj gamma over runs of detector pixels: the body of correct_quadratic.cu and correct_spectra.cu.
//
// Lengths are detector pixels in the detector's own frame, in which a run has one row and columns one apart. There
//   conj gamma = A(k) exp(-iO) [(A(k-q) - A(k+q)) cos E + i (A(k-q) + A(k+q)) sin E].
// With C10 and C12 alone E depends on q alone and O is linear in k: exp(-iO) is evaluated once a run and turned by eight
// constants of q within it. With higher orders chi is a polynomial in the column along a run, in double, because float could
// not take two large phases off each other. Pixels that neither aperture reaches are not read.
//
// Where the soft edge of neither aperture crosses a run, for no q of a warp, A(k-q) and A(k+q) are constants of the run. Where a
// pixel is so near to the outer end of an edge that float cannot say on which side, the run is done again in double: G counts
// by its phase alone, fully or not at all.
#pragma once
#include "gamma.cuh"

#define RUN_PIXELS 8
// Threads of a block.
#define CORRECT_THREADS 256
// A square of a distance this close to that of an end of the edge, over the edge, is not told from it by float.
#define CLOSE 1e-4f
// Pixels of a crossed run that are read before the first is used.
#define AT_ONCE 4

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
    double edge;              // A(v) = edge - |v|, cut to 0..1
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
    float2 even;                                // POWER 2: cos E, sin E
    float2 turn[POWER == 2 ? RUN_PIXELS : 1];   // POWER 2: exp(-iO) from the first pixel of a run to the others
};

// What is not kept in registers, because the walk along a run needs them: one of each a thread.
enum InShared { CORRECTED = 0, NUMERATOR = 2, DENOMINATOR = 4, TRANSFER = 5, Q_ROW = 6, Q_COL = 7, ODD_ROW = 8, ODD_COL = 9, SHARED = 10 };

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

// Takes one pixel in: (x, y) is conj gamma but for exp(-iO), g is G times exp(-iO).
__device__ __forceinline__ void add_pixel(Sums* sums, float x, float y, float2 g) {
    const float square = fmaf(x, x, y * y);
    const float inverse = fminf(quick_inverse_root(square), 1e8f);
    const float re = x * g.x - y * g.y, im = x * g.y + y * g.x;
    sums->corrected.x = fmaf(re, inverse, sums->corrected.x);
    sums->corrected.y = fmaf(im, inverse, sums->corrected.y);
    sums->numerator.x += re;
    sums->numerator.y += im;
    sums->denominator += square;
    sums->transfer = fmaf(square, inverse, sums->transfer);
}

// chi along the rows of k - q and of k + q, and where the first pixel of a run is there.
template <int POWER> struct Lines {
    double minus[POWER + 1], plus[POWER + 1];
    double minus_col, plus_col;
};

// exp(iE) and exp(-iO) at pixel j of a run.
template <int POWER>
__device__ __forceinline__ void phases(const Run& run, const AtFrequency<POWER>& q, const Lines<POWER>& lines, int j,
                                       float2* even, float2* turn) {
    if (POWER == 2) {
        *even = q.even;
        *turn = q.turn[j];
    } else {
        const double before = run.chi_turns[j] - at_column<POWER>(lines.minus, lines.minus_col + (double)j);
        const double after = at_column<POWER>(lines.plus, lines.plus_col + (double)j) - run.chi_turns[j];
        *even = turned(0.5 * (after - before));
        *turn = turned(-0.5 * (after + before));
    }
}

// A run that no soft edge crosses: the apertures are the same for all its pixels, and A(k) = 1.
template <int POWER>
__device__ __forceinline__ Sums sum_of_flat_run(const float2* __restrict__ spectra, u32 plane, const Run& run,
                                                const AtFrequency<POWER>& q, const Lines<POWER>& lines, bool minus,
                                                bool plus) {
    float2 values[RUN_PIXELS];
#pragma unroll
    for (int j = 0; j < RUN_PIXELS; j++) {
        values[j] = make_float2(0.0f, 0.0f);
        if (minus || plus) values[j] = __ldcs(spectra + (u64)j * plane);
    }
    const float a_minus = minus ? 1.0f : 0.0f, a_plus = plus ? 1.0f : 0.0f;
    Sums sums = {make_float2(0.0f, 0.0f), make_float2(0.0f, 0.0f), 0.0f, 0.0f};
    if (POWER == 2) {
        float2 all = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int j = 0; j < RUN_PIXELS; j++) all = sum(all, product(q.turn[j], values[j]));
        add_pixel(&sums, (a_minus - a_plus) * q.even.x, (a_minus + a_plus) * q.even.y, all);
        sums.denominator *= (float)RUN_PIXELS;
        sums.transfer *= (float)RUN_PIXELS;
    } else {
#pragma unroll
        for (int j = 0; j < RUN_PIXELS; j++) {
            float2 even, turn;
            phases(run, q, lines, j, &even, &turn);
            add_pixel(&sums, (a_minus - a_plus) * even.x, (a_minus + a_plus) * even.y, product(turn, values[j]));
        }
    }
    return sums;
}

// Any run. `*is_close` where a pixel is so near the outer end of an edge that the sums are not to be trusted: see `has_close`.
template <int POWER>
__device__ __forceinline__ Sums sum_of_run(const float2* __restrict__ spectra, u32 plane, const Run& run,
                                           const AtFrequency<POWER>& q, const Lines<POWER>& lines, float edge,
                                           bool* is_close) {
    const float minus_row = (float)run.row - q.row, plus_row = (float)run.row + q.row;
    const float minus_col = (float)run.col - q.col, plus_col = (float)run.col + q.col;
    const float outside = edge * edge, close = edge * CLOSE;
    const float minus_square = fmaf(minus_row, minus_row, -outside), plus_square = fmaf(plus_row, plus_row, -outside);
    Sums sums = {make_float2(0.0f, 0.0f), make_float2(0.0f, 0.0f), 0.0f, 0.0f};
    bool any_close = false;
    // some at a time: all of them would not fit into the registers
#pragma unroll
    for (int begin = 0; begin < RUN_PIXELS; begin += AT_ONCE) {
        float2 values[AT_ONCE];
        float minus[AT_ONCE], plus[AT_ONCE];   // |v|^2 less that of the outer end
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int j = begin + i;
            const float a = minus_col + (float)j, b = plus_col + (float)j;
            minus[i] = fmaf(a, a, minus_square);
            plus[i] = fmaf(b, b, plus_square);
            any_close = any_close || fminf(fabsf(minus[i]), fabsf(plus[i])) < close;
            const bool is_reached = fminf(minus[i], plus[i]) < 0.0f && run.aperture[j] > 0.0f;
            values[i] = make_float2(0.0f, 0.0f);
            if (is_reached) values[i] = __ldcs(spectra + (u64)j * plane);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int j = begin + i;
            const float a_minus = __saturatef(edge - quick_root(minus[i] + outside));
            const float a_plus = __saturatef(edge - quick_root(plus[i] + outside));
            float2 even, turn;
            phases(run, q, lines, j, &even, &turn);
            const float x = (a_minus - a_plus) * run.aperture[j] * even.x;
            const float y = (a_minus + a_plus) * run.aperture[j] * even.y;
            add_pixel(&sums, x, y, product(turn, values[i]));
        }
    }
    *is_close = any_close;
    return sums;
}

// What `sum_of_run` says of this run.
__device__ __forceinline__ bool has_close(const Run& run, float q_row, float q_col, float edge) {
    const float minus_row = (float)run.row - q_row, plus_row = (float)run.row + q_row, outside = edge * edge;
    const float minus_square = fmaf(minus_row, minus_row, -outside), plus_square = fmaf(plus_row, plus_row, -outside);
    bool any_close = false;
    for (int j = 0; j < RUN_PIXELS; j++) {
        const float a = ((float)run.col - q_col) + (float)j, b = ((float)run.col + q_col) + (float)j;
        any_close = any_close || fminf(fabsf(fmaf(a, a, minus_square)), fabsf(fmaf(b, b, plus_square))) < edge * CLOSE;
    }
    return any_close;
}

// A run with apertures in double. Rare.
template <int POWER>
__device__ __forceinline__ Sums sum_of_close_run(const float2* __restrict__ spectra, u32 plane, const Run& run,
                                              const Detector& detector, double q_row, double q_col, float2 even) {
    Sums sums = {make_float2(0.0f, 0.0f), make_float2(0.0f, 0.0f), 0.0f, 0.0f};
    double minus_line[POWER + 1], plus_line[POWER + 1];
    along_row<POWER>(detector, run.row - q_row, minus_line);
    along_row<POWER>(detector, run.row + q_row, plus_line);
#pragma unroll 1
    for (u32 j = 0; j < run.pixels; j++) {
        const double minus_col = run.col + (double)j - q_col, plus_col = run.col + (double)j + q_col;
        const double minus_row = run.row - q_row, plus_row = run.row + q_row;
        const double minus = detector.edge - sqrt(minus_row * minus_row + minus_col * minus_col);
        const double plus = detector.edge - sqrt(plus_row * plus_row + plus_col * plus_col);
        if (!(fmax(minus, plus) > 0.0) || !(run.aperture[j] > 0.0f)) continue;
        const float a_minus = __saturatef((float)minus), a_plus = __saturatef((float)plus);
        float2 turn;
        if (POWER == 2) {
            const double c11 = detector.chi_turns[1][1], c02 = detector.chi_turns[0][2];
            turn = turned(-(c11 * q_row + 2.0 * c02 * q_col) * (double)j);
        } else {
            const double chi = at_column<POWER>(plus_line, plus_col), other = at_column<POWER>(minus_line, minus_col);
            const double before = run.chi_turns[j] - other, after = chi - run.chi_turns[j];
            even = turned(0.5 * (after - before));
            turn = turned(-0.5 * (after + before));
        }
        const float x = (a_minus - a_plus) * run.aperture[j] * even.x, y = (a_minus + a_plus) * run.aperture[j] * even.y;
        add_pixel(&sums, x, y, product(turn, spectra[(u64)j * plane]));
    }
    return sums;
}

// Adds the sums of a run, which begin at its first pixel.
template <int POWER> __device__ __forceinline__ void add_run(double* mine, Sums of_run, const Run& run) {
    if (POWER == 2) {
        const double odd = mine[ODD_ROW * CORRECT_THREADS] * run.row + mine[ODD_COL * CORRECT_THREADS] * run.col;
        const float2 turn = turned(-odd);
        of_run.corrected = product(turn, of_run.corrected);
        of_run.numerator = product(turn, of_run.numerator);
    }
    mine[CORRECTED * CORRECT_THREADS] += (double)of_run.corrected.x;
    mine[(CORRECTED + 1) * CORRECT_THREADS] += (double)of_run.corrected.y;
    mine[NUMERATOR * CORRECT_THREADS] += (double)of_run.numerator.x;
    mine[(NUMERATOR + 1) * CORRECT_THREADS] += (double)of_run.numerator.y;
    mine[DENOMINATOR * CORRECT_THREADS] += (double)of_run.denominator;
    mine[TRANSFER * CORRECT_THREADS] += (double)of_run.transfer;
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
    const float edge = (float)detector.edge;
    // squares on the safe side of the two ends of the soft edge
    const float within = (edge - 1.0f) * (edge - 1.0f - 10.0f * CLOSE), beyond = edge * (edge + 10.0f * CLOSE);
    __shared__ double in_shared[SHARED][CORRECT_THREADS];
    double* mine = &in_shared[0][threadIdx.x];
    for (int i = 0; i < 6; i++) mine[i * CORRECT_THREADS] = 0.0;
    for (int s = 0; s < 2; s++) {
        const bool takes_part = s < signs;
        if (!__any_sync(0xffffffffu, takes_part)) break;
        const double q_row = detector.frame[0][0] * angles[s][0] + detector.frame[0][1] * angles[s][1];
        const double q_col = detector.frame[1][0] * angles[s][0] + detector.frame[1][1] * angles[s][1];
        mine[Q_ROW * CORRECT_THREADS] = q_row;
        mine[Q_COL * CORRECT_THREADS] = q_col;
        AtFrequency<POWER> q;
        // one that takes no part is where no aperture reaches
        q.row = takes_part ? (float)q_row : 1e6f;
        q.col = (float)q_col;
        q.even = make_float2(1.0f, 0.0f);
        if (POWER == 2) {
            const double c20 = detector.chi_turns[2][0], c11 = detector.chi_turns[1][1], c02 = detector.chi_turns[0][2];
            q.even = turned_well(c20 * q_row * q_row + c11 * q_row * q_col + c02 * q_col * q_col);
            // O in turns is odd_row k_row + odd_col k_col
            const double odd_row = 2.0 * c20 * q_row + c11 * q_col, odd_col = c11 * q_row + 2.0 * c02 * q_col;
            mine[ODD_ROW * CORRECT_THREADS] = odd_row;
            mine[ODD_COL * CORRECT_THREADS] = odd_col;
#pragma unroll
            for (int j = 0; j < RUN_PIXELS; j++) q.turn[j] = turned(-odd_col * (double)j);
        }
        Lines<POWER> lines;
        double line_row = 1e30;
        bool any_close = false;
        const u32 end = starts[blockIdx.y + 1];
        for (u32 r = starts[blockIdx.y]; r < end; r++) {
            const Run& run = runs[r];
            // how near and how far the pixels of the run are from q and -q
            const float row = (float)run.row, half = 0.5f * (RUN_PIXELS - 1), middle = (float)run.col + half;
            const float minus_row = (row - q.row) * (row - q.row), plus_row = (row + q.row) * (row + q.row);
            const float minus_col = fabsf(middle - q.col), plus_col = fabsf(middle + q.col);
            const float minus_near = fmaxf(minus_col - half, 0.0f), plus_near = fmaxf(plus_col - half, 0.0f);
            const float minus_nearest = fmaf(minus_near, minus_near, minus_row);
            const float plus_nearest = fmaf(plus_near, plus_near, plus_row);
            if (!__any_sync(0xffffffffu, fminf(minus_nearest, plus_nearest) < beyond)) continue;
            const float minus_far = minus_col + half, plus_far = plus_col + half;
            const bool minus = fmaf(minus_far, minus_far, minus_row) <= within;
            const bool plus = fmaf(plus_far, plus_far, plus_row) <= within;
            const bool is_crossed = (!minus && minus_nearest < beyond) || (!plus && plus_nearest < beyond);
            if (POWER > 2) {
                if (run.row != line_row) {
                    line_row = run.row;
                    along_row<POWER>(detector, line_row - mine[Q_ROW * CORRECT_THREADS], lines.minus);
                    along_row<POWER>(detector, line_row + mine[Q_ROW * CORRECT_THREADS], lines.plus);
                }
                lines.minus_col = run.col - mine[Q_COL * CORRECT_THREADS];
                lines.plus_col = run.col + mine[Q_COL * CORRECT_THREADS];
            }
            const float2* values = spectra + ((u64)(run.first - first) * plane + min(index, plane - 1));
            Sums of_run;
            if (run.is_whole && !__any_sync(0xffffffffu, is_crossed)) {
                of_run = sum_of_flat_run(values, plane, run, q, lines, minus, plus);
            } else {
                bool is_close;
                of_run = sum_of_run(values, plane, run, q, lines, edge, &is_close);
                if (is_close) {
                    any_close = true;
                    continue;
                }
            }
            add_run<POWER>(mine, of_run, run);
        }
        // what was left out above; here no registers are short
        for (u32 r = starts[blockIdx.y]; any_close && r < end; r++) {
            const Run& run = runs[r];
            if (!has_close(run, q.row, q.col, edge)) continue;
            const float2* values = spectra + ((u64)(run.first - first) * plane + index);
            const double q_row = mine[Q_ROW * CORRECT_THREADS], q_col = mine[Q_COL * CORRECT_THREADS];
            add_run<POWER>(mine, sum_of_close_run<POWER>(values, plane, run, detector, q_row, q_col, q.even), run);
        }
    }
    if (index >= plane) return;
    for (int i = 0; i < 6; i++) {
        parts[((u64)blockIdx.y * 6 + i) * plane + index] = mine[i * CORRECT_THREADS] * (double)weight;
    }
}
