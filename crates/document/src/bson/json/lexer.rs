//! The words of JSON: strings, numbers and punctuation.

use std::borrow::Cow;

use crate::base::{Error, ErrorCode, Result};

/// A position in a text of JSON.
#[derive(Debug)]
pub(super) struct Lexer<'j> {
    text: &'j str,
    at: usize,
}

impl<'j> Lexer<'j> {
    pub(super) fn new(text: &'j str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn error(&self, what: &str) -> Error {
        Error::new(ErrorCode::FAILED_TO_PARSE, format!("invalid extended JSON at byte {}: {what}", self.at))
    }

    /// The next byte that is no white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let space = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += space;
        rest.get(space).copied()
    }

    /// Moves behind `byte` if it comes next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.error(&format!("expected '{}'", char::from(byte)))) }
    }

    /// Moves behind a word such as `true` if it comes next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error("text follows the document")) }
    }

    /// A number's text, and whether it is an integer's.
    pub(super) fn number(&mut self) -> Result<(&'j str, bool)> {
        self.peek();
        let rest = &self.text[self.at..];
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut len = usize::from(bytes.first() == Some(&b'-'));
        let whole = digits(len);
        if whole == 0 || whole > 1 && bytes[len] == b'0' {
            return Err(self.error("expected a value"));
        }
        len += whole;
        let mut integer = true;
        if bytes.get(len) == Some(&b'.') {
            let part = digits(len + 1);
            if part == 0 {
                return Err(self.error("a number ends with its point"));
            }
            (len, integer) = (len + 1 + part, false);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let part = digits((len + 1 + sign).min(bytes.len()));
            if part == 0 {
                return Err(self.error("a number has an empty exponent"));
            }
            (len, integer) = (len + 1 + sign + part, false);
        }
        self.at += len;
        Ok((&rest[..len], integer))
    }

    /// A string, borrowed when it has no escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'j, str>> {
        self.expect(b'"')?;
        let mut owned: Option<String> = None;
        loop {
            let rest = &self.text[self.at..];
            let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
            let len = rest.bytes().position(|byte| special(&byte)).ok_or_else(|| self.error("a string has no end"))?;
            let (plain, end) = (&rest[..len], rest.as_bytes()[len]);
            self.at += len + 1;
            if end == b'"' {
                return Ok(match owned {
                    None => Cow::Borrowed(plain),
                    Some(text) => Cow::Owned(text + plain),
                });
            }
            if end != b'\\' {
                return Err(self.error("a string holds a control character"));
            }
            let text = owned.get_or_insert_default();
            text.push_str(plain);
            let escaped = self.escape()?;
            owned.get_or_insert_default().push(escaped);
        }
    }

    fn escape(&mut self) -> Result<char> {
        let byte = self.text.as_bytes().get(self.at).copied().unwrap_or_default();
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let code = match first {
                    0xD800..=0xDBFF if self.text[self.at..].starts_with("\\u") => {
                        self.at += 2;
                        let second = self.hex()?;
                        if !(0xDC00..=0xDFFF).contains(&second) {
                            return Err(self.error("half of a surrogate pair"));
                        }
                        0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                    }
                    code => code,
                };
                char::from_u32(code).ok_or_else(|| self.error("half of a surrogate pair"))?
            }
            _ => {
                self.at -= 1;
                return Err(self.error("no such escape"));
            }
        })
    }

    fn hex(&mut self) -> Result<u32> {
        let digits =
            self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| self.error("expected four hexadecimal digits"))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| self.error("expected four hexadecimal digits"))
    }
}
