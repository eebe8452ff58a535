//! What takes long and nobody waits for: exports of series that are durable, and series of the log that are finished again.
//! One at a time; a series that is received comes first.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ingest::record::{ExportSettings, LogKey, export_series};
use kernels::types::{Kilovolts, ScanShape};
use serde_json::{Value, json};

use super::daemon::own_folder;
use super::hub::Hub;
use crate::request::{Interrupted, RunRequest, StopFlag};

/// Jobs that wait, at most.
const MOST_WAITING: usize = 32;
/// How often a waiting job looks whether it may begin.
const TICK: Duration = Duration::from_millis(50);
/// How long an export waits for the disk to have everything; then it takes what there is.
const LONGEST_SYNC: Duration = Duration::from_secs(60);

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobState {
    /// It waits for its turn, or for the disk.
    Waiting,
    Running,
    /// What it made.
    Done(PathBuf),
    /// Why it came to nothing.
    Failed(String),
}

/// The state of a job, shared by who does it and who tells of it.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Mutex<JobState>>);

impl Progress {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(JobState::Waiting)))
    }

    fn set(&self, state: JobState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// How far it is.
    pub(super) fn state(&self) -> JobState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has neither ended nor failed.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.state(), JobState::Waiting | JobState::Running)
    }

    /// As the API tells it.
    pub(super) fn json(&self) -> Value {
        let (state, path, problem) = match self.state() {
            JobState::Waiting => ("waiting", None, None),
            JobState::Running => ("running", None, None),
            JobState::Done(path) => ("done", Some(path.display().to_string()), None),
            JobState::Failed(problem) => ("failed", None, Some(problem)),
        };
        json!({ "state": state, "path": path, "problem": problem })
    }
}

/// An export of a series of the log.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) key: LogKey,
    pub(super) channel: Option<String>,
    /// Folder of the set.
    pub(super) out: PathBuf,
    pub(super) scan: Option<ScanShape>,
    pub(super) voltage: Option<Kilovolts>,
    /// Messages that have to be on the disk, or lost, before it begins.
    pub(super) durable: u64,
}

/// A series of the log that is finished again, or one of its channels.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    /// How; its results go into a folder of their own below `out`.
    pub(super) request: RunRequest,
    pub(super) key: LogKey,
    /// Folder of the channel in that of the series, where several are asked for.
    pub(super) channel_folder: Option<String>,
}

/// What is to be done.
#[derive(Debug)]
enum Work {
    Export(Box<Export>),
    /// A series of the log from its beginning to its results.
    Finish(Box<Finish>),
}

/// The jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    /// Folder of the log; none where nothing is recorded.
    log: Option<PathBuf>,
    waiting: Mutex<VecDeque<(Work, Progress)>>,
    more: Condvar,
    /// Of the series that is finished again at present.
    finishing: Mutex<StopFlag>,
}

impl Jobs {
    pub(super) fn new(log: Option<PathBuf>) -> Self {
        Self { log, waiting: Mutex::default(), more: Condvar::new(), finishing: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Work, Progress)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for an export.
    ///
    /// # Errors
    /// Too many jobs wait already.
    pub(super) fn export(&self, export: Export) -> anyhow::Result<Progress> {
        self.add(Work::Export(Box::new(export)))
    }

    /// Asks for a series of the log to be finished.
    ///
    /// # Errors
    /// Too many jobs wait already.
    pub(super) fn finish(&self, finish: Finish) -> anyhow::Result<Progress> {
        self.add(Work::Finish(Box::new(finish)))
    }

    fn add(&self, work: Work) -> anyhow::Result<Progress> {
        let mut waiting = self.waiting();
        anyhow::ensure!(waiting.len() < MOST_WAITING, "{MOST_WAITING} jobs wait already");
        let progress = Progress::new();
        waiting.push_back((work, progress.clone()));
        self.more.notify_all();
        Ok(progress)
    }

    /// A series is received: what is computed beside it stops, and begins again later.
    pub(super) fn make_way(&self) {
        self.finishing.lock().unwrap_or_else(PoisonError::into_inner).raise_for("the next series");
    }

    /// Does one after the other until the stop flag is raised.
    pub(super) fn run(&self, hub: &Hub, stop: &StopFlag) {
        while let Some((work, progress)) = self.next(stop) {
            let done = match &work {
                Work::Export(export) => self.do_export(export, hub, &progress, stop),
                Work::Finish(finish) => self.do_finish(finish, hub, &progress, stop),
            };
            match done {
                Ok(path) => progress.set(JobState::Done(path)),
                Err(error) if error.is::<Interrupted>() && !stop.is_raised() => {
                    progress.set(JobState::Waiting);
                    self.waiting().push_front((work, progress));
                }
                Err(error) if stop.is_raised() => progress.set(JobState::Failed(format!("{error:#}"))),
                Err(error) => {
                    tracing::error!("{error:#}");
                    progress.set(JobState::Failed(format!("{error:#}")));
                }
            }
            hub.tell();
        }
    }

    /// The next job; waits for one.
    fn next(&self, stop: &StopFlag) -> Option<(Work, Progress)> {
        let mut waiting = self.waiting();
        loop {
            if stop.is_raised() {
                return None;
            }
            if let Some(job) = waiting.pop_front() {
                return Some(job);
            }
            let waited = self.more.wait_timeout(waiting, TICK);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn do_export(
        &self,
        export: &Export,
        hub: &Hub,
        progress: &Progress,
        stop: &StopFlag,
    ) -> anyhow::Result<PathBuf> {
        let log = self.log.as_ref().ok_or_else(nothing_recorded)?;
        let until = Instant::now() + LONGEST_SYNC;
        while hub.settled_on_disk() < export.durable && Instant::now() < until && !stop.is_raised() {
            std::thread::sleep(TICK);
        }
        progress.set(JobState::Running);
        hub.tell();
        let settings = ExportSettings {
            channel: export.channel.clone(),
            scan: export.scan,
            voltage: export.voltage,
            stop: stop.flag(),
            ..ExportSettings::new(format!("series_{}", export.key.key.id))
        };
        Ok(export_series(log, &export.key, &export.out, &settings)?.set.master)
    }

    fn do_finish(
        &self,
        Finish { request, key, channel_folder }: &Finish,
        hub: &Hub,
        progress: &Progress,
        stop: &StopFlag,
    ) -> anyhow::Result<PathBuf> {
        while hub.is_receiving() && !stop.is_raised() {
            std::thread::sleep(TICK);
        }
        let own = StopFlag::default();
        *self.finishing.lock().unwrap_or_else(PoisonError::into_inner) = own.clone();
        progress.set(JobState::Running);
        hub.tell();
        let folder = own_folder(&request.out, key.key.id);
        let out = channel_folder.as_ref().map_or_else(|| folder.clone(), |channel| folder.join(channel));
        let request = RunRequest { stop: own.clone(), out, ..request.clone() };
        let is_over = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            // the end of the daemon is the end of this, too
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    if stop.is_raised() {
                        own.raise();
                    }
                    std::thread::sleep(TICK);
                }
            });
            let report = crate::pipeline::run_of_log(&request, key);
            is_over.store(true, Relaxed);
            report
        });
        if report.is_err() {
            // those that are not empty stay
            let _ = std::fs::remove_dir(&request.out);
            let _ = std::fs::remove_dir(&folder);
        }
        Ok(report?.folder)
    }
}

/// Why nothing can be made of a log.
pub(super) fn nothing_recorded() -> anyhow::Error {
    anyhow::anyhow!("nothing is recorded: there is no folder in [record]")
}
