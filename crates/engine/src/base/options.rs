//! Options that are set by name and text: their names, kinds and ranges, once for every language that sets them.
//!
//! # Invariants
//! 1. The text that [`NamedOption::text`] gives, [`NamedOption::set`] takes back.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Error, Result};

/// What the text of an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// A whole number, from the first to the second. Options in bytes are plain numbers too.
    Number(u64, u64),
    /// As [`Self::Number`], or 0.
    NumberOrZero(u64, u64),
    /// Seconds, such as `90` or `0.25`, from the first to the second.
    Seconds(Duration, Duration),
    /// One of these names.
    Choice(&'static [&'static str]),
    /// The rule of a [`Prefix`](crate::Prefix).
    Prefix,
    /// A name of 1 to 255 bytes.
    Name,
    /// The path of a directory.
    Path,
}

impl fmt::Display for OptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Number(low, high) => write!(f, "{low} to {high}"),
            Self::NumberOrZero(low, high) => write!(f, "0, or {low} to {high}"),
            Self::Seconds(low, high) => write!(f, "{} to {} seconds", seconds_text(*low), seconds_text(*high)),
            Self::Choice(names) => write!(f, "one of {}", names.join(", ")),
            Self::Prefix => f.write_str("bytes:N with N from 1 to 255, upto:C, or upto:0xNN"),
            Self::Name => f.write_str("a name of 1 to 255 bytes"),
            Self::Path => f.write_str("a path"),
        }
    }
}

impl OptionKind {
    /// Whether a text lies in the range. What it is apart from that, the setter finds out.
    fn is_in_range(self, text: &str) -> bool {
        match self {
            Self::Number(low, high) => text.parse().is_ok_and(|number| (low..=high).contains(&number)),
            Self::NumberOrZero(low, high) => {
                text.parse().is_ok_and(|number| number == 0 || (low..=high).contains(&number))
            }
            Self::Seconds(low, high) => seconds(text).is_some_and(|time| (low..=high).contains(&time)),
            Self::Name => (1..=255).contains(&text.len()),
            Self::Flag | Self::Choice(_) | Self::Prefix | Self::Path => true,
        }
    }
}

/// An option of a database or of a table by its name, which is that of the field.
///
/// ```
/// use spinney::{OptionKind, TableOptions};
/// let mut options = TableOptions::default();
/// options.set("fanout", "4")?;
/// assert_eq!(options.fanout, 4);
/// let refused = options.set("layout", "heap").unwrap_err().to_string();
/// assert_eq!(refused, "option layout is 'heap': it must be one of btree, lsm, lsm-tiered");
/// let fanout = TableOptions::named().iter().find(|option| option.name() == "fanout").unwrap();
/// assert_eq!(fanout.kind(), OptionKind::Number(2, 32));
/// assert_eq!(fanout.text(&options).as_deref(), Some("4"));
/// # Ok::<(), spinney::Error>(())
/// ```
pub struct NamedOption<O: 'static> {
    pub(crate) name: &'static str,
    pub(crate) kind: OptionKind,
    /// Sets the option, or gives `None` for a text that is not of its kind.
    pub(crate) set: fn(&mut O, &str) -> Option<()>,
    pub(crate) text: fn(&O) -> Option<String>,
}

impl<O> fmt::Debug for NamedOption<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedOption").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<O> NamedOption<O> {
    /// The name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What its text is, with the range.
    #[must_use]
    pub const fn kind(&self) -> OptionKind {
        self.kind
    }

    /// Sets it from text.
    ///
    /// # Errors
    /// `Invalid` for a text that is not of its kind or range, which are named. Rules between options are checked when
    /// the options are used.
    pub fn set(&self, options: &mut O, text: &str) -> Result<()> {
        let done = if self.kind.is_in_range(text) { (self.set)(options, text) } else { None };
        done.ok_or_else(|| self.refusal(text))
    }

    /// Its text; `None` for an option without a value, such as a table without a merge operator.
    #[must_use]
    pub fn text(&self, options: &O) -> Option<String> {
        (self.text)(options)
    }

    /// Checks that what a program put into the field is in range.
    fn check(&self, options: &O) -> Result<()> {
        match self.text(options) {
            Some(text) if !self.kind.is_in_range(&text) => Err(self.refusal(&text)),
            _ => Ok(()),
        }
    }

    fn refusal(&self, text: &str) -> Error {
        let quote = if text.parse::<f64>().is_ok() { "" } else { "'" };
        Error::invalid(format!("option {} is {quote}{text}{quote}: it must be {}", self.name, self.kind))
    }
}

