//! Elementary functions from the four basic operations alone, so that every machine gets the same bits.
//!
//! The tables of the count code are computed, not stored; a library's `exp` or `ln` may differ in the last bit from
//! one system to the next, IEEE 754 addition, multiplication and division may not.

/// e^x for 0 <= x <= 1: the Taylor series, 30 terms, summed from the first.
pub(crate) fn exp(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..30 {
        term = term * x / f64::from(k);
        sum += term;
    }
    sum
}

/// log2 of a positive normal number, to about 1e-15: exponent, and 2 atanh((m - 1) / (m + 1)) / ln 2 of the mantissa.
pub(crate) fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let (mut sum, mut power) = (0.0, t);
    for k in 0..20 {
        sum += power / f64::from(2 * k + 1);
        power *= square;
    }
    f64::from(exponent) + sum * (2.0 / std::f64::consts::LN_2)
}

/// log2(n!), exact sum below 256, Stirling's series above.
pub(crate) fn log2_factorial(n: u32) -> f64 {
    static SMALL: std::sync::LazyLock<[f64; 256]> = std::sync::LazyLock::new(|| {
        let mut table = [0.0; 256];
        for n in 2..256 {
            table[n] = table[n - 1] + log2(n as f64);
        }
        table
    });
    if let Some(&value) = SMALL.get(n as usize) {
        return value;
    }
    let x = f64::from(n);
    let log2_e = std::f64::consts::LOG2_E;
    (x + 0.5) * log2(x) - x * log2_e + 0.5 * log2(2.0 * std::f64::consts::PI) + log2_e / (12.0 * x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_library_to_1e_14() {
        for step in 1..1000 {
            let x = f64::from(step) / 1000.0;
            assert!((exp(x) - x.exp()).abs() < 1e-14 * x.exp());
            let y = x * 7777.0;
            assert!((log2(y) - y.log2()).abs() < 2e-14);
        }
        assert!(
            (log2_factorial(300)
                - log2_factorial(255)
                - (256..=300).map(|n| f64::from(n).log2()).sum::<f64>())
            .abs()
                < 1e-6
        );
    }
}
