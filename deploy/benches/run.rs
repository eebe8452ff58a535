//! From files to a complete resident, and a whole run, beside h5py + hdf5plugin reading the same files.
//!
//! `cargo bench -p deploy` simulates a 256 x 256 scan of 192 x 192 frames (minutes; kept in the folder that
//! `SIDEBAND_BENCH_SET` names, for the next time), fills a resident from it and runs `sideband run` on it. With
//! `SIDEBAND_PYTHON` set to a Python with h5py and hdf5plugin, that reads the same files between our rounds, and its totals
//! are compared with ours. `-- --check` does it once with a small set, for its answers; `-- --fill` fills alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use deploy::pipeline::fill;
use deploy::request::StopFlag;
use encoder::entropy::poisson_bound_bits;
use ingest::dectris::FileSet;
use kernels::Cpu;
use kernels::decode_counts::DecodeCounts;
use kernels::types::ScanShape;
use resident::{Budget, Missing, Resident};
use serde_json::Value;

/// Frames that h5py reads at a time.
const PEER_BLOCK: &str = "512";

struct Size {
    scan: &'static str,
    detector: &'static str,
    detector_sampling_mrad: &'static str,
    rounds: usize,
}

const FULL: Size = Size { scan: "256x256", detector: "192x192", detector_sampling_mrad: "0.5", rounds: 5 };
const CHECK: Size = Size { scan: "24x32", detector: "48x48", detector_sampling_mrad: "2", rounds: 1 };

