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

/// The schedule of a fault that another program had: batches are joined and dropped, and the next ones are sent up into
/// their memory while the join is still queued, which then reads what is of another batch. Gives the wrong sums.
fn wrong_sums(seed: u64, send: fn(&Cuda, &[f64]) -> CudaBuffer<f64>) -> usize {
    const LEN: usize = 512;
    let device = Cuda::emulated(seed);
    let batch = |number: usize| vec![number as f64; LEN];
    let mut joined = Vec::new();
    for round in 0..4 {
        let batches: Vec<_> = (0..8).map(|i| send(&device, &batch(8 * round + i))).collect();
        let sums = device.zeros::<f64>(LEN).unwrap();
        for batch in &batches {
            let launch = Launch {
                kernel: &crate::correct_spectra::SUM_PARTS,
                grid: [2, 1],
                threads: 256,
                shared_bytes: 0,
                arguments: &[batch.argument(), sums.argument(), Argument::U32(1), Argument::U64(LEN as u64)],
            };
            // SAFETY: sum_parts.cu reads one part of LEN values and adds to LEN of them.
            unsafe { device.launch(&launch) }.unwrap();
        }
        joined.push(sums);
        // the batches are dropped here, before anything of the join has run
    }
    let expected = |round: usize| (0..8).map(|i| (8 * round + i) as f64).sum::<f64>();
    let wrong = |(round, sums): (usize, &CudaBuffer<f64>)| {
        let sums = device.download(sums).unwrap();
        sums.iter().filter(|&&sum| sum != expected(round)).count()
    };
    joined.iter().enumerate().map(wrong).sum()
}

#[test]
fn memory_is_not_written_beside_the_queue_that_still_reads_it() {
    for seed in 0..12 {
        assert_eq!(wrong_sums(seed, |device, host| device.upload_beside(host).unwrap()), 0, "seed {seed}");
    }
}

#[test]
fn without_the_fence_that_schedule_goes_wrong() {
    let unfenced: fn(&Cuda, &[f64]) -> CudaBuffer<f64> = |device, host| {
        let buffer = device.uninitialised(host.len()).unwrap();
        device.write_beside(&buffer, host).unwrap();
        device.fence(Queue::Main, Queue::Upload).unwrap();
        buffer
    };
    let wrong = (0..12).filter(|&seed| wrong_sums(seed, unfenced) > 0).count();
    assert_eq!(wrong, 12, "the schedule is no test if it goes well without the fence");
}
