//! Groups of the keys of an index: ids and values are decoded from the bytes of a key, and no document is made.
//!
//! Where the id is of the first fields of the index, keys that begin with the same bytes belong to one group, so that
//! these are decoded once a group. Integers that are the same for all rows, as `{$sum: 1}` has them, are added up once
//! a group as well.

use smallvec::SmallVec;

use super::spec::{Gathered, Group, as_in_groups};
use crate::aggregate::accumulator::{Accumulator, Kind, State};
use crate::aggregate::lend::KeyRow;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::number::Number;
use crate::bson::{self, DocumentBuilder, Value, ValueBuf};
use crate::expr::{Expression, Val};
use crate::keys::{Direction, TypeReader, decode_field, decode_number, skip_field};
use crate::path::Path;

/// What a group takes of the keys of an index, and the key that was read last.
#[derive(Debug)]
pub(super) struct Keyed {
    /// The fields up to the last that is needed.
    fields: Vec<Field>,
    id: Id,
    /// How many fields the id is of, when it is of the first ones.
    lead: Option<usize>,
    /// How many of these are not needed again while their bytes are the same.
    skipped: usize,
    /// What accumulators take, by their positions.
    taken: Vec<(usize, Taken)>,
    /// Accumulators that add the same integer for each row.
    repeated: Vec<(usize, i64, bson::Kind)>,
    /// The sums that are all that is taken, when they are of one field behind those of the id.
    sums: Option<Sums>,
    /// The values of the fields that are needed.
    slots: Vec<Slot>,
    /// The first fields of the last key, if they are an id.
    begin: Option<Begin>,
}

/// The bytes with which the keys of a group begin.
#[derive(Debug, Default)]
struct Begin {
    bytes: Vec<u8>,
    /// The first bytes as a big-endian number when there are 1 to 8 of them, and a mask of these in a number of eight
    /// bytes; the mask is 0 otherwise.
    head: u64,
    mask: u64,
    /// The type bits of these fields.
    types: Vec<u8>,
    /// Whether there are no type bits behind these.
    is_last: bool,
}

impl Begin {
    fn set(&mut self, bytes: &[u8], types: &[u8], is_last: bool) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.types.clear();
        self.types.extend_from_slice(types);
        self.is_last = is_last;
        (self.head, self.mask) = (0, 0);
        if (1..=8).contains(&bytes.len()) {
            let mut head = [0; 8];
            head[..bytes.len()].copy_from_slice(bytes);
            (self.head, self.mask) = (u64::from_be_bytes(head), u64::MAX << (64 - 8 * bytes.len()));
        }
    }

    /// Whether a key begins so.
    #[inline]
    fn begins(&self, key: &[u8]) -> bool {
        match key.first_chunk() {
            Some(head) if self.mask != 0 => u64::from_be_bytes(*head) & self.mask == self.head,
            _ => key.starts_with(&self.bytes),
        }
    }

    /// The type bits behind those of the fields, of a key that begins so; nothing when they must be read to tell.
    #[inline]
    fn types_behind<'t>(&self, types: &'t [u8]) -> Option<&'t [u8]> {
        // One by one, as these are few.
        let (first, rest) = types.split_at_checked(self.types.len())?;
        let are_same = first.iter().zip(&self.types).all(|(one, other)| one == other);
        // Default types at the end are left out, so that more bits than these may be of the fields themselves.
        (are_same && (rest.is_empty() || !self.is_last)).then_some(rest)
    }
}

/// Sums of one field.
#[derive(Debug)]
struct Sums {
    field: usize,
    /// The positions of the accumulators.
    of: SmallVec<[usize; 2]>,
}

#[derive(Debug)]
struct Field {
    direction: Direction,
    slot: Option<usize>,
    /// Whether null, which may stand for a missing field, makes a difference.
    null_tells: bool,
}

#[derive(Debug)]
enum Id {
    Constant(ValueBuf),
    Field(usize),
    Document(Vec<(String, usize)>),
}

#[derive(Debug)]
enum Taken {
    Slot(usize),
    Constant(ValueBuf),
}

/// A value of a key.
#[derive(Debug)]
enum Slot {
    Number(Value<'static>),
    Other(ValueBuf),
}

impl Slot {
    #[inline]
    fn view(&self) -> Value<'_> {
        match self {
            Self::Number(number) => *number,
            Self::Other(value) => value.view(),
        }
    }
}

/// What a key says.
#[derive(Debug)]
pub(super) enum Read {
    /// Its row belongs to the group of the one before.
    Same,
    /// It may belong to another group: [`Keyed::id`].
    Id,
    /// Too little: the document must be looked at.
    Unknown,
}

