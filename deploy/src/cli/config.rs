//! `sideband config`: looks at a file of settings without starting anything.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::{Ending, say};
use crate::config::Config;
use crate::request::WrongFlags;

/// What `sideband config` takes.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub action: Action,
}

/// What can be done with a file of settings.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// Say whether the daemon would take it; what it would not is named.
    Check {
        /// The file.
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
    },
    /// Write it out as the daemon would take it, with every default and every key; without a file, the defaults.
    Print {
        /// The file.
        #[arg(value_name = "FILE.toml")]
        file: Option<PathBuf>,
    },
}

/// Checks or prints.
///
/// # Errors
/// The file cannot be taken; exit code 2.
pub(super) fn config(args: &ConfigArgs) -> anyhow::Result<Ending> {
    match &args.action {
        Action::Check { file } => {
            Config::read(file).map_err(WrongFlags::because)?;
            say(&format!("{}: fine", file.display()))?;
        }
        Action::Print { file } => {
            let config = file.as_deref().map(Config::read).transpose().map_err(WrongFlags::because)?;
            let text = config.unwrap_or_default().printed().context("the settings cannot be written out")?;
            say(text.trim_end())?;
        }
    }
    Ok(Ending::Done)
}
