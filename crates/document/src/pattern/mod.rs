//! Regular expressions in the syntax of PCRE, which MongoDB's are.
//!
//! A pattern is translated to the syntax of the crate `regex`, which matches in linear time, or, when it looks around
//! or refers back, of `fancy-regex`, which backtracks with a limit. As in MongoDB, `\d`, `\w`, `\s` and `\b` know
//! ASCII only, unless the pattern begins with `(*UCP)`, and characters are code points of UTF-8.

mod budget;
mod translate;

use std::fmt;

use crate::base::{Error, ErrorCode, Result};
use budget::{Charge, SIZES};
use translate::{Dialect, translate};

/// The longest pattern in bytes.
const PATTERN_BYTES_MAX: usize = 32_764;

/// The size to which a part of a pattern that backtracks may compile.
const BACKTRACKING_BYTES_MAX: usize = 1 << 20;

/// A compiled regular expression.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    options: Box<str>,
    engine: Engine,
    /// What the compiled pattern takes of the process's budget.
    _charge: Charge,
}

#[derive(Clone)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// The place of a match and of its groups, each as start and end in bytes.
#[derive(Clone, Debug)]
pub struct Captures {
    /// The whole match.
    pub whole: (usize, usize),
    /// The groups from the first on; nothing for those that took no part.
    pub groups: Vec<Option<(usize, usize)>>,
}

impl Pattern {
    /// Compiles a pattern with options of `imsxu`.
    ///
    /// # Errors
    /// Code 51091 for a pattern that makes no sense, 51108 for an option that there is not.
    pub fn new(source: &str, options: &str) -> Result<Self> {
        if let Some(wrong) = options.chars().find(|option| !"imsxu".contains(*option)) {
            return Err(Error::new(ErrorCode::new(51108), format!("invalid flag in regex options: {wrong}")));
        }
        if source.len() > PATTERN_BYTES_MAX {
            return Err(Error::new(ErrorCode::new(51091), "Regular expression is invalid: the pattern is too long"));
        }
        let flags: String = "imsx".chars().filter(|flag| options.contains(*flag)).collect();
        let prefix = if flags.is_empty() { flags } else { format!("(?{flags})") };
        let extended = options.contains('x');
        let linear = format!("{prefix}{}", translate(source, Dialect::Linear, extended));
        let (engine, charge) = match compiled(&linear)? {
            Some((regex, charge)) => (Engine::Linear(regex), charge),
            None => {
                let text = format!("{prefix}{}", translate(source, Dialect::Backtracking, extended));
                let charge = Charge::take(BACKTRACKING_BYTES_MAX)?;
                let compiled =
                    fancy_regex::RegexBuilder::new(&text).delegate_size_limit(BACKTRACKING_BYTES_MAX).build();
                let regex = compiled.map_err(|error| {
                    Error::new(ErrorCode::new(51091), format!("Regular expression is invalid: {error}"))
                })?;
                (Engine::Backtracking(Box::new(regex)), charge)
            }
        };
        Ok(Self { source: source.into(), options: options.into(), engine, _charge: charge })
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The options as they were given.
    #[must_use]
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the pattern matches anywhere in a text.
    ///
    /// # Errors
    /// Code 51156 when a backtracking match exceeds its limit.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.engine {
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).map_err(|error| exceeded(&error)),
        }
    }

    /// The first match that begins at byte `from` or later.
    ///
    /// # Errors
    /// As [`Self::is_match`].
    pub fn captures(&self, text: &str, from: usize) -> Result<Option<Captures>> {
        if from > text.len() {
            return Ok(None);
        }
        Ok(match &self.engine {
            Engine::Linear(regex) => regex.captures_at(text, from).map(|found| Captures {
                whole: found.get(0).map_or((from, from), |group| (group.start(), group.end())),
                groups: found.iter().skip(1).map(|group| group.map(|group| (group.start(), group.end()))).collect(),
            }),
            Engine::Backtracking(regex) => {
                let found = regex.captures_from_pos(text, from).map_err(|error| exceeded(&error))?;
                found.map(|found| Captures {
                    whole: found.get(0).map_or((from, from), |group| (group.start(), group.end())),
                    groups: found.iter().skip(1).map(|group| group.map(|group| (group.start(), group.end()))).collect(),
                })
            }
        })
    }

    /// The literal text that every match begins with at the start of the text, for a pattern such as `^abc`, and
    /// whether the pattern demands nothing more; nothing for other patterns.
    #[must_use]
    pub fn prefix(&self) -> Option<(String, bool)> {
        if !self.options.is_empty() {
            return None;
        }
        let rest = self.source.strip_prefix('^').or_else(|| self.source.strip_prefix("\\A"))?;
        let (mut literal, mut chars) = (String::new(), rest.chars().peekable());
        let mut complete = true;
        while let Some(c) = chars.next() {
            let plain = match c {
                '\\' => chars.next().filter(|escaped| escaped.is_ascii_punctuation()),
                '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' => None,
                other => Some(other),
            };
            if matches!(chars.peek(), Some('*' | '?' | '{')) || plain.is_none() {
                complete = c == '.' && chars.next() == Some('*') && chars.next().is_none();
                break;
            }
            literal.extend(plain);
            if chars.peek() == Some(&'+') {
                complete = false;
                break;
            }
        }
        // An alternative anywhere may begin otherwise.
        (!rest.contains('|') && !literal.is_empty()).then_some((literal, complete))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/{}", self.source, self.options)
    }
}

