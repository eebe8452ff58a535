//! A small stroke font: every glyph is a few lines and curves drawn with a round pen, sharp at any size.

/// Grid units from the top of a capital to the baseline.
pub(super) const CAP_UNITS: f64 = 12.0;
/// Grid units between two glyphs.
const GAP_UNITS: f64 = 3.6;
/// Grid units of a space.
const SPACE_UNITS: f64 = 5.0;

/// The strokes of a glyph, apart by spaces. A point is two characters, x (0 to 8) and y (0 at the top of a capital, 4
/// at the top of an x, c at the baseline, g at the lowest); `~` makes a smooth curve through its points.
fn glyph(character: char) -> &'static str {
    match character {
        '0' => "~3051665b3c1b061130",
        '1' => "13404c",
        '2' => "~031140718376490c 0c8c",
        '3' => "~02114071837546 ~4677897b4c1b0a",
        '4' => "6c600989",
        '5' => "701006 ~064577887b4c1b0a",
        '6' => "~715022071b4c7b8876451608",
        '7' => "00803c",
        '8' => "~406173654625132140 ~4677897b4c1b091746",
        '9' => "~1b3c6a857140110416477684",
        'A' => "0c408c 1878",
        'B' => "56060050 ~50717556 060c5c ~5677897b5c",
        'C' => "~82714012061a4c7b8a",
        'D' => "40000c4c ~4072867a4c",
        'E' => "80000c8c 0666",
        'F' => "80000c 0666",
        'G' => "~82714012061a4c7b8a 8a8757",
        'H' => "000c 808c 0686",
        'I' => "000c",
        'J' => "6069 ~695b3c1b09",
        'K' => "000c 8007 358c",
        'L' => "000c8c",
        'M' => "0c0047808c",
        'N' => "0c008c80",
        'O' => "~4072867a4c1a061240",
        'P' => "57070050 070c ~5071837657",
        'Q' => "~4072867a4c1a061240 598d",
        'R' => "57070050 070c ~5071837657 478c",
        'S' => "~8271401103154677897b4c1b0a",
        'T' => "0080 404c",
        'U' => "0008 ~081b4c7b88 8880",
        'V' => "004c80",
        'W' => "002c446c80",
        'X' => "008c 800c",
        'Y' => "004680 464c",
        'Z' => "00800c8c",
        'a' => "~4415081b4c6b786544 747c",
        'b' => "000c ~3465786b3c1b081534",
        'c' => "~75441508 1b4c7b",
        'd' => "~4415081b4c6b786544 707c",
        'e' => "0878 ~78754415081b4c7b",
        'f' => "~503123 232c 0454",
        'g' => "~4415081b4c6b786544 747d ~7d6f3g0f",
        'h' => "000c ~0715446577 777c",
        'i' => "040c 0101",
        'j' => "343d ~3d2f0g 3131",
        'k' => "000c 6409 276c",
        'l' => "000c",
        'm' => "040c ~0715244547 474c ~4755648587 878c",
        'n' => "040c ~0715446577 777c",
        'o' => "~4475887b4c1b081544",
        'p' => "040g ~3465786b3c1b081534",
        'q' => "~4415081b4c6b786544 747g",
        'r' => "040c ~07153454",
        's' => "~653415173869 6b3c0b",
        't' => "212a ~2a3c5c 0454",
        'u' => "0409 ~091b3c6b79 747c",
        'v' => "043c64",
        'w' => "042c466c84",
        'x' => "046c 640c",
        'y' => "043c 641g",
        'z' => "04640c6c",
        '.' => "0c0c",
        ',' => "1b0e",
        ':' => "0606 0c0c",
        '-' => "0858",
        '+' => "0888 444c",
        '=' => "0676 0a7a",
        '(' => "~3012071b3e",
        ')' => "~0022372b0e",
        '[' => "20000e2e",
        ']' => "00202e0e",
        '/' => "0d60",
        '%' => "~1022140210 ~788a7c6a78 800c",
        '^' => "043064",
        '_' => "0d8d",
        '<' => "64086c",
        '>' => "04680c",
        // What has no glyph shows as a box.
        _ => "000c8c8000",
    }
}

