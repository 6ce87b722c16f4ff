//! Filters and updates built of fields and values.

use serde::Serialize;

use crate::base::Result;
use crate::bson::convert::to_value;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};

/// What can be used as a filter or an update: a document, or what builds one.
pub trait IntoDocument {
    /// The document.
    ///
    /// # Errors
    /// `BadValue` (2) when a value could not be converted.
    fn into_document(self) -> Result<DocumentBuf>;
}

impl IntoDocument for DocumentBuf {
    fn into_document(self) -> Result<DocumentBuf> {
        Ok(self)
    }
}

impl IntoDocument for &DocumentBuf {
    fn into_document(self) -> Result<DocumentBuf> {
        Ok(self.clone())
    }
}

impl IntoDocument for Document<'_> {
    fn into_document(self) -> Result<DocumentBuf> {
        Ok(self.into())
    }
}

/// The path of a field, of which conditions are made.
#[derive(Clone, Debug)]
pub struct Field(String);

/// A condition on documents.
#[derive(Clone, Debug)]
pub struct Condition(Result<DocumentBuf>);

/// Changes of documents.
#[derive(Clone, Debug)]
#[must_use = "changes do nothing until they are given to an update"]
pub struct Change(Result<Vec<(&'static str, DocumentBuf)>>);

/// The field at a dotted path such as `"address.city"`.
///
/// ```
/// use spinney_document::typed::{IntoDocument, field};
///
/// let adults = field("age").gte(18).and(field("city").is_in(["Oslo", "Rome"]));
/// let json = adults.into_document()?.view().to_json();
/// assert_eq!(json, r#"{"$and":[{"age":{"$gte":18}},{"city":{"$in":["Oslo","Rome"]}}]}"#);
/// # Ok::<(), spinney_document::Error>(())
/// ```
pub fn field(path: impl Into<String>) -> Field {
    Field(path.into())
}

/// The condition that all of some conditions are met.
pub fn all(conditions: impl IntoIterator<Item = Condition>) -> Condition {
    list("$and", conditions)
}

/// The condition that one of some conditions is met.
pub fn any(conditions: impl IntoIterator<Item = Condition>) -> Condition {
    list("$or", conditions)
}

/// The condition that none of some conditions is met.
pub fn none(conditions: impl IntoIterator<Item = Condition>) -> Condition {
    list("$nor", conditions)
}

/// No changes yet.
///
/// ```
/// use spinney_document::typed::{IntoDocument, update};
///
/// let change = update().set("city", "Oslo").inc("moves", 1).set("at", 5);
/// let json = change.into_document()?.view().to_json();
/// assert_eq!(json, r#"{"$set":{"city":"Oslo","at":5},"$inc":{"moves":1}}"#);
/// # Ok::<(), spinney_document::Error>(())
/// ```
pub const fn update() -> Change {
    Change(Ok(Vec::new()))
}

fn list(operator: &str, conditions: impl IntoIterator<Item = Condition>) -> Condition {
    let mut builder = DocumentBuilder::new();
    builder.open_array(operator);
    for condition in conditions {
        match condition.0 {
            Ok(document) => builder.push(Value::Document(document.view())),
            Err(error) => return Condition(Err(error)),
        };
    }
    builder.close();
    Condition(Ok(builder.finish()))
}

impl Field {
    fn operator<T: Serialize + ?Sized>(self, operator: &str, value: &T) -> Condition {
        Condition(to_value(value).map(|value| {
            let mut builder = DocumentBuilder::new();
            builder.open_document(&self.0).append(operator, value.view()).close();
            builder.finish()
        }))
    }

    /// The field has a value, or is an array that has it.
    pub fn eq(self, value: impl Serialize) -> Condition {
        self.operator("$eq", &value)
    }

    /// The field has not this value.
    pub fn ne(self, value: impl Serialize) -> Condition {
        self.operator("$ne", &value)
    }

    /// The field is greater.
    pub fn gt(self, value: impl Serialize) -> Condition {
        self.operator("$gt", &value)
    }

    /// The field is greater or equal.
    pub fn gte(self, value: impl Serialize) -> Condition {
        self.operator("$gte", &value)
    }

    /// The field is less.
    pub fn lt(self, value: impl Serialize) -> Condition {
        self.operator("$lt", &value)
    }

    /// The field is less or equal.
    pub fn lte(self, value: impl Serialize) -> Condition {
        self.operator("$lte", &value)
    }

    /// The field has one of some values.
    pub fn is_in<V: Serialize>(self, values: impl IntoIterator<Item = V>) -> Condition {
        self.operator("$in", &values.into_iter().collect::<Vec<_>>())
    }

    /// The field has none of some values.
    pub fn not_in<V: Serialize>(self, values: impl IntoIterator<Item = V>) -> Condition {
        self.operator("$nin", &values.into_iter().collect::<Vec<_>>())
    }

    /// The field is there, or not.
    pub fn exists(self, there: bool) -> Condition {
        self.operator("$exists", &there)
    }

    /// The field is text that matches a regular expression.
    pub fn matches(self, pattern: &str) -> Condition {
        self.operator("$regex", pattern)
    }

    /// The field is an array with so many values.
    pub fn size(self, count: u32) -> Condition {
        self.operator("$size", &count)
    }

    /// The field is an array of documents of which one meets a condition.
    pub fn has_element(self, condition: Condition) -> Condition {
        match condition.0 {
            Ok(document) => self.operator("$elemMatch", &document),
            error => Condition(error),
        }
    }
}

impl Condition {
    /// Both conditions.
    pub fn and(self, other: Self) -> Self {
        all([self, other])
    }

    /// One of the conditions.
    pub fn or(self, other: Self) -> Self {
        any([self, other])
    }
}

impl IntoDocument for Condition {
    fn into_document(self) -> Result<DocumentBuf> {
        self.0
    }
}

impl Change {
    fn with<T: Serialize + ?Sized>(self, operator: &'static str, path: &str, value: &T) -> Self {
        Self(self.0.and_then(|mut operators| {
            let value = to_value(value)?;
            let at = operators.iter().position(|(name, _)| *name == operator).unwrap_or_else(|| {
                operators.push((operator, DocumentBuf::new()));
                operators.len() - 1
            });
            let mut builder = DocumentBuilder::new();
            builder.append_all(operators[at].1.view()).append(path, value.view());
            operators[at].1 = builder.finish();
            Ok(operators)
        }))
    }

    /// Gives a field a value.
    pub fn set(self, path: &str, value: impl Serialize) -> Self {
        self.with("$set", path, &value)
    }

    /// Gives a field a value when an upsert inserts the document.
    pub fn set_on_insert(self, path: &str, value: impl Serialize) -> Self {
        self.with("$setOnInsert", path, &value)
    }

    /// Removes a field.
    pub fn unset(self, path: &str) -> Self {
        self.with("$unset", path, "")
    }

    /// Adds to a number.
    pub fn inc(self, path: &str, by: impl Serialize) -> Self {
        self.with("$inc", path, &by)
    }

    /// Multiplies a number.
    pub fn mul(self, path: &str, by: impl Serialize) -> Self {
        self.with("$mul", path, &by)
    }

    /// Gives a field a value if that is less.
    pub fn min(self, path: &str, value: impl Serialize) -> Self {
        self.with("$min", path, &value)
    }

    /// Gives a field a value if that is greater.
    pub fn max(self, path: &str, value: impl Serialize) -> Self {
        self.with("$max", path, &value)
    }

    /// Appends a value to an array.
    pub fn push(self, path: &str, value: impl Serialize) -> Self {
        self.with("$push", path, &value)
    }

    /// Appends a value to an array that does not have it.
    pub fn add_to_set(self, path: &str, value: impl Serialize) -> Self {
        self.with("$addToSet", path, &value)
    }

    /// Removes a value from an array.
    pub fn pull(self, path: &str, value: impl Serialize) -> Self {
        self.with("$pull", path, &value)
    }

    /// Gives a field another name.
    pub fn rename(self, path: &str, to: &str) -> Self {
        self.with("$rename", path, to)
    }
}

impl IntoDocument for Change {
    fn into_document(self) -> Result<DocumentBuf> {
        let mut builder = DocumentBuilder::new();
        self.0?.iter().for_each(|(operator, fields)| {
            builder.append(operator, fields.view());
        });
        Ok(builder.finish())
    }
}
