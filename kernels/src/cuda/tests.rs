//! Memory and queues of the device, on the emulated one.

use super::*;

#[test]
fn what_goes_up_comes_down() {
    let device = Cuda::emulated(1);
    let host: Vec<u32> = (0..10_000).collect();
    let buffer = device.upload(&host).unwrap();
    assert_eq!(device.download(&buffer).unwrap(), host);
    assert_eq!(device.download(&device.zeros::<u8>(77).unwrap()).unwrap(), [0; 77]);
    assert!(device.download(&device.upload::<u16>(&[]).unwrap()).unwrap().is_empty());
}

#[test]
fn a_kernel_with_the_wrong_number_of_arguments_is_refused() {
    let device = Cuda::emulated(1);
    let sums = device.zeros::<f64>(4).unwrap();
    let kernel = &crate::correct_spectra::SUM_PARTS;
    let launch = Launch { kernel, grid: [1, 1], threads: 32, shared_bytes: 0, arguments: &[sums.argument()] };
    // SAFETY: the emulated device compares the number of arguments before it runs anything.
    unsafe { device.launch(&launch) }.unwrap();
    let refused = device.download(&sums).unwrap_err().to_string();
    assert!(refused.contains("sum_parts: got 1 arguments"), "{refused}");
}
