//! A line as words, quoted as in sh.

use anyhow::{Result, bail};

/// The words of a line; none of one that is empty or a comment.
pub(super) fn words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = line.trim_start().chars().peekable();
    if chars.peek() == Some(&'#') {
        return Ok(words);
    }
    while let Some(first) = chars.find(|char| !char.is_whitespace()) {
        let mut word = String::new();
        let mut next = Some(first);
        while let Some(char) = next.filter(|char| !char.is_whitespace()) {
            match char {
                '\'' => loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(char) => word.push(char),
                        None => bail!("a quote ' is not closed"),
                    }
                },
                '"' => loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') if matches!(chars.peek(), Some('"' | '\\')) => word.extend(chars.next()),
                        Some(char) => word.push(char),
                        None => bail!("a quote \" is not closed"),
                    }
                },
                '\\' => match chars.next() {
                    Some(char) => word.push(char),
                    None => bail!("there is nothing behind the backslash at the end"),
                },
                char => word.push(char),
            }
            next = chars.next();
        }
        words.push(word);
    }
    Ok(words)
}

/// A word as it is written in a line.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./:=@%+,".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_in_sh() {
        for (line, expected) in [
            ("  get t  k ", &["get", "t", "k"][..]),
            ("put 'two words' \"a \\\"b\\\" \\n\" c\\ d'e'", &["put", "two words", "a \"b\" \\n", "c de"]),
            ("put t '' \"\"", &["put", "t", "", ""]),
            ("a#b #c", &["a#b", "#c"]),
            ("  # put t k v", &[]),
            ("", &[]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for line in ["'a", "a \"b\\\"", "a\\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        for word in ["plain", "two words", "it's", "", "\\", "é", "\t\"'"] {
            assert_eq!(words(&quoted(word)).unwrap(), [word]);
        }
        assert_eq!(quoted("orders-2026"), "orders-2026");
    }
}
