//! A document while it is updated: only what lies on the paths of the update is taken apart, the rest stays bytes.

use std::collections::HashMap;

use crate::bson::{Document, DocumentBuf, DocumentBuilder, Kind, Value, ValueBuf};

/// The most fields that are looked through for a name.
const FEW: usize = 32;

/// The fields of a document that is taken apart, in their order. To find one takes as long however many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a> {
    /// Nothing where a field was removed.
    all: Vec<Option<(Vec<u8>, Tree<'a>)>>,
    /// Where each is, when there are more than a few.
    places: HashMap<Vec<u8>, usize>,
}

impl<'a> Fields<'a> {
    /// Where the field of a name is.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        if self.all.len() > FEW {
            return self.places.get(name).copied();
        }
        self.all.iter().position(|field| matches!(field, Some((other, _)) if other == name))
    }

    /// The value at a place that [`Self::find`] gave.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Tree<'a>> {
        self.all.get_mut(place)?.as_mut().map(|(_, value)| value)
    }

    /// Takes the field at a place out; the others keep their places.
    pub(super) fn remove(&mut self, place: usize) -> Option<Tree<'a>> {
        let (name, value) = self.all.get_mut(place)?.take()?;
        self.places.remove(&name);
        Some(value)
    }

    /// Adds a field behind the others, and returns its place.
    pub(super) fn push(&mut self, name: &[u8], value: Tree<'a>) -> usize {
        self.all.push(Some((name.to_vec(), value)));
        match self.all.len() {
            len if len == FEW + 1 => {
                let fields = self.all.iter().enumerate();
                let named = fields.filter_map(|(at, field)| field.as_ref().map(|(name, _)| (name.clone(), at)));
                // Of a name that is there twice the first counts.
                named.for_each(|(name, at)| _ = self.places.entry(name).or_insert(at));
            }
            len if len > FEW => _ = self.places.entry(name.to_vec()).or_insert(len - 1),
            _ => {}
        }
        self.all.len() - 1
    }

    fn iter(&self) -> impl Iterator<Item = &(Vec<u8>, Tree<'a>)> {
        self.all.iter().flatten()
    }
}

impl<'n, 'a> FromIterator<(&'n [u8], Tree<'a>)> for Fields<'a> {
    fn from_iter<I: IntoIterator<Item = (&'n [u8], Tree<'a>)>>(fields: I) -> Self {
        let mut all = Self::default();
        for (name, value) in fields {
            all.push(name, value);
        }
        all
    }
}

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
                document.elements().map(|field| (field.name.as_bytes(), Tree::View(field.value))).collect(),
            ),
            Self::View(Value::Array(array)) => Self::Array(array.values().map(Tree::View).collect()),
            Self::Own(value) => match value.view() {
                Value::Document(document) => {
                    let fields = document.elements();
                    Self::Document(fields.map(|field| (field.name.as_bytes(), Tree::Own(field.value.into()))).collect())
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
                for (name, value) in fields.iter() {
                    value.append_to(name, builder);
                }
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
    for (name, value) in fields.iter() {
        value.append_to(name, &mut builder);
    }
    builder.finish()
}