/// Compiles a pattern that matches in linear time; nothing when it does not, or is invalid or too large.
fn compiled(text: &str) -> Result<Option<(regex::Regex, Charge)>> {
    for size in SIZES {
        let charge = Charge::take(size)?;
        match regex::RegexBuilder::new(text).size_limit(size).build() {
            Ok(regex) => return Ok(Some((regex, charge))),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

fn exceeded(error: &fancy_regex::Error) -> Error {
    Error::new(ErrorCode::new(51156), format!("Error occurred while executing regular expression: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_pcre_does() {
        for (pattern, options, text, expected) in [
            ("^abc", "", "abcd", true),
            ("^abc", "", "xabc", false),
            ("ABC", "i", "abc", true),
            (r"^\d+$", "", "12", true),
            (r"^\d+$", "", "\u{661}", false),
            (r"(*UCP)^\d+$", "", "\u{661}", true),
            (r"a{,b", "", "a{,b", true),
            (r"[[]x", "", "[x", true),
            (r"[[:alpha:]]+", "", "ab", true),
            (r"a\/b", "", "a/b", true),
            (r"(a)\1", "", "aa", true),
            (r"foo(?!bar)", "", "foobar", false),
            (r"foo(?=bar)", "", "foobar", true),
            (r"\Qa.b\E", "", "a.b", true),
            (r"\Qa.b\E", "", "axb", false),
            ("a b # c", "x", "ab", true),
            ("a.b", "s", "a\nb", true),
            ("^b", "m", "a\nb", true),
            (r"\byster", "", "\u{d8}yster", true),
            (r"(*UCP)\byster", "", "\u{d8}yster", false),
            (r"[a&&b]", "", "&", true),
            (r"a++b", "", "aab", true),
            (r"\bfoo(?=x)", "", "\u{d8}foox", true),
        ] {
            let compiled = Pattern::new(pattern, options).unwrap();
            assert_eq!(compiled.is_match(text).unwrap(), expected, "{pattern} {options} {text}");
        }
        assert_eq!(Pattern::new("(", "").unwrap_err().code().number(), 51091);
        assert_eq!(Pattern::new("a", "z").unwrap_err().code().number(), 51108);
    }

    #[test]
    fn prefixes_are_literal_text_at_the_start() {
        for (pattern, expected) in [
            ("^abc", Some(("abc", true))),
            ("^abc.*", Some(("abc", true))),
            ("^ab+c", Some(("ab", false))),
            ("^abc*", Some(("ab", false))),
            (r"^a\.b", Some(("a.b", true))),
            ("^a$", Some(("a", false))),
            ("^a|b", None),
            ("abc", None),
        ] {
            let found = Pattern::new(pattern, "").unwrap().prefix();
            assert_eq!(found.as_ref().map(|(text, complete)| (text.as_str(), *complete)), expected, "{pattern}");
        }
    }
}
