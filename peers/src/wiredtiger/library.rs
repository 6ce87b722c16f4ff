//! The shared library, found when the program runs.

use super::layout::{self, Layout, Version};
use anyhow::{Context as _, Result, anyhow};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Names a directory with a newer library for `wiredtiger-btree`.
pub(super) const DIR_VARIABLE: &str = "SPINNEY_WIREDTIGER_DIR";

/// The name that Debian's package gives the library.
const SYSTEM_NAME: &str = "libwiredtiger.so.0";

/// The loaded library.
#[derive(Debug)]
pub(super) struct Library {
    /// Keeps the code where the pointers below point.
    _code: libloading::Library,
    pub(super) version: Version,
    pub(super) layout: &'static Layout,
    open: OpenFunction,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Where compressors of the same build would lie.
    dir: PathBuf,
}

type OpenFunction = unsafe extern "C" fn(*const c_char, *const c_void, *const c_char, *mut *mut c_void) -> c_int;
type VersionFunction = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;

impl Library {
    /// The system's library.
    pub(super) fn system() -> Result<Self> {
        Self::load(Path::new(SYSTEM_NAME), PathBuf::from("/usr/lib/x86_64-linux-gnu"))
    }

    /// The library in the directory that the environment names, or the system's.
    pub(super) fn newest() -> Result<Self> {
        match std::env::var_os(DIR_VARIABLE) {
            Some(dir) => Self::load(&Path::new(&dir).join("libwiredtiger.so"), PathBuf::from(dir)),
            None => Self::system(),
        }
    }

    fn load(path: &Path, dir: PathBuf) -> Result<Self> {
        // SAFETY: the library's initialisers do nothing but set up the C runtime's state.
        let code = unsafe { libloading::Library::new(path) };
        let code = code.with_context(|| format!("cannot load {}", path.display()))?;
        // SAFETY: the types are those of `wiredtiger_version`, `wiredtiger_open` and `wiredtiger_strerror` in every
        // version's header.
        let (version, open, strerror) = unsafe {
            (
                *code.get::<VersionFunction>(b"wiredtiger_version\0")?,
                *code.get::<OpenFunction>(b"wiredtiger_open\0")?,
                *code.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"wiredtiger_strerror\0")?,
            )
        };
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the function writes to the three numbers and returns a constant.
        unsafe { version(&raw mut major, &raw mut minor, &raw mut patch) };
        let version = (major, minor, patch);
        let layout = layout::of(version).ok_or_else(|| {
            anyhow!(
                "WiredTiger {major}.{minor}.{patch} is not one of the versions whose handles are known: {}",
                layout::KNOWN
            )
        })?;
        Ok(Self { _code: code, version, layout, open, strerror, dir })
    }

    /// The version as text.
    pub(super) fn version_text(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{major}.{minor}.{patch}")
    }

    /// The library of a compressor (`lz4`, `zstd`), when it lies beside this one.
    pub(super) fn extension(&self, name: &str) -> Option<PathBuf> {
        let file = format!("libwiredtiger_{name}.so");
        let build_tree = self.dir.join("ext/compressors").join(name).join(&file);
        [self.dir.join(file), build_tree].into_iter().find(|path| path.exists())
    }

    /// Calls `wiredtiger_open`.
    pub(super) fn open(&self, home: &CStr, config: &CStr) -> Result<*mut c_void> {
        let mut connection = std::ptr::null_mut();
        // SAFETY: the strings end in zero and live until the call returns; it takes no event handler.
        let code = unsafe { (self.open)(home.as_ptr(), std::ptr::null(), config.as_ptr(), &raw mut connection) };
        self.check(code).with_context(|| format!("wiredtiger_open with {}", config.to_string_lossy()))?;
        Ok(connection)
    }

    /// An error for each code but 0.
    pub(super) fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a constant string that ends in zero, for any code.
        let text = unsafe { CStr::from_ptr((self.strerror)(code)) };
        Err(anyhow!("{}", text.to_string_lossy()))
    }
}
