//! Ctrl-C, and being asked to end.

use crate::stop::Stop;
use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A stop that the first SIGINT or SIGTERM asks for; a second one ends the process at once, which a database survives too.
///
/// # Errors
/// When the system does not let signals be watched.
pub fn stop() -> Result<Stop> {
    let stop = Stop::default();
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        flag::register_conditional_shutdown(signal, code, stop.flag())
            .and_then(|_| flag::register(signal, stop.flag()))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}
