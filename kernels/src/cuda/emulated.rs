//! A driver that runs kernels on the processor, for machines without a device: their logic, barriers and fences, not
//! their speed.
//!
//! Kernels are compiled by the machine's C++ compiler behind `emulator.hpp`. The queues run as late as they may and in an
//! order drawn at random: what needs a fence and has none goes wrong, sooner or later. Memory that is freed is handed out
//! again at once, as the driver does in the order of the main queue; all of it lies between guards that are looked at.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CString, c_char, c_int, c_uint};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::driver::{Driver, DriverError, HEADERS, Kernel, Launch, Queue};

/// Bytes before and after each piece of memory, which nobody may write.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xa5;
const QUEUES: usize = 3;
/// What fresh memory holds: NaN in every floating-point type.
const FRESH: u8 = 0xff;

type LaunchFn =
    unsafe extern "C" fn(*const c_char, c_uint, c_uint, c_uint, c_uint, *const u64, c_uint, u64) -> c_int;

/// The emulated device.
#[derive(Debug)]
pub(super) struct Emulated(Mutex<State>);

#[derive(Debug)]
struct State {
    queues: [VecDeque<Command>; QUEUES],
    /// Commands that were issued to each queue, and run.
    issued: [u64; QUEUES],
    done: [u64; QUEUES],
    random: u64,
    /// Every piece of memory, by its address for the kernels.
    memory: HashMap<u64, Vec<u8>>,
    /// Freed pieces by their size.
    freed: HashMap<usize, Vec<u64>>,
    /// Pinned host memory by its address.
    pinned: HashMap<u64, Vec<u8>>,
    most_bytes: usize,
    used_bytes: usize,
}