/// One straight piece of a stroke, from and to, (x, y).
pub(super) type Segment = [[f64; 2]; 2];

/// Width of a text whose capitals are `cap` pixels high.
pub(super) fn text_width(text: &str, cap: f64) -> f64 {
    let units: f64 = text.chars().map(|character| advance(character) + GAP_UNITS).sum();
    (units - GAP_UNITS).max(0.0) * cap / CAP_UNITS
}

/// The segments of a text; (x, y) is the left end of the line at the top of the capitals.
pub(super) fn text_segments(text: &str, x: f64, y: f64, cap: f64) -> Vec<Segment> {
    let unit = cap / CAP_UNITS;
    let mut segments = Vec::new();
    let mut left = x;
    for character in text.chars() {
        if character != ' ' {
            for stroke in strokes(character) {
                let on_page = |point: &[f64; 2]| [left + point[0] * unit, y + point[1] * unit];
                segments.extend(stroke.windows(2).map(|pair| [on_page(&pair[0]), on_page(&pair[1])]));
            }
        }
        left += (advance(character) + GAP_UNITS) * unit;
    }
    segments
}

fn advance(character: char) -> f64 {
    if character == ' ' {
        return SPACE_UNITS;
    }
    strokes(character).iter().flatten().map(|point| point[0]).fold(0.0, f64::max)
}

/// The polylines of a glyph, curves flattened.
fn strokes(character: char) -> Vec<Vec<[f64; 2]>> {
    glyph(character).split(' ').map(stroke).collect()
}

fn stroke(text: &str) -> Vec<[f64; 2]> {
    let (digits, smooth) = match text.strip_prefix('~') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let coordinates: Vec<f64> =
        digits.chars().filter_map(|digit| digit.to_digit(17)).map(f64::from).collect();
    let points: Vec<[f64; 2]> = coordinates.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    if smooth { curve(&points) } else { points }
}

/// A Catmull-Rom curve through the points; closed when the last is the first.
fn curve(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    const STEPS: usize = 6;
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let (before, after) = match first == last && points.len() > 2 {
        true => (points[points.len() - 2], points[1]),
        false => (*first, *last),
    };
    let mut padded = vec![before];
    padded.extend_from_slice(points);
    padded.push(after);
    let mut flat = vec![*first];
    for four in padded.windows(4) {
        for step in 1..=STEPS {
            let t = step as f64 / STEPS as f64;
            let at = |axis: usize| {
                let [a, b, c, d] = [four[0][axis], four[1][axis], four[2][axis], four[3][axis]];
                let (linear, square, cube) = (c - a, 2.0 * a - 5.0 * b + 4.0 * c - d, 3.0 * (b - c) + d - a);
                b + 0.5 * t * (linear + t * (square + t * cube))
            };
            flat.push([at(0), at(1)]);
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.,:-+=()[]/%^_<>";

    #[test]
    fn every_stroke_of_every_glyph_is_whole_points_inside_its_cell() {
        for character in WRITTEN.chars().chain(['?']) {
            for text in glyph(character).split(' ') {
                let digits = text.trim_start_matches('~');
                assert!(digits.len() >= 4 && digits.len().is_multiple_of(2), "{character}: {text}");
                assert!(digits.chars().all(|digit| digit.is_digit(17)), "{character}: {text}");
            }
            for point in strokes(character).iter().flatten() {
                assert!((-0.6..=8.6).contains(&point[0]) && (-0.6..=16.6).contains(&point[1]), "{character}");
            }
        }
    }

    #[test]
    fn no_two_glyphs_are_the_same() {
        let mut seen = std::collections::HashMap::new();
        for character in WRITTEN.chars().filter(|character| !matches!(character, 'I' | 'l')) {
            assert_eq!(seen.insert(glyph(character), character), None, "{character}");
        }
    }

    #[test]
    fn a_text_is_as_wide_as_it_is_drawn() {
        let segments = text_segments("0.5 nm", 10.0, 0.0, 12.0);
        let right = segments.iter().flatten().map(|point| point[0]).fold(0.0, f64::max);
        assert!((right - 10.0 - text_width("0.5 nm", 12.0)).abs() < 1e-9);
        assert_eq!(text_width("", 12.0), 0.0);
    }
}
