//! The set is read back by h5py with hdf5plugin: `SIDEBAND_PYTHON` names a python that has both.

use std::path::Path;
use std::process::Command;

use kernels::bslz4_decode::Encoding;
use kernels::types::{CountType, DetectorShape};

use super::{Existing, FilewriterError, FilewriterSet, FilewriterSettings, MasterMetadata};

fn settings(detector: DetectorShape, count_type: CountType, images_per_file: u64) -> FilewriterSettings {
    let metadata = MasterMetadata {
        beam_centre: [2.25, 3.5],
        pixel_mask: (0..detector.pixels() as u32).map(|pixel| u32::from(pixel == 5) * 8).collect(),
        ..MasterMetadata::default()
    };
    let name = "set".to_owned();
    FilewriterSettings {
        name,
        detector,
        count_type,
        encoding: Encoding::Bslz4,
        images_per_file,
        existing: Existing::Refuse,
        metadata,
    }
}

/// The count that image `image` (from 0) has at `pixel`.
fn count(image: u64, pixel: u64, bytes: usize) -> u64 {
    let value = (image + 1).wrapping_mul(2_654_435_761).wrapping_add(pixel.wrapping_mul(40_503));
    value & (u64::MAX >> (64 - 8 * bytes))
}

/// Bitshuffle + LZ4 by the letter: 8192-byte blocks, all literals, what is left over raw.
fn chunk(image: u64, pixels: usize, bytes: usize) -> Vec<u8> {
    let raw: Vec<u8> = (0..pixels as u64)
        .flat_map(|pixel| count(image, pixel, bytes).to_le_bytes()[..bytes].to_vec())
        .collect();
    let mut out = (raw.len() as u64).to_be_bytes().to_vec();
    out.extend(8192_u32.to_be_bytes());
    let shuffled = raw.len() - raw.len() % (8 * bytes);
    for block in raw[..shuffled].chunks(8192) {
        let elements = block.len() / bytes;
        let mut planes = vec![0_u8; block.len()];
        for (index, element) in block.chunks(bytes).enumerate() {
            for plane in 0..8 * bytes {
                let bit = element[plane / 8] >> (plane % 8) & 1;
                planes[plane * elements / 8 + index / 8] |= bit << (index % 8);
            }
        }
        let mut lz4 = vec![if planes.len() < 15 { (planes.len() as u8) << 4 } else { 0xf0 }];
        if planes.len() >= 15 {
            let mut more = planes.len() - 15;
            while more >= 255 {
                lz4.push(255);
                more -= 255;
            }
            lz4.push(more as u8);
        }
        lz4.extend(planes);
        out.extend((lz4.len() as u32).to_be_bytes());
        out.extend(lz4);
    }
    out.extend(&raw[shuffled..]);
    out
}

fn write(folder: &Path, settings: FilewriterSettings, num_images: u64) -> super::FilewriterSummary {
    let (pixels, bytes) = (settings.detector.pixels(), settings.count_type.bytes());
    let mut set = FilewriterSet::create(folder, settings).unwrap();
    for image in 0..num_images {
        set.append_chunk(&chunk(image, pixels, bytes)).unwrap();
    }
    set.finish().unwrap()
}

/// Writes past the capture of the test harness, which hides what `println!` prints in a test that passes.
fn not_run(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "not run: {why}");
}

/// Runs a python script with arguments; false, and a line that says so, when there is no python to run it.
fn python(script: &str, arguments: &[&str]) -> bool {
    let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
        not_run("SIDEBAND_PYTHON is not set");
        return false;
    };
    let output = Command::new(python).arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

const READ_BACK: &str = r#"
import sys, numpy as np, h5py, hdf5plugin
master, images, rows, cols, elem, per_file = sys.argv[1], *map(int, sys.argv[2:])
pixel = np.arange(rows * cols, dtype=np.uint64) * np.uint64(40503)
def want(i):
    v = np.uint64(i + 1) * np.uint64(2654435761) + pixel
    return (v & np.uint64((1 << 8 * elem) - 1)).astype(f"u{elem}").reshape(rows, cols)
