//! Sixteen numbers side by side: the unit in which spectra are stored and computed.
//!
//! A [`PixelBlock`] is one complex number for each of 16 neighbouring bright-field pixels, real parts first. With
//! pixels as lanes a Fourier transform over the scan, the overlap function and the sums over pixels are the same few
//! operations on whole registers, with no shuffles and no remainder loops.
//!
//! Code that computes on lanes is written once, generic over [`Simd`], and run by [`run`] on the best instruction
//! set the processor has ([`InstructionSet::detect`]). Read [`Simd`] and [`LaneFft`] first.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod fft;
mod functions;
mod portable;
#[cfg(test)]
mod tests;

pub use fft::LaneFft;
pub use functions::{atan, sin_cos_turns};

/// Pixels in a [`PixelBlock`].
pub const LANES: usize = 16;

/// Sixteen f32, aligned to a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct Lanes(pub [f32; LANES]);

/// One complex number for each of 16 pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct PixelBlock {
    /// Real parts.
    pub re: Lanes,
    /// Imaginary parts.
    pub im: Lanes,
}

/// Arithmetic on sixteen f32 at once. A value of an implementing type is the proof that the processor can do it.
///
/// Results differ between implementations by rounding (fused multiply-add or not), never within one.
pub trait Simd: Copy + Send + Sync {
    /// Sixteen f32 in registers.
    type V: Copy;

    /// The same number in every lane.
    fn splat(self, value: f32) -> Self::V;
    /// Reads sixteen numbers.
    fn load(self, from: &Lanes) -> Self::V;
    /// Writes sixteen numbers.
    fn store(self, value: Self::V, to: &mut Lanes);
    /// a + b.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// a - b.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// a b.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// a / b.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// a b + c, fused where the processor can.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c - a b, fused where the processor can.
    fn mul_sub_from(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The smaller.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// |a|.
    fn abs(self, a: Self::V) -> Self::V;
    /// The square root.
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `below` where a < b, else `otherwise`.
    fn select_less(self, a: Self::V, b: Self::V, below: Self::V, otherwise: Self::V) -> Self::V;
    /// |a| with the sign of `sign`, for a >= 0.
    fn with_sign_of(self, a: Self::V, sign: Self::V) -> Self::V;
    /// True when any lane of a is below its lane of b.
    fn any_less(self, a: Self::V, b: Self::V) -> bool;
    /// Turns (sin, cos) of an angle by as many quarter turns as the low bits of `quarters` count.
    /// `quarters` is a whole number plus 1.5 * 2^23, so that its low bits are the number's.
    fn add_quarter_turns(self, quarters: Self::V, sin: Self::V, cos: Self::V) -> (Self::V, Self::V);

    /// The sum over lanes, always in the same order.
    #[inline(always)]
    fn sum(self, a: Self::V) -> f32 {
        let mut lanes = Lanes::default();
        self.store(a, &mut lanes);
        let mut x = lanes.0;
        for width in [8, 4, 2, 1] {
            for lane in 0..width {
                x[lane] += x[lane + width];
            }
        }
        x[0]
    }

    /// All lanes zero.
    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(0.0)
    }
}

/// Work written once for every instruction set. `run` must be `#[inline(always)]`, and so must what it calls.
pub trait LaneTask {
    /// What the work gives.
    type Output;
    /// Does the work with the arithmetic of `simd`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// What the processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// x86-64 with AVX-512F.
    Avx512,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// Anything else: plain loops, which the compiler maps to SSE2 or NEON.
    Portable,
}

impl InstructionSet {
    /// The best one this processor has. Asked once by the standard library, then remembered.
    pub fn detect() -> Self {
        Self::available()[0]
    }

    /// All this processor has, best first.
    pub fn available() -> Vec<Self> {
        let mut sets = Vec::with_capacity(3);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
                sets.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Self::Avx2);
            }
        }
        sets.push(Self::Portable);
        sets
    }
}

/// Runs lane work compiled for `set`, or for the portable set where the processor does not have it.
pub fn run<T: LaneTask>(set: InstructionSet, task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx2,fma")]
        fn on_avx512<T: LaneTask>(simd: avx512::Avx512, task: T) -> T::Output {
            task.run(simd)
        }
        #[target_feature(enable = "avx2,fma")]
        fn on_avx2<T: LaneTask>(simd: avx2::Avx2, task: T) -> T::Output {
            task.run(simd)
        }
        if set == InstructionSet::Avx512
            && let Some(simd) = avx512::Avx512::detect()
        {
            // SAFETY: `simd` exists, so the processor has AVX-512F, AVX2 and FMA.
            return unsafe { on_avx512(simd, task) };
        }
        if set == InstructionSet::Avx2
            && let Some(simd) = avx2::Avx2::detect()
        {
            // SAFETY: `simd` exists, so the processor has AVX2 and FMA.
            return unsafe { on_avx2(simd, task) };
        }
    }
    let _ = set;
    task.run(portable::Portable)
}
