//! Where a benchmark ran.

use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A machine, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that may be used.
    pub cores: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Name and version of the kernel.
    pub kernel: String,
    /// The file system and the device that the data lies on.
    pub storage: String,
}

impl Machine {
    /// This machine, with the storage below `dir`.
    #[must_use]
    pub fn here(dir: &Path) -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, label: &str| {
            let line = text.lines().find(|line| line.starts_with(label));
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
        };
        let kilobytes = field(&file("/proc/meminfo"), "MemTotal");
        let kilobytes: u64 = kilobytes.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            cpu: field(&file("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            memory_bytes: kilobytes * 1024,
            kernel: format!("Linux {}", file("/proc/sys/kernel/osrelease").trim()),
            storage: storage(dir, &file("/proc/self/mountinfo")),
        }
    }
}

/// The type and the device of the mount with `dir`, from the text of `mountinfo`.
fn storage(dir: &Path, mounts: &str) -> String {
    let Ok(metadata) = fs::metadata(dir) else { return String::new() };
    let device = metadata.dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let wanted = format!("{major}:{minor}");
    let found = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&wanted));
    let described = found.and_then(|line| {
        let mut after = line.split_once(" - ")?.1.split(' ');
        Some(format!("{} on {}", after.next()?, after.next()?))
    });
    described.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_processors_and_memory() {
        let machine = Machine::here(Path::new("."));
        assert!(machine.cores > 0 && machine.memory_bytes > 0, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "));
    }
}
