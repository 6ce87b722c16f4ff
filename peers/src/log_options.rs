//! The options of a redo log, for engines whose log has none of them.

use anyhow::{Result, ensure};
use spinney_lab::driver::{Compression, Config, Lacks, LogConfig};

/// Refuses them.
pub(crate) fn refuse(config: &Config) -> Result<()> {
    let LogConfig { compression, dir, segment_bytes: _, keep_bytes: _ } = &config.log;
    ensure!(compression.is_none_or(|wanted| wanted == Compression::None), Lacks::new("no compression of a redo log"));
    ensure!(dir.is_none(), Lacks::new("no directory of its own for a redo log"));
    Ok(())
}
