// bslz4_decode: bitshuffled, LZ4-compressed frames to counts. // hot
//   in   bytes   u8                        frames as the detector wrote them, anywhere, and 64 readable bytes after the last
//        frames  uint2 [frame]             where each begins in `bytes`, and its length; length 0: none of this kernel's business
//   out  out     u8 [frame][frame_bytes]   counts of 1, 2 or 4 bytes
//        failed  u8 [frame]                becomes 1 where a frame is damaged; its counts are then of no use
// A warp takes `blocks_per_part` blocks of a frame, one after the other; `parts` warps take a frame. A block of up to
// block_bytes, a multiple of eight counts and at most 32 KiB, lies in shared memory of the warp while it is decoded.
// Header, sizes and alignment of counts are checked in cuda.rs; all that is read from the frame after its header, here.
//
// LZ4 is a chain: a sequence says where the next begins. Here a lane a byte says where the next sequence would begin if one
// began at its byte, and the warp goes along. 32 sequences then are taken at once, one a lane: lengths, places in the block and
// every check; literals of four at a time. The block is zero before, and most matches copy zeros: those are seen by their
// sources, 32 at once, and cost nothing more. The others are copied in their order.
#include "complex.cuh"

namespace bslz4 {

const u32 WARP = 0xffffffffu;
const u32 NO_NEXT = 64;      // a sequence that is not told by 32 bytes
const u32 SHORT_SPAN = 32;   // sources of matches up to this length are looked at by one lane
const u32 LONG_LITERALS = 64;

__device__ __forceinline__ u32 byte_at(const u8* p) { return __ldg(p); }

// Reads the size of a block; false where the frame ends before it does. `at` is then where the block begins.
__device__ __forceinline__ bool block_size(const u8* src, u32 n, u32& at, u32& size) {
    if (n - at < 4) return false;
    const u8* p = src + at;
    size = byte_at(p) << 24 | byte_at(p + 1) << 16 | byte_at(p + 2) << 8 | byte_at(p + 3);
    at += 4;
    return size <= n - at;
}

// The rest of a length: bytes until one is not 255. False where the block ends before.
__device__ bool extend(const u8* src, u32 n, u32& ip, u32& length, u32 lane) {
    for (;;) {
        const u32 w = byte_at(src + ip + lane);
        const u32 ends = __ballot_sync(WARP, w != 255);
        const u32 place = ends ? __ffs(ends) - 1 : 32;
        length += 255 * place;
        ip += place;
        if (ip >= n) return false;
        if (ends) {
            length += __shfl_sync(WARP, w, place);
            ip++;
            return true;
        }
    }
}

// Whether buf[from .. from + len] is not all zero; len is 1 to 32.
__device__ __forceinline__ bool has_bits(const u8* buf, u32 from, u32 len) {
    const u32 end = from + len;
    u32 bits = 0, head = WARP << (from & 3) * 8;
    for (u32 at = from & ~3u; at < end; at += 4) {
        u32 word = *(const u32*)(buf + at) & head;
        if (end - at < 4) word &= WARP >> (4 - (end - at)) * 8;
        bits |= word;
        head = WARP;
    }
    return bits != 0;
}

// What lies `back` bytes before `to` comes again, `run` bytes of it. Zeros are there already.
__device__ __forceinline__ void copy_match(u8* buf, u32 to, u32 back, u32 run, u32 lane, u32& top) {
    const u32 from = to - back;
    if (back >= 32) {
        for (u32 i = lane; i < run + lane; i += 32) {
            const u32 byte = i < run ? buf[from + i] : 0;
            if (byte) {
                buf[to + i] = byte;
                top = to + i + 1;
            }
            __syncwarp();
        }
        return;
    }
    u32 of_pattern = lane % back;
    const u32 step = 32 % back;
    for (u32 i = lane; i < run; i += 32) {
        const u32 byte = buf[from + of_pattern];
        if (byte) {
            buf[to + i] = byte;
            top = to + i + 1;
        }
        of_pattern += step;
        if (of_pattern >= back) of_pattern -= back;
    }
    __syncwarp();
}

// Decodes an LZ4 block of n bytes to `len` bytes in `buf`, which is zero. False where it is not one. `top`: no byte from
// there on is anything but zero.
__device__ __forceinline__ bool unpack(const u8* src, u32 n, u8* buf, u32 len, u32& top, u32 lane) {
    top = 0;
    if (n == 0 || n > len + len / 255 + 16) return false;
    u32 ip = 0, op = 0;
    bool is_last = false;
    while (!is_last) {
        // up to 32 sequences: a lane has either the place of its token, or all that its sequence says
        u32 num = 0, token_at = 0, from = 0, literals = 0, run = 0, back = 0;
        while (num < 32 && !is_last) {
            const u32 w = byte_at(src + ip + lane);
            u32 after = lane + 3 + (w >> 4);
            const u32 more = __shfl_sync(WARP, w, after & 31);
            bool is_told = w < 0xf0;
            if ((w & 15) == 15) {
                is_told &= after < 32 && more != 255;
                after++;
            }
            const u32 next = is_told && ip + after < n ? after : NO_NEXT;
            u32 place = 0;
            bool is_stuck = false;
            while (place < 32 && num < 32) {
                const u32 to = __shfl_sync(WARP, next, place);
                if (to == NO_NEXT) {
                    is_stuck = true;
                    break;
                }
                if (lane == num) token_at = ip + place;
                num++;
                place = to;
            }
            ip += place;
            if (!is_stuck) continue;
            // long ones, the last one, and those that are wrong
            const u32 token = byte_at(src + ip++);
            u32 l = token >> 4, m = token & 15, distance = 0;
            if (l == 15 && !extend(src, n, ip, l, lane)) return false;
            if (l > n - ip) return false;
            const u32 first = ip;
            ip += l;
            if (ip == n) {
                is_last = true;
                m = 0;
            } else {
                if (n - ip < 3) return false;
                distance = byte_at(src + ip) | byte_at(src + ip + 1) << 8;
                ip += 2;
                if (m == 15 && !extend(src, n, ip, m, lane)) return false;
                if (ip >= n) return false;
                m += 4;
            }
            if (lane == num) {
                from = first;
                literals = l;
                run = m;
                back = distance;
            }
            num++;
        }
        if (lane < num && from == 0) {
            const u32 token = byte_at(src + token_at);
            from = token_at + 1;
            literals = token >> 4;
            const u8* p = src + from + literals;
            back = byte_at(p) | byte_at(p + 1) << 8;
            run = (token & 15) + 4;
            if (run == 19) run += byte_at(p + 2);
        }
        // where each begins; every sequence is checked before anything of the 32 is written
        u32 end = literals + run;
        for (u32 by = 1; by < 32; by *= 2) {
            const u32 before = __shfl_sync(WARP, end, lane - by & 31);
            if (lane >= by) end += before;
        }
        end += op;
        const u32 start = end - literals - run, to = start + literals;
        op = __shfl_sync(WARP, end, 31);
        if (op > len || __any_sync(WARP, run && back - 1 >= to)) return false;
        // literals: eight lanes a sequence
        const u32 is_long = __ballot_sync(WARP, literals >= LONG_LITERALS);
        const u32 places = from | start << 16;
#pragma unroll 1
        for (u32 first = 0; first < num; first += 4) {
            const u32 owner = first + (lane >> 3), both = __shfl_sync(WARP, places, owner);
            u32 count = __shfl_sync(WARP, literals, owner);
            if (count >= LONG_LITERALS) count = 0;
            const u8* p = src + (both & 0xffff);
            const u32 at = both >> 16, i = lane & 7;
            const u32 one = i < count ? byte_at(p + i) : 0, two = i + 8 < count ? byte_at(p + i + 8) : 0;
            if (one) {
                buf[at + i] = one;
                top = max(top, at + i + 1);
            }
            if (two) {
                buf[at + i + 8] = two;
                top = max(top, at + i + 9);
            }
            for (u32 j = i + 16; j < count; j += 8) {
                const u32 byte = byte_at(p + j);
                if (byte) {
                    buf[at + j] = byte;
                    top = max(top, at + j + 1);
                }
            }
        }
        for (u32 left = is_long; left; left &= left - 1) {
            const u32 owner = __ffs(left) - 1, both = __shfl_sync(WARP, places, owner);
            const u32 count = __shfl_sync(WARP, literals, owner);
            const u8* p = src + (both & 0xffff);
            u8* at = buf + (both >> 16);
#pragma unroll 4
            for (u32 i = lane; i < count; i += 32) at[i] = byte_at(p + i);
            top = max(top, (both >> 16) + count);
        }
        __syncwarp();
        // matches
        const u32 source = to - back, span = min(run, back);
        bool is_needed = false;
        if (run) is_needed = span > SHORT_SPAN || has_bits(buf, source, span);
        const u32 ends = to | source << 16;
        u32 pending = __ballot_sync(WARP, is_needed);
        __syncwarp();
        while (pending) {
            const u32 owner = __ffs(pending) - 1;
            const u32 both = __shfl_sync(WARP, ends, owner), that_run = __shfl_sync(WARP, run, owner);
            const u32 that_to = both & 0xffff, that_from = both >> 16;
            u32 written = 0;
            if (that_run <= 32 && that_run <= that_to - that_from) {
                const u32 byte = lane < that_run ? buf[that_from + lane] : 0;
                if (byte) {
                    buf[that_to + lane] = byte;
                    written = that_to + lane + 1;
                }
                __syncwarp();
            } else {
                copy_match(buf, that_to, that_to - that_from, that_run, lane, written);
            }
            top = max(top, written);
            // zeros that were looked at before are none any more
            const bool is_met = run && source < that_to + that_run && source + span > that_to;
            pending = (pending | __ballot_sync(WARP, is_met)) & (WARP << owner << 1);
        }
    }
    top = __reduce_max_sync(WARP, top);
    return op == len;
}

// Four 8x8 bit matrices, one in each byte of the eight words, transposed. The upper four words are zero unless ALL.
template <bool ALL> __device__ __forceinline__ void transpose_bits(u32 (&x)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (ALL) {
            const u32 t = (x[i] >> 4 ^ x[i + 4]) & 0x0f0f0f0fu;
            x[i + 4] ^= t;
            x[i] ^= t << 4;
        } else {
            x[i + 4] = x[i] >> 4 & 0x0f0f0f0fu;
            x[i] &= 0x0f0f0f0fu;
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i & 2) continue;
        const u32 t = (x[i] >> 2 ^ x[i + 2]) & 0x33333333u;
        x[i + 2] ^= t;
        x[i] ^= t << 2;
    }
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        const u32 t = (x[i] >> 1 ^ x[i + 1]) & 0x55555555u;
        x[i + 1] ^= t;
        x[i] ^= t << 1;
    }
}

