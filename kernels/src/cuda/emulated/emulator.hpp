// Runs CUDA kernels on the processor, for tests: a fiber per thread of a block, switched at barriers. Between two barriers
// the threads run one after the other in an order drawn at random, so that a missing barrier gives wrong results.
// Shared memory and fresh device memory hold NaNs before they are written.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 { unsigned x = 1, y = 1, z = 1; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulated {

enum State { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };

struct Fiber {
    ucontext_t start;
    jmp_buf place;  // where it stopped; jumps cost no system call, as switching contexts does
    std::vector<char> stack;
    bool has_started = false;
    State state = DONE;
    unsigned mask = 0;      // lanes of the warp barrier it waits at
    uint64_t exchange = 0;  // what a shuffle hands to the others
};

static std::vector<Fiber*> fibers;
static jmp_buf scheduler;
static unsigned current;
static const std::function<void()>* body;
static std::vector<unsigned char> shared;
static uint64_t seed;

inline uint64_t random_word() {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

inline void pause(State state, unsigned mask) {
    Fiber& fiber = *fibers[current];
    fiber.state = state;
    fiber.mask = mask;
    if (!_setjmp(fiber.place)) _longjmp(scheduler, 1);
}

// What a fiber does: one thread of a block after the other, as long as the process lives.
inline void live() {
    for (;;) {
        (*body)();
        pause(DONE, 0);
    }
}

inline void make_fibers(unsigned threads) {
    while (fibers.size() < threads) {
        Fiber* fiber = new Fiber;
        fiber->stack.resize(64 << 10);
        getcontext(&fiber->start);
        fiber->start.uc_stack.ss_sp = fiber->stack.data();
        fiber->start.uc_stack.ss_size = fiber->stack.size();
        fiber->start.uc_link = nullptr;
        makecontext(&fiber->start, live, 0);
        fibers.push_back(fiber);
    }
}

inline void resume(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.has_started) _longjmp(fiber.place, 1);
    fiber.has_started = true;
    setcontext(&fiber.start);
}

// Lets go whoever waits at a barrier that everybody has reached. Threads that have returned are not waited for.
inline bool release(unsigned threads) {
    bool any = false, all_at_block = true;
    for (unsigned t = 0; t < threads; t++) all_at_block &= fibers[t]->state == DONE || fibers[t]->state == AT_BLOCK_BARRIER;
    for (unsigned t = 0; t < threads; t++) {
        Fiber& fiber = *fibers[t];
        if (fiber.state == AT_BLOCK_BARRIER && all_at_block) { fiber.state = READY; any = true; }
    }
    if (any) return true;
    for (unsigned warp = 0; warp < threads; warp += 32) {
        unsigned waiting = 0, mask = 0, done = 0;
        for (unsigned t = warp; t < std::min(threads, warp + 32); t++) {
            if (fibers[t]->state == AT_WARP_BARRIER) { waiting |= 1u << (t - warp); mask |= fibers[t]->mask; }
            if (fibers[t]->state == DONE) done |= 1u << (t - warp);
        }
        unsigned there = threads - warp >= 32 ? ~0u : (1u << (threads - warp)) - 1;
        if (!waiting || (mask & there & ~done & ~waiting)) continue;
        for (unsigned t = warp; t < std::min(threads, warp + 32); t++)
            if (fibers[t]->state == AT_WARP_BARRIER) { fibers[t]->state = READY; any = true; }
    }
    return any;
}

// False when the threads of a block wait for each other at different barriers.
inline bool run_block(unsigned threads) {
    std::fill(shared.begin(), shared.end(), 0xff);
    for (unsigned t = 0; t < threads; t++) fibers[t]->state = READY;
    std::vector<unsigned> order(threads);
    for (unsigned t = 0; t < threads; t++) order[t] = t;
    do {
        for (unsigned t = threads; t > 1; t--) std::swap(order[t - 1], order[random_word() % t]);
        for (unsigned t : order) {
            Fiber& fiber = *fibers[t];
            if (fiber.state != READY) continue;
            current = t;
            threadIdx = {t, 0, 0};
            resume(fiber);
        }
    } while (release(threads));
    for (unsigned t = 0; t < threads; t++) if (fibers[t]->state != DONE) return false;
    return true;
}

inline bool run(unsigned x, unsigned y, unsigned threads, unsigned shared_bytes, const std::function<void()>& kernel) {
    body = &kernel;
    shared.assign(shared_bytes, 0xff);
    make_fibers(threads);
    gridDim = {x, y, 1};
    blockDim = {threads, 1, 1};
    for (uint64_t block = 0; block < uint64_t(x) * y; block++) {
        blockIdx = {unsigned(block % x), unsigned(block / x), 0};
        if (!run_block(threads)) return false;
    }
    return true;
}

