// Forward Fourier transforms of any length, by all threads of a block: autosort (Stockham), one pass a factor.
//
// `plan` is [length, number of factors, factors...], powers of two first; `roots` holds exp(-2 pi i j / length). `batch`
// transforms, a power of two, run side by side, `data[element * batch + which]`. Reference: W. T. Cochran et al., IEEE Trans. Audio Electroacoust. 15, 45 (1967).
#pragma once
#include "complex.cuh"

template <class C> __device__ __forceinline__ void transform_2(C& a, C& b) {
    C d = difference(a, b);
    a = sum(a, b);
    b = d;
}

template <class C> __device__ __forceinline__ void transform_4(C& a, C& b, C& c, C& d) {
    transform_2(a, c);
    transform_2(b, d);
    d = turned_back(d);
    transform_2(a, b);
    transform_2(c, d);
    C third = b;  // order 0 2 1 3 to 0 1 2 3
    b = c;
    c = third;
}

template <class C> __device__ __forceinline__ void transform_8(C* v) {
    typedef typename scalar_of<C>::type S;
    const S half = S(0.70710678118654752440);
    transform_4(v[0], v[2], v[4], v[6]);
    transform_4(v[1], v[3], v[5], v[7]);
    v[3] = complex<C>(half * (v[3].x + v[3].y), half * (v[3].y - v[3].x));
    v[5] = turned_back(v[5]);
    v[7] = complex<C>(half * (v[7].y - v[7].x), -half * (v[7].x + v[7].y));
    C even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = sum(even[i], odd[i]);
        v[i + 4] = difference(even[i], odd[i]);
    }
}

template <int R, class C> __device__ __forceinline__ void transform_small(C* v) {
    if constexpr (R == 2) transform_2(v[0], v[1]);
    if constexpr (R == 4) transform_4(v[0], v[1], v[2], v[3]);
    if constexpr (R == 8) transform_8(v);
}

// One pass of factor R, a power of two; `done` is one, too.
template <int R, class C>
__device__ __forceinline__ void pass(const C* from, C* to, const C* roots, u32 length, u32 done, u32 batch) {
    const u32 groups = length / R, stride = length / (done * R), shift = __ffs(batch) - 1;
    for (u32 i = threadIdx.x; i < groups * batch; i += blockDim.x) {
        const u32 j = i >> shift, which = i & (batch - 1), low = j & (done - 1);
        C v[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            v[r] = from[(j + r * groups) * batch + which];
            if (r > 0) v[r] = product(v[r], roots[r * low * stride]);
        }
        transform_small<R>(v);
        const u32 first = (j - low) * R + low;
#pragma unroll
        for (int r = 0; r < R; r++) to[(first + r * done) * batch + which] = v[r];
    }
}

// One pass of any factor: a sum for each value.
template <class C>
__device__ __forceinline__ void pass_of_any(const C* from, C* to, const C* roots, u32 length, u32 factor, u32 done, u32 batch) {
    const u32 groups = length / factor, stride = length / (done * factor), shift = __ffs(batch) - 1;
    for (u32 i = threadIdx.x; i < length * batch; i += blockDim.x) {
        const u32 element = i >> shift, which = i & (batch - 1);
        const u32 j = element % groups, r = element / groups, low = j % done;
        // sum over s of v[s] exp(-2 pi i s (low / (done factor) + r / factor))
        const u64 step = (u64)low * stride + (u64)r * groups;
        C value = complex<C>(0, 0);
        u64 turn = 0;
        for (u32 s = 0; s < factor; s++) {
            value = sum(value, product(from[(j + s * groups) * batch + which], roots[turn]));
            turn += step;
            while (turn >= length) turn -= length;
        }
        to[((j - low) * factor + low + r * done) * batch + which] = value;
    }
}

// Transforms `batch` lines of `data`, with `scratch` of the same size; gives back where the result is. All threads of the
// block call it, with `data` written and a barrier behind; there is a barrier at its end.
template <class C> __device__ C* transform(C* data, C* scratch, const u32* plan, const C* roots, u32 batch) {
    const u32 length = plan[0], factors = plan[1];
    u32 done = 1;
    for (u32 i = 0; i < factors; i++) {
        const u32 factor = plan[2 + i];
        if (factor == 8) pass<8>(data, scratch, roots, length, done, batch);
        else if (factor == 4) pass<4>(data, scratch, roots, length, done, batch);
        else if (factor == 2) pass<2>(data, scratch, roots, length, done, batch);
        else pass_of_any(data, scratch, roots, length, factor, done, batch);
        __syncthreads();
        done *= factor;
        C* other = data;
        data = scratch;
        scratch = other;
    }
    return data;
}