impl Keyed {
    /// What a group takes of an index with these fields; nothing when it needs more than values of fields.
    pub(super) fn of(group: &Group, fields: &[(Path, Direction)]) -> Option<Self> {
        let mut slots = Slots { fields, used: vec![None; fields.len()], count: 0 };
        let id = match &group.id {
            Expression::Document(parts) => {
                let parts = parts.iter().map(|(name, part)| Some((name.clone(), slots.slot_of(part)?)));
                Id::Document(parts.collect::<Option<_>>()?)
            }
            expression => match expression.as_constant() {
                Some(constant) => Id::Constant(constant.into()),
                None => Id::Field(slots.slot_of(expression)?),
            },
        };
        let of_id = slots.used.clone();
        let (mut taken, mut repeated) = (Vec::new(), Vec::new());
        let mut needed = vec![false; fields.len()];
        let mut null_tells =
            of_id.iter().map(|slot| slot.is_some() && matches!(id, Id::Document(_))).collect::<Vec<_>>();
        for (at, (_, accumulator)) in group.fields.iter().enumerate() {
            if matches!(accumulator.kind, Kind::Top(..)) {
                return None;
            }
            match accumulator.argument.as_constant() {
                Some(constant) => match repeated_of(accumulator, constant) {
                    Some((number, kind)) => repeated.push((at, number, kind)),
                    None => taken.push((at, Taken::Constant(constant.into()))),
                },
                None => {
                    let slot = slots.slot_of(&accumulator.argument)?;
                    let field = slots.used.iter().position(|used| *used == Some(slot))?;
                    needed[field] = true;
                    null_tells[field] |= !ignores_null(&accumulator.kind);
                    taken.push((at, Taken::Slot(slot)));
                }
            }
        }
        let lead = of_id.iter().take_while(|slot| slot.is_some()).count();
        let lead = of_id[lead..].iter().all(Option::is_none).then_some(lead);
        let skipped = lead.filter(|lead| !needed[..*lead].contains(&true)).unwrap_or(0);
        let last = slots.used.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let read = fields[..last].iter().enumerate().map(|(at, (_, direction))| Field {
            direction: *direction,
            slot: slots.used[at],
            null_tells: null_tells[at],
        });
        let sums = Sums::of(group, &taken, &slots).filter(|sums| skipped > 0 && sums.field >= skipped);
        let empty = (0..slots.count).map(|_| Slot::Number(Value::Null)).collect();
        Some(Self { fields: read.collect(), id, lead, skipped, taken, repeated, sums, slots: empty, begin: None })
    }

    /// Whether keys in the order of their index come group by group.
    pub(super) const fn comes_in_groups(&self) -> bool {
        // Missing fields and null are two ids of a document, and one key.
        self.lead.is_some() && !matches!(self.id, Id::Document(_))
    }

    /// Adds a key of the group of the one before, if that is seen at once and all that is taken of it are numbers for
    /// sums, but for what is the same for all rows; whether it was added. That is nearly all keys of large groups.
    #[inline]
    pub(super) fn add_same(&self, row: &KeyRow<'_>, gathered: &mut Gathered) -> bool {
        let (Some(sums), Some(begin)) = (&self.sums, &self.begin) else { return false };
        if !begin.begins(row.fields) {
            return false;
        }
        let Some(types) = begin.types_behind(row.types) else { return false };
        let (mut rest, mut types) = (&row.fields[begin.bytes.len()..], TypeReader::new(types));
        for field in &self.fields[self.skipped..sums.field] {
            let Some(behind) = skip_field(rest, field.direction, &mut types) else { return false };
            rest = behind;
        }
        let Some((value, _)) = decode_number(rest, self.fields[sums.field].direction, &mut types) else { return false };
        let Some(number) = value.as_number() else { return false };
        for at in &sums.of {
            if let Some(State::Sum(sum)) = gathered.1.get_mut(*at) {
                sum.add(number, value.kind());
            }
        }
        true
    }

    /// Reads a key.
    #[inline]
    pub(super) fn read(&mut self, row: &KeyRow<'_>) -> Result<Read> {
        let mut types = TypeReader::new(row.types);
        let begin = self.begin.as_ref().filter(|begin| begin.begins(row.fields));
        let begun = begin.is_some();
        let (mut rest, mut from) = (row.fields, 0);
        if let Some(begin) = begin
            && self.skipped > 0
        {
            from = self.skipped;
            if let Some(behind) = begin.types_behind(row.types) {
                (rest, types) = (&row.fields[begin.bytes.len()..], TypeReader::new(behind));
            } else {
                for field in &self.fields[..from] {
                    rest = skip_field(rest, field.direction, &mut types).ok_or_else(broken)?;
                }
            }
        }
        for field in &self.fields[from..] {
            let Some(slot) = field.slot else {
                rest = skip_field(rest, field.direction, &mut types).ok_or_else(broken)?;
                continue;
            };
            if let Some((number, behind)) = decode_number(rest, field.direction, &mut types) {
                (self.slots[slot], rest) = (Slot::Number(number), behind);
                continue;
            }
            let (value, behind) = decode_field(rest, field.direction, &mut types).ok_or_else(broken)?;
            match value.view() {
                Value::Undefined => return Ok(self.unknown()),
                Value::Null if field.null_tells => return Ok(self.unknown()),
                _ => (self.slots[slot], rest) = (Slot::Other(value), behind),
            }
        }
        if begun {
            return Ok(Read::Same);
        }
        self.begin(row)?;
        Ok(Read::Id)
    }

