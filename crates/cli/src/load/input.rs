//! The file to load: a file or stdin, plain or compressed with zstd.

use anyhow::{Context as _, Result, bail};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

/// What every zstd frame starts with.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes read at once.
const READ_BYTES: usize = 128 << 10;

/// An open input; reads as the text that is in it.
pub(super) struct Input {
    text: Box<dyn Read>,
    total_bytes: Option<u64>,
    position: Rc<Cell<u64>>,
}

impl Input {
    /// Opens a file, or stdin for `-`, and looks whether it is compressed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let (file, total_bytes): (Box<dyn Read>, _) = if path == Path::new("-") {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = open_file(path).with_context(cannot)?;
            let metadata = file.metadata().with_context(cannot)?;
            if metadata.is_dir() {
                bail!("cannot read {}: it is a directory", path.display());
            }
            (Box::new(file), metadata.is_file().then_some(metadata.len()))
        };
        let position = Rc::new(Cell::new(0));
        let mut file = BufReader::with_capacity(READ_BYTES, Counted { file, position: Rc::clone(&position) });
        let mut head = Vec::new();
        file.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head).with_context(cannot)?;
        let compressed = head == ZSTD_MAGIC;
        let whole = Cursor::new(head).chain(file);
        let text: Box<dyn Read> = if compressed {
            Box::new(Unpacked(zstd::Decoder::new(whole).with_context(cannot)?))
        } else {
            Box::new(whole)
        };
        Ok(Self { text, total_bytes, position })
    }

    /// Length of the file as stored, if it has one.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// How much of it has been read, kept up to date.
    pub(super) fn position(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.position)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer)
    }
}

#[expect(clippy::disallowed_methods, reason = "an input file is no part of a database")]
fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Says of an error that the compressed data is at fault.
struct Unpacked<R>(R);

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the compressed data is cut off"),
            kind => io::Error::new(kind, format!("cannot decompress: {error}")),
        })
    }
}

/// Counts what is read.
struct Counted<R> {
    file: R,
    position: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read(buffer)?;
        self.position.set(self.position.get() + len as u64);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<String> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), bytes)?;
        let mut input = Input::open(file.path())?;
        assert_eq!(input.total_bytes(), Some(bytes.len() as u64));
        let mut text = String::new();
        input.read_to_string(&mut text)?;
        assert_eq!(input.position().get(), bytes.len() as u64);
        Ok(text)
    }

    #[test]
    fn plain_text_reads_as_it_is() {
        for text in ["", "{", "{}\n", "(\u{b5}"] {
            assert_eq!(read(text.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn compressed_text_reads_as_the_text() {
        let mut compressed = zstd::encode_all(&b"first\n"[..], 3).unwrap();
        compressed.extend(zstd::encode_all(&b"second\n"[..], 3).unwrap());
        assert_eq!(read(&compressed).unwrap(), "first\nsecond\n");
    }

    #[test]
    fn compressed_text_that_is_cut_off_is_an_error() {
        let compressed = zstd::encode_all(&[b'x'; 1000][..], 3).unwrap();
        assert!(read(&compressed[..compressed.len() - 3]).is_err());
    }

    #[test]
    fn a_directory_and_a_missing_file_are_errors_that_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        for path in [dir.path(), &missing] {
            let error = format!("{:#}", Input::open(path).err().unwrap());
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }
}
