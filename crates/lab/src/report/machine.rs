//! Where a benchmark ran.

use crate::text::bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A machine, as far as it says, when a benchmark began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The options with which that file system is mounted.
    #[serde(default)]
    pub mount_options: String,
    /// The model of the device, if it has one.
    #[serde(default)]
    pub device: String,
    /// How the processors' clock is governed, if it is.
    #[serde(default)]
    pub governor: String,
    /// Processes that ran or waited to run, as means of the last 1, 5 and 15 minutes.
    #[serde(default)]
    pub load: [f64; 3],
    /// Memory that was available.
    #[serde(default)]
    pub available_bytes: u64,
    /// Free space on the file system.
    #[serde(default)]
    pub free_bytes: u64,
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
        let memory = file("/proc/meminfo");
        let memory_bytes = |label: &str| {
            let kilobytes = field(&memory, label);
            kilobytes.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
        };
        let mount = mount(dir, &file("/proc/self/mountinfo")).unwrap_or_default();
        let load: Vec<f64> = file("/proc/loadavg").split(' ').map_while(|number| number.parse().ok()).collect();
        let space = nix::sys::statvfs::statvfs(dir);
        Self {
            cpu: field(&file("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            memory_bytes: memory_bytes("MemTotal"),
            kernel: format!("Linux {}", file("/proc/sys/kernel/osrelease").trim()),
            storage: mount.storage,
            mount_options: mount.options,
            device: device_model(dir),
            governor: file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned(),
            load: load.get(..3).and_then(|load| load.try_into().ok()).unwrap_or_default(),
            available_bytes: memory_bytes("MemAvailable"),
            free_bytes: space.map_or(0, |space| space.blocks_available() * space.fragment_size()),
        }
    }

    /// What it is, in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let governor = if self.governor.is_empty() { String::new() } else { format!(" ({})", self.governor) };
        let device = if self.device.is_empty() { String::new() } else { format!(" ({})", self.device) };
        let options = if self.mount_options.is_empty() { String::new() } else { format!(", {}", self.mount_options) };
        format!(
            "{}{governor}, {} cores, {}, {}, {}{device}{options}",
            self.cpu,
            self.cores,
            bytes(self.memory_bytes),
            self.kernel,
            self.storage
        )
    }

    /// How busy it was when the benchmark began, in a line; nothing for a result that does not say.
    #[must_use]
    pub fn state(&self) -> String {
        if self.available_bytes == 0 {
            return String::new();
        }
        let [one, five, fifteen] = self.load;
        format!(
            "load {one:.2}, {five:.2}, {fifteen:.2}; {} of memory available, {} free on disk",
            bytes(self.available_bytes),
            bytes(self.free_bytes)
        )
    }
}

/// What `mountinfo` says of a mount.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mount {
    storage: String,
    options: String,
}

/// The mount with `dir`, from the text of `mountinfo`: that of the same device, or else, as a file system of several
/// devices has a number of its own, that with the longest path.
fn mount(dir: &Path, mounts: &str) -> Option<Mount> {
    let (device, path) = (fs::metadata(dir).ok()?.dev(), fs::canonicalize(dir).ok()?);
    let wanted = format!("{}:{}", nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let field = |line: &str, at: usize| line.split(' ').nth(at).map(str::to_owned);
    let above = |line: &&str| field(line, 4).is_some_and(|point| path.starts_with(point));
    let length = |line: &&str| field(line, 4).map_or(0, |point| point.len());
    let of_device = mounts.lines().filter(|line| field(line, 2).as_deref() == Some(&wanted));
    let line = of_device.max_by_key(|line| (above(line), length(line)));
    let line = line.or_else(|| mounts.lines().filter(above).max_by_key(length))?;
    let mut after = line.split_once(" - ")?.1.split(' ');
    let (kind, source, of_file_system) = (after.next()?, after.next()?, after.next().unwrap_or_default());
    let own = field(line, 5)?;
    let more = of_file_system.split(',').filter(|option| !own.split(',').any(|other| other == *option));
    let options: Vec<&str> = own.split(',').chain(more).filter(|option| !option.is_empty()).collect();
    Some(Mount { storage: format!("{kind} on {source}"), options: options.join(",") })
}

/// The model of the disk with `dir`, or with the partition that it is on.
fn device_model(dir: &Path) -> String {
    let Ok(device) = fs::metadata(dir).map(|metadata| metadata.dev()) else { return String::new() };
    let place = format!("/sys/dev/block/{}:{}", nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let models = ["device/model", "../device/model"].map(|model| fs::read_to_string(format!("{place}/{model}")));
    models.into_iter().flatten().next().map_or_else(String::new, |model| model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_processors_and_memory() {
        let machine = Machine::here(Path::new("."));
        assert!(machine.cores > 0 && machine.memory_bytes > 0, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux ") && !machine.storage.is_empty(), "{machine:?}");
        assert!(machine.mount_options.contains("rw") && machine.available_bytes > 0, "{machine:?}");
        assert!(machine.state().starts_with("load ") && machine.line().contains(&machine.mount_options));
        assert_eq!(Machine::default().state(), "");
    }

    #[test]
    fn a_mount_has_its_own_options_and_those_of_the_file_system() {
        let mounts = "1 0 0:99999 / / rw,relatime shared:1 - btrfs /dev/vdb rw,compress=zstd,subvol=/\n\
                      2 1 0:99998 / /nowhere ro - tmpfs tmpfs ro\n";
        let found = mount(Path::new("."), mounts).unwrap();
        assert_eq!(found.storage, "btrfs on /dev/vdb");
        assert_eq!(found.options, "rw,relatime,compress=zstd,subvol=/");
    }
}
