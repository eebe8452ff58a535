//! The driver of the machine, loaded at run time through cudarc.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, result, sys};

use super::compile::{self, CompileError};
use super::driver::{Driver, DriverError, Kernel, Launch, Queue};

/// Bytes of a pinned slab, and how many there are: pageable memory reaches the device at a sixth of the link.
const SLAB_BYTES: usize = 4 << 20;
const SLABS: usize = 4;

/// More shared memory than this a kernel must ask for.
const SHARED_BY_DEFAULT: u32 = 48 << 10;

/// Why CUDA cannot be used, in one line.
#[derive(Debug, thiserror::Error)]
pub enum CudaUnavailable {
    /// No driver.
    #[error("no NVIDIA driver library (libcuda) on this machine")]
    NoDriver,
    /// No compiler.
    #[error("the CUDA run-time compiler (libnvrtc) is not installed; it comes with the CUDA toolkit")]
    NoCompiler,
    /// A library that lacks functions.
    #[error("the CUDA libraries are there but lack functions: damaged, or older than CUDA 12")]
    TooOld,
    /// No such device.
    #[error("no CUDA device {ordinal}: there are {devices}")]
    NoDevice {
        /// The number asked for.
        ordinal: usize,
        /// Devices there are.
        devices: i32,
    },
    /// The driver refuses.
    #[error("the NVIDIA driver refuses: {0}")]
    Refused(String),
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// One device with its queues and loaded kernels.
#[derive(Debug)]
pub(super) struct Nvidia {
    context: Arc<CudaContext>,
    name: String,
    main: Stream,
    upload: Stream,
    decode: Stream,
    functions: Mutex<HashMap<&'static str, Function>>,
    slabs: Mutex<Slabs>,
}

#[derive(Debug)]
struct Stream {
    stream: sys::CUstream,
    /// The end of what was issued, whenever another queue is to wait for it.
    reached: sys::CUevent,
}

#[derive(Clone, Copy, Debug)]
struct Function(sys::CUfunction);

/// Pinned host memory that goes round.
#[derive(Debug)]
struct Slabs {
    slabs: Vec<(*mut u8, sys::CUevent)>,
    next: usize,
}

// SAFETY: the handles are the driver's own, which may be used from any thread whose context is set (`bind`); the memory of
// `Slabs` is only reached through its mutex.
unsafe impl Send for Nvidia {}
// SAFETY: as above.
unsafe impl Sync for Nvidia {}

impl Nvidia {
    pub(super) fn new(ordinal: usize) -> Result<Self, CudaUnavailable> {
        // SAFETY: loads the libraries and drops them again; their start-up code expects no state of ours.
        let (has_driver, has_compiler) =
            unsafe { (sys::is_culib_present(), cudarc::nvrtc::sys::is_culib_present()) };
        if !has_driver {
            return Err(CudaUnavailable::NoDriver);
        }
        if !has_compiler {
            return Err(CudaUnavailable::NoCompiler);
        }
        // A library that lacks a function makes the loader panic.
        std::panic::catch_unwind(|| Self::open(ordinal)).unwrap_or(Err(CudaUnavailable::TooOld))
    }

    fn open(ordinal: usize) -> Result<Self, CudaUnavailable> {
        let refused = |error: result::DriverError| CudaUnavailable::Refused(words(&error));
        result::init().map_err(refused)?;
        let devices = result::device::get_count().map_err(refused)?;
        if ordinal >= usize::try_from(devices).unwrap_or(0) {
            return Err(CudaUnavailable::NoDevice { ordinal, devices });
        }
        let context = CudaContext::new(ordinal).map_err(refused)?;
        context.bind_to_thread().map_err(refused)?;
        let capability = context.compute_capability().map_err(refused)?;
        keep_freed_memory(&context).map_err(refused)?;
        let device = Self {
            name: context.name().map_err(refused)?,
            main: Stream::new().map_err(refused)?,
            upload: Stream::new().map_err(refused)?,
            decode: Stream::new().map_err(refused)?,
            functions: Mutex::default(),
            slabs: Mutex::new(Slabs::new().map_err(refused)?),
            context,
        };
        let cubins = compile::all(capability)?;
        let mut functions = HashMap::with_capacity(cubins.len());
        for (kernel, cubin) in cubins {
            functions.insert(kernel.name, load(kernel, &cubin).map_err(refused)?);
        }
        device.functions.lock().unwrap_or_else(PoisonError::into_inner).extend(functions);
        Ok(device)
    }

    fn bind(&self) -> Result<(), DriverError> {
        self.context.bind_to_thread().map_err(|error| failed(&error))
    }

