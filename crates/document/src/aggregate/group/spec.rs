//! What `$group` does with one group: its id, its accumulators, the document that it becomes.

use crate::aggregate::accumulator::{Accumulator, State};
use crate::aggregate::effect::Fields;
use crate::aggregate::stage::error;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::collation::Collated;
use crate::expr::Expression;

/// `$group`.
#[derive(Debug)]
pub(in crate::aggregate) struct Group {
    pub(super) id: Expression,
    pub(super) fields: Vec<(String, Accumulator)>,
    /// How ids are compared.
    pub(super) collation: Collated,
}

/// A group: its id, and what its accumulators have gathered.
pub(super) type Gathered = (ValueBuf, Vec<State>);

impl Group {
    /// The stage that groups by an expression.
    pub(in crate::aggregate) const fn new(
        id: Expression,
        fields: Vec<(String, Accumulator)>,
        collation: Collated,
    ) -> Self {
        Self { id, fields, collation }
    }

    pub(super) fn id_of(&self, document: Document<'_>) -> Result<ValueBuf> {
        Ok(self.id.of(document)?.into_buf().unwrap_or_else(|| Value::Null.into()))
    }

    pub(super) fn start(&self, id: ValueBuf) -> Result<Gathered> {
        let of = match id.view() {
            Value::Document(document) => document,
            _ => Document::empty(),
        };
        let states = self.fields.iter().map(|(_, accumulator)| accumulator.start(of)).collect::<Result<_>>()?;
        Ok((id, states))
    }

    /// Adds a document to its group. The bytes that are kept of it.
    pub(super) fn add(&self, group: &mut Gathered, document: Document<'_>) -> Result<usize> {
        let mut bytes = 0;
        for ((_, accumulator), state) in self.fields.iter().zip(&mut group.1) {
            bytes += accumulator.add(state, document).map_err(as_in_groups)?;
        }
        Ok(bytes)
    }

    /// The memory of a group with an id.
    pub(super) fn bytes_of(&self, id: &ValueBuf) -> usize {
        2 * (id.payload().len() + size_of::<ValueBuf>()) + self.fields.len() * size_of::<State>()
    }

    pub(super) fn finish(&self, (id, states): Gathered) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("_id", id.view());
        for ((name, accumulator), state) in self.fields.iter().zip(states) {
            builder.append(name, accumulator.finish(state).view());
        }
        builder.finish()
    }

    /// What the group reads of documents.
    pub(super) fn reads(&self) -> Fields {
        let mut reads = Fields::none();
        reads.add_expression(&self.id);
        self.fields.iter().for_each(|(_, accumulator)| accumulator.add_fields(&mut reads));
        reads
    }
}

/// Divisions by zero have codes of their own in groups.
pub(super) fn as_in_groups(wrong: Error) -> Error {
    let code = match wrong.code() {
        ErrorCode::BAD_VALUE if wrong.message() == "can't $divide by zero" => 4_848_401,
        code if code.number() == 16610 => 4_848_403,
        _ => return wrong,
    };
    error(code, wrong.message())
}
