//! The file that a command reads: a file or stdin, plain or compressed with zstd or gzip, with a byte order mark or
//! without one. Text in another encoding and other archives are named.

use anyhow::{Context as _, Result, bail};
use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

/// What every zstd frame starts with, and every member of a gzip file.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// What files start with that are not read, and how they can be. A pipe through the program needs no file in between.
const OTHERS: [(&[u8], &str, &str); 3] =
    [(b"\xfd7zXZ\0", "xz", "xz -dc"), (b"BZh", "bzip2", "bzip2 -dc"), (b"PK\x03\x04", "zip", "unzip -p")];
/// Bytes that tell what a file is.
const HEAD_BYTES: u64 = 6;
/// The byte order marks of UTF-8, and of UTF-16 in both orders.
const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];
/// Bytes read at once.
const READ_BYTES: usize = 128 << 10;

/// An open input; reads as the text that is in it.
pub(crate) struct Input {
    text: Box<dyn Read>,
    total_bytes: Option<u64>,
    position: Rc<Cell<u64>>,
}

impl Input {
    /// Opens a file of text, or stdin for `-`, and looks whether it is compressed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let input = Self::open_bytes(path)?;
        let text = in_utf8(input.text).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { text, ..input })
    }

    /// As [`Self::open`] of a file that need not be text.
    pub(crate) fn open_bytes(path: &Path) -> Result<Self> {
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
        let file = BufReader::with_capacity(READ_BYTES, Counted { file, position: Rc::clone(&position) });
        let (head, whole) = peek(file).with_context(cannot)?;
        let text: Box<dyn Read> = if head.starts_with(ZSTD_MAGIC) {
            Box::new(Unpacked(zstd::Decoder::new(BufReader::new(whole)).with_context(cannot)?))
        } else if head.starts_with(GZIP_MAGIC) {
            Box::new(Unpacked(MultiGzDecoder::new(whole)))
        } else if let Some((_, what, program)) = OTHERS.iter().find(|(magic, ..)| head.starts_with(magic)) {
            bail!(
                "{}: a {what} file, which is not read: pipe `{program}` of it into stdin, and give - as the file",
                path.display()
            );
        } else {
            Box::new(whole)
        };
        Ok(Self { text, total_bytes, position })
    }

    /// Length of the file as stored, if it has one.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// How much of it has been read, kept up to date.
    pub(crate) fn position(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.position)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer)
    }
}

/// The first bytes, and a reader of all.
fn peek<R: Read>(mut file: R) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(file);
    Ok((head, whole))
}

/// The text without its byte order mark.
fn in_utf8(text: Box<dyn Read>) -> Result<Box<dyn Read>> {
    let (head, mut whole) = peek(text)?;
    // JSON text begins with two characters of ASCII.
    let is_utf16 = UTF16_MARKS.iter().any(|mark| head.starts_with(mark))
        || matches!(head[..], [0, 1..=u8::MAX, ..] | [1..=u8::MAX, 0, ..]);
    if is_utf16 {
        bail!("it is UTF-16 text: pipe `iconv -f UTF-16 -t UTF-8` of it into stdin, and give - as the file");
    }
    if head.starts_with(UTF8_MARK) {
        whole.read_exact(&mut [0; UTF8_MARK.len()])?;
    }
    Ok(Box::new(whole))
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
    use std::io::Write as _;

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

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_read_member_after_member_and_cut_off_it_is_an_error() {
        let compressed = [gzip(b"first\n"), gzip(b"second\n")].concat();
        assert_eq!(read(&compressed).unwrap(), "first\nsecond\n");
        let error = format!("{:#}", read(&gzip(&[b'x'; 1000])[..20]).unwrap_err());
        assert!(error.contains("the compressed data is cut off"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_of_utf8_is_no_part_of_the_text() {
        for text in ["", "{}\n"] {
            let marked = [UTF8_MARK, text.as_bytes()].concat();
            assert_eq!(read(&marked).unwrap(), text);
            assert_eq!(read(&zstd::encode_all(&marked[..], 1).unwrap()).unwrap(), text);
            assert_eq!(read(&gzip(&marked)).unwrap(), text);
        }
    }

    #[test]
    fn other_encodings_and_archives_are_named_with_what_to_do() {
        let utf16: Vec<u8> = "{\"id\": 1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "{\"id\": 1}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = [UTF16_MARKS[0], &utf16].concat();
        for text in [&utf16, &big, &marked, &gzip(&utf16)] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains("UTF-16") && error.contains("iconv"), "{error}");
        }
        for (magic, what, program) in OTHERS {
            let error = format!("{:#}", read(&[magic, b"more"].concat()).unwrap_err());
            assert!(error.contains(what) && error.contains(program), "{error}");
        }
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
