//! Memory that the machine really has before something is measured.
//!
//! A virtual machine may be given memory only when it first touches it, and may lose it again when it is free: a page
//! then costs some ten microseconds, paid by the process that touches it first. That is no property of an engine.

use super::proc::ProcFile;
use spinney::base::num::usize_of;

/// Memory is touched in pieces of pages, the smallest that there are.
const PAGE_BYTES: usize = 4 << 10;

/// Touches `bytes` of memory, at most half of what is available, and frees it. Says how much it was.
pub fn touch_memory(bytes: u64) -> u64 {
    let bytes = bytes.min(available_bytes().unwrap_or_default() / 2);
    let mut memory = vec![0_u8; usize_of(bytes)];
    memory.chunks_mut(PAGE_BYTES).for_each(|page| page[0] = 1);
    std::hint::black_box(&memory);
    bytes
}

/// Memory that can be had without anything being given up; none where the system does not say.
fn available_bytes() -> Option<u64> {
    let [kilobytes] = ProcFile::open("/proc/meminfo".to_owned()).ok()?.numbers(["MemAvailable"]).ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_touched_than_is_available() {
        assert_eq!(touch_memory(1 << 20), if available_bytes().is_some() { 1 << 20 } else { 0 });
        assert!(touch_memory(0) == 0 && available_bytes().is_none_or(|available| available > 2 << 20));
    }
}
