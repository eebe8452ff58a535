//! From nothing to a phase image: a small simulated acquisition, run with the truth it was made with.

use std::path::Path;

use anyhow::Context;
use ingest::stream::threshold::Threshold;
use kernels::Processor;
use kernels::types::{ABERRATIONS, Aberration, Degrees, Milliradians, Nanometres, ScanShape};

use crate::optics::{OpticsRequest, OpticsValues};
use crate::request::{RunRequest, StopFlag};
use crate::rings::Rings;
use crate::simulate::{SimulateArgs, Truth};

/// Simulates the demonstration into `out/acquisition` (an older one is replaced) and says how to run it: results go to
/// `out/result`, the optics are those of the simulation.
///
/// # Errors
/// The simulation cannot be written, or was interrupted.
pub fn prepare(out: &Path, quiet: bool, stop: StopFlag) -> anyhow::Result<(Truth, RunRequest)> {
    let args = SimulateArgs { force: true, quiet, ..SimulateArgs::demo(out.join("acquisition")) };
    let truth = crate::simulate::run(&args, &stop)?;
    let request = RunRequest {
        master: truth.master.clone(),
        series: None,
        threshold: Threshold::First,
        at_once: 1,
        out: out.join("result"),
        optics: OpticsRequest { flags: optics_of(&truth)?, optics_file: None, ..Default::default() },
        processor: Processor::Cpu,
        memory_budget_bytes: None,
        threads: None,
        loss: false,
        quiet,
        rings: Rings::default(),
        stop,
    };
    Ok((truth, request))
}

/// What a microscopist would know of a simulated acquisition; C10 is that of mid depth, which is what is imaged.
///
/// # Errors
/// The truth names an aberration that is none.
pub fn optics_of(truth: &Truth) -> anyhow::Result<OpticsValues> {
    let told = |key: String| truth.aberrations.get(&key).copied();
    let mut aberrations = Vec::new();
    for (name, _, symmetry) in ABERRATIONS {
        let at_mid_depth = told(format!("{name}_at_mid_depth_m"));
        let Some(size_m) = at_mid_depth.or_else(|| told(format!("{name}_m"))) else { continue };
        let angle_rad =
            told(format!("phi{}_scan_frame_rad", &name[1..])).filter(|_| symmetry > 0).unwrap_or(0.0);
        let term = Aberration::named(
            name,
            Nanometres(rounded(size_m * 1e9)),
            Degrees(rounded(angle_rad.to_degrees())),
        )
        .context("truth.json")?;
        aberrations.push(term);
    }
    let [rows, cols] = truth.scan_shape;
    Ok(OpticsValues {
        semi_angle: Some(Milliradians(rounded(truth.semiangle_rad * 1e3))),
        scan_step: Some([Nanometres(rounded(truth.scan_step_m * 1e9)); 2]),
        rotation: Some(Degrees(rounded(truth.detector_to_scan_rotation_rad.to_degrees()))),
        // A flag that is not given and one that is false mean the same; the command that is shown has none.
        transpose: truth.transpose.then_some(true),
        scan_shape: Some(ScanShape { rows, cols }),
        aberrations,
        ..OpticsValues::default()
    })
}

/// Nine digits after the point: what is left of a change of units goes, and flags read well.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// The command line that asks `program` for the same run, ready for a shell.
pub fn run_command(program: &Path, request: &RunRequest) -> String {
    let optics = &request.optics.flags;
    let mut words = vec![quoted(program), "run".to_owned(), quoted(&request.master)];
    words.push(format!("--out {}", quoted(&request.out)));
    words.extend(optics.semi_angle.map(|angle| format!("--semi-angle-mrad {}", angle.0)));
    words.extend(optics.scan_step.map(|step| format!("--scan-step-nm {}", step[0].0)));
    words.extend(optics.rotation.map(|rotation| format!("--rotation-deg {}", rotation.0)));
    words.extend(optics.scan_shape.map(|shape| format!("--scan-shape {shape}")));
    words.extend((optics.transpose == Some(true)).then(|| "--transpose".to_owned()));
    for term in &optics.aberrations {
        let angle = if term.symmetry > 0 { format!(",{}", term.angle.0) } else { String::new() };
        words.push(format!("--aberration {}={}{angle}", term.name(), term.size.0));
    }
    words.join(" ")
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        let said = |path: &str| quoted(Path::new(path));
        assert_eq!(said("/a/b_1.h5"), "/a/b_1.h5");
        assert_eq!(said("a demo/it's"), r"'a demo/it'\''s'");
    }

    #[test]
    fn the_command_that_is_shown_asks_for_the_run_that_was_made_and_has_all_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let mut args = SimulateArgs::demo(dir.path().join("acquisition"));
        args.scan_shape = ScanShape { rows: 3, cols: 4 };
        args.quiet = true;
        let truth = crate::simulate::run(&args, &StopFlag::default()).unwrap();
        let request = RunRequest {
            master: truth.master.clone(),
            series: None,
            threshold: Threshold::First,
            at_once: 1,
            out: dir.path().join("result"),
            optics: OpticsRequest {
                flags: optics_of(&truth).unwrap(),
                optics_file: None,
                ..Default::default()
            },
            processor: Processor::Cpu,
            memory_budget_bytes: None,
            threads: None,
            loss: false,
            quiet: true,
            rings: Rings::default(),
            stop: StopFlag::default(),
        };
        let command = run_command(Path::new("target/debug/sideband"), &request);
        let Command::Run(asked) = Cli::parse_from(command.split(' ')).command else { panic!("{command}") };
        assert_eq!(asked.request(StopFlag::default()).unwrap().optics, request.optics);
        let (set, optics) = crate::open::open(&request).unwrap();
        assert_eq!((set.frames_expected, optics.voltage.unwrap().value.0), (12, 200.0));
        assert!(
            (optics.aberrations[0].value.size.0 * 1e-9 - truth.aberrations["C10_at_mid_depth_m"]).abs()
                < 1e-17
        );
    }
}
