//! What to say when the encoded counts do not fit.

use resident::ResidentError;

/// Turns an exhausted budget into the memory the whole acquisition of `positions` needs, judged by what had been encoded;
/// `asked_bytes` is the limit the user gave. Other errors pass.
pub(super) fn explained(error: anyhow::Error, asked_bytes: Option<u64>, positions: u64) -> anyhow::Error {
    let Some(ResidentError::OverBudget { first, asked_bytes: block, held_bytes, budget_bytes }) =
        error.downcast_ref()
    else {
        return error;
    };
    let seen = first.saturating_add(encoder::INTERVAL as u64).min(positions).max(1);
    let whole = held_bytes.saturating_add(*block) as f64 * positions as f64 / seen as f64;
    // A tenth more, since the rest may be brighter.
    let needed = gigabytes(whole * 1.1);
    let allowed = gigabytes(*budget_bytes as f64);
    let judged = match seen < positions {
        true => format!(", judged by the first {seen} of {positions} frames"),
        false => String::new(),
    };
    let (limit, advice) = match asked_bytes {
        Some(_) => (
            format!("the {allowed} GB of --memory-gb"),
            format!("give --memory-gb {needed} or more, or leave it out to use what is free"),
        ),
        None => (
            format!("the {allowed} GB of memory that is free"),
            "close other programs or use a machine with more memory".to_owned(),
        ),
    };
    anyhow::anyhow!(
        "this acquisition does not fit into {limit}: it needs about {needed} GB to keep its counts{judged}; {advice}"
    )
}

/// Gigabytes, rounded up to two digits.
fn gigabytes(bytes: f64) -> f64 {
    let gigabytes = bytes.max(1.0) / 1e9;
    let unit = 10f64.powi(1 - gigabytes.log10().floor() as i32);
    let rounded = (gigabytes * unit - 1e-9).ceil() / unit;
    format!("{rounded:.1e}").parse().unwrap_or(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_does_not_suffice_is_answered_with_one_that_would() {
        let over = |first| {
            let error = ResidentError::OverBudget {
                first,
                asked_bytes: 3_000_000,
                held_bytes: first * 3000,
                budget_bytes: 9_500_000,
            };
            anyhow::Error::from(error)
        };
        let text = explained(over(3072), Some(9_500_000), 65536).to_string();
        // 12.2 MB of the first 4096 frames are 195 MB of 65536; a tenth more.
        assert!(text.contains("0.0095 GB of --memory-gb") && text.contains("--memory-gb 0.22"), "{text}");
        assert!(text.contains("the first 4096 of 65536 frames"), "{text}");
        let text = explained(over(0), None, 16).to_string();
        assert!(!text.contains("--memory-gb") && text.contains("0.0033 GB to keep its counts;"), "{text}");
        let other = explained(anyhow::anyhow!("disk"), None, 16);
        assert_eq!(other.to_string(), "disk");
    }

    #[test]
    fn gigabytes_are_rounded_up() {
        assert_eq!([1.0e9, 1.21e9, 99.1e9, 123e9, 2.1e4].map(gigabytes), [1.0, 1.3, 100.0, 130.0, 2.1e-5]);
    }
}