with h5py.File(master, "r") as h:
    seen = 0
    for number, key in enumerate(sorted(h["entry/data"])):
        assert key == f"data_{number + 1:06}", key
        link = h["entry/data"].get(key, getlink=True)
        assert isinstance(link, h5py.ExternalLink) and link.filename == f"set_data_{number + 1:06}.h5"
        data = h["entry/data"][key]
        held = min(per_file, images - seen)
        assert data.shape == (held, rows, cols) and data.chunks == (1, rows, cols) and data.maxshape == (None, rows, cols)
        assert data.dtype == f"<u{elem}"
        assert data.attrs["image_nr_low"] == seen + 1 and data.attrs["image_nr_high"] == seen + held
        plist = data.id.get_create_plist()
        assert plist.get_nfilters() == 1 and plist.get_filter(0)[0] == 32008 and plist.get_filter(0)[2] == (0, 3, elem, 0, 2)
        assert data.id.get_num_chunks() == held
        end = 48
        for i, part in enumerate(data.iter_chunks()):
            info = data.id.get_chunk_info(i)
            assert info.byte_offset == end and info.chunk_offset == (i, 0, 0) and info.filter_mask == 0
            end += info.size
            assert (data[part][0] == want(seen + i)).all(), (seen, i)
        seen += held
    assert seen == images
"#;

fn reads_back(detector: DetectorShape, count_type: CountType, images_per_file: u64, num_images: u64) {
    let folder = tempfile::tempdir().unwrap();
    let summary = write(folder.path(), settings(detector, count_type, images_per_file), num_images);
    assert_eq!(summary.num_images, num_images);
    assert_eq!(summary.data_files.len() as u64, num_images.div_ceil(images_per_file));
    let on_disk: u64 =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(summary.bytes, on_disk);
    let numbers =
        [num_images, detector.rows as u64, detector.cols as u64, count_type.bytes() as u64, images_per_file];
    let numbers = numbers.map(|number| number.to_string());
    let mut arguments = vec![summary.master.to_str().unwrap()];
    arguments.extend(numbers.iter().map(String::as_str));
    python(READ_BACK, &arguments);
}

#[test]
fn h5py_reads_back_every_count_type_across_files() {
    let detector = DetectorShape { rows: 24, cols: 40 };
    for count_type in [CountType::U8, CountType::U16, CountType::U32] {
        reads_back(detector, count_type, 7, 23);
    }
}

#[test]
fn h5py_reads_back_images_of_several_blocks_and_leftover_counts() {
    reads_back(DetectorShape { rows: 67, cols: 97 }, CountType::U16, 100, 3);
}

#[test]
fn a_chunk_index_of_one_two_and_three_levels_is_found() {
    let detector = DetectorShape { rows: 4, cols: 4 };
    for num_images in [1, 63, 64, 65, 4096, 4097] {
        reads_back(detector, CountType::U16, 10_000, num_images);
    }
}

#[test]
fn a_thousand_links_open() {
    reads_back(DetectorShape { rows: 3, cols: 5 }, CountType::U32, 1, 1000);
}

