//! Signals that ask for an end: Ctrl-C (SIGINT), SIGTERM, and SIGHUP when the terminal goes away.
//!
//! The first asks for an end in good order; a Ctrl-C after it ends at once. Others that come again are the same wish:
//! `timeout` sends SIGTERM twice, a terminal that closes can send SIGHUP twice.

use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{process, ptr};

use anyhow::Context;
use libc::{SIGHUP, SIGINT, SIGTERM};

use super::tell;
use crate::request::StopFlag;

/// The first signal that asked for an end; 0 before.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// The exit code of what was interrupted: 128 and the number of the signal, as shells have it; that of Ctrl-C when there
/// was none.
pub(super) fn exit_code() -> u8 {
    let first = match FIRST.load(Ordering::SeqCst) {
        0 => SIGINT,
        signal => signal,
    };
    u8::try_from(128 + first).unwrap_or(u8::MAX)
}

/// A stop flag that a signal raises; one a process, and before its other threads: they inherit that signals are left to
/// the one that waits for them.
///
/// # Errors
/// The system refuses.
pub(super) fn stop_on_signal() -> anyhow::Result<StopFlag> {
    let stop = StopFlag::default();
    let raised = stop.clone();
    let signals = hold_back().context("signals cannot be handled")?;
    let named = std::thread::Builder::new().name("signals".to_owned());
    named.spawn(move || attend(&signals, &raised)).context("no thread for signals")?;
    Ok(stop)
}

/// Answers signals for as long as the process lives.
fn attend(signals: &libc::sigset_t, stop: &StopFlag) {
    loop {
        let mut signal = 0;
        // SAFETY: both point to values that live here; `hold_back` has made the set.
        if unsafe { libc::sigwait(signals, &raw mut signal) } != 0 {
            return; // only a set of no signals does that
        }
        let is_first = FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if is_first {
            stop.raise_for(name(signal));
            tell("\nstopping in good order (again Ctrl-C ends at once)");
        } else if signal == SIGINT {
            process::exit(exit_code().into());
        }
    }
}

/// What asked for an end, as `result.json` names it.
fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT (Ctrl-C)",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

/// Blocks the signals in this thread and all it starts, and returns them as a set. A SIGHUP that is ignored, as `nohup`
/// has it, stays ignored.
fn hold_back() -> Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset writes the whole set.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGHUP || !is_ignored(signal)? {
            // SAFETY: the set was made above.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
    }
    // SAFETY: the set lives here; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
        0 => Ok(set),
        error => Err(Error::from_raw_os_error(error)),
    }
}

fn is_ignored(signal: i32) -> Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is given; the present one is written to where it fits.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: sigaction has written it.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}
