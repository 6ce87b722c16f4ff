//! The peak of the process's resident memory over a piece of work.

use super::proc::ProcFile;
use anyhow::Result;

/// Watches the peak of resident memory, as the kernel keeps it.
#[derive(Debug)]
pub struct MemoryPeak(ProcFile);

impl MemoryPeak {
    /// Forgets the peak so far (where the system lets it) and watches from now on.
    ///
    /// # Errors
    /// When the system does not account memory to processes (`/proc/self/status`).
    pub fn watch() -> Result<Self> {
        // "5" resets the peak. Where that is not allowed the peak since the process began is the best figure there is.
        let reset = std::fs::write("/proc/self/clear_refs", "5");
        drop(reset);
        Ok(Self(ProcFile::open("/proc/self/status")?))
    }

    /// The peak in bytes since the watch began.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn bytes(&self) -> Result<u64> {
        let [kilobytes] = self.0.numbers(["VmHWM"])?;
        Ok(kilobytes * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_shows_memory_that_was_freed_again() {
        let peak = MemoryPeak::watch().unwrap();
        let before = peak.bytes().unwrap();
        drop(vec![1_u8; 64 << 20]);
        assert!(peak.bytes().unwrap() >= before + (32 << 20));
    }
}
