//! Waiting for background work that an engine has no verb to wait for.

use anyhow::Result;
use spinney_lab::Clock;
use std::time::Duration;

/// How long nothing must have moved for the work to be over.
const QUIET: Duration = Duration::from_secs(2);
/// How often to look.
const LOOK: Duration = Duration::from_millis(100);

/// Returns when `progress` has stayed the same for a while.
pub(crate) fn wait_until_quiet<P: PartialEq>(progress: impl Fn() -> Result<P>) -> Result<()> {
    let clock = Clock::real();
    let (mut last, mut since) = (progress()?, clock.now());
    while clock.now() - since < QUIET {
        clock.sleep(LOOK);
        let now = progress()?;
        if now != last {
            (last, since) = (now, clock.now());
        }
    }
    Ok(())
}

/// Returns when `is_done`.
pub(crate) fn wait_until(is_done: impl Fn() -> Result<bool>) -> Result<()> {
    while !is_done()? {
        Clock::real().sleep(LOOK);
    }
    Ok(())
}
