//! The constants of a command that filters, expressions and updates are compiled with.

use crate::bson::{Document, Timestamp, Value, ValueBuf};
use crate::collation::Collated;

/// What the names `$$NOW`, `$$CLUSTER_TIME` and the variables of `let` stand for while a command runs, and where its
/// random numbers begin.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The time of the command in milliseconds since 1970.
    pub now: i64,
    /// The cluster time, where there is one.
    pub cluster_time: Option<Timestamp>,
    /// The seed of the random numbers of `$rand`, `$sampleRate` and `$sample`.
    pub seed: u64,
    /// How strings are compared.
    pub collation: Collated,
    /// Whether an error of constants is one of each document for which they are computed, and not of the command: so it
    /// is in the pipelines of updates.
    pub(super) defers_constants: bool,
    /// Whether it is of the pipeline of an aggregation, whose errors of constants begin with words of their own.
    pub(super) is_of_pipeline: bool,
    /// The variables of `let`.
    variables: Vec<(String, Option<ValueBuf>)>,
}

impl Context {
    /// The constants of a command that begins at `now`, in milliseconds since 1970.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self { now, ..Self::default() }
    }

    /// The same constants with another collation.
    #[must_use]
    pub fn collated(mut self, collation: Collated) -> Self {
        self.collation = collation;
        self
    }

    /// The same constants for the pipeline of an update: an error of constants is one of each document.
    #[must_use]
    pub fn of_update(mut self) -> Self {
        self.defers_constants = true;
        self
    }

    /// The same constants for the pipeline of an aggregation.
    #[must_use]
    pub fn of_pipeline(mut self) -> Self {
        self.is_of_pipeline = true;
        self
    }

    /// The same constants with the variables of a document: `{name: value, ..}`.
    #[must_use]
    pub fn with_variables(mut self, variables: Document<'_>) -> Self {
        for element in variables {
            self.set(&element.name.to_str_lossy(), element.value.into());
        }
        self
    }

    /// The same constants without variables.
    #[must_use]
    pub fn without_variables(&self) -> Self {
        Self { variables: Vec::new(), ..self.clone() }
    }

    /// Defines a variable, or gives it another value.
    pub fn set(&mut self, name: &str, value: ValueBuf) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), Some(value)));
    }

    /// Defines a variable that has no value, as a field that is missing.
    pub fn set_missing(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), None));
    }

    /// The value of a variable of `let`, if there is such a variable, and if it has a value.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<Option<Value<'_>>> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_ref().map(ValueBuf::view))
    }
}
