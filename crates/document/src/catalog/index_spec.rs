//! Specifications of indexes, as `createIndexes` takes and `listIndexes` shows them.

use std::sync::Arc;

use spinney::Layout;

use super::expiry::{INDEX_SECONDS_MAX, seconds_of};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::collation::{Collated, Collation};
use crate::expr::Context;
use crate::keys::{FieldKind, KeyPattern, wildcard_takes};
use crate::query::{Filter, Node, Predicate};

/// The name of the index of `_id` that every collection has.
pub const ID_INDEX: &str = "_id_";

/// The fields that its specification may have.
const ID_INDEX_FIELDS: [&str; 5] = ["key", "name", "v", "ns", "collation"];

/// Options whose value may be null, which programs send for those that they do not set.
const OPTIONS: [&str; 12] = [
    "unique",
    "sparse",
    "prepareUnique",
    "hidden",
    "expireAfterSeconds",
    "partialFilterExpression",
    "wildcardProjection",
    "storageEngine",
    "collation",
    "background",
    "safe",
    "dropDups",
];

/// Where a collection or an index is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageSpec {
    /// The layout of the table, from `storageEngine: {spinney: {layout: "btree"}}`.
    pub layout: Layout,
}

/// What an index is.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    /// The name.
    pub name: String,
    /// The fields.
    pub pattern: KeyPattern,
    /// Whether two documents may not have the same key.
    pub unique: bool,
    /// Whether no document may be given the key of another, while those that have the same key stay.
    pub prepare_unique: bool,
    /// Whether documents without any of the fields are left out.
    pub sparse: bool,
    /// Whether queries do not use the index.
    pub hidden: bool,
    /// Seconds after a document's date at which it expires.
    pub expire_after_seconds: Option<i32>,
    /// The filter of documents that the index holds, as it was given.
    pub partial: Option<DocumentBuf>,
    /// The same filter, ready to be asked.
    pub filter: Option<Arc<Filter>>,
    /// Which paths a wildcard index takes.
    pub wildcard_projection: Option<DocumentBuf>,
    /// Where the index is stored.
    pub storage: StorageSpec,
    /// The specification as it is listed.
    document: DocumentBuf,
}

/// What of an index is to be changed.
#[derive(Clone, Debug, Default)]
pub struct IndexChanges {
    /// Whether queries do not use it.
    pub hidden: Option<bool>,
    /// Seconds after a document's date at which it expires.
    pub expire_after_seconds: Option<i32>,
    /// Whether no document may be given the key of another.
    pub prepare_unique: Option<bool>,
}

fn cannot(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::CANNOT_CREATE_INDEX, what)
}

fn mismatch(field: &str, value: &Value<'_>, expected: &str) -> Error {
    let what = format!("The field '{field}' must be of type {expected}, but got {}", value.kind().name());
    Error::new(ErrorCode::TYPE_MISMATCH, what)
}

impl IndexSpec {
    /// The index of `_id` of a collection with this collation.
    ///
    /// # Panics
    /// Never: its specification is well formed.
    #[must_use]
    pub fn of_id(collation: Option<&Collation>) -> Self {
        let mut spec = DocumentBuilder::new();
        spec.append("v", 2).append("key", &doc! {"_id": 1}).append("name", ID_INDEX);
        if let Some(collation) = collation {
            spec.append("collation", collation.document());
        }
        Self::parse(spec.finish().view()).expect("a well-formed specification")
    }

