//! Where every parameter of the microscope comes from.
//!
//! Five sources may speak, the first that does wins: flag, optics file, the acquisition's own file, a side-car
//! file beside it, a default. What is still unknown is asked for by name, all of it in one error; nothing
//! is guessed. Read [`resolve()`] first.

mod check;
mod disk;
mod missing;
mod optics_file;
mod resolve;
mod scan;
mod text;
mod values;

pub use check::OpticsError;
pub(crate) use check::{
    SCAN_STEPS_NM, SEMI_ANGLES_MRAD, VOLTAGES_KV, aberration_problem, check_place, check_settled,
    check_values, in_keys, meant,
};
pub(crate) use disk::{disk_note, known_radius_px};
pub use missing::Missing;
pub use optics_file::{OpticsTable, read_optics_file};
pub(crate) use optics_file::{in_words, without_types};
pub use resolve::{Acquisition, MeasuredBrightField, Resolved, ResolvedOptics, resolve, resolve_known};
pub(crate) use scan::{line_note, nearly_square, set_scan, surplus};
pub use text::{parse_aberration, parse_number, parse_pair, parse_row_col};
pub use values::{OpticsRequest, OpticsValues, Parameter, Provenance, Source};
