//! What can be wrong with the bytes of a frame.

/// Why a frame did not decode. Every text names what was got and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the header has.
    #[error("got {got_bytes} bytes, expected a header of {expected_bytes}")]
    ShortHeader {
        /// Bytes of the frame.
        got_bytes: usize,
        /// Bytes of the header.
        expected_bytes: usize,
    },
    /// The frame is not as long, decoded, as its shape and type ask for.
    #[error("got a frame of {got_bytes} bytes decoded, expected {expected_bytes}")]
    WrongLength {
        /// Decoded length by the frame's own word.
        got_bytes: u64,
        /// Rows x columns x bytes of a count.
        expected_bytes: usize,
    },
    /// The block size of the header is zero or does not hold whole groups of eight counts.
    #[error("got a block size of {got_bytes} bytes, expected a positive multiple of {expected_multiple}")]
    BlockSize {
        /// Block size in the header.
        got_bytes: u32,
        /// Eight counts, or 1 for an encoding without bit planes.
        expected_multiple: usize,
    },
    /// The frame ends inside a block.
    #[error("block {block}: got {got_bytes} bytes to the end of the frame, expected {expected_bytes}")]
    ShortBlock {
        /// Index of the block.
        block: usize,
        /// Bytes left in the frame.
        got_bytes: usize,
        /// Bytes that the size field or the block needs.
        expected_bytes: usize,
    },
    /// A block is not a valid LZ4 stream of its length.
    #[error("block {block}: {error}")]
    Block {
        /// Index of the block; 0 for a bare block.
        block: usize,
        /// What is wrong in it.
        error: BlockError,
    },
    /// The bytes after the last block are not the counts that do not fill a group of eight (none, for most shapes).
    #[error("got {got_bytes} bytes after the last block, expected {expected_bytes}")]
    Leftover {
        /// Bytes after the last block.
        got_bytes: usize,
        /// Bytes of the counts that no block holds.
        expected_bytes: usize,
    },
    /// The frame is too short for what it should decode to: LZ4 makes at most 255 bytes of one.
    #[error("got {got_bytes} bytes, expected at least {expected_bytes} for a frame of this shape")]
    Implausible {
        /// Bytes of the frame.
        got_bytes: usize,
        /// Fewest bytes that a frame of this shape can have.
        expected_bytes: usize,
    },
    /// No memory for the scratch of one block.
    #[error("no memory for a block of {got_bytes} bytes")]
    OutOfMemory {
        /// Bytes of the block, never more than the frame has decoded.
        got_bytes: usize,
    },
}

/// Why one LZ4 block did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The block ends where LZ4 needs more.
    #[error("lz4 ends at byte {at}, expected more")]
    InputEnds {
        /// Bytes of the block read.
        at: usize,
    },
    /// The block decodes to more than its length.
    #[error("lz4 gives at least {got_bytes} bytes, expected {expected_bytes}")]
    TooLong {
        /// Decoded length reached.
        got_bytes: usize,
        /// Length of the block.
        expected_bytes: usize,
    },
    /// The block decodes to less than its length.
    #[error("lz4 gives {got_bytes} bytes, expected {expected_bytes}")]
    TooShort {
        /// Decoded length.
        got_bytes: usize,
        /// Length of the block.
        expected_bytes: usize,
    },
    /// A match reaches back to before the block, or nowhere.
    #[error("lz4 goes back {got} bytes, expected 1 to {decoded}")]
    Offset {
        /// The distance in the stream.
        got: usize,
        /// Bytes decoded so far.
        decoded: usize,
    },
}