#[test]
fn the_master_has_the_names_and_types_of_the_detector() {
    let folder = tempfile::tempdir().unwrap();
    let detector = DetectorShape { rows: 6, cols: 8 };
    let summary = write(folder.path(), settings(detector, CountType::U16, 4), 5);
    let script = r#"
import sys, numpy as np, h5py, hdf5plugin
want = {"bit_depth_image": ("u4", 16), "pixel_mask_applied": ("u1", 0), "saturation_value": ("u4", 65535),
        "number_of_excluded_pixels": ("u4", 1), "x_pixel_size": ("f4", np.float32(1e-4)), "beam_center_x": ("f4", 3.5),
        "beam_center_y": ("f4", 2.25), "detectorSpecific/ntrigger": ("u4", 5), "detectorSpecific/nimages": ("u4", 1),
        "detectorSpecific/compression": ("S5", b"bslz4"), "detectorSpecific/trigger_mode": ("S4", b"exts")}
with h5py.File(sys.argv[1], "r") as h:
    assert h.attrs["default"] == b"entry"
    assert h["entry"].attrs["NX_class"] == b"NXentry" and h["entry/data"].attrs["NX_class"] == b"NXdata"
    d = h["entry/instrument/detector"]
    for name, (kind, value) in want.items():
        assert d[name].dtype == kind and d[name][()] == value and d[name].shape == (), (name, d[name].dtype, d[name][()])
    assert d["x_pixel_size"].attrs["units"] == b"m" and d["count_time"].attrs["units"] == b"s"
    mask = np.zeros((6, 8), "u4"); mask[0, 5] = 8
    assert (d["detectorSpecific/pixel_mask"][()] == mask).all()
    assert abs(h["entry/instrument/beam/incident_wavelength"][()] - 0.01968749) < 1e-8
    names = []; h.visit(names.append); assert len(names) > 40
    if len(sys.argv) > 2:
        with h5py.File(sys.argv[2], "r") as theirs:
            def same(name, item):
                if isinstance(item, h5py.Dataset):
                    mine = h[name]
                    assert mine.shape == item.shape or "mask" in name, name
                    assert mine.dtype.kind == item.dtype.kind and (item.dtype.kind == "S" or mine.dtype == item.dtype), name
                assert set(h[name].attrs) == set(item.attrs), name
            theirs.visititems(same)
"#;
    let mut arguments = vec![summary.master.to_str().unwrap().to_owned()];
    match std::env::var("SIDEBAND_GOLDENS") {
        Ok(goldens) => arguments.push(format!("{goldens}/sto-small/sto-small_master.h5")),
        Err(_) => not_run("comparison with another set: SIDEBAND_GOLDENS is not set"),
    }
    python(script, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_has_its_name_before_the_set_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let detector = DetectorShape { rows: 4, cols: 4 };
    let mut set = FilewriterSet::create(folder.path(), settings(detector, CountType::U16, 2)).unwrap();
    for image in 0..5 {
        set.append_chunk(&chunk(image, 16, 2)).unwrap();
    }
    let so_far = names(folder.path());
    assert_eq!(so_far.len(), 3);
    assert!(so_far.iter().all(|name| name.starts_with('.') && name.ends_with(".partial")), "{so_far:?}");
    drop(set);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_set_is_replaced_only_when_asked_and_then_wholly() {
    let folder = tempfile::tempdir().unwrap();
    let detector = DetectorShape { rows: 4, cols: 4 };
    let mut wanted = settings(detector, CountType::U16, 2);
    write(folder.path(), wanted.clone(), 6);
    let refused = FilewriterSet::create(folder.path(), wanted.clone()).unwrap_err();
    assert!(matches!(refused, FilewriterError::Exists { .. }), "{refused}");
    wanted.existing = Existing::Replace;
    write(folder.path(), wanted, 3);
    assert_eq!(names(folder.path()), ["set_data_000001.h5", "set_data_000002.h5", "set_master.h5"]);
}

#[test]
fn a_chunk_of_another_shape_is_refused_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let detector = DetectorShape { rows: 4, cols: 4 };
    let mut set = FilewriterSet::create(folder.path(), settings(detector, CountType::U16, 2)).unwrap();
    set.append_chunk(&chunk(0, 16, 2)).unwrap();
    for wrong in [chunk(1, 17, 2), Vec::new(), vec![0; 11]] {
        let refused = set.append_chunk(&wrong).unwrap_err();
        assert!(
            matches!(refused, FilewriterError::WrongChunk { image: 2, expected_total: 32, .. }),
            "{refused}"
        );
    }
}

#[test]
fn a_set_without_images_is_no_set() {
    let folder = tempfile::tempdir().unwrap();
    let set =
        FilewriterSet::create(folder.path(), settings(DetectorShape { rows: 4, cols: 4 }, CountType::U16, 2))
            .unwrap();
    assert!(matches!(set.finish(), Err(FilewriterError::Empty { .. })));
}
