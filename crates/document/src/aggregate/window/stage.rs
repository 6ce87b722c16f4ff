//! The stage: the partitions of its input, and the documents of each with the fields that are computed.

use std::sync::Arc;

use super::moving::Windowed;
use super::spec::{Output, WindowFields};
use super::whole::column;
use crate::aggregate::memory::Held;
use crate::aggregate::sorter::{Sorted, Sorter};
use crate::aggregate::stage::{Rows, Run, Stage, deferred};
use crate::aggregate::unwind::set;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{Document, DocumentBuf, ValueBuf};
use crate::keys;
use crate::path::Sort;

impl Stage for WindowFields {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || {
            let mut partitions = Partitions { rows: self.sorted(input, &run)?, next: None };
            let mut partition: Option<Partition> = None;
            Ok(std::iter::from_fn(move || {
                loop {
                    if let Some(document) = partition.as_mut().and_then(|partition| partition.next(&self).transpose()) {
                        return Some(document);
                    }
                    // Its memory is given back before the next one is read.
                    partition = None;
                    match partitions.next(&self, &run).transpose()? {
                        Ok(next) => partition = Some(next),
                        Err(wrong) => return Some(Err(wrong)),
                    }
                }
            }))
        }))
    }
}

/// The rows in the order of their partitions and, within one, of the sort.
struct Partitions {
    rows: Sorted,
    /// The row that begins the next partition, with the key of that.
    next: Option<(Vec<u8>, DocumentBuf)>,
}

impl Partitions {
    /// The next partition.
    fn next(&mut self, stage: &WindowFields, run: &Run) -> Result<Option<Partition>> {
        let mut rows: Vec<DocumentBuf> = Vec::new();
        let (mut this, mut held) = (None, Held::new(&run.memory, stage.name));
        loop {
            let (partition, document) = match self.next.take() {
                Some(next) => next,
                None => match self.rows.next().transpose()? {
                    Some((_, document)) => (stage.partition_key(document.view())?, document),
                    None => break,
                },
            };
            if this.as_ref().is_some_and(|this| *this != partition) {
                self.next = Some((partition, document));
                break;
            }
            this = Some(partition);
            held.take(document.as_bytes().len() + size_of::<DocumentBuf>())?;
            rows.push(document);
            interrupt::work(1)?;
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let fields = stage.outputs.iter().map(|output| Field::new(output, stage.sort.as_ref(), &rows, &mut held));
        let fields = fields.collect::<Result<_>>()?;
        Ok(Some(Partition { rows, at: 0, fields, _held: held }))
    }
}

/// A partition whose documents are passed on.
struct Partition {
    rows: Vec<DocumentBuf>,
    /// The next row.
    at: usize,
    fields: Vec<Field>,
    /// The bytes of the rows, and of what was computed for all of them.
    _held: Held,
}

/// A field that is computed.
enum Field {
    /// For all documents at once; nothing where the field is not set.
    Whole(std::vec::IntoIter<Option<ValueBuf>>),
    Windowed(Box<Windowed>),
}

impl Field {
    fn new(output: &Output, sort: Option<&Sort>, rows: &[DocumentBuf], held: &mut Held) -> Result<Self> {
        Ok(match column(output, sort, rows, held)? {
            Some(values) => Self::Whole(values.into_iter()),
            None => Self::Windowed(Box::new(Windowed::new(output, sort, rows, held.empty())?)),
        })
    }
}

impl Partition {
    /// The next document, with its fields.
    fn next(&mut self, stage: &WindowFields) -> Result<Option<DocumentBuf>> {
        let at = self.at;
        if at == self.rows.len() {
            return Ok(None);
        }
        interrupt::work(1)?;
        self.at += 1;
        let mut changed: Option<DocumentBuf> = None;
        for (output, field) in stage.outputs.iter().zip(&mut self.fields) {
            let value = match field {
                Field::Whole(values) => values.next().flatten(),
                Field::Windowed(windowed) => Some(windowed.value(&output.function, &self.rows, at)?),
            };
            if let Some(value) = value {
                let document = changed.as_ref().unwrap_or(&self.rows[at]);
                changed = Some(set(document.view(), output.path.parts(), value.view()));
            }
        }
        Ok(Some(changed.unwrap_or_else(|| self.rows[at].clone())))
    }
}

impl WindowFields {
    /// The partition of a document as bytes.
    fn partition_key(&self, document: Document<'_>) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(16);
        let Some(expression) = &self.partition else { return Ok(key) };
        let partition = expression.of(document)?;
        if partition.value().as_array().is_some() {
            let what = "An expression used to partition cannot evaluate to value of type array";
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        }
        keys::encode_id(&mut key, &partition.value(), self.collation.as_deref());
        Ok(key)
    }

    fn sorted(&self, input: Rows, run: &Run) -> Result<Sorted> {
        let mut sorter = Sorter::new(self.name, Arc::clone(&run.memory), None);
        for row in input {
            let document = row?;
            let mut key = self.partition_key(document.view())?;
            if let Some(sort) = &self.sort {
                key.extend(sort.encoded(document.view())?);
            }
            sorter.push(key, document)?;
        }
        sorter.finish()
    }
}
