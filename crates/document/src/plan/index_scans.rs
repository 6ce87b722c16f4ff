//! The scans of one index that could answer a query.

use std::sync::Arc;

use smallvec::SmallVec;

use super::candidate::{Asked, Candidate};
use super::covered::covers;
use super::fields::{Field, alternatives, fields_of};
use super::imply::implies;
use super::order::{Order, order_of};
use super::query::Query;
use super::ranges::{Composed, compose, union};
use super::scan::{Group, Scan};
use crate::bson::{Document, Value};
use crate::catalog::Index;
use crate::collation::Collation;
use crate::keys::hashed::hash_value;
use crate::keys::{Direction, FieldKind};
use crate::path::Path;
use crate::query::bounds::{Bounds, Interval};
use crate::query::node::Node;

/// The scans of the collection itself, in the order of `_id`, of which `stored` is the collation; of a capped one, in
/// the order of its inserts.
#[must_use]
pub fn of_collection(asked: &Asked<'_>, stored: Option<&Collation>, capped: bool) -> Vec<Candidate> {
    let id = Path::new("_id");
    let fields = [Field { path: &id, arrays: 0, collation: stored }];
    let fields = if capped { &[][..] } else { &fields[..] };
    let directions = &[Direction::Ascending][..fields.len()];
    let shape = Shape { index: None, fields, directions, hashed: None, collation: stored, stored };
    shape.candidates(asked)
}

/// The scans of an index. `forced` when the query must use it, whatever documents it lacks; `stored` is the collation
/// of the collection's `_id`s.
#[must_use]
pub fn of_index(asked: &Asked<'_>, index: &Arc<Index>, forced: bool, stored: Option<&Collation>) -> Vec<Candidate> {
    let filter = asked.query.filter.root();
    if let Some(partial) = &index.spec.filter
        && !forced
        && !implies(filter, partial.root())
    {
        return Vec::new();
    }
    if index.spec.pattern.is_wildcard() {
        return super::wildcard::candidates(asked, index, forced);
    }
    let fields = fields_of(index);
    if !forced && fields.first().is_none_or(|first| !asked.mentions(first.path)) {
        // No bounds, and not the order: the scan would be of the whole index.
        return Vec::new();
    }
    let directions: SmallVec<[_; 4]> = index.spec.pattern.fields().iter().map(|field| field.direction()).collect();
    let hashed = index.spec.pattern.fields().iter().position(|field| field.kind == FieldKind::Hashed);
    let collation = index.spec.pattern.collation();
    let shape = Shape { index: Some(index), fields: &fields, directions: &directions, hashed, collation, stored };
    let mut found = shape.candidates(asked);
    if index.spec.sparse && !forced {
        // A document that has none of the fields is not in the index.
        let has = |bounds: &Bounds| !bounds.is_full() && !bounds.contains(&Value::Null);
        found.retain(|candidate| candidate.scan.bounds.iter().any(has));
    }
    found
}

/// An index as ranges are made for it.
struct Shape<'i> {
    index: Option<&'i Arc<Index>>,
    fields: &'i [Field<'i>],
    directions: &'i [Direction],
    hashed: Option<usize>,
    /// The collation of the index.
    collation: Option<&'i Collation>,
    /// The collation of the `_id` behind its fields.
    stored: Option<&'i Collation>,
}