/// Sets the option of a name; `what` owns the options.
pub(crate) fn set<O>(all: &[NamedOption<O>], options: &mut O, what: &str, name: &str, text: &str) -> Result<()> {
    let option = all.iter().find(|option| option.name == name);
    let option = option.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|option| option.name).collect();
        Error::invalid(format!("a {what} has no option '{name}': there are {}", names.join(", ")))
    })?;
    option.set(options, text)
}

/// Checks every option's range.
pub(crate) fn check<O>(all: &[NamedOption<O>], options: &O) -> Result<()> {
    all.iter().try_for_each(|option| option.check(options))
}

/// Seconds as text: exact, to the nanosecond.
pub(crate) fn seconds_text(time: Duration) -> String {
    let (whole, nanos) = (time.as_secs(), format!("{:09}", time.subsec_nanos()));
    let fraction = nanos.trim_end_matches('0');
    if fraction.is_empty() { whole.to_string() } else { format!("{whole}.{fraction}") }
}

/// A time from seconds as text, with up to nine decimals.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    Some(Duration::new(whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?))
}

/// An option whose field is parsed from its text and printed as such.
macro_rules! plain {
    ($field:ident, $kind:expr) => {
        NamedOption {
            name: stringify!($field),
            kind: $kind,
            set: |options, text| text.parse().ok().map(|value| options.$field = value),
            text: |options| Some(options.$field.to_string()),
        }
    };
}
pub(crate) use plain;

/// As [`plain`] for an option that may be without a value.
macro_rules! optional {
    ($field:ident, $kind:expr) => {
        NamedOption {
            name: stringify!($field),
            kind: $kind,
            set: |options, text| text.parse().ok().map(|value| options.$field = Some(value)),
            text: |options| options.$field.as_ref().map(ToString::to_string),
        }
    };
}
pub(crate) use optional;

/// An option that is one of the names of an enumeration.
macro_rules! choice {
    ($field:ident, $type:ident) => {
        NamedOption {
            name: stringify!($field),
            kind: OptionKind::Choice($type::NAMES),
            set: |options, text| text.parse().ok().map(|value| options.$field = value),
            text: |options| Some(options.$field.name().to_owned()),
        }
    };
}
pub(crate) use choice;

/// An option that is a time.
macro_rules! time {
    ($field:ident, $low:expr, $high:expr) => {
        NamedOption {
            name: stringify!($field),
            kind: OptionKind::Seconds($low, $high),
            set: |options, text| seconds(text).map(|value| options.$field = value),
            text: |options| Some(seconds_text(options.$field)),
        }
    };
}
pub(crate) use time;

/// The names of an enumeration's values, for options, the command line and reports.
macro_rules! names {
    ($type:ident, $what:literal, { $($variant:ident => $name:literal,)* }) => {
        impl $type {
            /// The names of all values.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name in options, on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::base::error::Error;

            fn from_str(name: &str) -> $crate::base::error::Result<Self> {
                match name {
                    $($name => Ok(Self::$variant),)*
                    _ => {
                        let names = Self::NAMES.join(", ");
                        Err($crate::base::error::Error::invalid(format!(
                            "'{name}' is no {}: it must be one of {names}",
                            $what
                        )))
                    }
                }
            }
        }
    };
}
pub(crate) use names;

/// A path as an option's text.
pub(crate) fn path_text(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_both_ways() {
        for (text, time) in [
            ("0", Duration::ZERO),
            ("90", Duration::from_secs(90)),
            ("0.001", Duration::from_millis(1)),
            ("1.000000001", Duration::new(1, 1)),
        ] {
            assert_eq!(seconds(text), Some(time));
            assert_eq!(seconds_text(time), text);
        }
        assert_eq!(seconds("2.50"), Some(Duration::from_millis(2500)));
        for wrong in ["", ".", "1.", ".5", "-1", "1e3", "1.0000000001", "99999999999999999999", "nan"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