    /// The index that a document such as `{key: {a: 1}, name: "a_1", unique: true}` specifies.
    ///
    /// # Errors
    /// `FailedToParse` (9) without key or name; `CannotCreateIndex` (67), `InvalidIndexSpecificationOption` (197),
    /// `TypeMismatch` (14), `BadValue` (2) and others for options that are malformed, unknown, not supported here, or
    /// do not go together.
    pub fn parse(spec: Document<'_>) -> Result<Self> {
        let missing = |what: &str| {
            Error::new(
                ErrorCode::FAILED_TO_PARSE,
                format!("The '{what}' field is a required property of an index specification"),
            )
        };
        let key = spec.get("key").ok_or_else(|| missing("key"))?;
        let key = key.as_document().ok_or_else(|| mismatch("key", &key, "object"))?;
        let name = spec.get("name").ok_or_else(|| missing("name"))?;
        let name = name.as_str().ok_or_else(|| mismatch("name", &name, "string"))?;
        if name.is_empty() || name == "*" {
            return Err(cannot("The index name cannot be empty or '*'"));
        }
        let collation = spec.get("collation").filter(|collation| !collation.is_nullish());
        if matches!(collation, Some(Value::Document(collation)) if collation.is_empty()) {
            return Err(Error::bad_value("The field 'collation' cannot be an empty object"));
        }
        let collation = collation.map(|collation| Collation::parse(&collation)).transpose()?.flatten();
        let mut parsed = Self {
            name: name.to_owned(),
            pattern: KeyPattern::parse(key)?.collated(collation.clone()),
            unique: false,
            prepare_unique: false,
            sparse: false,
            hidden: false,
            expire_after_seconds: None,
            partial: None,
            filter: None,
            wildcard_projection: None,
            storage: StorageSpec::default(),
            document: DocumentBuf::new(),
        };
        for element in spec {
            let field = element.name.to_str_lossy();
            if parsed.is_id() && !ID_INDEX_FIELDS.contains(&&*field) {
                let what = format!("The field '{field}' is not valid for an _id index specification.");
                return Err(Error::new(ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION, what));
            }
            // As if it were not there.
            if element.value.is_nullish() && OPTIONS.contains(&&*field) {
                continue;
            }
            parsed.set(&field, &element.value, &collation)?;
        }
        parsed.check()?;
        if parsed.is_id() {
            ID_INDEX.clone_into(&mut parsed.name);
            parsed.unique = true;
        }
        parsed.document = parsed.to_listed(spec);
        Ok(parsed)
    }

    fn set(&mut self, field: &str, value: &Value<'_>, collation: &Collated) -> Result<()> {
        match field {
            "unique" => self.unique = flag(field, value)?,
            "sparse" => self.sparse = flag(field, value)?,
            "prepareUnique" => self.prepare_unique = flag(field, value)?,
            "hidden" => match value {
                Value::Bool(hidden) => self.hidden = *hidden,
                _ => return Err(mismatch(field, value, "bool")),
            },
            "expireAfterSeconds" => self.expire_after_seconds = Some(seconds(value)?),
            "partialFilterExpression" => {
                let filter = value.as_document().ok_or_else(|| mismatch(field, value, "object"))?;
                self.filter = Some(Arc::new(parse_partial(filter, collation)?));
                self.partial = Some(DocumentBuf::from(filter));
            }
            "wildcardProjection" => {
                let projection = value.as_document().ok_or_else(|| mismatch(field, value, "object"))?;
                check_projection(projection)?;
                self.wildcard_projection = Some(DocumentBuf::from(projection));
            }
            "storageEngine" => self.storage = parse_storage(value)?,
            "v" => match value.as_exact_i64() {
                Some(1 | 2) => {}
                Some(other) => return Err(cannot(format!("Invalid index version: {{ v: {other} }}"))),
                None => return Err(mismatch(field, value, "number")),
            },
            "key" | "name" | "ns" | "background" | "safe" | "dropDups" | "collation" => {}
            "weights"
            | "default_language"
            | "language_override"
            | "textIndexVersion"
            | "2dsphereIndexVersion"
            | "bits"
            | "min"
            | "max"
            | "bucketSize"
            | "clustered" => {
                return Err(cannot(format!("the index option '{field}' is not supported")));
            }
            _ => {
                let what = format!("The field '{field}' is not valid for an index specification.");
                return Err(Error::new(ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION, what));
            }
        }
        Ok(())
    }

