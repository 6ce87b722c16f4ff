//! Paths of updates, with the positional components `$`, `$[]` and `$[identifier]`.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::depth::LEVELS_MAX;
use crate::path::Part;

/// A component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field, or a position in an array.
    Field(Part),
    /// `$`: the value of the array at which the filter matched.
    First,
    /// `$[]`: all values of the array.
    All,
    /// `$[identifier]`: the values of the array that an array filter matches.
    Filtered(String),
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpdatePath {
    pub(super) text: String,
    pub(super) steps: Vec<Step>,
}

impl UpdatePath {
    /// Reads a path.
    ///
    /// # Errors
    /// `EmptyFieldName` (56), `DollarPrefixedFieldName` (52), `BadValue` (2).
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::new(ErrorCode::EMPTY_FIELD_NAME, "An empty update path is not valid."));
        }
        if text.len() > LEVELS_MAX && text.split('.').count() > LEVELS_MAX {
            let what =
                format!("An update path has more than {LEVELS_MAX} components, more than a document has levels.");
            return Err(Error::new(ErrorCode::OVERFLOW, what));
        }
        let mut steps = Vec::new();
        for (at, name) in text.split('.').enumerate() {
            if name.is_empty() {
                let what = format!("The update path '{text}' contains an empty field name, which is not allowed.");
                return Err(Error::new(ErrorCode::EMPTY_FIELD_NAME, what));
            }
            let step = match name {
                "$" => Step::First,
                "$[]" => Step::All,
                name if name.starts_with("$[") && name.ends_with(']') => {
                    Step::Filtered(name[2..name.len() - 1].to_owned())
                }
                name => Step::Field(Part::new(name)),
            };
            if at == 0 && !matches!(step, Step::Field(_)) {
                let what = format!("Cannot have positional (i.e. '$') element in the first position in path '{text}'");
                return Err(Error::bad_value(what));
            }
            steps.push(step);
        }
        if steps.iter().filter(|step| **step == Step::First).count() > 1 {
            // The filter matched in one array.
            return Err(Error::bad_value(format!("Too many positional (i.e. '$') elements found in path '{text}'")));
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    /// Whether one of the two paths begins with the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.steps.iter().zip(&other.steps).all(|(a, b)| a == b)
    }

    /// Refuses a field of the document itself whose name begins with a dollar, which an upsert may insert and an update
    /// may not change.
    ///
    /// # Errors
    /// `DollarPrefixedFieldName` (52).
    pub(super) fn check_top(&self) -> Result<()> {
        match self.text.split('.').next() {
            Some(name) if name.starts_with('$') => Err(refused_top(name, &self.text)),
            _ => Ok(()),
        }
    }

    /// Whether a component is positional.
    pub(super) fn is_positional(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step, Step::Field(_)))
    }

    /// The order in which updates are applied: by names, positions by number.
    pub(super) fn order(&self, other: &Self) -> std::cmp::Ordering {
        let keys = |path: &Self| -> Vec<(u8, usize, String)> {
            let names = path.text.split('.');
            names
                .map(|name| match name.parse::<usize>() {
                    Ok(number) if name.bytes().all(|byte| byte.is_ascii_digit()) => (0, number, name.to_owned()),
                    _ => (1, 0, name.to_owned()),
                })
                .collect()
        };
        keys(self).cmp(&keys(other))
    }
}

/// `DollarPrefixedFieldName` (52).
pub(super) fn refused_top(name: &str, path: &str) -> Error {
    let what = format!(
        "The dollar ($) prefixed field '{name}' in '{path}' is not allowed in the context of an update's replacement \
         document. Consider using an aggregation pipeline with $replaceWith."
    );
    Error::new(ErrorCode::DOLLAR_PREFIXED_FIELD_NAME, what)
}