impl Shape<'_> {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let filter = asked.query.filter.root();
        let mut found: Vec<_> =
            self.alternatives(filter).into_iter().map(|bounds| self.candidate(asked.query, bounds)).collect();
        if let Some(of_branches) = self.of_branches(asked) {
            // The same bounds for all branches together find more, unless the ranges have them all.
            let is_wider = |one: &Candidate| !one.scan.filters.is_empty() && (!one.sorted || of_branches.sorted);
            if !asked.alone {
                found.retain(|one| !is_wider(one));
            }
            found.push(of_branches);
        }
        found
    }

    fn alternatives(&self, filter: &Node) -> Vec<Vec<Bounds>> {
        let mut all = alternatives(filter, self.fields);
        if let Some(hashed) = self.hashed {
            all.iter_mut().for_each(|bounds| bounds[hashed] = hashes(&bounds[hashed]));
        }
        all
    }

    fn candidate(&self, query: &Query, bounds: Vec<Bounds>) -> Candidate {
        let exact = self.is_exact(query.filter.root(), &bounds);
        let order = self.order(query, &bounds);
        let grouped = order.map_or(0, |order| order.grouped);
        let Composed { groups, filters } = compose(self.directions, &bounds, grouped);
        let single = self.is_unique() && bounds.iter().all(Bounds::is_point);
        self.finish(
            query,
            Scan { index: self.index.cloned(), bounds, groups, filters, reverse: false, multikey: false, exact },
            order,
            single,
        )
    }

    /// One scan over the ranges of all branches of an `$or`, when each has bounds for the first field.
    fn of_branches(&self, asked: &Asked<'_>) -> Option<Candidate> {
        if asked.branches.is_empty() {
            return None;
        }
        let (mut ranges, mut of_fields) = (Vec::new(), vec![Vec::new(); self.fields.len()]);
        for branch in &asked.branches {
            let bounds = self.alternatives(branch).into_iter().next()?;
            if bounds.first()?.is_full() {
                return None;
            }
            if bounds.iter().all(|bounds| !bounds.intervals.is_empty()) {
                let composed = compose(self.directions, &bounds, 0);
                ranges.extend(composed.groups.iter().flat_map(|group| group.ranges.iter().cloned()));
            }
            of_fields.iter_mut().zip(bounds).for_each(|(all, bounds)| all.push(Some(bounds)));
        }
        let bounds: Vec<_> = of_fields.into_iter().filter_map(Bounds::union_of).collect();
        // Ranges of different branches are in the order of keys, not grouped.
        let order = self.order(asked.query, &bounds).filter(|order| order.grouped == 0);
        let groups = vec![Group { prefix: Vec::new(), ranges: union(ranges).into() }];
        let scan = Scan {
            index: self.index.cloned(),
            bounds,
            groups,
            filters: Vec::new(),
            reverse: false,
            multikey: false,
            exact: false,
        };
        Some(self.finish(asked.query, scan, order, false))
    }

    fn order(&self, query: &Query, bounds: &[Bounds]) -> Option<Order> {
        let sort = query.sort.as_ref()?;
        let by = sort.collation().as_deref();
        // An index in the order of another collation has that of the sort where there are no strings.
        let sorted_by = |field: &Field<'_>| sort.fields().iter().any(|(path, _)| path == field.path);
        let in_order = |(field, bounds): (&Field<'_>, &Bounds)| !sorted_by(field) || !bounds.has_text();
        if by != self.collation && !self.fields.iter().zip(bounds).all(in_order) {
            return None;
        }
        // Behind its fields, an entry has the `_id`.
        let id = by == self.stored && self.index.is_some_and(|index| index.has_ids && !index.spec.unique);
        order_of(sort, self.fields, self.directions, bounds, self.hashed, id)
    }

    fn finish(&self, query: &Query, mut scan: Scan, order: Option<Order>, single: bool) -> Candidate {
        scan.reverse = order.is_some_and(|order| order.reverse);
        scan.multikey = self.fields.iter().any(|field| field.arrays != 0);
        Candidate {
            sorted: query.sort.is_none() || order.is_some() || single,
            covered: self.index.is_some_and(|index| covers(index, query, &scan)),
            bound: scan.bounds.iter().filter(|bounds| !bounds.is_full()).count(),
            single,
            scan,
        }
    }

    /// Whether the bounds say all that the filter says: it is of conditions on fields of the index, which no document
    /// has an array in, and the bounds of each say its conditions exactly.
    fn is_exact(&self, filter: &Node, bounds: &[Bounds]) -> bool {
        let told = |node: &Node| match node {
            Node::Leaf { path, .. } => {
                self.fields.iter().position(|field| field.path == path).is_some_and(|at| bounds[at].exact)
            }
            _ => false,
        };
        let plain = self.hashed.is_none() && self.fields.iter().all(|field| field.arrays == 0);
        plain
            && match filter {
                Node::And(nodes) => nodes.iter().all(told),
                node => told(node),
            }
    }

    fn is_unique(&self) -> bool {
        // A capped collection has no field that its documents are found by.
        self.index.map_or(!self.fields.is_empty(), |index| index.spec.unique)
    }
}

/// The bounds of a hashed field: the hashes of values, when there are only single ones.
fn hashes(bounds: &Bounds) -> Bounds {
    let hashed = |interval: &Interval| {
        let value = interval.low.value.view();
        let plain = !matches!(value, Value::Array(_) | Value::Undefined | Value::Regex(_));
        (interval.is_point() && plain).then(|| Interval::point(Value::Int64(hash_value(&value))))
    };
    let points: Option<Vec<_>> = bounds.intervals.iter().map(hashed).collect();
    match points {
        Some(intervals) => Bounds { intervals, exact: false }.union(Bounds::none()),
        None => Bounds::full(),
    }
}

/// Whether a pattern is that of the collection itself.
#[must_use]
pub fn is_id_pattern(pattern: Document<'_>) -> bool {
    let mut fields = pattern.elements();
    matches!((fields.next(), fields.next()), (Some(id), None) if id.name == "_id" && id.value.as_f64() == Some(1.0))
}