    /// Refuses options that do not go together.
    fn check(&self) -> Result<()> {
        if self.expire_after_seconds.is_some() && self.pattern.fields().len() > 1 {
            return Err(cannot("TTL indexes are single-field indexes, compound indexes do not support TTL"));
        }
        if self.sparse && self.partial.is_some() {
            return Err(cannot("cannot mix \"partialFilterExpression\" and \"sparse\" options"));
        }
        if (self.unique || self.prepare_unique) && self.pattern.is_hashed() {
            let what = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
            return Err(Error::new(ErrorCode::new(16764), what));
        }
        if self.unique && self.prepare_unique {
            return Err(cannot("an index cannot have both 'unique' and 'prepareUnique'"));
        }
        if self.pattern.is_wildcard()
            && (self.unique || self.prepare_unique || self.sparse || self.expire_after_seconds.is_some())
        {
            return Err(cannot(
                "a wildcard index does not support the options 'unique', 'sparse' and 'expireAfterSeconds'",
            ));
        }
        if self.pattern.fields().len() > 1 {
            self.check_compound_wildcard()?;
        }
        if self.wildcard_projection.is_some() {
            if !self.pattern.is_wildcard() {
                return Err(Error::bad_value("The field 'wildcardProjection' is only allowed in a 'wildcard' index"));
            }
            let wildcard = self.pattern.wildcard().and_then(|at| self.pattern.fields().get(at));
            if wildcard.is_some_and(|field| !field.path.is_empty()) {
                let what = "The field 'wildcardProjection' is only allowed when the 'wildcard' index is on all fields";
                return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
            }
        }
        Ok(())
    }

    /// Refuses a wildcard on all fields beside others that it has as well.
    fn check_compound_wildcard(&self) -> Result<()> {
        let fields = self.pattern.fields();
        let Some(wildcard) = self.pattern.wildcard().and_then(|at| fields.get(at)).filter(|f| f.path.is_empty()) else {
            return Ok(());
        };
        let Some(projection) = &self.wildcard_projection else {
            return Err(cannot("a compound wildcard index on all fields must have a 'wildcardProjection'"));
        };
        let has = |path: &str| {
            let below = format!("{path}.");
            let named = projection.view().elements().any(|element| {
                element.name.as_bytes().starts_with(below.as_bytes()) && matches!(flag("", &element.value), Ok(true))
            });
            named || wildcard_takes(wildcard, Some(projection.view()), path)
        };
        match fields.iter().find(|field| !field.path.is_empty() && has(&field.path)) {
            Some(field) => {
                let what = format!("the 'wildcardProjection' must exclude the field '{}' of the index", field.path);
                Err(Error::new(ErrorCode::new(7_246_209), what))
            }
            None => Ok(()),
        }
    }

