//! Tests that run on every device.

/// The CUDA devices that tests run on: the emulated one in two orders of threads and queues; with `SIDEBAND_TEST_CUDA` the
/// machine's own.
pub(crate) fn cuda_devices() -> Vec<crate::Cuda> {
    match std::env::var_os("SIDEBAND_TEST_CUDA") {
        Some(_) => vec![crate::Cuda::new(0).expect("SIDEBAND_TEST_CUDA asks for a CUDA device")],
        None => [1, 2].map(crate::Cuda::emulated).to_vec(),
    }
}

/// Makes one test a device of each body, `fn body<D: ...>(device: &D)`: on the processor and on [`cuda_devices`].
macro_rules! on_every_device {
    ($($body:ident),+ $(,)?) => {
        mod on_the_cpu {
            $(#[test]
            fn $body() {
                super::$body(&$crate::Cpu);
            })+
        }
        mod on_cuda {
            $(#[test]
            fn $body() {
                for device in $crate::devices::cuda_devices() {
                    super::$body(&device);
                }
            })+
        }
    };
}
