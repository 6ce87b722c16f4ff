//! The version of the interface.

use std::ffi::c_char;

use spinney::Error;

/// The version of this interface. A program gives it to `spinney_open`, which refuses one that the library does not
/// have: then the program was compiled with another library's header.
pub const SPINNEY_ABI_VERSION: u32 = 1;

/// Checks the version that a program was compiled with.
pub(crate) fn check_abi(version: u32) -> spinney::Result<()> {
    if version == SPINNEY_ABI_VERSION {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the program was compiled for version {version} of the interface, and the library has version \
         {SPINNEY_ABI_VERSION}: compile it with the header of the installed library"
    )))
}

/// The version of the library, as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of the library's interface, which is `SPINNEY_ABI_VERSION` of its header.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_abi_version() -> u32 {
    SPINNEY_ABI_VERSION
}