// What a parameter takes: a word that begins with it.
template <class T> T parameter(const uint64_t& word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

template <class... A, size_t... I>
void call_with(void (*kernel)(A...), const uint64_t* words, std::index_sequence<I...>) {
    kernel(parameter<A>(words[I])...);
}

// 0 well, 1 wrong number of arguments, 2 threads wait at different barriers.
template <class... A>
int call(void (*kernel)(A...), unsigned x, unsigned y, unsigned threads, unsigned shared_bytes, const uint64_t* words, unsigned len) {
    if (len != sizeof...(A)) return 1;
    return run(x, y, threads, shared_bytes, [&] { call_with(kernel, words, std::index_sequence_for<A...>()); }) ? 0 : 2;
}

template <class T> T exchanged(unsigned mask, T value, unsigned lane) {
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    fibers[current]->exchange = word;
    pause(AT_WARP_BARRIER, mask);
    unsigned from = current / 32 * 32 + lane % 32;
    T got = parameter<T>(from < fibers.size() ? fibers[from]->exchange : word);
    pause(AT_WARP_BARRIER, mask);
    return got;
}

template <class F> unsigned over_lanes(unsigned mask, unsigned value, unsigned first, F fold) {
    fibers[current]->exchange = value;
    pause(AT_WARP_BARRIER, mask);
    unsigned warp = current / 32 * 32, result = first;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1 && warp + lane < blockDim.x && fibers[warp + lane]->state != DONE)
            result = fold(result, unsigned(fibers[warp + lane]->exchange), lane);
    pause(AT_WARP_BARRIER, mask);
    return result;
}

}  // namespace emulated

inline void __syncthreads() { emulated::pause(emulated::AT_BLOCK_BARRIER, 0); }
inline void __syncwarp(unsigned mask = ~0u) { emulated::pause(emulated::AT_WARP_BARRIER, mask); }
template <class T> T __shfl_sync(unsigned mask, T value, int lane) { return emulated::exchanged(mask, value, lane); }
template <class T> T __shfl_xor_sync(unsigned mask, T value, int with) { return emulated::exchanged(mask, value, (threadIdx.x % 32) ^ with); }
template <class T> T __shfl_down_sync(unsigned mask, T value, int by) {
    unsigned lane = threadIdx.x % 32 + by;
    return emulated::exchanged(mask, value, lane < 32 ? lane : threadIdx.x % 32);
}
inline unsigned __ballot_sync(unsigned mask, int is_set) {
    return emulated::over_lanes(mask, is_set != 0, 0, [](unsigned a, unsigned b, unsigned lane) { return a | b << lane; });
}
inline int __any_sync(unsigned mask, int is_set) { return __ballot_sync(mask, is_set) != 0; }
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
    return emulated::over_lanes(mask, value, 0, [](unsigned a, unsigned b, unsigned) { return a | b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    return emulated::over_lanes(mask, value, 0, [](unsigned a, unsigned b, unsigned) { return std::max(a, b); });
}

template <class T> T atomicAdd(T* to, T value) { T old = *to; *to += value; return old; }
template <class T> T atomicOr(T* to, T value) { T old = *to; *to |= value; return old; }
template <class T> T atomicMin(T* to, T value) { T old = *to; *to = std::min(old, value); return old; }
template <class T> T atomicMax(T* to, T value) { T old = *to; *to = std::max(old, value); return old; }
inline long long __double_as_longlong(double x) { long long bits; std::memcpy(&bits, &x, 8); return bits; }
inline double __longlong_as_double(long long bits) { double x; std::memcpy(&x, &bits, 8); return x; }
template <class T> T __ldg(const T* from) { return *from; }
template <class T> T __ldcs(const T* from) { return *from; }
template <class T> void __stcs(T* to, T value) { *to = value; }
inline int __ffs(unsigned x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= unsigned(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
inline float __saturatef(float x) { return std::isnan(x) ? 0 : std::min(std::max(x, 0.0f), 1.0f); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline void __sincosf(float x, float* sin, float* cos) { *sin = std::sin(x); *cos = std::cos(x); }
inline void sincospif(float x, float* sin, float* cos) { *sin = float(std::sin(M_PI * double(x))); *cos = float(std::cos(M_PI * double(x))); }
inline void sincospi(double x, double* sin, double* cos) { *sin = std::sin(M_PI * x); *cos = std::cos(M_PI * x); }
using std::max;
using std::min;
