//! `sideband serve` on the command line.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::run_args::RingArgs;
use super::{Ending, OpticsArgs, tell};
use crate::optics::OpticsError;
use crate::request::{StopFlag, parse_threads};
use crate::serve::ServeRequest;

/// What `sideband serve` takes.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The detector's PUSH socket: port 9999 for stream v1, 31001 for stream v2.
    #[arg(long, value_name = "HOST:PORT", env = "SIDEBAND_STREAM")]
    pub stream: String,
    /// Folder that gets a folder for every series.
    #[arg(long, value_name = "DIR", env = "SIDEBAND_OUT")]
    pub out: PathBuf,
    /// Where the page and the API are served; away from this machine's own addresses a token is needed.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8040", env = "SIDEBAND_LISTEN")]
    pub listen: SocketAddr,
    /// File with the token that the page and the API are asked with; made up at the start where one is needed and none given.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Channel of stream v2 to read, such as threshold_1; the first of each image when not given.
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Seconds of silence after which a series is over.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub silence_s: f64,
    /// Memory between the wire and the rest, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub ring_mib: u32,
    /// Most memory the encoded counts may take, in GB (10^9 bytes); chosen from the free memory when not given.
    #[arg(long, value_name = "GB", value_parser = super::run_args::positive)]
    pub memory_gb: Option<f64>,
    /// Worker threads; one a core when not given.
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// End after so many series; stays when not given.
    #[arg(long, value_name = "N")]
    pub series: Option<u64>,
    /// The microscope.
    #[command(flatten)]
    pub optics: OpticsArgs,
    /// The virtual detectors.
    #[command(flatten)]
    pub rings: RingArgs,
}

/// Most bytes of a token file.
const MOST_TOKEN_BYTES: u64 = 4096;

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("got '{text}', expected 0.1 to 86400 s")),
    }
}

impl ServeArgs {
    /// What is asked for, its files read; it ends when `stop` is raised.
    ///
    /// # Errors
    /// [`OpticsError::OpticsFile`]; a token file that cannot be read or holds no token.
    fn request(&self, stop: StopFlag) -> anyhow::Result<ServeRequest> {
        let token = match &self.token_file {
            None => None,
            Some(path) => {
                let refused = |what: String| anyhow::anyhow!("{}: {what}", path.display());
                let bytes = ingest::read_small_file(path, MOST_TOKEN_BYTES)
                    .map_err(|error| refused(error.to_string()))?;
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                let is_fine = text.len() >= 16
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
                anyhow::ensure!(
                    is_fine,
                    refused(format!(
                        "got {} characters, expected a token of at least 16 letters, digits, - _ . ~",
                        text.len()
                    ))
                );
                Some(text)
            }
        };
        let optics = self.optics.request().map_err(|error: OpticsError| anyhow::Error::from(error))?;
        Ok(ServeRequest {
            stream: self.stream.trim_start_matches("tcp://").to_owned(),
            listen: self.listen,
            token,
            out: self.out.clone(),
            optics,
            rings: self.rings.rings(),
            channel: self.channel.clone(),
            silence: Duration::from_secs_f64(self.silence_s),
            ring_bytes: (self.ring_mib as usize) << 20,
            memory_budget_bytes: self.memory_gb.map(|gb| (gb * 1e9) as u64),
            threads: self.threads,
            most_series: self.series,
            stop,
        })
    }
}

/// Serves until it is told to stop, or enough series have come.
///
/// # Errors
/// Those of [`crate::serve::serve`].
pub(super) fn serve(args: &ServeArgs, stop: StopFlag) -> anyhow::Result<Ending> {
    let request = args.request(stop.clone())?;
    // a stdout that went away is no reason to lose a series
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            tell(line);
        }
    };
    crate::serve::serve(&request, &say)?;
    let is_done = request.most_series.is_some() && stop.cause() == "request";
    Ok(if is_done { Ending::Done } else { Ending::Interrupted })
}
