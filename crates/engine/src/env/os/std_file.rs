//! Files by the standard library alone: buffered; space is not reserved, and that of freed blocks is not given back.

use super::super::file::File;
use crate::base::num::u64_of;
use std::fs;
use std::io;

/// A buffered file.
#[derive(Debug)]
pub(super) struct StdFile(pub(super) fs::File);

impl StdFile {
    /// Reads by one call.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset);
    }

    /// Writes by one call, perhaps a part.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.0, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.0, bytes, offset);
    }
}

impl File for StdFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..], offset + u64_of(filled)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += u64_of(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        if self.len()? < bytes {
            self.set_len(bytes)?;
        }
        Ok(false)
    }

    fn punch_hole(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn alignment(&self) -> usize {
        1
    }

    fn read_alignment(&self) -> usize {
        1
    }
}
