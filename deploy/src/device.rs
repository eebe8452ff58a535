//! Which device computes phases: what can be asked for, and what a machine has.

use std::fmt::{self, Display};
use std::str::FromStr;

use anyhow::{Context, anyhow};
use kernels::{Device, Processor};
use serde::{Deserialize, Serialize};

use crate::request::WrongFlags;

/// What computes phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The first CUDA device where there is one, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The CUDA device of this number, counted from 0; the first where none is said.
    Cuda(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => match text.strip_prefix("cuda:").and_then(|number| number.parse().ok()) {
                Some(number) => Ok(Self::Cuda(Some(number))),
                None => Err(format!("got the device '{text}', expected auto, cpu, cuda or cuda:NUMBER")),
            },
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

impl Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(f, "cuda:{number}"),
        }
    }
}

impl DeviceChoice {
    /// Opens the device. A CUDA device compiles its kernels the first time, which takes a few seconds.
    ///
    /// # Errors
    /// A CUDA device was asked for and cannot be used: why, in one line.
    pub fn open(self) -> anyhow::Result<Processor> {
        match self {
            Self::Cpu => Ok(Processor::Cpu),
            Self::Auto => Ok(Processor::cuda(0).unwrap_or_else(|why| {
                tracing::debug!("no CUDA device: {why}");
                Processor::Cpu
            })),
            Self::Cuda(number) => Processor::cuda(number.unwrap_or(0))
                .map_err(|why| anyhow!(why))
                .with_context(|| format!("--device {self}"))
                .map_err(|error| WrongFlags(error).into()),
        }
    }
}

/// `CPU (2 threads)`, or that and the CUDA device that computes phases.
pub fn described(processor: &Processor) -> String {
    match processor {
        Processor::Cpu => processor.name(),
        Processor::Cuda(_) => format!("{}, phases on {}", Processor::Cpu.name(), processor.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let cuda = [None, Some(0), Some(3)].map(DeviceChoice::Cuda);
        for choice in [DeviceChoice::Auto, DeviceChoice::Cpu].into_iter().chain(cuda) {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        // as it was given
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap().to_string(), "cuda");
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let refused = wrong.parse::<DeviceChoice>().unwrap_err();
            assert_eq!(refused, format!("got the device '{wrong}', expected auto, cpu, cuda or cuda:NUMBER"));
        }
    }
}