    fn unknown(&mut self) -> Read {
        self.begin = None;
        Read::Unknown
    }

    /// The next key is of no known group.
    pub(super) fn forget(&mut self) {
        self.begin = None;
    }

    /// Keys that begin like this one, which was just read, belong to its group.
    fn begin(&mut self, row: &KeyRow<'_>) -> Result<()> {
        if let Some(lead) = self.lead {
            let (mut rest, mut types) = (row.fields, TypeReader::new(row.types));
            for field in &self.fields[..lead] {
                rest = skip_field(rest, field.direction, &mut types).ok_or_else(broken)?;
            }
            let fields = &row.fields[..row.fields.len() - rest.len()];
            let behind = types.rest();
            let types = &row.types[..row.types.len() - behind.len()];
            self.begin.get_or_insert_default().set(fields, types, behind.is_empty());
        }
        Ok(())
    }

    /// The id of the group of the key that was just read.
    pub(super) fn id(&self) -> ValueBuf {
        match &self.id {
            Id::Constant(id) => id.clone(),
            Id::Field(slot) => self.slots[*slot].view().into(),
            Id::Document(parts) => {
                let mut builder = DocumentBuilder::new();
                for (name, slot) in parts {
                    builder.append(name, self.slots[*slot].view());
                }
                builder.finish().into()
            }
        }
    }

    /// Adds the values of the key that was just read, but for those that are the same for all rows. The bytes that are
    /// kept of them.
    #[inline]
    pub(super) fn add(&self, group: &Group, gathered: &mut Gathered) -> Result<usize> {
        let mut bytes = 0;
        for (at, taken) in &self.taken {
            let value = match taken {
                Taken::Slot(slot) => self.slots[*slot].view(),
                Taken::Constant(value) => value.view(),
            };
            if let (Some((_, accumulator)), Some(state)) = (group.fields.get(*at), gathered.1.get_mut(*at)) {
                bytes += accumulator.add_value(state, Val::View(value)).map_err(as_in_groups)?;
            }
        }
        Ok(bytes)
    }

    /// Adds what is the same for all rows, for some rows.
    pub(super) fn add_repeated(&self, gathered: &mut Gathered, rows: u64) {
        for (at, number, kind) in &self.repeated {
            if let Some(State::Sum(sum)) = gathered.1.get_mut(*at) {
                sum.add_times(*number, *kind, rows);
            }
        }
    }
}

impl Sums {
    fn of(group: &Group, taken: &[(usize, Taken)], slots: &Slots<'_>) -> Option<Self> {
        let slot_of = |(at, taken): &(usize, Taken)| match (taken, &group.fields[*at].1.kind) {
            (Taken::Slot(slot), Kind::Sum) => Some(*slot),
            _ => None,
        };
        let slot = slot_of(taken.first()?)?;
        let field = slots.used.iter().position(|used| *used == Some(slot))?;
        let only = taken.iter().all(|taken| slot_of(taken) == Some(slot));
        only.then(|| Self { field, of: taken.iter().map(|(at, _)| *at).collect() })
    }
}

/// The fields of an index that are needed, numbered as they are.
struct Slots<'f> {
    fields: &'f [(Path, Direction)],
    used: Vec<Option<usize>>,
    count: usize,
}

impl Slots<'_> {
    /// The slot of an expression that is a field of the index.
    fn slot_of(&mut self, expression: &Expression) -> Option<usize> {
        let (Expression::Field(path) | Expression::Root(path)) = expression else { return None };
        let at = self.fields.iter().position(|(field, _)| field == path)?;
        let next = self.count;
        let slot = *self.used[at].get_or_insert(next);
        self.count = self.count.max(slot + 1);
        Some(slot)
    }
}

/// The integer that an accumulator adds for each row.
fn repeated_of(accumulator: &Accumulator, constant: Value<'_>) -> Option<(i64, bson::Kind)> {
    match (&accumulator.kind, constant.as_number()) {
        (Kind::Sum, Some(Number::Int(number))) => Some((number, constant.kind())),
        _ => None,
    }
}

/// Whether null is to an accumulator what a missing field is.
const fn ignores_null(kind: &Kind) -> bool {
    matches!(kind, Kind::Sum | Kind::Average | Kind::Extreme(_) | Kind::End(_) | Kind::Deviation(_))
}

fn broken() -> Error {
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "a key of an index is malformed")
}
