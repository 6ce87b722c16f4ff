//! The peak of resident memory over a piece of work.

use super::proc::ProcFile;
use anyhow::Result;

/// Watches the peak of resident memory, as the kernel keeps it.
#[derive(Debug)]
pub struct MemoryPeak(Vec<ProcFile>);

impl MemoryPeak {
    /// Forgets the peak so far (where the system lets it) and watches from now on: this process and `others`.
    ///
    /// # Errors
    /// When the system does not account memory to processes (`/proc/self/status`).
    pub fn watch(others: &[u32]) -> Result<Self> {
        let watch = |process: String| {
            // "5" resets the peak. Where that is not allowed the peak since the process began is the best figure there
            // is.
            let reset = std::fs::write(format!("/proc/{process}/clear_refs"), "5");
            drop(reset);
            ProcFile::open(format!("/proc/{process}/status"))
        };
        // What serves the operations is counted, not what asks for them, where these are different processes.
        let own = others.is_empty().then(|| "self".to_owned());
        let processes = own.into_iter().chain(others.iter().map(u32::to_string));
        Ok(Self(processes.map(watch).collect::<Result<_>>()?))
    }

    /// The peak in bytes since the watch began.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn bytes(&self) -> Result<u64> {
        self.sum("VmHWM")
    }

    /// The resident memory now.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn now_bytes(&self) -> Result<u64> {
        self.sum("VmRSS")
    }

    fn sum(&self, label: &str) -> Result<u64> {
        self.0.iter().try_fold(0, |sum, file| {
            let [kilobytes] = file.numbers([label])?;
            Ok(sum + kilobytes * 1024)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_shows_memory_that_was_freed_again() {
        let peak = MemoryPeak::watch(&[]).unwrap();
        // Other tests of this process may begin to watch in between, which forgets the peak: then it is tried again.
        let is_shown = || {
            let before = peak.now_bytes().unwrap();
            drop(vec![1_u8; 64 << 20]);
            peak.bytes().unwrap() >= before + (32 << 20)
        };
        assert!((0..100).any(|_| is_shown()));
        assert!(peak.now_bytes().unwrap() <= peak.bytes().unwrap());
    }
}