// Four lanes read the same 16 bytes of a plane; lane j of them keeps bytes j, j + 4, j + 8 and j + 12.
template <int PLANES> __device__ __forceinline__ void gather(u32 (&x)[8], const u8* planes, u32 plane_bytes, u32 lane) {
    const u32 selector = (lane & 3) | ((lane & 3) + 4) << 4;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i >= PLANES) {
            x[i] = 0;
            continue;
        }
        const uint4 v = *(const uint4*)(planes + i * plane_bytes);
        x[i] = __byte_perm(__byte_perm(v.x, v.y, selector), __byte_perm(v.z, v.w, selector), 0x5410);
    }
    transpose_bits<(PLANES > 4)>(x);
}

// Byte s of a, b, c and d become word s.
__device__ __forceinline__ void transpose_bytes(u32 a, u32 b, u32 c, u32 d, u32 (&words)[4]) {
    const u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    const u32 high_ab = __byte_perm(a, b, 0x7362), high_cd = __byte_perm(c, d, 0x7362);
    words[0] = __byte_perm(ab, cd, 0x5410);
    words[1] = __byte_perm(ab, cd, 0x7632);
    words[2] = __byte_perm(high_ab, high_cd, 0x5410);
    words[3] = __byte_perm(high_ab, high_cd, 0x7632);
}

