//! h5py with hdf5plugin reads the chunks: `SIDEBAND_PYTHON` names a python that has both.

use std::process::Command;

use super::*;

/// Writes a chunk unseen into a dataset of one frame and prints the counts that h5py reads.
const READ_CHUNK: &str = r#"
import sys, h5py, hdf5plugin
chunk, file, dtype, filter_id, rows, cols = sys.argv[1:]
shape = (1, int(rows), int(cols))
options = (0, 2) if filter_id == "32008" else (0,)
with h5py.File(file, "w") as h:
    d = h.create_dataset("d", shape, dtype, chunks=shape, compression=int(filter_id), compression_opts=options)
    d.id.write_direct_chunk((0, 0, 0), open(chunk, "rb").read())
with h5py.File(file, "r") as h:
    print(*h["d"][0].ravel())
"#;

fn h5py_reads<T: Count>(python: &std::ffi::OsStr, rows: usize, cols: usize) {
    let counts: Vec<T> = (0..rows * cols)
        .map(|at| {
            T::try_from((at as u32).wrapping_mul(2_654_435_761) >> 7 & T::TYPE.marker()).unwrap_or_default()
        })
        .map(|count| if Into::<u32>::into(count).is_multiple_of(3) { count } else { T::default() })
        .collect();
    let mut chunks = [Vec::new(), Vec::new()];
    encode_bslz4(&counts, &mut chunks[0]);
    encode_lz4_framed(&counts, 4096, &mut chunks[1]);
    for (chunk, filter) in chunks.iter().zip(["32008", "32004"]) {
        let stem = format!("sideband-chunk-{}-{}-{rows}x{cols}-{filter}", std::process::id(), T::TYPE);
        let [bytes, file] =
            ["bin", "h5"].map(|extension| std::env::temp_dir().join(format!("{stem}.{extension}")));
        std::fs::write(&bytes, chunk).unwrap();
        let output = Command::new(python)
            .args(["-c", READ_CHUNK])
            .args([&bytes, &file])
            .args([format!("<u{}", size_of::<T>()), filter.to_owned()])
            .args([rows.to_string(), cols.to_string()])
            .output()
            .unwrap();
        for path in [bytes, file] {
            let _ = std::fs::remove_file(path);
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read: Vec<u32> = String::from_utf8(output.stdout)
            .unwrap()
            .split_whitespace()
            .map(|text| text.parse().unwrap())
            .collect();
        let expected: Vec<u32> = counts.iter().map(|count| (*count).into()).collect();
        assert!(read == expected, "{rows} x {cols} {}, filter {filter}", T::TYPE);
    }
}

#[test]
fn h5py_reads_what_is_encoded() {
    let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"not run: SIDEBAND_PYTHON is not set\n");
        return;
    };
    h5py_reads::<u8>(&python, 96, 96);
    h5py_reads::<u16>(&python, 192, 192);
    h5py_reads::<u32>(&python, 10, 10);
    h5py_reads::<u32>(&python, 2, 2);
}