    fn stream(&self, queue: Queue) -> &Stream {
        match queue {
            Queue::Main => &self.main,
            Queue::Upload => &self.upload,
            Queue::Decode => &self.decode,
        }
    }
}

impl Driver for Nvidia {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn allocate(&self, bytes: usize) -> Result<u64, DriverError> {
        self.bind()?;
        // SAFETY: the stream is ours; the memory is handed on as uninitialised.
        unsafe { result::malloc_async(self.main.stream, bytes) }.map_err(|error| failed(&error))
    }

    fn free(&self, address: u64, _: usize) {
        // A device that is gone has freed everything itself.
        if self.bind().is_ok() {
            // SAFETY: `address` came from `allocate` and its only owner is being dropped; what uses it was issued to this
            // stream before, or is waited for by it.
            let _ = unsafe { result::free_async(address, self.main.stream) };
        }
    }

    fn write(&self, queue: Queue, to: u64, from: &[u8]) -> Result<(), DriverError> {
        self.bind()?;
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        for (part, at) in from.chunks(SLAB_BYTES).zip((to..).step_by(SLAB_BYTES)) {
            slabs.send(self.stream(queue).stream, at, part).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn pin(&self, bytes: usize) -> Result<u64, DriverError> {
        self.bind()?;
        // SAFETY: plain pinned memory, handed on as uninitialised.
        unsafe { result::malloc_host(bytes, 0) }.map(|memory| memory as u64).map_err(|error| failed(&error))
    }

    fn unpin(&self, address: u64, _: usize) {
        if self.bind().is_ok() {
            // SAFETY: `address` came from `pin` and its only owner is being dropped; no copy from it is under way once the
            // queues are empty. A device that is gone has freed everything itself.
            unsafe {
                for stream in [&self.main, &self.upload, &self.decode] {
                    let _ = result::stream::synchronize(stream.stream);
                }
                let _ = result::free_host(address as *mut std::ffi::c_void);
            }
        }
    }

    fn write_pinned(&self, queue: Queue, to: u64, from: &[u8]) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: the caller vouches for `to`, and for `from` until the queue is past this.
        unsafe { result::memcpy_htod_async(to, from, self.stream(queue).stream) }
            .map_err(|error| failed(&error))
    }

    fn read(&self, queue: Queue, from: u64, to: &mut [u8]) -> Result<(), DriverError> {
        self.bind()?;
        let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        slabs.receive(self.stream(queue).stream, from, to).map_err(|error| failed(&error))
    }

    fn fill_with_zeros(&self, queue: Queue, to: u64, bytes: usize) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: the caller vouches for `to` and `bytes`.
        unsafe { result::memset_d8_async(to, 0, bytes, self.stream(queue).stream) }
            .map_err(|error| failed(&error))
    }

    fn launch(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), DriverError> {
        self.bind()?;
        let functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&Function(function)) = functions.get(launch.kernel.name) else {
            return Err(DriverError::Failed(format!("kernel {} is not loaded", launch.kernel.name)));
        };
        drop(functions);
        let mut parameters: Vec<u64> = launch.arguments.iter().map(|argument| argument.word()).collect();
        let mut addresses: Vec<*mut std::ffi::c_void> =
            parameters.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let [x, y] = launch.grid;
        // SAFETY: the function is loaded for this context; each address is that of a word which holds its parameter, and
        // the driver copies them before it returns; `Cuda::launch` vouches for the memory the kernel touches.
        unsafe {
            if launch.shared_bytes > SHARED_BY_DEFAULT {
                let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                result::function::set_function_attribute(function, attribute, launch.shared_bytes as i32)
                    .map_err(|error| failed(&error))?;
            }
            result::launch_kernel(
                function,
                (x, y, 1),
                (launch.threads, 1, 1),
                launch.shared_bytes,
                self.stream(queue).stream,
                &mut addresses,
            )
        }
        .map_err(|error| match failed(&error) {
            DriverError::Failed(what) => {
                DriverError::Failed(format!("kernel {}: {what}", launch.kernel.name))
            }
            out_of_memory => out_of_memory,
        })
    }

    fn wait(&self, queue: Queue, other: Queue) -> Result<(), DriverError> {
        self.bind()?;
        let other = self.stream(other);
        // SAFETY: both handles live as long as `self`. The wait takes the event as recorded last, which is just before.
        unsafe {
            result::event::record(other.reached, other.stream).and_then(|()| {
                result::stream::wait_event(
                    self.stream(queue).stream,
                    other.reached,
                    sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT,
                )
            })
        }
        .map_err(|error| failed(&error))
    }