#[derive(Debug)]
enum Command {
    Write { to: u64, bytes: Vec<u8> },
    WritePinned { to: u64, from: u64, bytes: usize },
    Zero { to: u64, bytes: usize },
    Launch { kernel: &'static Kernel, grid: [u32; 2], threads: u32, shared_bytes: u32, words: Vec<u64> },
    Wait { other: usize, until: u64 },
}

impl Emulated {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(State {
            queues: Default::default(),
            issued: [0; QUEUES],
            done: [0; QUEUES],
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            memory: HashMap::new(),
            freed: HashMap::new(),
            pinned: HashMap::new(),
            most_bytes: usize::MAX,
            used_bytes: 0,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for Emulated {
    fn name(&self) -> String {
        "emulated CUDA device".to_owned()
    }

    fn allocate(&self, bytes: usize) -> Result<u64, DriverError> {
        self.state().allocate(bytes)
    }

    fn free(&self, address: u64, bytes: usize) {
        let mut state = self.state();
        state.used_bytes -= bytes;
        state.freed.entry(bytes).or_default().push(address);
    }

    fn write(&self, queue: Queue, to: u64, from: &[u8]) -> Result<(), DriverError> {
        self.state().issue(queue, Command::Write { to, bytes: from.to_vec() });
        Ok(())
    }

    fn pin(&self, bytes: usize) -> Result<u64, DriverError> {
        let memory = vec![FRESH; bytes];
        let address = memory.as_ptr() as u64;
        self.state().pinned.insert(address, memory);
        Ok(address)
    }

    fn unpin(&self, address: u64, _: usize) {
        let mut state = self.state();
        for queue in 0..QUEUES {
            // what fails is told by whoever reads
            let _ = state.run_until_empty(queue);
        }
        state.pinned.remove(&address);
    }

    fn write_pinned(&self, queue: Queue, to: u64, from: &[u8]) -> Result<(), DriverError> {
        let command = Command::WritePinned { to, from: from.as_ptr() as u64, bytes: from.len() };
        self.state().issue(queue, command);
        Ok(())
    }

    fn read(&self, queue: Queue, from: u64, to: &mut [u8]) -> Result<(), DriverError> {
        let mut state = self.state();
        state.run_until_empty(queue as usize)?;
        // SAFETY: the caller vouches for `from`; the memory lives as long as `self`, and nothing else runs under its lock.
        let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, to.len()) };
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn fill_with_zeros(&self, queue: Queue, to: u64, bytes: usize) -> Result<(), DriverError> {
        self.state().issue(queue, Command::Zero { to, bytes });
        Ok(())
    }

    fn launch(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), DriverError> {
        let &Launch { kernel, grid, threads, shared_bytes, arguments } = launch;
        let words = arguments.iter().map(|argument| argument.word()).collect();
        self.state().issue(queue, Command::Launch { kernel, grid, threads, shared_bytes, words });
        Ok(())
    }

    fn wait(&self, queue: Queue, other: Queue) -> Result<(), DriverError> {
        let mut state = self.state();
        let until = state.issued[other as usize];
        state.issue(queue, Command::Wait { other: other as usize, until });
        Ok(())
    }

    fn memory(&self) -> Result<(u64, u64), DriverError> {
        let state = self.state();
        Ok(((state.most_bytes - state.used_bytes) as u64, state.most_bytes as u64))
    }
}

impl State {
    fn allocate(&mut self, bytes: usize) -> Result<u64, DriverError> {
        if bytes > self.most_bytes - self.used_bytes {
            return Err(DriverError::OutOfMemory);
        }
        self.used_bytes += bytes;
        if let Some(address) = self.freed.get_mut(&bytes).and_then(Vec::pop) {
            return Ok(address);
        }
        let mut piece = Vec::new();
        // kernels read 16 bytes at a time
        piece.try_reserve_exact(bytes + 2 * GUARD + 16).map_err(|_| DriverError::OutOfMemory)?;
        piece.resize(bytes + 2 * GUARD + 16, GUARD_BYTE);
        let first = (piece.as_ptr() as usize + GUARD).next_multiple_of(16) - piece.as_ptr() as usize;
        piece[first..first + bytes].fill(FRESH);
        let address = piece.as_ptr() as u64 + first as u64;
        self.memory.insert(address, piece);
        Ok(address)
    }

    fn issue(&mut self, queue: Queue, command: Command) {
        self.queues[queue as usize].push_back(command);
        self.issued[queue as usize] += 1;
    }

    fn may_run(&self, queue: usize) -> bool {
        match self.queues[queue].front() {
            None => false,
            Some(&Command::Wait { other, until }) => self.done[other] >= until,
            Some(_) => true,
        }
    }

    /// Runs what may run, in any order that the fences allow, until nothing is left in `queue`.
    fn run_until_empty(&mut self, queue: usize) -> Result<(), DriverError> {
        while !self.queues[queue].is_empty() {
            let may: Vec<usize> = (0..QUEUES).filter(|&queue| self.may_run(queue)).collect();
            let next = may[self.random() as usize % may.len()];
            if let Some(command) = self.queues[next].pop_front() {
                self.run(command)?;
                self.done[next] += 1;
            }
        }
        self.check_guards()
    }

    fn run(&mut self, command: Command) -> Result<(), DriverError> {
        match command {
            Command::Wait { .. } => {}
            // SAFETY: whoever issued it vouches for the memory, which lives as long as `self`.
            Command::Zero { to, bytes } => unsafe { std::ptr::write_bytes(to as *mut u8, 0, bytes) },
            // SAFETY: as above; `bytes` is memory of its own.
            Command::Write { to, bytes } => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len());
            },
            // SAFETY: as above; whoever issued it keeps `from` as it is until now.
            Command::WritePinned { to, from, bytes } => unsafe {
                std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes);
            },
            Command::Launch { kernel, grid, threads, shared_bytes, words } => {
                let name = CString::new(kernel.name).expect("names of kernels have no zero byte");
                let seed = self.random();
                // One emulator for all devices of the process: its threads are fibers of whoever calls.
                let launch = launch_fn().lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: `words` are as many as said; whoever issued it vouches for the memory they name.
                let code = unsafe {
                    (*launch)(
                        name.as_ptr(),
                        grid[0],
                        grid[1],
                        threads,
                        shared_bytes,
                        words.as_ptr(),
                        words.len() as c_uint,
                        seed,
                    )
                };
                let what = match code {
                    0 => return Ok(()),
                    1 => format!("got {} arguments, which is not its number of parameters", words.len()),
                    2 => "its threads wait at different barriers".to_owned(),
                    _ => "there is no such kernel".to_owned(),
                };
                return Err(DriverError::Failed(format!("kernel {}: {what}", kernel.name)));
            }
        }
        Ok(())
    }