/// A temporary folder that goes when its owner does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("sideband-run-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // nothing depends on it being gone
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sideband(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_sideband")).args(arguments).output();
    let output = output.expect("sideband starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The master file of a set of this size in `folder`, simulated unless it is there already.
fn acquisition(folder: &Path, size: &Size) -> PathBuf {
    let master = folder.join("simulated_master.h5");
    if !master.exists() {
        sideband(&[
            "simulate",
            "--quiet",
            "--out",
            text(folder),
            "--scan-shape",
            size.scan,
            "--detector-shape",
            size.detector,
            "--detector-sampling-mrad",
            size.detector_sampling_mrad,
            "--electrons-per-frame",
            "1500",
        ]);
    }
    master
}

/// A resident filled once.
struct Fill {
    /// From the name of the master file to the last block kept.
    seconds: f64,
    held_bytes: u64,
    count_bytes: u64,
    file_bytes: u64,
    /// Sum of every detector pixel, then of every frame.
    totals: Vec<u64>,
    resident: Arc<Resident>,
}

fn fill_once(master: &Path, scan: ScanShape) -> Fill {
    let start = Instant::now();
    let set = FileSet::open(master).expect("the set opens");
    let resident = Resident::new(scan, set.detector, set.count_type, Budget { bytes: 8 << 30 });
    let resident = Arc::new(resident.expect("a resident"));
    let filled = fill(Cpu, &set, &resident, &StopFlag::default()).expect("every stage ends well");
    let snapshot = resident.snapshot();
    let detector_total = snapshot.detector_total(Missing::Fail).expect("every frame");
    let frame_sums = snapshot.frame_sums(snapshot.positions(), Missing::Fail).expect("every frame");
    let seconds = start.elapsed().as_secs_f64();
    let totals = snapshot.totals();
    Fill {
        seconds,
        held_bytes: totals.held_bytes,
        count_bytes: totals.frames * (set.detector.pixels() * set.count_type.bytes()) as u64,
        file_bytes: filled.counters.bytes.get(),
        totals: detector_total.value.iter().copied().chain(frame_sums.value).collect(),
        resident,
    }
}

/// What h5py needs.
struct Peer {
    decode_s: f64,
    decode_with_totals_s: f64,
    versions: String,
    totals: Vec<u64>,
}

fn peer(master: &Path, folder: &Path) -> Option<Peer> {
    let python = std::env::var("SIDEBAND_PYTHON").ok()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers/h5py_decode.py");
    let totals = folder.join("totals.u64");
    let output = Command::new(python).arg(script).arg(master).arg(PEER_BLOCK).arg(&totals).output();
    let output = output.expect("SIDEBAND_PYTHON runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON line");
    let totals = std::fs::read(totals).expect("h5py's totals");
    Some(Peer {
        decode_s: answer["decode_s"].as_f64().expect("seconds"),
        decode_with_totals_s: answer["decode_with_totals_s"].as_f64().expect("seconds"),
        versions: format!("h5py {} + hdf5plugin {}", answer["h5py"], answer["hdf5plugin"]).replace('"', ""),
        totals: totals.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect(),
    })
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Fills a resident between rounds of h5py; returns the last.
fn compare_with_peer(master: &Path, scan: ScanShape, folder: &Path, rounds: usize) -> Fill {
    let mut last = fill_once(master, scan); // once before the clock: the files are then in memory for both
    let (mut ours, mut decode, mut with_totals) = (Vec::new(), Vec::new(), Vec::new());
    let mut versions = None;
    for _ in 0..rounds {
        last = fill_once(master, scan);
        ours.push(last.seconds);
        if let Some(peer) = peer(master, folder) {
            assert!(peer.totals == last.totals, "h5py's totals differ from ours");
            decode.push(peer.decode_s);
            with_totals.push(peer.decode_with_totals_s);
            versions = Some(peer.versions);
        }
    }
    let seconds = median(&mut ours);
    let gigabytes = |bytes: u64| bytes as f64 * 1e-9;
    println!(
        "{:.3} GB in files, {:.3} GB of counts, median of {rounds} rounds, {} threads, files in the page cache.\n",
        gigabytes(last.file_bytes),
        gigabytes(last.count_bytes),
        rayon::current_num_threads()
    );
    println!("| from the files to | s | GB of counts/s | ours is faster by |");
    println!("|---|---|---|---|");
    let row = |what: &str, seconds: f64, by: String| {
        println!("| {what} | {seconds:.3} | {:.2} | {by} |", gigabytes(last.count_bytes) / seconds);
    };
    row("sideband: complete resident, all totals and tile sums", seconds, "1".to_owned());
    match versions {
        Some(versions) => {
            let (decode, with_totals) = (median(&mut decode), median(&mut with_totals));
            row(&format!("{versions}: decoded, thrown away"), decode, format!("{:.2}", decode / seconds));
            let by = format!("{:.2}", with_totals / seconds);
            row("the same: decoded, detector total and frame sums", with_totals, by);
        }
        None => println!("\nNot compared with h5py: SIDEBAND_PYTHON is not set."),
    }
    last
}

/// Prints what the encoded counts take, beside the least that a Poisson model of every pixel could take.
fn compare_with_bound(filled: &Fill) {
    let snapshot = filled.resident.snapshot();
    let pixels = snapshot.detector().pixels();
    let (mut histogram, mut counts_bytes) = (vec![0_u64; 1 << 16], 0);
    for block in snapshot.blocks() {
        let mut dense = vec![0_u16; block.positions() * pixels];
        Cpu.decode_positions(block.counts(), 0..block.positions(), &mut dense).expect("our own streams");
        dense.iter().for_each(|&count| histogram[usize::from(count)] += 1);
        counts_bytes += block.encoded_bytes().counts() as u64;
    }
    let totals = snapshot.totals();
    let detector_total = &filled.totals[..pixels];
    let histogram: Vec<_> = (0_u32..).zip(histogram).filter(|&(_, times)| times > 0).collect();
    let bound_bytes = poisson_bound_bits(totals.frames, detector_total.to_vec(), histogram) / 8.0;
    let per_frame = |bytes: f64| bytes / totals.frames as f64;
    println!("\n| bytes a frame | | of the bound |");
    println!("|---|---|---|");
    println!("| entropy bound, every pixel Poisson with its own mean | {:.1} | 1 |", per_frame(bound_bytes));
    let ratio = |bytes: u64| bytes as f64 / bound_bytes;
    println!(
        "| counts with their index | {:.1} | {:.4} |",
        per_frame(counts_bytes as f64),
        ratio(counts_bytes)
    );
    let all = filled.held_bytes;
    println!(
        "| all that is held: counts, index, sums, tile sums | {:.1} | {:.4} |",
        per_frame(all as f64),
        ratio(all)
    );
    println!("| the files | {:.1} | {:.4} |", per_frame(filled.file_bytes as f64), ratio(filled.file_bytes));
}

/// A whole run by the program, told the optics of the simulation.
fn whole_run(master: &Path, folder: &Path, size: &Size) {
    let out = folder.join("result");
    let truth: Value = {
        let text = std::fs::read(master.with_file_name("truth.json")).expect("truth.json");
        serde_json::from_slice(&text).expect("JSON")
    };
    let degrees = truth["detector_to_scan_rotation_rad"].as_f64().expect("a rotation").to_degrees();
    let start = Instant::now();
    sideband(&[
        "run",
        text(master),
        "--quiet",
        "--out",
        text(&out),
        "--scan-shape",
        size.scan,
        "--semi-angle-mrad",
        "25",
        "--scan-step-nm",
        "0.024",
        &format!("--rotation-deg={degrees}"),
        "--aberration",
        "C10=-12",
        "--aberration",
        "C12=3,20",
    ]);
    let wall = start.elapsed().as_secs_f64();
    let result: Value = {
        let text = std::fs::read(out.join("result.json")).expect("result.json");
        serde_json::from_slice(&text).expect("JSON")
    };
    assert_eq!(result["status"], "complete", "{result}");
    println!("\n`sideband run`, start of the program to the last file: {wall:.2} s.\n");
    println!("| stage | s |");
    println!("|---|---|");
    for (stage, seconds) in result["seconds"].as_object().expect("seconds by stage") {
        println!("| {stage} | {:.3} |", seconds.as_f64().expect("seconds"));
    }
    let encoded = &result["encoded"];
    let gigabytes = |key: &str| encoded[key].as_f64().map_or(f64::NAN, |bytes| bytes * 1e-9);
    println!("\n| memory | GB |");
    println!("|---|---|");
    println!("| the counts, never held | {:.3} |", gigabytes("dense_bytes"));
    println!("| encoded resident, with index and sums | {:.3} |", gigabytes("bytes"));
    println!("| spectra G | {:.3} |", gigabytes("spectra_bytes"));
    println!("| peak of the process | {:.3} |", gigabytes("peak_memory_bytes"));
}

fn main() {
    let check = std::env::args().any(|argument| argument == "--check");
    let size = if check { CHECK } else { FULL };
    let temporary = Folder::new();
    let kept = std::env::var_os("SIDEBAND_BENCH_SET").filter(|_| !check).map(PathBuf::from);
    let master = acquisition(kept.as_deref().unwrap_or(&temporary.0), &size);
    let (rows, cols) = size.scan.split_once('x').expect("ROWSxCOLS");
    let scan = ScanShape { rows: rows.parse().expect("rows"), cols: cols.parse().expect("columns") };
    println!("{} scan, {} detector, u16, 1,500 electrons a frame.\n", size.scan, size.detector);
    let filled = compare_with_peer(&master, scan, &temporary.0, size.rounds);
    let only_fill = std::env::args().any(|argument| argument == "--fill");
    if !only_fill {
        compare_with_bound(&filled);
        whole_run(&master, &temporary.0, &size);
    }
}
