//! Parameters written as text or as numbers, as flags and optics files write them.

use kernels::types::{Aberration, Degrees, Nanometres};

/// Reads a number, for a flag whose name has the unit. Not every number it gives is finite.
///
/// # Errors
/// The text, what was expected, and what was probably meant: a unit, or a comma for the decimal point.
pub fn parse_number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("got '{text}', expected a number without its unit{}", hint(text)))
}

/// What a text that is no number was probably meant to be, as a question.
fn hint(text: &str) -> String {
    let bare = text.trim().trim_end_matches(|last: char| last.is_alphabetic() || last.is_whitespace());
    let pointed = bare.replacen(',', ".", 1);
    match pointed.parse::<f64>().is_ok_and(f64::is_finite) {
        true => format!("; did you mean {pointed}?"),
        false => String::new(),
    }
}

/// Reads one number for both axes, or `ROW,COL`.
///
/// # Errors
/// The text, and what was expected, when it is neither or a number is not finite.
pub fn parse_pair(text: &str) -> Result<[f64; 2], String> {
    let refused = || {
        let hint = hint(text);
        format!("got '{text}', expected one number or ROW,COL, without unit{hint}")
    };
    let number = |part: &str| part.trim().parse().ok().filter(|value: &f64| value.is_finite());
    let pair = match text.split_once(',') {
        Some((row, col)) => number(row).zip(number(col)),
        None => number(text).map(|both| (both, both)),
    };
    pair.map(|(row, col)| [row, col]).ok_or_else(refused)
}

/// Reads exactly `ROW,COL`, of which `example` is one.
///
/// # Errors
/// The text, and what was expected.
pub fn parse_row_col(text: &str, example: &str) -> Result<[f64; 2], String> {
    match text.contains(',').then(|| parse_pair(text)) {
        Some(Ok(pair)) => Ok(pair),
        _ => Err(format!("got '{text}', expected ROW,COL such as {example}")),
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
        ([size, _], 0) => Err(format!(
            "aberration {0}: is round and has no angle, expected {0}={size}; a decimal point is written as a point",
            known.name()
        )),
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
        assert!(parse_row_col("3", "5,0").unwrap_err().ends_with("expected ROW,COL such as 5,0"));
        assert_eq!(parse_row_col("3,4", "5,0"), Ok([3.0, 4.0]));
    }

    #[test]
    fn a_text_that_is_no_number_is_answered_with_the_number_in_it() {
        assert_eq!(parse_number(" -12.5 "), Ok(-12.5));
        for (text, meant) in [("30mrad", "30"), ("30 mrad", "30"), ("-12,5", "-12.5"), ("12,5deg", "12.5")] {
            assert!(parse_number(text).unwrap_err().ends_with(&format!("did you mean {meant}?")), "{text}");
        }
        for text in ["", "mrad", "1,2,3", "--loss"] {
            assert!(parse_number(text).unwrap_err().ends_with("without its unit"), "{text}");
        }
        assert!(parse_pair("0.016nm").unwrap_err().ends_with("did you mean 0.016?"));
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
