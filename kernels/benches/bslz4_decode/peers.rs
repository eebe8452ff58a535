//! The C decoders, loaded if they are there.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use kernels::types::Count;
use libloading::Library;

/// Name in the tables.
pub const BITSHUFFLE: &str = "bitshuffle C 0.5.2";
/// Name in the tables.
pub const DECTRIS: &str = "DECTRIS C 0.3.1";

/// `bshuf_decompress_lz4(in, out, size, elem_size, block_size)`, sizes in elements; returns bytes read or a negative error.
type BshufDecompressLz4 = unsafe extern "C" fn(*const c_void, *mut c_void, usize, usize, usize) -> i64;
/// `compression_decompress_buffer(algorithm, dst, dst_size, src, src_size, elem_size)`; returns bytes written.
type CompressionDecompressBuffer =
    unsafe extern "C" fn(c_int, *mut c_char, usize, *const c_char, usize, usize) -> usize;

/// K. Masui's library.
pub struct Bitshuffle(Library);
/// DECTRIS's library.
pub struct Dectris(Library);

/// Those that were found.
pub struct Peers {
    /// K. Masui's library.
    pub bitshuffle: Option<Bitshuffle>,
    /// DECTRIS's library.
    pub dectris: Option<Dectris>,
}

impl Peers {
    /// Looks in `target/peers`, where `tests/peers/fetch-c-decoders.sh` puts them, and says what is missing.
    pub fn load() -> Self {
        Self {
            bitshuffle: load(BITSHUFFLE, "libbitshuffle.so").map(Bitshuffle),
            dectris: load(DECTRIS, "libdectris_compression.so").map(Dectris),
        }
    }
}

fn load(name: &str, file: &str) -> Option<Library> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")), PathBuf::from);
    let path = target.join("peers").join(file);
    // SAFETY: these libraries run nothing when loaded but the resolvers that choose their instructions.
    match unsafe { Library::new(&path) } {
        Ok(library) => Some(library),
        Err(_) => {
            println!("not run: {name}: no {}; tests/peers/fetch-c-decoders.sh makes it", path.display());
            None
        }
    }
}

impl Bitshuffle {
    /// Decodes a frame with 8192-byte blocks. It does not know the header, and trusts every size it reads.
    pub fn decode<T: Count>(&self, bytes: &[u8], out: &mut [T]) -> bool {
        let blocks = &bytes[12..];
        // SAFETY: the symbol has this type in bitshuffle.h; the frame was made by our encoder with blocks of 8192 bytes and
        // `out.len()` counts, which is all that the function relies on.
        let read = unsafe {
            let Ok(decompress) = self.0.get::<BshufDecompressLz4>(b"bshuf_decompress_lz4\0") else {
                return false;
            };
            let count_bytes = size_of::<T>();
            decompress(
                blocks.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                out.len(),
                count_bytes,
                8192 / count_bytes,
            )
        };
        usize::try_from(read) == Ok(blocks.len())
    }
}

impl Dectris {
    /// Decodes a frame.
    pub fn decode<T: Count>(&self, bytes: &[u8], out: &mut [T]) -> bool {
        const BSLZ4: c_int = 0;
        // SAFETY: the symbol has this type in compression.h, and both buffers are as long as said.
        let written = unsafe {
            let Ok(decompress) =
                self.0.get::<CompressionDecompressBuffer>(b"compression_decompress_buffer\0")
            else {
                return false;
            };
            let (dst, dst_bytes) = (out.as_mut_ptr().cast(), size_of_val(out));
            decompress(BSLZ4, dst, dst_bytes, bytes.as_ptr().cast(), bytes.len(), size_of::<T>())
        };
        written == size_of_val(out)
    }
}
