//! Which channels of a series are wanted: detectors with several thresholds send a frame of each with every image.

use super::kind::ChannelKind;

/// Which channels are taken, each as an acquisition of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Threshold {
    /// The first of the series; of those that were announced, the first that comes.
    #[default]
    First,
    /// Every one.
    All,
    /// The threshold of this number, counted from 1.
    Number(u8),
    /// The channel of this name, such as `threshold_1` or `difference`.
    Name(String),
}

/// A channel that a series does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got threshold {wanted}, expected one of {}", .there.join(", "))]
pub struct NoSuchChannel {
    /// What was asked for.
    pub wanted: Threshold,
    /// The channels that there are.
    pub there: Vec<String>,
}

impl Threshold {
    /// Those of the channels that are wanted, in their order. The channel without a name, of stream v1, is `threshold_1`.
    ///
    /// # Errors
    /// [`NoSuchChannel`], where none is.
    pub fn choose<'a>(&self, channels: &'a [ChannelKind]) -> Result<Vec<&'a ChannelKind>, NoSuchChannel> {
        let chosen: Vec<_> = match self {
            Self::First => {
                let come = channels.iter().find(|channel| channel.has_come);
                come.or(channels.first()).into_iter().collect()
            }
            Self::All => channels.iter().collect(),
            Self::Number(_) | Self::Name(_) => {
                let wanted = self.to_string();
                let named =
                    |name: fn(&str) -> &str| channels.iter().find(|channel| name(&channel.name) == wanted);
                named(|name| name).or_else(|| named(shown)).into_iter().collect()
            }
        };
        if chosen.is_empty() {
            let there = channels.iter().map(|channel| shown(&channel.name).to_owned()).collect();
            return Err(NoSuchChannel { wanted: self.clone(), there });
        }
        Ok(chosen)
    }
}

impl Threshold {
    /// The name of the channel where one can be taken and no more; none for the first.
    pub fn one(&self) -> Option<String> {
        match self {
            Self::First | Self::All => None,
            Self::Number(_) | Self::Name(_) => Some(self.to_string()),
        }
    }
}

/// A channel's name; that of stream v1 has none and is the first threshold.
pub fn shown(name: &str) -> &str {
    if name.is_empty() { "threshold_1" } else { name }
}

impl std::fmt::Display for Threshold {
    /// As [`FromStr`](std::str::FromStr) reads it; a number as the name it stands for.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::All => f.write_str("all"),
            Self::Number(number) => write!(f, "threshold_{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl std::str::FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        match text {
            "first" => Ok(Self::First),
            "all" => Ok(Self::All),
            text => match text.parse() {
                Ok(number @ 1..) => Ok(Self::Number(number)),
                Err(_)
                    if text.starts_with(|first: char| first.is_ascii_alphabetic())
                        && text.len() <= 64
                        && text.chars().all(is_of_name) =>
                {
                    Ok(Self::Name(text.to_owned()))
                }
                _ => Err(format!(
                    "got '{text}', expected first, all, the number of a threshold (1 to 255) or the name of a channel"
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use kernels::bslz4_decode::Encoding;
    use kernels::types::{CountType, DetectorShape};

    use super::super::kind::Kind;
    use super::*;

    fn channels(names: &[&str]) -> Vec<ChannelKind> {
        let detector = DetectorShape { rows: 2, cols: 3 };
        let kind = Kind { encoding: Encoding::Bslz4, count_type: CountType::U16, detector };
        names
            .iter()
            .map(|&name| ChannelKind { name: name.to_owned(), kind, has_come: true, note: None })
            .collect()
    }

    fn chosen(threshold: &str, names: &[&str]) -> Result<Vec<String>, String> {
        let channels = channels(names);
        let threshold: Threshold = threshold.parse()?;
        let chosen = threshold.choose(&channels).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|channel| channel.name.clone()).collect())
    }

    #[test]
    fn a_threshold_is_chosen_by_name_by_number_or_with_all_others() {
        let all = ["threshold_1", "threshold_2", "difference"];
        assert_eq!(chosen("first", &all).unwrap(), ["threshold_1"]);
        assert_eq!(chosen("all", &all).unwrap(), all);
        assert_eq!(chosen("2", &all).unwrap(), ["threshold_2"]);
        assert_eq!(chosen("difference", &all).unwrap(), ["difference"]);
        assert_eq!(
            chosen("3", &all).unwrap_err(),
            "got threshold threshold_3, expected one of threshold_1, threshold_2, difference"
        );
        for wrong in ["", "0", "256", "-1", "../x", "a b"] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_channel_of_stream_v1_is_the_first_threshold() {
        for threshold in ["first", "all", "1", "threshold_1"] {
            assert_eq!(chosen(threshold, &[""]).unwrap(), [""]);
        }
        assert!(chosen("difference", &[""]).is_err());
        // beside others one without a name is the first threshold where no other is
        assert_eq!(chosen("1", &["", "threshold_1"]).unwrap(), ["threshold_1"]);
        assert_eq!(chosen("1", &["x", ""]).unwrap(), [""]);
        assert_eq!(Threshold::Name(String::new()).choose(&channels(&["x", ""])).unwrap()[0].name, "");
    }
}
