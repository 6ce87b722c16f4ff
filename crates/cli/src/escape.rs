//! Bytes as text on one line.

/// A name that was given by somebody, on one line of a terminal.
pub(crate) fn one_line(text: &str) -> String {
    escape(text.as_bytes())
}

/// Bytes as text on one line, from which [`argument`](crate::output::argument) gets them back: UTF-8 stays as it is,
/// but for control characters and backslashes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\\' => text.push_str("\\\\"),
                char if char.is_control() => char.to_string().bytes().for_each(|byte| push_hex(&mut text, byte)),
                char => text.push(char),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_hex(&mut text, byte));
    }
    text
}

fn push_hex(text: &mut String, byte: u8) {
    text.push_str(&format!("\\x{byte:02x}"));
}
