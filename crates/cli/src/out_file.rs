//! A file that a command writes: compressed as its name says, and in its place only when it is complete.

use anyhow::{Context as _, Result, bail};
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What the name of a file ends with until it is complete.
const PARTIAL: &str = ".partial";
/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;
/// How hard zstd tries, from 1 to 22.
const ZSTD_LEVEL: i32 = 3;

/// A file that is being written. Dropped before it is complete, it is removed.
pub(crate) struct OutFile {
    path: PathBuf,
    /// Where it is until it is complete; none for what is no regular file, such as a pipe.
    partial: Option<PathBuf>,
    packer: Option<Packer>,
}

enum Packer {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl OutFile {
    /// Begins the file.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            bail!("cannot write {}: it is a directory", path.display());
        }
        let replaces = there.is_none_or(|there| there.is_file());
        let partial = replaces.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(PARTIAL);
            PathBuf::from(name)
        });
        let file = create_file(partial.as_deref().unwrap_or(path)).with_context(cannot)?;
        let file = BufWriter::with_capacity(WRITE_BYTES, file);
        let packer = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Packer::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Some("zst") => {
                let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL).with_context(cannot)?;
                encoder.include_checksum(true).with_context(cannot)?;
                Packer::Zstd(encoder)
            }
            _ => Packer::Plain(file),
        };
        Ok(Self { path: path.to_owned(), partial, packer: Some(packer) })
    }

    /// Ends the file, durably, and puts it in its place.
    pub(crate) fn complete(mut self) -> Result<()> {
        let cannot = || format!("cannot write {}", self.path.display());
        let Some(packer) = self.packer.take() else { return Ok(()) };
        let file = match packer {
            Packer::Plain(file) => Ok(file),
            Packer::Gzip(encoder) => encoder.finish(),
            Packer::Zstd(encoder) => encoder.finish(),
        };
        let file = file.and_then(|file| file.into_inner().map_err(io::Error::from)).with_context(cannot)?;
        let Some(partial) = &self.partial else { return Ok(()) };
        file.sync_all().and_then(|()| fs::rename(partial, &self.path)).with_context(cannot)?;
        self.partial = None;
        let above = self.path.parent().filter(|above| !above.as_os_str().is_empty());
        open_dir(above.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all()).with_context(cannot)
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.packer {
            Some(Packer::Plain(file)) => file.write(bytes),
            Some(Packer::Gzip(encoder)) => encoder.write(bytes),
            Some(Packer::Zstd(encoder)) => encoder.write(bytes),
            None => Ok(bytes.len()),
        };
        // Not the error's own kind: a broken pipe here is no reader of stdout that has enough.
        written.map_err(|error| io::Error::other(format!("cannot write {}: {error}", self.path.display())))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        // What is still buffered is written when the packer goes, which is before the file is removed.
        self.packer = None;
        if let Some(partial) = &self.partial {
            drop(fs::remove_file(partial));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of rows is no part of a database")]
fn create_file(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

#[expect(clippy::disallowed_methods, reason = "the directory of such a file is no part of a database")]
fn open_dir(path: &Path) -> io::Result<File> {
    File::open(path)
}
