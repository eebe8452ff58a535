//! Parameters written as text or as numbers, as flags and optics files write them.

use kernels::types::{Aberration, Degrees, Nanometres};

/// Reads one number for both axes, or `ROW,COL`.
///
/// # Errors
/// The text, and what was expected, when it is neither or a number is not finite.
pub fn parse_pair(text: &str) -> Result<[f64; 2], String> {
    let refused = || format!("got '{text}', expected one number or ROW,COL");
    let number = |part: &str| part.trim().parse().ok().filter(|value: &f64| value.is_finite());
    let pair = match text.split_once(',') {
        Some((row, col)) => number(row).zip(number(col)),
        None => number(text).map(|both| (both, both)),
    };
    pair.map(|(row, col)| [row, col]).ok_or_else(refused)
}

/// Reads exactly `ROW,COL`.
///
/// # Errors
/// The text, and what was expected.
pub fn parse_row_col(text: &str) -> Result<[f64; 2], String> {
    match text.contains(',').then(|| parse_pair(text)) {
        Some(Ok(pair)) => Ok(pair),
        _ => Err(format!("got '{text}', expected ROW,COL such as 95.3,96.85")),
    }
}

/// Reads `NAME=NM` for a round aberration, `NAME=NM,DEG` for one with an angle.
///
/// # Errors
/// The text, and what was expected; an unknown name by its name.
pub fn parse_aberration(text: &str) -> Result<Aberration, String> {
    let shape = || {
        format!("got aberration '{text}', expected NAME=NM or NAME=NM,DEG such as C10=-6.3 or C12=1.8,11.6")
    };
    let (name, values) = text.split_once('=').ok_or_else(shape)?;
    let mut numbers = Vec::new();
    for part in values.split(',') {
        numbers.push(part.trim().parse::<f64>().map_err(|_| shape())?);
    }
    aberration_of(name.trim(), &numbers)
}

/// The aberration of a name and its numbers: size \[nm\], then the angle \[deg\] when it has one.
///
/// # Errors
/// Names the aberration and what is wrong: unknown name, wrong number of numbers, not finite, angle missing.
pub(crate) fn aberration_of(name: &str, numbers: &[f64]) -> Result<Aberration, String> {
    let term = |size: f64, angle: f64| {
        Aberration::named(name, Nanometres(size), Degrees(angle)).map_err(|unknown| unknown.to_string())
    };
    if let Some(bad) = numbers.iter().find(|number| !number.is_finite()) {
        return Err(format!("aberration {name}: got {bad}, expected finite numbers"));
    }
    let known = term(0.0, 0.0)?;
    match (numbers, known.symmetry) {
        ([size], 0) => term(*size, 0.0),
        ([size, _], 0) => {
            Err(format!("aberration {0}: is round and has no angle, expected {0}={size}", known.name()))
        }
        // A zero needs no direction.
        ([size], _) if *size == 0.0 => term(0.0, 0.0),
        ([size], _) => Err(format!(
            "aberration {0}: has a direction, expected its angle in the scan frame too: {0}={size},DEG (in an optics file {0} = [{size}, DEG])",
            known.name()
        )),
        ([size, angle], _) => term(*size, *angle),
        _ => {
            Err(format!("aberration {}: got {} numbers, expected NM or NM,DEG", known.name(), numbers.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_one_number_or_row_and_col() {
        assert_eq!(parse_pair("0.016"), Ok([0.016, 0.016]));
        assert_eq!(parse_pair("0.016, -2e-3"), Ok([0.016, -0.002]));
        for nonsense in ["", "a", "1,2,3", "1;2", "inf", "nan,1"] {
            assert!(parse_pair(nonsense).unwrap_err().contains(&format!("'{nonsense}'")));
        }
        assert!(parse_row_col("3").is_err());
        assert_eq!(parse_row_col("3,4"), Ok([3.0, 4.0]));
    }

    #[test]
    fn negative_sizes_and_angles_are_read() {
        let defocus = parse_aberration("C10=-6.3").unwrap();
        assert_eq!((defocus.order, defocus.symmetry, defocus.size.0), (1, 0, -6.3));
        let astigmatism = parse_aberration("c12=1.8,-11.6").unwrap();
        assert_eq!((astigmatism.name().as_str(), astigmatism.angle.0), ("C12", -11.6));
    }

    #[test]
    fn what_is_wrong_with_an_aberration_is_said_by_name() {
        for (text, said) in [
            ("C10", "NAME=NM"),
            ("C99=1", "C99"),
            ("C10=1,2", "round"),
            ("C12=1.8", "C12=1.8,DEG"),
            ("C12=1,2,3", "3 numbers"),
            ("C10=nan", "finite"),
            ("C10=six", "C10=six"),
        ] {
            let refused = parse_aberration(text).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }

    #[test]
    fn a_zero_needs_no_angle() {
        assert_eq!(parse_aberration("C23=0").unwrap().size.0, 0.0);
    }
}