    fn check_guards(&self) -> Result<(), DriverError> {
        for (address, piece) in &self.memory {
            let first = (*address - piece.as_ptr() as u64) as usize;
            let bytes = piece.len() - 2 * GUARD - 16;
            let guards = piece[..first].iter().chain(&piece[first + bytes..]);
            if guards.into_iter().any(|&byte| byte != GUARD_BYTE) {
                return Err(DriverError::Failed(format!(
                    "memory of {bytes} bytes was written beyond its ends"
                )));
            }
        }
        Ok(())
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The compiled kernels; one launch at a time.
fn launch_fn() -> &'static Mutex<LaunchFn> {
    static LAUNCH: OnceLock<Mutex<LaunchFn>> = OnceLock::new();
    LAUNCH.get_or_init(|| {
        let library = compiled(&program());
        // SAFETY: the library is the one just compiled from our own sources; it has no start-up code but that of its
        // static variables. It stays loaded for good.
        let library =
            Box::leak(Box::new(unsafe { libloading::Library::new(&library) }.unwrap_or_else(|error| {
                panic!("{}: {error}", library.display());
            })));
        // SAFETY: `program` defines this function with these parameters.
        let launch = unsafe { library.get::<LaunchFn>(b"emulated_launch\0") };
        Mutex::new(*launch.expect("the program defines it"))
    })
}

/// One C++ file with every kernel.
fn program() -> String {
    let mut program = String::from("#include \"emulator.hpp\"\n");
    for (name, _) in HEADERS {
        program += &format!("#include \"{name}\"\n");
    }
    for kernel in super::kernels() {
        // Memory whose size the launch says.
        let source = kernel.source.replace(
            "extern __shared__ unsigned char shared[];",
            "unsigned char* shared = emulated::shared.data();",
        );
        program += &format!("namespace in_{} {{\n{source}\n}}\n", kernel.name);
    }
    program += "extern \"C\" int emulated_launch(const char* name, unsigned x, unsigned y, unsigned threads, unsigned shared, \
                const uint64_t* words, unsigned len, uint64_t seed) {\n    emulated::seed = seed | 1;\n";
    for kernel in super::kernels() {
        let name = kernel.name;
        program += &format!(
            "    if (!std::strcmp(name, \"{name}\")) return emulated::call(in_{name}::{name}, x, y, threads, shared, words, len);\n"
        );
    }
    program + "    return 3;\n}\n"
}

/// Compiles the program, or finds it compiled.
fn compiled(program: &str) -> PathBuf {
    let emulator = include_str!("emulated/emulator.hpp");
    let mut hasher = DefaultHasher::new();
    (program, emulator, HEADERS).hash(&mut hasher);
    let base = std::env::temp_dir();
    let library = base.join(format!("sideband-emulated-{:016x}.so", hasher.finish()));
    if library.exists() {
        return library;
    }
    let folder = base.join(format!("sideband-emulated-{}", std::process::id()));
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a temporary file");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    write("emulator.hpp", emulator);
    write("kernels.cpp", program);
    HEADERS.iter().for_each(|(name, text)| write(name, text));
    let part = folder.join("kernels.so");
    run_compiler(&folder, &part);
    std::fs::rename(&part, &library).expect("a name in the same folder");
    let _ = std::fs::remove_dir_all(&folder);
    library
}

fn run_compiler(folder: &Path, to: &Path) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
    let output = Program::new(&compiler)
        .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-ffp-contract=off", "-w"])
        // checked jumps, which some systems ask for, take a jump to another fiber's stack for a fault
        .arg("-U_FORTIFY_SOURCE")
        .arg("-I")
        .arg(folder)
        .arg(folder.join("kernels.cpp"))
        .arg("-o")
        .arg(to)
        .output()
        .unwrap_or_else(|error| panic!("the C++ compiler {compiler} does not start: {error}"));
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
}