    fn memory(&self) -> Result<(u64, u64), DriverError> {
        self.bind()?;
        let (free, total) = result::mem_get_info().map_err(|error| failed(&error))?;
        Ok((free as u64, total as u64))
    }
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        let slabs = self.slabs.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nothing is issued any more; handles and memory were made in `open` and are given back once. A device that
        // was lost refuses, and has nothing to give back.
        unsafe {
            for stream in [&self.main, &self.upload, &self.decode] {
                let _ = result::stream::synchronize(stream.stream);
                let _ = result::stream::destroy(stream.stream);
                let _ = result::event::destroy(stream.reached);
            }
            for (memory, event) in slabs.slabs.drain(..) {
                let _ = result::free_host(memory.cast());
                let _ = result::event::destroy(event);
            }
        }
    }
}

impl Stream {
    fn new() -> Result<Self, result::DriverError> {
        Ok(Self {
            stream: result::stream::create(result::stream::StreamKind::NonBlocking)?,
            reached: new_event()?,
        })
    }
}

impl Slabs {
    fn new() -> Result<Self, result::DriverError> {
        let mut slabs = Vec::with_capacity(SLABS);
        for _ in 0..SLABS {
            // SAFETY: plain pinned memory; its content is never read before it was written.
            let memory = unsafe { result::malloc_host(SLAB_BYTES, 0) }?;
            slabs.push((memory.cast(), new_event()?));
        }
        Ok(Self { slabs, next: 0 })
    }

    /// Copies up to a slab to the device.
    fn send(&mut self, stream: sys::CUstream, to: u64, part: &[u8]) -> Result<(), result::DriverError> {
        assert!(part.len() <= SLAB_BYTES);
        let (memory, event) = self.slabs[self.next];
        self.next = (self.next + 1) % self.slabs.len();
        // SAFETY: the slab holds SLAB_BYTES and its last copy has ended when its event has; no other reference to it
        // exists, because `self` is borrowed mutably. The caller vouches for `to`.
        unsafe {
            result::event::synchronize(event)?;
            let slab = std::slice::from_raw_parts_mut(memory, part.len());
            slab.copy_from_slice(part);
            result::memcpy_htod_async(to, slab, stream)?;
            result::event::record(event, stream)
        }
    }

    /// Copies from the device, slab by slab: while one is emptied the next are filled.
    fn receive(
        &mut self,
        stream: sys::CUstream,
        from: u64,
        to: &mut [u8],
    ) -> Result<(), result::DriverError> {
        let mut parts = to.chunks_mut(SLAB_BYTES).zip((from..).step_by(SLAB_BYTES));
        let mut under_way = VecDeque::with_capacity(SLABS);
        loop {
            if under_way.len() < self.slabs.len()
                && let Some((part, at)) = parts.next()
            {
                let (memory, event) = self.slabs[self.next];
                self.next = (self.next + 1) % self.slabs.len();
                // SAFETY: the slab holds SLAB_BYTES, the last copy into or out of it has ended when its event has, and it is
                // not among those under way, which are fewer than there are slabs. The caller vouches for `from`.
                unsafe {
                    result::event::synchronize(event)?;
                    let slab = std::slice::from_raw_parts_mut(memory, part.len());
                    result::memcpy_dtoh_async(slab, at, stream)?;
                    result::event::record(event, stream)?;
                }
                under_way.push_back((part, memory, event));
                continue;
            }
            let Some((part, memory, event)) = under_way.pop_front() else { return Ok(()) };
            // SAFETY: the copy into the slab ends before it is read; nobody else has it, because `self` is borrowed mutably.
            unsafe {
                result::event::synchronize(event)?;
                part.copy_from_slice(std::slice::from_raw_parts(memory, part.len()));
            }
        }
    }
}

fn new_event() -> Result<sys::CUevent, result::DriverError> {
    result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
}

/// The pool of the device keeps what is freed: the next batch takes it again.
fn keep_freed_memory(context: &CudaContext) -> Result<(), result::DriverError> {
    let mut most = u64::MAX;
    // SAFETY: the device is that of the context; the attribute is a u64, which the call only reads.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(pool, attribute, std::ptr::from_mut(&mut most).cast())
    }
}

/// Loads a kernel; it stays loaded as long as the context.
fn load(kernel: &Kernel, cubin: &[u8]) -> Result<Function, result::DriverError> {
    let name = CString::new(kernel.name).expect("names of kernels have no zero byte");
    // SAFETY: `cubin` is a whole cubin, made by the compiler for this device; the driver copies it.
    unsafe {
        let module = result::module::load_data(cubin.as_ptr().cast())?;
        result::module::get_function(module, name).map(Function)
    }
}

fn failed(error: &result::DriverError) -> DriverError {
    match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => DriverError::OutOfMemory,
        _ => DriverError::Failed(words(error)),
    }
}

/// The driver's own words.
fn words(error: &result::DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("{error:?}"),
    }
}
