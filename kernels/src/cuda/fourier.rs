//! What the transforms of `fft.cuh` need, and how lines are laid out for them.

use num_complex::{Complex32, Complex64};

use super::{Argument, Cuda, CudaBuffer};
use crate::device::{Device, DeviceError, Word};

/// Shared memory that every device from compute capability 8.0 on gives to a block.
const MOST_SHARED: usize = 96 << 10;

/// Bytes of device memory that stand in where lines are too long for shared memory.
const MOST_SCRATCH: usize = 1 << 30;

/// A complex number of the device.
pub(crate) trait Root: Word {
    /// exp(-2 pi i turns).
    fn root(turns: f64) -> Self;
}

impl Root for Complex32 {
    fn root(turns: f64) -> Self {
        let z = Complex64::root(turns);
        Self::new(z.re as f32, z.im as f32)
    }
}

impl Root for Complex64 {
    fn root(turns: f64) -> Self {
        Self::cis(-std::f64::consts::TAU * turns)
    }
}

/// The transform of one length.
#[derive(Debug)]
pub(crate) struct Fourier<T: Root> {
    plan: CudaBuffer<u32>,
    roots: CudaBuffer<T>,
}

impl<T: Root> Fourier<T> {
    pub(crate) fn new(device: &Cuda, len: usize) -> Result<Self, DeviceError> {
        let factors = factors(len);
        let too_long = |_| DeviceError::Failed {
            device: device.name(),
            what: format!("a transform of {len} values, expected at most 2^31"),
        };
        let short = i32::try_from(len).map_err(too_long)?;
        let mut plan = vec![short.unsigned_abs(), factors.len() as u32];
        plan.extend(factors);
        let roots: Vec<T> = (0..len).map(|j| T::root(j as f64 / len as f64)).collect();
        Ok(Self { plan: device.upload(&plan)?, roots: device.upload(&roots)? })
    }

    pub(crate) fn arguments(&self) -> [Argument; 2] {
        [self.plan.argument(), self.roots.argument()]
    }
}

/// Factors in the order of the passes: eights, fours and twos, then the other primes, the largest last.
fn factors(len: usize) -> Vec<u32> {
    let mut rest = len.max(1);
    let mut factors = Vec::new();
    for factor in [8, 4, 2] {
        while rest.is_multiple_of(factor) {
            factors.push(factor as u32);
            rest /= factor;
        }
    }
    let mut factor = 3;
    while rest > 1 {
        if factor * factor > rest {
            factor = rest;
        }
        while rest.is_multiple_of(factor) {
            factors.push(factor as u32);
            rest /= factor;
        }
        factor += 2;
    }
    factors
}

/// Where the lines of a block are.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Stands in for shared memory; null where lines fit there.
    scratch: Option<CudaBuffer<u8>>,
    /// Shared memory of a block.
    pub(crate) shared_bytes: u32,
    /// Blocks that may run at a time: all, or as many as there is scratch for.
    pub(crate) most_blocks: usize,
}

impl Lines {
    /// For blocks that need so many bytes each, of which there are `blocks`.
    pub(crate) fn new(device: &Cuda, bytes: usize, blocks: usize) -> Result<Self, DeviceError> {
        if bytes <= MOST_SHARED {
            return Ok(Self { scratch: None, shared_bytes: bytes as u32, most_blocks: blocks });
        }
        let most_blocks = (MOST_SCRATCH / bytes).clamp(1, blocks.max(1));
        let scratch = device.uninitialised(bytes.saturating_mul(most_blocks))?;
        Ok(Self { scratch: Some(scratch), shared_bytes: 0, most_blocks })
    }

    /// For blocks that must all run at a time.
    pub(crate) fn of_all(device: &Cuda, bytes: usize, blocks: usize) -> Result<Self, DeviceError> {
        let lines = Self::new(device, bytes, blocks)?;
        match lines.most_blocks < blocks {
            false => Ok(lines),
            true => {
                let bytes = bytes.saturating_mul(blocks);
                Err(DeviceError::OutOfMemory { device: device.name(), bytes })
            }
        }
    }

    pub(crate) fn argument(&self) -> Argument {
        self.scratch.as_ref().map_or(Argument::Address(0), CudaBuffer::argument)
    }
}

/// How many transforms a block does, so that it stays within shared memory: a power of two, at most `most`.
pub(crate) fn batch(bytes_of_one: usize, most: usize) -> usize {
    1 << (MOST_SHARED / 2 / bytes_of_one.max(1)).clamp(1, most).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_multiply_to_the_length() {
        for len in (1..3000).chain([4096, 65_536, 65_537, 99_991, 1 << 20]) {
            let factors = factors(len);
            assert_eq!(factors.iter().map(|&factor| factor as usize).product::<usize>(), len);
            assert!(
                factors
                    .iter()
                    .all(|&factor| factor == 4 || factor == 8 || (2..factor).all(|d| factor % d != 0))
            );
        }
    }
}
