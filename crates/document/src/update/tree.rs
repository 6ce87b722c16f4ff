//! A document while it is updated: only what lies on the paths of the update is taken apart, the rest stays bytes.

use crate::bson::{Document, DocumentBuf, DocumentBuilder, FieldList, Kind, Value, ValueBuf};

/// The fields of a document that is taken apart; nothing where one was taken out.
pub(super) type Fields<'a> = FieldList<Box<[u8]>, Option<Tree<'a>>>;

/// A value that may be taken apart.
#[derive(Clone, Debug)]
pub(super) enum Tree<'a> {
    /// Untouched.
    View(Value<'a>),
    /// New.
    Own(ValueBuf),
    /// A document taken apart.
    Document(Fields<'a>),
    /// An array taken apart.
    Array(Vec<Tree<'a>>),
}

impl<'a> Tree<'a> {
    /// The type of the value.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::View(value) => value.kind(),
            Self::Own(value) => value.kind(),
            Self::Document(_) => Kind::Document,
            Self::Array(_) => Kind::Array,
        }
    }

    /// Takes a document or array apart, one level.
    pub(super) fn open(&mut self) {
        let opened = match self {
            Self::View(Value::Document(document)) => Self::Document(
                document
                    .elements()
                    .map(|field| (field.name.as_bytes().into(), Some(Tree::View(field.value))))
                    .collect(),
            ),
            Self::View(Value::Array(array)) => Self::Array(array.values().map(Tree::View).collect()),
            Self::Own(value) => match value.view() {
                Value::Document(document) => {
                    let own = |value: Value<'_>| Some(Tree::Own(value.into()));
                    Self::Document(
                        document.elements().map(|field| (field.name.as_bytes().into(), own(field.value))).collect(),
                    )
                }
                Value::Array(array) => Self::Array(array.values().map(|value| Tree::Own(value.into())).collect()),
                _ => return,
            },
            _ => return,
        };
        *self = opened;
    }

    /// The value as bytes.
    pub(super) fn to_buf(&self) -> ValueBuf {
        match self {
            Self::View(value) => (*value).into(),
            Self::Own(value) => value.clone(),
            Self::Document(fields) => document_of(fields).into(),
            Self::Array(values) => {
                let values: Vec<ValueBuf> = values.iter().map(Tree::to_buf).collect();
                ValueBuf::array(values.iter().map(ValueBuf::view))
            }
        }
    }

    /// The document.
    pub(super) fn to_document(&self) -> DocumentBuf {
        match self {
            Self::Document(fields) => document_of(fields),
            Self::View(Value::Document(document)) => (*document).into(),
            _ => match self.to_buf().view() {
                Value::Document(document) => document.into(),
                _ => Document::empty().into(),
            },
        }
    }

    fn append_to(&self, name: &[u8], builder: &mut DocumentBuilder) {
        match self {
            Self::View(value) => {
                builder.append(name, *value);
            }
            Self::Own(value) => {
                builder.append(name, value.view());
            }
            Self::Document(fields) => {
                builder.open_document(name);
                append_all(fields, builder);
                builder.close();
            }
            Self::Array(_) => {
                builder.append(name, self.to_buf().view());
            }
        }
    }
}

fn document_of(fields: &Fields<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    append_all(fields, &mut builder);
    builder.finish()
}

fn append_all(fields: &Fields<'_>, builder: &mut DocumentBuilder) {
    for (name, value) in fields.as_slice() {
        value.iter().for_each(|value| value.append_to(name, builder));
    }
}
