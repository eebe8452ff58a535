// Numbers of fixed size and complex arithmetic, in float and double.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

template <class C> struct scalar_of;
template <> struct scalar_of<float2> { typedef float type; };
template <> struct scalar_of<double2> { typedef double type; };

template <class C> __device__ __forceinline__ C complex(typename scalar_of<C>::type re, typename scalar_of<C>::type im) {
    C z;
    z.x = re;
    z.y = im;
    return z;
}

template <class C> __device__ __forceinline__ C sum(C a, C b) { return complex<C>(a.x + b.x, a.y + b.y); }
template <class C> __device__ __forceinline__ C difference(C a, C b) { return complex<C>(a.x - b.x, a.y - b.y); }
template <class C> __device__ __forceinline__ C product(C a, C b) {
    return complex<C>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
// -i z
template <class C> __device__ __forceinline__ C turned_back(C z) { return complex<C>(z.y, -z.x); }
// The swapped forward transform of the swapped is the backward transform.
template <class C> __device__ __forceinline__ C swapped(C z) { return complex<C>(z.y, z.x); }
