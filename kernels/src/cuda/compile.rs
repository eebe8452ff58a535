//! Kernels to machine code: by the run-time compiler, once for each device type, kept on disk.
//!
//! A cached file holds all that went into it before what came out, and is taken only where every byte of that is the same:
//! sources, options, device type, version of the compiler. One that is damaged is made again.

use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};
use rayon::prelude::*;

use super::driver::{HEADERS, Kernel};

/// A kernel that does not compile.
#[derive(Debug, thiserror::Error)]
#[error("CUDA kernel {kernel} does not compile for {architecture}: {log}")]
pub struct CompileError {
    kernel: &'static str,
    architecture: String,
    log: String,
}

/// Every kernel of this library, for a device of this compute capability.
pub(super) fn all(capability: (i32, i32)) -> Result<Vec<(&'static Kernel, Vec<u8>)>, CompileError> {
    let architecture = format!("sm_{}{}", capability.0, capability.1);
    let cache = cache_folder();
    super::kernels()
        .into_par_iter()
        .map(|kernel| Ok((kernel, cached(kernel, &architecture, cache.as_deref())?)))
        .collect()
}

/// `$XDG_CACHE_HOME/sideband/cuda`, `~/.cache/sideband/cuda`, or nowhere.
fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("sideband").join("cuda"))
}

fn cached(
    kernel: &'static Kernel,
    architecture: &str,
    cache: Option<&Path>,
) -> Result<Vec<u8>, CompileError> {
    let key = key(kernel, architecture);
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let file =
        cache.map(|folder| folder.join(format!("{}-{architecture}-{:016x}", kernel.name, hasher.finish())));
    if let Some(cubin) = file.as_deref().and_then(|file| taken(&std::fs::read(file).ok()?, &key)) {
        return Ok(cubin);
    }
    let cubin = compile(kernel, architecture)?;
    if let Some(file) = file {
        // A cache that cannot be written costs time, nothing else.
        let _ = keep(&file, &key, &cubin);
    }
    Ok(cubin)
}

/// All that decides what comes out.
fn key(kernel: &Kernel, architecture: &str) -> Vec<u8> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are ints that the call writes.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    let mut key = format!("{architecture} nvrtc {major}.{minor} {OPTIONS:?}\n").into_bytes();
    for text in HEADERS.iter().map(|(_, text)| *text).chain([kernel.source]) {
        key.extend_from_slice(&(text.len() as u64).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    key
}

/// The machine code of a cached file: length of the key, key, check sum of the code, code.
fn taken(bytes: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (held, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (sum, cubin) = rest.split_first_chunk::<8>()?;
    (held == key && u64::from_le_bytes(*sum) == check_sum(cubin)).then(|| cubin.to_vec())
}

fn keep(file: &Path, key: &[u8], cubin: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut bytes = (key.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&check_sum(cubin).to_le_bytes());
    bytes.extend_from_slice(cubin);
    let part = file.with_extension(format!("part-{}", std::process::id()));
    std::fs::write(&part, bytes)?;
    std::fs::rename(part, file)
}

fn check_sum(cubin: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    cubin.hash(&mut hasher);
    hasher.finish()
}

const OPTIONS: [&str; 2] = ["--std=c++17", "--extra-device-vectorization"];

fn compile(kernel: &'static Kernel, architecture: &str) -> Result<Vec<u8>, CompileError> {
    let fails =
        |log: String| CompileError { kernel: kernel.name, architecture: architecture.to_owned(), log };
    let text = |text: &str| CString::new(text).map_err(|_| fails("a source holds a zero byte".to_owned()));
    let source = text(kernel.source)?;
    let name = text(&format!("{}.cu", kernel.name))?;
    let headers = HEADERS.iter().map(|(_, header)| text(header)).collect::<Result<Vec<_>, _>>()?;
    let names = HEADERS.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>, _>>()?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
    let (header_pointers, name_pointers) = (pointers(&headers), pointers(&names));
    let mut options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
    options.push(format!("--gpu-architecture={architecture}"));
    let mut program = std::ptr::null_mut();
    // SAFETY: every pointer is that of a zero-terminated text above, and there are as many as `HEADERS`; the program is
    // destroyed once, at the end, and not used after.
    unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            source.as_ptr(),
            name.as_ptr(),
            headers.len() as i32,
            header_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
        .result()
        .map_err(|error| fails(format!("{error:?}")))?;
        let compiled = result::compile_program(program, &options);
        let cubin = match compiled {
            Ok(()) => cubin(program).map_err(|error| fails(format!("{error:?}"))),
            Err(error) => Err(fails(log(program).unwrap_or_else(|| format!("{error:?}")))),
        };
        let _ = result::destroy_program(program);
        cubin
    }
}

/// # Safety
/// `program` was compiled.
unsafe fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut len = 0;
    // SAFETY: the program was compiled; the code is as long as the compiler says just before it writes it.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &mut len).result()?;
        let mut cubin = vec![0u8; len];
        sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()).result()?;
        Ok(cubin)
    }
}

/// What the compiler said.
///
/// # Safety
/// `program` was created.
unsafe fn log(program: sys::nvrtcProgram) -> Option<String> {
    // SAFETY: as the caller says.
    let log = unsafe { result::get_program_log(program) }.ok()?;
    let bytes: Vec<u8> = log.iter().map(|&byte| byte as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).ok()?;
    Some(text.to_string_lossy().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_kernel_is_taken_only_where_all_of_it_is_the_same() {
        let folder = std::env::temp_dir().join(format!("sideband-cubins-{}", std::process::id()));
        let file = folder.join("kernel");
        keep(&file, b"key", b"code").unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(taken(&bytes, b"key").as_deref(), Some(&b"code"[..]));
        assert_eq!(taken(&bytes, b"kez"), None);
        for len in 0..bytes.len() {
            assert_eq!(taken(&bytes[..len], b"key"), None, "cut to {len}");
            let mut flipped = bytes.clone();
            flipped[len] ^= 1;
            assert_eq!(taken(&flipped, b"key"), None, "flipped at {len}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