// The same where b and d are zero.
__device__ __forceinline__ void spread_bytes(u32 a, u32 c, u32 (&words)[4]) {
    const u32 low = __byte_perm(a, c, 0x5140), high = __byte_perm(a, c, 0x7362);
    words[0] = __byte_perm(low, 0, 0x4140);
    words[1] = __byte_perm(low, 0, 0x4342);
    words[2] = __byte_perm(high, 0, 0x4140);
    words[3] = __byte_perm(high, 0, 0x4342);
}

// Whether any of PLANES planes has a bit in the 128 bytes from `base` on.
template <int PLANES> __device__ __forceinline__ bool any_bit(const u8* planes, u32 plane_bytes, u32 base, u32 lane) {
    u32 bits = 0;
    if (base + lane * 4 < plane_bytes) {
#pragma unroll
        for (int i = 0; i < PLANES; i++) bits |= *(const u32*)(planes + i * plane_bytes + base + lane * 4);
    }
    return __any_sync(WARP, bits);
}

// Counts of one or two bytes from 16-byte pieces of planes; `out` begins at a multiple of 16.
template <int BYTES> __device__ __forceinline__ void write_wide(const u8* buf, u32 plane_bytes, u32 top, u8* out, u32 lane) {
#pragma unroll 1
    for (u32 base = 0; base < plane_bytes; base += 128) {
        const u32 piece = base + (lane >> 2) * 16;
        const bool is_there = piece < plane_bytes;
        const u8* planes = buf + (is_there ? piece : base);
        u8* to = out + (u64)(piece + (lane & 3)) * 8 * BYTES;
        u32 x[BYTES][8];
        if (top > 4 * plane_bytes && any_bit<4>(buf + 4 * plane_bytes, plane_bytes, base, lane))
            gather<8>(x[0], planes, plane_bytes, lane);
        else
            gather<4>(x[0], planes, plane_bytes, lane);
        bool is_small = true;
#pragma unroll
        for (int b = 1; b < BYTES; b++) {
            const u32 below = 8 * b * plane_bytes;
            if (top > below && any_bit<8>(buf + below, plane_bytes, base, lane)) {
                gather<8>(x[b], planes + below, plane_bytes, lane);
                is_small = false;
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) x[b][i] = 0;
            }
        }
        if (!is_there) continue;
        if (BYTES == 1) {
            u32 low[4], high[4];
            transpose_bytes(x[0][0], x[0][1], x[0][2], x[0][3], low);
            transpose_bytes(x[0][4], x[0][5], x[0][6], x[0][7], high);
#pragma unroll
            for (int s = 0; s < 4; s++) __stcs((uint2*)(to + s * 32), make_uint2(low[s], high[s]));
        } else if (BYTES == 2) {
            u32 words[4][4];
#pragma unroll
            for (int pair = 0; pair < 4; pair++) {
                if (is_small)
                    spread_bytes(x[0][2 * pair], x[0][2 * pair + 1], words[pair]);
                else
                    transpose_bytes(x[0][2 * pair], x[1 % BYTES][2 * pair], x[0][2 * pair + 1], x[1 % BYTES][2 * pair + 1], words[pair]);
            }
#pragma unroll
            for (int s = 0; s < 4; s++)
                __stcs((uint4*)(to + s * 64), make_uint4(words[0][s], words[1][s], words[2][s], words[3][s]));
        }
    }
}

