//! Files that chores read, copy and write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Copies a file, with the folders that it needs and a mode.
pub(super) fn install(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    write(to, &bytes, mode)
}

/// Writes a file, with the folders that it needs and a mode.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(told)?;
    fs::write(path, bytes).map_err(told)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(told)
}