    /// The same specification with other options.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn with(&self, changes: &IndexChanges) -> Result<Self> {
        self.replaced(&[
            ("hidden", changes.hidden.map(Value::Bool)),
            ("prepareUnique", changes.prepare_unique.map(Value::Bool)),
            ("expireAfterSeconds", changes.expire_after_seconds.map(Value::Int32)),
        ])
    }

    /// The same specification with another name, of an index that is built again: with the constraint of a unique one
    /// when that is told.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn rebuilt(&self, name: &str, unique: Option<bool>) -> Result<Self> {
        self.replaced(&[
            ("name", Some(Value::from(name))),
            ("unique", unique.map(Value::Bool)),
            ("prepareUnique", unique.map(|_| Value::Bool(false))),
        ])
    }

    /// The same specification with these fields where they have a value.
    fn replaced(&self, fields: &[(&str, Option<Value<'_>>)]) -> Result<Self> {
        let mut builder = DocumentBuilder::new();
        for element in self.document() {
            if !fields.iter().any(|(name, value)| value.is_some() && element.name == *name) {
                builder.append_element(&element);
            }
        }
        for (name, value) in fields {
            if let Some(value) = value {
                builder.append(*name, *value);
            }
        }
        Self::parse(builder.finish().view())
    }

    /// A specification for a collection: without a collation of its own, the index gets that of the collection.
    #[must_use]
    pub fn inheriting(spec: Document<'_>, collation: Option<&Collation>) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append_all(spec);
        if let (Some(collation), None) = (collation, spec.get("collation")) {
            builder.append("collation", collation.document());
        }
        builder.finish()
    }

    /// Specifications for a collection with a collation.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_all(specs: &[DocumentBuf], collation: Option<&Collation>) -> Result<Vec<Self>> {
        specs.iter().map(|spec| Self::parse(Self::inheriting(spec.view(), collation).view())).collect()
    }

    /// Whether the index is the one of `_id`.
    #[must_use]
    pub fn is_id(&self) -> bool {
        match self.pattern.fields() {
            [field] => {
                field.path == "_id" && matches!(field.kind, FieldKind::Ordered(crate::keys::Direction::Ascending))
            }
            _ => false,
        }
    }

    /// The specification as `listIndexes` shows it.
    #[must_use]
    pub fn document(&self) -> Document<'_> {
        self.document.view()
    }

    /// Whether another specification means the same index: the same fields and the same documents.
    #[must_use]
    pub fn has_signature_of(&self, other: &Self) -> bool {
        let partial = |spec: &Self| spec.partial.as_ref().map(|filter| filter.as_bytes().to_vec());
        let projection = |spec: &Self| spec.wildcard_projection.as_ref().map(|filter| filter.as_bytes().to_vec());
        self.pattern.document() == other.pattern.document()
            && (self.unique, self.sparse, partial(self)) == (other.unique, other.sparse, partial(other))
            && projection(self) == projection(other)
            && self.pattern.collation() == other.pattern.collation()
    }

    /// Whether another specification of the same index has the same options.
    #[must_use]
    pub fn has_options_of(&self, other: &Self) -> bool {
        (self.hidden, self.prepare_unique, self.expire_after_seconds)
            == (other.hidden, other.prepare_unique, other.expire_after_seconds)
    }

    /// The fields of a specification in the order in which they are listed.
    fn to_listed(&self, spec: Document<'_>) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("v", 2).append("key", self.pattern.document()).append("name", &self.name);
        for element in spec.elements().filter(|element| !element.value.is_nullish()) {
            match element.name.as_str() {
                Some("v" | "key" | "name" | "ns" | "safe" | "dropDups" | "collation") => {}
                // Options that are off are not listed.
                Some("unique" | "prepareUnique" | "sparse" | "hidden")
                    if matches!(flag("", &element.value), Ok(false)) => {}
                Some(name @ ("unique" | "prepareUnique" | "sparse" | "hidden")) => {
                    builder.append(name, true);
                }
                Some(name @ "expireAfterSeconds") => {
                    builder.append(name, self.expire_after_seconds.unwrap_or_default());
                }
                _ => {
                    builder.append_element(&element);
                }
            }
        }
        if let Some(collation) = self.pattern.collation() {
            builder.append("collation", collation.document());
        }
        builder.finish()
    }
}

fn flag(field: &str, value: &Value<'_>) -> Result<bool> {
    match value {
        Value::Bool(is) => Ok(*is),
        other => match other.as_f64() {
            Some(number) => Ok(number != 0.0),
            None => Err(mismatch(field, value, "bool")),
        },
    }
}

fn seconds(value: &Value<'_>) -> Result<i32> {
    let seconds = seconds_of(value, INDEX_SECONDS_MAX).map_err(cannot)?;
    i32::try_from(seconds).map_err(|_| cannot("'expireAfterSeconds' has more than 31 bits"))
}

