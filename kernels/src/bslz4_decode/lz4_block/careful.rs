//! One LZ4 sequence in safe code, with every check.

use crate::bslz4_decode::BlockError;

/// How far a block is decoded: `read <= ` its end in the frame, `written <=` its decoded length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Where the next sequence begins, in bytes of the frame.
    pub(super) read: usize,
    /// Bytes decoded.
    pub(super) written: usize,
}

impl BlockError {
    /// Counts read positions from the start of the block.
    pub(super) fn counted_from(self, start: usize) -> Self {
        match self {
            Self::InputEnds { at } => Self::InputEnds { at: at - start },
            other => other,
        }
    }
}

impl Step {
    /// Takes one sequence. `src` ends where the block ends, `dst` is the whole decoded block. True: it was the last one.
    pub(super) fn careful(self, src: &[u8], dst: &mut [u8]) -> Result<(Self, bool), BlockError> {
        let Self { mut read, mut written } = self;
        let ends = BlockError::InputEnds { at: src.len() };
        let expected_bytes = dst.len();
        let too_long = |got_bytes| BlockError::TooLong { got_bytes, expected_bytes };

        let token = *src.get(read).ok_or(ends)?;
        read += 1;
        let literals = length(src, &mut read, token >> 4, dst.len())?;
        let from = src.get(read..).and_then(|rest| rest.get(..literals)).ok_or(ends)?;
        let to = dst.get_mut(written..).and_then(|rest| rest.get_mut(..literals));
        to.ok_or(too_long(written.saturating_add(literals)))?.copy_from_slice(from);
        read += literals;
        written += literals;
        if read == src.len() {
            return Ok((Self { read, written }, true));
        }

        let offset = src.get(read..).and_then(|rest| rest.first_chunk::<2>()).ok_or(ends)?;
        let offset = usize::from(u16::from_le_bytes(*offset));
        read += 2;
        let match_bytes = 4 + length(src, &mut read, token & 15, dst.len())?;
        if offset == 0 || offset > written {
            return Err(BlockError::Offset { got: offset, decoded: written });
        }
        if match_bytes > dst.len() - written {
            return Err(too_long(written.saturating_add(match_bytes)));
        }
        // What lies `offset` back repeats; each turn doubles what can be copied at once.
        let (start, end) = (written - offset, written + match_bytes);
        while written < end {
            let copied = (written - start).min(end - written);
            dst.copy_within(start..start + copied, written);
            written += copied;
        }
        Ok((Self { read, written }, false))
    }
}

/// A length: four bits of the token and, if they are 15, bytes until one is not 255. Stops adding above `enough`.
fn length(src: &[u8], read: &mut usize, nibble: u8, enough: usize) -> Result<usize, BlockError> {
    let mut length = usize::from(nibble);
    let mut more = nibble == 15;
    while more {
        let byte = *src.get(*read).ok_or(BlockError::InputEnds { at: src.len() })?;
        *read += 1;
        if length <= enough {
            length += usize::from(byte);
        }
        more = byte == 255;
    }
    Ok(length)
}