// The same for counts of four bytes: a lane takes two bytes of every plane, those of two byte-planes in one word, so that the
// registers are enough.
__device__ __forceinline__ void gather_pairs(u32 (&x)[8], const u8* planes, u32 plane_bytes) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = *(const u16*)(planes + i * plane_bytes) | (u32) * (const u16*)(planes + (8 + i) * plane_bytes) << 16;
    transpose_bits<true>(x);
}

__device__ __forceinline__ void write_words(const u8* buf, u32 plane_bytes, u32 top, u8* out, u32 lane) {
#pragma unroll 1
    for (u32 at = lane * 2; at < plane_bytes; at += 64) {
        u32 low[8], high[8];
        gather_pairs(low, buf + at, plane_bytes);
        if (top > 16 * plane_bytes) {
            gather_pairs(high, buf + 16 * plane_bytes + at, plane_bytes);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) high[i] = 0;
        }
        uint4* to = (uint4*)(out + (u64)at * 32);
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const u32 selector = s ? 0x7531 : 0x6420;
#pragma unroll
            for (int i = 0; i < 8; i += 4)
                to[2 * s + i / 4] =
                    make_uint4(__byte_perm(low[i], high[i], selector), __byte_perm(low[i + 1], high[i + 1], selector),
                               __byte_perm(low[i + 2], high[i + 2], selector), __byte_perm(low[i + 3], high[i + 3], selector));
        }
    }
}

