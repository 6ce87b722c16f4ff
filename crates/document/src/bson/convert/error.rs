//! The error of conversions.

use crate::base::Error;

/// Why a value could not be converted, with the path to it.
#[derive(Debug)]
pub(super) struct ConvertError {
    path: Vec<String>,
    message: String,
}

impl ConvertError {
    pub(super) fn new(message: impl std::fmt::Display) -> Self {
        Self { path: Vec::new(), message: message.to_string() }
    }

    /// The same error within a field.
    pub(super) fn within(mut self, field: impl std::fmt::Display) -> Self {
        self.path.push(field.to_string());
        self
    }
}

impl std::fmt::Display for ConvertError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
            write!(f, "field '{}': ", path.join("."))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConvertError {}

impl serde::ser::Error for ConvertError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(message)
    }
}

impl serde::de::Error for ConvertError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(message)
    }
}

impl From<ConvertError> for Error {
    fn from(error: ConvertError) -> Self {
        Self::bad_value(error.to_string())
    }
}
