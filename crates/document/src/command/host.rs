//! What is known of the machine and the process, where the operating system tells it in files.

use std::fs;

fn line(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The number behind a name in a file of lines such as `MemTotal: 16 kB`, in bytes.
fn bytes_of(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let number = rest.trim_start_matches(':').split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or_default().saturating_mul(1024)
}

/// The name of the machine; `localhost` where it is not known.
pub(super) fn name() -> String {
    let name = line("/proc/sys/kernel/hostname");
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// The version of the kernel.
pub(super) fn kernel() -> String {
    line("/proc/sys/kernel/osrelease")
}

/// The version of the system in words.
pub(super) fn version() -> String {
    line("/proc/version")
}

/// The name of the system.
pub(super) fn system_name() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "windows" => "Windows",
        other => other,
    }
}

/// The name of the processor.
pub(super) fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.unwrap_or_default().trim_start_matches([':', ' ', '\t']).to_owned()
}

/// The memory of the machine in bytes; 0 where it is not known.
pub(super) fn memory_bytes() -> u64 {
    bytes_of("/proc/meminfo", "MemTotal")
}

/// The memory that the process has in RAM, and all that it has mapped, in bytes; 0 where it is not known.
pub fn process_bytes() -> (u64, u64) {
    (bytes_of("/proc/self/status", "VmRSS"), bytes_of("/proc/self/status", "VmSize"))
}
