//! What clients asked for with `autoCompact`. The engine compacts in the background at all times; this is kept so that
//! two clients that ask for different things hear of it.

use parking_lot::Mutex;

use crate::base::{Error, ErrorCode, Result};

/// The free space in megabytes from which on a file is to be compacted, when a client does not say it.
pub const FREE_SPACE_TARGET_MB: i64 = 20;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The free space from which on a file is to be compacted, in megabytes.
    pub free_space_target_mb: i64,
    /// Whether files are to be compacted once.
    pub run_once: bool,
}

/// What compaction in the background was asked to be; nothing while no client asked for it.
#[derive(Debug, Default)]
pub struct AutoCompact {
    config: Mutex<Option<Config>>,
}

impl AutoCompact {
    /// Keeps what a client asks for.
    ///
    /// # Errors
    /// `BadValue` (2) for a target that cannot be counted in bytes, `AlreadyInitialized` (23) when another client asked
    /// for something else.
    pub fn enable(&self, wanted: Config) -> Result<()> {
        if wanted.free_space_target_mb.checked_mul(1 << 20).is_none() {
            let megabytes = wanted.free_space_target_mb;
            return Err(Error::bad_value(format!("freeSpaceTargetMB of {megabytes} cannot be counted in bytes")));
        }
        let mut config = self.config.lock();
        if config.is_some_and(|kept| kept != wanted) {
            let what = "autoCompact is enabled with another configuration; disable it first";
            return Err(Error::new(ErrorCode::ALREADY_INITIALIZED, what));
        }
        // What is to be done once is not kept: the engine is at it in any case.
        *config = (!wanted.run_once).then_some(wanted);
        Ok(())
    }

    /// Forgets what a client asked for.
    pub fn disable(&self) {
        *self.config.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_configuration_is_refused_until_the_first_is_disabled() {
        let auto = AutoCompact::default();
        let config = |free_space_target_mb| Config { free_space_target_mb, run_once: false };
        auto.enable(config(30)).unwrap();
        auto.enable(config(30)).unwrap();
        assert_eq!(auto.enable(config(50)).unwrap_err().code(), ErrorCode::ALREADY_INITIALIZED);
        assert_eq!(auto.enable(config(1 << 50)).unwrap_err().code(), ErrorCode::BAD_VALUE);
        auto.disable();
        auto.enable(config(50)).unwrap();
    }
}
