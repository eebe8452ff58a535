//! Tests that run on every device.

/// Makes one test a device of each body, `fn body<D: ...>(device: &D)`: on the processor, and of the CUDA kernels on the
/// emulated device in two orders of threads and queues.
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
                for seed in [1, 2] {
                    super::$body(&$crate::Cuda::emulated(seed));
                }
            })+
        }
    };
}
