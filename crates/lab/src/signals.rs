//! Ctrl-C, and being asked to end.

use crate::stop::Stop;
use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The exit code that tells which signal asked first; zero before one did.
static CODE: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The exit code of a process that ends because it was asked to: 143 after SIGTERM, else 130, as after ctrl-C.
#[must_use]
pub fn exit_code() -> u8 {
    match CODE.get().map(|code| code.load(Ordering::Relaxed)) {
        Some(143) => 143,
        _ => 130,
    }
}

/// A stop that the first SIGINT or SIGTERM asks for; a second one ends the process at once, which a database survives
/// too.
///
/// # Errors
/// When the system does not let signals be watched.
pub fn stop() -> Result<Stop> {
    let stop = Stop::default();
    let first = CODE.get_or_init(Arc::default);
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        flag::register_conditional_shutdown(signal, code, stop.flag())
            .and_then(|_| flag::register_usize(signal, Arc::clone(first), code.unsigned_abs() as usize))
            .and_then(|_| flag::register(signal, stop.flag()))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}