/// The filter of a partial index, which only some operators may be part of.
fn parse_partial(filter: Document<'_>, collation: &Collated) -> Result<Filter> {
    let parsed = Filter::parse(filter, &Context::default().collated(collation.clone()))?;
    if is_partial(parsed.root()) {
        return Ok(parsed);
    }
    Err(cannot(format!("Expression not supported in partial index: {filter}")))
}

/// Whether a part of a filter may be one of a partial index: `$and`, `$or`, comparisons, `$in`, `$exists: true` and
/// `$type`.
fn is_partial(node: &Node) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().all(is_partial),
        Node::Leaf { test, .. } => match test {
            Predicate::Compare(..) | Predicate::Collated(..) | Predicate::Exists | Predicate::Type(_) => true,
            Predicate::In(choices) => choices.patterns().is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// The layout of `{spinney: {layout: "btree"}}`.
pub(super) fn parse_storage(value: &Value<'_>) -> Result<StorageSpec> {
    let invalid = |what: String| Error::new(ErrorCode::INVALID_OPTIONS, what);
    let engines = value.as_document().ok_or_else(|| mismatch("storageEngine", value, "object"))?;
    let mut spec = StorageSpec::default();
    for engine in engines {
        if engine.name != "spinney" {
            return Err(invalid(format!("storageEngine.{} is not a registered storage engine", engine.name)));
        }
        let options =
            engine.value.as_document().ok_or_else(|| mismatch("storageEngine.spinney", &engine.value, "object"))?;
        for option in options {
            match (option.name.as_str(), option.value.as_str()) {
                (Some("layout"), Some(name)) if Layout::NAMES.contains(&name) => spec.layout = name.parse()?,
                _ => {
                    let what = format!("storageEngine.spinney has no option {}: {}", option.name, option.value);
                    return Err(invalid(format!("{what}; there is layout: \"btree\", \"lsm\" or \"lsm-tiered\"")));
                }
            }
        }
    }
    Ok(spec)
}

/// Refuses a projection that is empty, or includes some fields and excludes others.
fn check_projection(projection: Document<'_>) -> Result<()> {
    let mut including = None;
    for element in projection.elements().filter(|element| element.name != "_id") {
        let includes = flag("wildcardProjection", &element.value)?;
        if including.is_some_and(|other| other != includes) {
            let what = format!("Cannot do exclusion on field {} in inclusion projection", element.name);
            return Err(Error::new(ErrorCode::new(if includes { 31253 } else { 31254 }), what));
        }
        including = Some(includes);
    }
    if projection.is_empty() {
        return Err(Error::new(ErrorCode::FAILED_TO_PARSE, "The 'wildcardProjection' field can't be an empty object"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<IndexSpec> {
        IndexSpec::parse(DocumentBuf::from_json(json)?.view())
    }

    #[test]
    fn malformed_specifications_have_the_codes_of_mongodb() {
        for (json, code) in [
            (r#"{"key":{"a":1}}"#, 9),
            (r#"{"key":{},"name":"x"}"#, 67),
            (r#"{"key":{"a":1},"name":""}"#, 67),
            (r#"{"key":{"a":1},"name":123}"#, 14),
            (r#"{"key":{"a":1},"name":"x","unknownOption":true}"#, 197),
            (r#"{"key":{"a":"hashed"},"name":"x","unique":true}"#, 16764),
            (r#"{"key":{"a":"hashed","b":"hashed"},"name":"x"}"#, 31303),
            (r#"{"key":{"a":1,"b":1},"name":"x","expireAfterSeconds":1}"#, 67),
            (r#"{"key":{"_id":1},"name":"x","expireAfterSeconds":1}"#, 197),
            (r#"{"key":{"_id":1},"name":"x","hidden":true}"#, 197),
            (r#"{"key":{"a":1},"name":"x","partialFilterExpression":"no"}"#, 14),
            (r#"{"key":{"a":1},"name":"x","partialFilterExpression":{"$nor":[{"a":1}]}}"#, 67),
            (r#"{"key":{"a":1},"name":"x","partialFilterExpression":{"a":{"$not":{"$gt":5}}}}"#, 67),
            (r#"{"key":{"a":1},"name":"x","partialFilterExpression":{"a":{"$exists":false}}}"#, 67),
            (r#"{"key":{"a":1},"name":"x","partialFilterExpression":{"a":{"$regex":"x"}}}"#, 67),
            (r#"{"key":{"a":1},"name":"x","partialFilterExpression":{"a":{"$exists":true}},"sparse":true}"#, 67),
            (r#"{"key":{"a":1},"name":"x","collation":{}}"#, 2),
            (r#"{"key":{"a":1},"name":"x","collation":"en"}"#, 14),
            (r#"{"key":{"a":1},"name":"x","collation":{"locale":"xx"}}"#, 2),
            (r#"{"key":{"_id":1},"name":"x","unique":true}"#, 197),
            (r#"{"key":{"_id":1},"name":"x","hidden":true}"#, 197),
            (r#"{"key":{"$**":1},"name":"x","sparse":true}"#, 67),
            (r#"{"key":{"$**":1},"name":"x","unique":true}"#, 67),
            (r#"{"key":{"$**":1},"name":"x","wildcardProjection":{"a":1,"b":0}}"#, 31254),
            (r#"{"key":{"a":1},"name":"x","wildcardProjection":{"b":1}}"#, 2),
            (r#"{"key":{"$**":1},"name":"x","wildcardProjection":"no"}"#, 14),
            (r#"{"key":{"a.$**":1},"name":"x","wildcardProjection":{"b":1}}"#, 9),
            (r#"{"key":{"a":1,"$**":1},"name":"x"}"#, 67),
            (r#"{"key":{"a":1,"$**":1},"name":"x","wildcardProjection":{"b":0}}"#, 7246209),
            (r#"{"key":{"$**":1,"a.b":1},"name":"x","wildcardProjection":{"a":1}}"#, 7246209),
            (r#"{"key":{"$**":1,"a":1},"name":"x","wildcardProjection":{"a.b":1}}"#, 7246209),
            (r#"{"key":{"a":1,"b.$**":1},"name":"x","wildcardProjection":{"a":0}}"#, 9),
            (r#"{"key":{"a":"wildcard"},"name":"x"}"#, 7246202),
            (r#"{"key":{"a":"text"},"name":"x"}"#, 67),
            (r#"{"key":{"a":"2dsphere"},"name":"x"}"#, 67),
            (r#"{"key":{"a":1},"name":"x","weights":{"a":1}}"#, 67),
            (r#"{"key":{"a":1},"name":"x","expireAfterSeconds":"3"}"#, 67),
            (r#"{"key":{"a":1},"name":"x","expireAfterSeconds":-1}"#, 67),
            (r#"{"key":{"a":1},"name":"x","expireAfterSeconds":2147483648}"#, 67),
            (r#"{"key":{"a":1},"name":"x","storageEngine":{"wiredTiger":{}}}"#, 72),
        ] {
            assert_eq!(parse(json).unwrap_err().code().number(), code, "{json}");
        }
    }

    #[test]
    fn specifications_are_listed_without_what_is_off() {
        let spec = parse(r#"{"name":"x","key":{"a":1},"unique":1,"sparse":false,"background":true,"v":1}"#).unwrap();
        assert_eq!(spec.document().to_json(), r#"{"v":2,"key":{"a":1},"name":"x","unique":true,"background":true}"#);
        let layout = parse(r#"{"name":"x","key":{"a":1},"storageEngine":{"spinney":{"layout":"btree"}}}"#).unwrap();
        assert_eq!(layout.storage.layout, Layout::BTree);
        assert_eq!(parse(r#"{"name":"x","key":{"_id":1}}"#).unwrap().name, ID_INDEX);
    }
}
