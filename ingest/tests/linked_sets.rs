//! Masters whose links lead to links, made by h5py, which reads them as it reads any other.

#![allow(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use std::path::Path;
use std::process::Command;

use ingest::dectris::FileSet;
use ingest::filewriter::{Existing, FilewriterSet, FilewriterSettings, MasterMetadata};
use kernels::bslz4_decode::Encoding;
use kernels::bslz4_encode::encode_bslz4;
use kernels::types::{CountType, DetectorShape, Kilovolts};

const DETECTOR: DetectorShape = DetectorShape { rows: 8, cols: 16 };

/// Twelve frames in three data files, `a_master.h5` and `a_data_000001.h5` to `a_data_000003.h5`.
fn write_set(folder: &Path) {
    let settings = FilewriterSettings {
        name: "a".to_owned(),
        detector: DETECTOR,
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        images_per_file: 4,
        existing: Existing::Refuse,
        metadata: MasterMetadata { voltage: Kilovolts(200.0), ..MasterMetadata::default() },
    };
    let mut set = FilewriterSet::create(folder, settings).unwrap();
    for frame in 0_u16..12 {
        let mut chunk = Vec::new();
        encode_bslz4(&[frame; DETECTOR.rows * DETECTOR.cols], &mut chunk);
        set.append_chunk(&chunk).unwrap();
    }
    set.finish().unwrap();
}

/// Masters that h5py makes of the set above, and of each the shapes that h5py finds behind its links.
const MAKE: &str = r#"
import sys, json, h5py
from h5py import ExternalLink as Ext, SoftLink as Soft
NAMES = [f"data_{n:06d}" for n in (1, 2, 3)]
plain = {name: Ext(f"a_{name}.h5", "/entry/data/data") for name in NAMES}
def make(file, links, instrument=True):
    with h5py.File(file, "w") as h:
        for path, link in links.items():
            h[path] = link
        if instrument:
            h["entry/instrument"] = Ext("a_master.h5", "/entry/instrument")
# A soft link that leads to an external one, and to one by a relative path.
soft = {f"entry/behind/{name}": plain[name] for name in NAMES}
soft |= {"entry/data/" + NAMES[0]: Soft("/entry/behind/" + NAMES[0])}
soft |= {"entry/data/" + name: Soft("nearer/" + name) for name in NAMES[1:]}
soft |= {"entry/data/nearer": Soft("/entry/behind")}
make("soft.h5", soft)
# From file to file, with soft links between, by the file and by a group in it.
make("middle.h5", {"far/" + NAMES[0]: Soft("/further/one"), "further/one": plain[NAMES[0]], "far/files": Soft("/by_name"),
                   "by_name/" + NAMES[1]: plain[NAMES[1]], "by_name/" + NAMES[2]: plain[NAMES[2]]})
chain = {"entry/data/" + NAMES[0]: Ext("middle.h5", "far/" + NAMES[0]), "entry/data/" + NAMES[1]: Soft("/beyond/" + NAMES[1]),
         "entry/data/" + NAMES[2]: Ext("middle.h5", "/far/files/" + NAMES[2]), "beyond": Ext("middle.h5", "/far/files")}
make("chain.h5", chain)
# Everything elsewhere.
make("all.h5", {"entry": Ext("soft.h5", "/entry")}, instrument=False)
shapes = {}
for master in ("soft.h5", "chain.h5", "all.h5"):
    with h5py.File(master, "r") as h:
        shapes[master] = [list(h["entry/data/" + name].shape) for name in NAMES]
# Links that lead nowhere: round, through the master itself, and to a file that is not there.
lost = {"entry/data/" + NAMES[0]: Soft("/round"), "round": Ext("round.h5", "/round"), "entry/data/" + NAMES[1]: plain[NAMES[1]],
        "entry/data/" + NAMES[2]: Soft("/gone"), "gone": Ext("gone.h5", "/entry/data/data")}
make("lost.h5", lost)
make("round.h5", {"round": Ext("lost.h5", "/entry/data/" + NAMES[0])}, instrument=False)
make("endless.h5", {"entry": Ext("endless.h5", "/entry/entry")}, instrument=False)
make("files_00.h5", {"entry/data/" + NAMES[0]: Ext("files_01.h5", "/x"), "entry/data/" + NAMES[1]: plain[NAMES[1]]})
for n in range(1, 40):
    make(f"files_{n:02d}.h5", {"x": Ext(f"files_{n + 1:02d}.h5", "/x")}, instrument=False)
print(json.dumps(shapes))
"#;

/// Writes past the capture of the test harness, which hides what `println!` prints in a test that passes.
fn not_run(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "not run: {why}");
}

/// A folder with the set and h5py's masters, and what h5py says of them.
fn made() -> Option<(tempfile::TempDir, serde_json::Value)> {
    let Some(python) = std::env::var_os("SIDEBAND_PYTHON") else {
        not_run("SIDEBAND_PYTHON is not set");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    write_set(folder.path());
    let made = Command::new(python).current_dir(folder.path()).args(["-c", MAKE]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some((folder, serde_json::from_slice(&made.stdout).unwrap()))
}

#[test]
fn links_that_lead_to_links_in_this_file_and_others_are_followed_to_the_images() {
    let Some((folder, shapes)) = made() else { return };
    let plain = FileSet::open(&folder.path().join("a_master.h5")).unwrap();
    assert_eq!(shapes.as_object().unwrap().len(), 3);
    for (master, shapes) in shapes.as_object().unwrap() {
        assert_eq!(*shapes, serde_json::json!([[4, 8, 16], [4, 8, 16], [4, 8, 16]]), "{master}");
        let set = FileSet::open(&folder.path().join(master)).unwrap();
        assert_eq!(set.metadata.voltage(), Some(Kilovolts(200.0)), "{master}");
        assert_eq!((set.frames_expected, set.frames_present()), (12, 12), "{master}");
        for (found, expected) in set.files.iter().zip(&plain.files) {
            assert_eq!(found.problem, None, "{master}");
            assert_eq!((&found.path, found.first), (&expected.path, expected.first), "{master}");
            assert_eq!(format!("{:?}", found.frames), format!("{:?}", expected.frames), "{master}");
        }
    }
}

#[test]
fn links_that_lead_nowhere_are_named_with_the_file_and_the_rest_is_read() {
    let Some((folder, _)) = made() else { return };
    let set = FileSet::open(&folder.path().join("lost.h5")).unwrap();
    let said = |file: usize| set.files[file].problem.clone().unwrap();
    assert!(said(0).contains("its links go round in circles: after 2 files"), "{}", said(0));
    assert_eq!(set.files[1].problem, None);
    assert_eq!((said(2).as_str(), &set.files[2].path), ("not found", &folder.path().join("gone.h5")));
    assert_eq!((set.frames_expected, set.frames_present()), (12, 4));

    let set = FileSet::open(&folder.path().join("files_00.h5")).unwrap();
    let problem = set.files[0].problem.clone().unwrap();
    assert!(problem.contains("its links lead from file to file without end: after 16 files"), "{problem}");

    let refused = FileSet::open(&folder.path().join("endless.h5")).unwrap_err().to_string();
    assert!(refused.contains("endless.h5") && refused.contains("after 16 files"), "{refused}");
}
