//! The calls of the CUDA driver that sideband makes. One implementation loads the driver of the machine
//! ([`super::nvidia`]); one, for tests, runs the same kernels on the processor (`super::emulated`).

/// A kernel: its name, which is that of its file, and its source.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kernel {
    /// The symbol.
    pub(crate) name: &'static str,
    /// CUDA C++; it may include the files of [`HEADERS`].
    pub(crate) source: &'static str,
}

/// What kernels include, by name.
pub(crate) const HEADERS: [(&str, &str); 4] = [
    ("complex.cuh", include_str!("complex.cuh")),
    ("fft.cuh", include_str!("fft.cuh")),
    ("gamma.cuh", include_str!("gamma.cuh")),
    ("correct_runs.cuh", include_str!("correct_runs.cuh")),
];

/// Work is done in the order it was issued to a queue. Between queues only [`Driver::wait`] makes an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Where operations run, and where memory is taken and given back.
    Main,
    /// Where host memory goes up beside that.
    Upload,
    /// Where frames that came up are decoded, while the next ones come.
    Decode,
}

/// What a kernel is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// Device memory.
    Address(u64),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Argument {
    /// The bytes the kernel reads, in a word that is large enough for each.
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Address(word) | Self::U64(word) => word,
            Self::U32(value) => value.into(),
            Self::F32(value) => value.to_bits().into(),
            Self::F64(value) => value.to_bits(),
        }
    }
}

/// One run of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'static Kernel,
    /// Blocks along x and y.
    pub(crate) grid: [u32; 2],
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Shared memory beyond what the kernel declares.
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: &'a [Argument],
}

/// What a driver says no with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DriverError {
    OutOfMemory,
    Failed(String),
}

/// A device: memory and three queues. Addresses are those of the device; whoever passes one vouches for its length.
pub(crate) trait Driver: Send + Sync + std::fmt::Debug {
    fn name(&self) -> String;

    /// Memory in the order of [`Queue::Main`]: what was freed there before may be handed out again.
    fn allocate(&self, bytes: usize) -> Result<u64, DriverError>;

    /// Gives memory back, in the order of [`Queue::Main`].
    fn free(&self, address: u64, bytes: usize);

    /// Copies to the device in the order of `queue`; `from` may change as soon as this returns.
    fn write(&self, queue: Queue, to: u64, from: &[u8]) -> Result<(), DriverError>;

    /// Pinned host memory, with anything in it: its address, for the host.
    fn pin(&self, bytes: usize) -> Result<u64, DriverError>;

    /// Gives pinned memory back, after everything that was issued.
    fn unpin(&self, address: u64, bytes: usize);

    /// Copies pinned memory to the device in the order of `queue`; `from` must stay as it is until the queue is past it.
    fn write_pinned(&self, queue: Queue, to: u64, from: &[u8]) -> Result<(), DriverError>;

    /// Copies from the device after everything issued to `queue`.
    fn read(&self, queue: Queue, from: u64, to: &mut [u8]) -> Result<(), DriverError>;

    fn fill_with_zeros(&self, queue: Queue, to: u64, bytes: usize) -> Result<(), DriverError>;

    fn launch(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), DriverError>;

    /// What is issued to `queue` from now on waits for what was issued to `other` until now.
    fn wait(&self, queue: Queue, other: Queue) -> Result<(), DriverError>;

    /// Free and total bytes of device memory.
    fn memory(&self) -> Result<(u64, u64), DriverError>;
}