// Counts one by one, for planes and frames of any length.
template <int BYTES> __device__ __noinline__ void write_narrow(const u8* buf, u32 plane_bytes, u8* out, u32 lane) {
#pragma unroll 1
    for (u32 at = lane; at < plane_bytes; at += 32) {
        u8* to = out + (u64)at * 8 * BYTES;
#pragma unroll 1
        for (int b = 0; b < BYTES; b++) {
            u32 x[8];
#pragma unroll
            for (int i = 0; i < 8; i++) x[i] = buf[(8 * b + i) * plane_bytes + at];
            transpose_bits<true>(x);
#pragma unroll
            for (int i = 0; i < 8; i++) to[i * BYTES + b] = x[i];
        }
    }
}

template <int BYTES> __device__ __forceinline__ void write_counts(const u8* buf, u32 len, u32 top, u8* out, u32 lane) {
    const u32 plane_bytes = len / (8 * BYTES);
    if (plane_bytes % 16 || (u64)out % 16)
        write_narrow<BYTES>(buf, plane_bytes, out, lane);
    else if (top == 0)
        for (u32 i = lane * 16; i < len; i += 512) __stcs((uint4*)(out + i), make_uint4(0, 0, 0, 0));
    else if constexpr (BYTES == 4)
        write_words(buf, plane_bytes, top, out, lane);
    else if (len == 8192)
        write_wide<BYTES>(buf, 1024 / BYTES, top, out, lane);
    else
        write_wide<BYTES>(buf, plane_bytes, top, out, lane);
}

}  // namespace bslz4

extern "C" __global__ void __launch_bounds__(96, 9)
bslz4_decode(const u8* __restrict__ bytes, const uint2* __restrict__ frames, u8* out, u8* failed, u32 num_frames,
             u32 frame_bytes, u32 block_bytes, u32 parts, u32 blocks_per_part, u32 count_bytes) {
    using namespace bslz4;
    extern __shared__ unsigned char shared[];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 unit = blockIdx.x * (blockDim.x >> 5) + warp, frame = unit / parts;
    if (frame >= num_frames) return;
    const uint2 place = __ldg(frames + frame);
    const u8* src = bytes + place.x;
    const u32 n = place.y;
    if (n == 0) return;
    const u32 room = (block_bytes + 15) & ~15u;
    u8* buf = shared + warp * room;
    for (u32 i = lane * 16; i < room; i += 512) *(uint4*)(buf + i) = make_uint4(0, 0, 0, 0);
    __syncwarp();
    const u32 whole = frame_bytes / (8 * count_bytes) * (8 * count_bytes);
    const u32 num_blocks = (whole + block_bytes - 1) / block_bytes;
    const u32 first = (unit - frame * parts) * blocks_per_part, last = min(first + blocks_per_part, num_blocks);
    u8* frame_out = out + (u64)frame * frame_bytes;
    u32 at = 12, size = 0, ahead = 0;
    bool is_well = n >= 12;
    for (u32 block = 0; is_well && block < first; block++) {
        is_well = block_size(src, n, at, size);
        at += size;
    }
    for (u32 block = first; is_well && block < last; block++) {
        if (!block_size(src, n, at, size)) {
            is_well = false;
            break;
        }
        const u32 len = min(block_bytes, whole - block * block_bytes);
        u32 top = 0;
        is_well = unpack(src + at, size, buf, len, top, lane);
        if (!is_well) break;
        at += size;
        // the next block comes nearer while this one is written
        const u32 line = at + lane * 64;
        const u32 word = line < n ? __ldg((const u32*)((u64)(src + line) & ~(u64)3)) : 0;
        u8* to = frame_out + (u64)block * block_bytes;
        if (count_bytes == 2)
            write_counts<2>(buf, len, top, to, lane);
        else if (count_bytes == 1)
            write_counts<1>(buf, len, top, to, lane);
        else
            write_counts<4>(buf, len, top, to, lane);
        __syncwarp();
        for (u32 i = lane * 16; i < top; i += 512) *(uint4*)(buf + i) = make_uint4(0, 0, 0, 0);
        __syncwarp();
        ahead |= word;
    }
    if (is_well && last == num_blocks) {
        // counts that do not fill a group of eight are stored as they are
        const u32 left = frame_bytes - whole;
        is_well = n - at == left;
        if (is_well && lane < left) frame_out[whole + lane] = byte_at(src + at + lane);
    }
    // num_frames is never so large: this keeps the loads ahead
    if (lane == 0 && (!is_well || (ahead == 1 && num_frames == WARP))) failed[frame] = 1;
}
