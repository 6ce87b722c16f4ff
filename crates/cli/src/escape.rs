//! Bytes as text on one line.

use std::io::{self, Write};

/// A name that was given by somebody, on one line of a terminal.
pub(crate) fn one_line(text: &str) -> String {
    escape(text.as_bytes())
}

/// Bytes as text on one line, from which [`unescape`] gets them back: UTF-8 stays as it is, but for control characters
/// and backslashes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len());
    write_escaped(bytes, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("bytes that are not UTF-8 are escaped")
}

/// Writes what [`escape`] gives, without keeping it in memory.
pub(crate) fn write_escaped(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        let mut plain = chunk.valid();
        while let Some((at, char)) = plain.char_indices().find(|(_, char)| char.is_control() || *char == '\\') {
            let (before, rest) = plain.split_at(at);
            let (special, after) = rest.split_at(char.len_utf8());
            out.write_all(before.as_bytes())?;
            match char {
                '\n' => out.write_all(b"\\n")?,
                '\r' => out.write_all(b"\\r")?,
                '\t' => out.write_all(b"\\t")?,
                '\\' => out.write_all(b"\\\\")?,
                _ => write_hex(special.as_bytes(), out)?,
            }
            plain = after;
        }
        out.write_all(plain.as_bytes())?;
        write_hex(chunk.invalid(), out)?;
    }
    Ok(())
}

fn write_hex(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}

/// Appends the bytes that [`escape`] made this text of. False when a backslash begins no escape.
#[must_use]
pub(crate) fn unescape(text: &[u8], bytes: &mut Vec<u8>) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        bytes.extend_from_slice(plain);
        let (byte, len) = match escape[1..] {
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b't', ..] => (b'\t', 2),
            [b'\\', ..] => (b'\\', 2),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_value(high) << 4 | hex_value(low), 4)
            }
            _ => return false,
        };
        bytes.push(byte);
        rest = &escape[len..];
    }
    bytes.extend_from_slice(rest);
    true
}

/// The value of a hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
