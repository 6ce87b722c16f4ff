//! Copies of data files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Result};
use crate::env::{Access, Env, File, OpenOptions};
use crate::store::Extent;

const COPY_BYTES: usize = 1 << 20;

/// Whether an error of a link says that the two places cannot share a file.
pub(crate) fn cannot_link(error: &io::Error) -> bool {
    [io::ErrorKind::CrossesDevices, io::ErrorKind::Unsupported].contains(&error.kind())
}

pub(crate) fn open_file(env: &Env, path: &Path, access: Access) -> Result<Arc<dyn File>> {
    env.fs.open(path, OpenOptions { access, direct: false }).map_err(|error| Error::io("open", path, error))
}

/// Copies a file but for what is free in it, durably; the copy has at least `bytes_min` bytes. Returns how many it has.
pub(crate) fn copy(
    env: &Env,
    source: &dyn File,
    (from, to): (&Path, &Path),
    bytes_min: u64,
    free: &[Extent],
) -> Result<u64> {
    let target = open_file(env, to, Access::CreateNew)?;
    let bytes = source.len().map_err(|error| Error::io("read", from, error))?;
    let mut buffer = vec![0; usize_of(bytes.min(u64_of(COPY_BYTES)))];
    let mut at = 0;
    let ends = free.iter().map(|extent| extent.offset().min(bytes)).chain([bytes]);
    let nexts = free.iter().map(|extent| extent.end_offset()).chain([bytes]);
    for (end, next) in ends.zip(nexts) {
        while at < end {
            let wanted = usize_of((end - at).min(u64_of(COPY_BYTES)));
            let read = source.read_at(&mut buffer[..wanted], at).map_err(|error| Error::io("read", from, error))?;
            if read == 0 {
                break;
            }
            target.write_at(&buffer[..read], at).map_err(|error| Error::io("write", to, error))?;
            at += u64_of(read);
        }
        at = next;
    }
    let sized = target.set_len(bytes.max(bytes_min));
    sized.and_then(|()| target.sync()).map_err(|error| Error::io("write", to, error))?;
    Ok(bytes.max(bytes_min))
}
