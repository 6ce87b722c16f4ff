//! The bounds that a filter implies for the fields of an index.
//!
//! Where a path passes through an array, a document has several entries, and two conditions may be met by different
//! ones. So conditions on two fields that share the array are used together only when they are in the same
//! `$elemMatch`, which asks both of one element (Mongo's SERVER-22401).

use smallvec::SmallVec;

use crate::catalog::Index;
use crate::collation::Collation;
use crate::keys::FieldKind;
use crate::path::Path;
use crate::query::bounds::{Bounds, Held};
use crate::query::node::Node;

/// A field of an index as the planner sees it.
#[derive(Clone, Copy, Debug)]
pub struct Field<'i> {
    /// The path.
    pub path: &'i Path,
    /// The components of the path that were arrays, a bit each from the lowest.
    pub arrays: u64,
    /// The collation of the index.
    pub collation: Option<&'i Collation>,
}

impl<'i> Field<'i> {
    /// How the index holds its values.
    #[must_use]
    pub const fn held(&self) -> Held<'i> {
        Held { multikey: self.arrays != 0, collation: self.collation }
    }
}

/// The fields of an index without wildcards.
#[must_use]
pub fn fields_of(index: &Index) -> SmallVec<[Field<'_>; 4]> {
    let fields = index.paths.iter().enumerate();
    let collation = index.spec.pattern.collation();
    fields.map(|(at, path)| Field { path, arrays: index.multikey_of(at), collation }).collect()
}

/// `$elemMatch` with conditions on the fields of an array's documents.
struct Element<'n> {
    path: &'n Path,
    node: &'n Node,
}

/// Where the conditions on a field come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Filter,
    Element(usize),
}

/// The bounds of an index's fields; several alternatives where arrays allow only some conditions at a time.
#[must_use]
pub fn alternatives(filter: &Node, fields: &[Field<'_>]) -> Vec<Vec<Bounds>> {
    let mut elements = Vec::new();
    if fields.iter().any(|field| field.arrays != 0) {
        collect_elements(filter, &mut elements);
    }
    let mut all = vec![bounds_from(filter, &elements, fields, Source::Filter)];
    for element in 0..elements.len() {
        all.push(bounds_from(filter, &elements, fields, Source::Element(element)));
    }
    all
}

fn collect_elements<'n>(node: &'n Node, elements: &mut Vec<Element<'n>>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| collect_elements(node, elements)),
        Node::ElementDocument { path, node } => elements.push(Element { path, node }),
        _ => {}
    }
}

/// The bounds of each field, from one source where it has any.
fn bounds_from(filter: &Node, elements: &[Element<'_>], fields: &[Field<'_>], preferred: Source) -> Vec<Bounds> {
    let others = (0..elements.len()).map(Source::Element);
    let sources: SmallVec<[_; 4]> = [preferred, Source::Filter].into_iter().chain(others).collect();
    let mut taken: SmallVec<[(usize, Source); 4]> = SmallVec::new();
    let mut all = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let fits = |source: Source| {
            taken.iter().all(|(other, from)| {
                (source == *from && source != Source::Filter) || !share_array(&fields[*other], field)
            })
        };
        let found = sources.iter().copied().filter(|source| fits(*source)).find_map(|source| {
            let bounds = match source {
                Source::Filter => Bounds::of(filter, field.path, field.held()),
                Source::Element(element) => of_element(&elements[element], field)?,
            };
            (!bounds.is_full()).then_some((source, bounds))
        });
        match found {
            Some((source, bounds)) => {
                taken.push((at, source));
                all.push(bounds);
            }
            None => all.push(Bounds::full()),
        }
    }
    all
}

/// The bounds that `$elemMatch` implies for a field of the array's documents.
fn of_element(element: &Element<'_>, field: &Field<'_>) -> Option<Bounds> {
    let rest = field.path.below(element.path)?;
    // A number may be a position in the element or a field of it.
    if rest.parts().is_empty() || field.path.parts().iter().any(|part| part.is_digits()) {
        return None;
    }
    let within = field.arrays.checked_shr(u32::try_from(element.path.parts().len()).ok()?).unwrap_or(0);
    Some(Bounds::of(element.node, &rest, Held { multikey: within != 0, collation: field.collation }))
}

/// Whether two paths pass through the same array.
#[must_use]
pub fn share_array(a: &Field<'_>, b: &Field<'_>) -> bool {
    let common = a.path.parts().iter().zip(b.path.parts()).take_while(|(a, b)| a == b).count();
    let mask = if common >= 63 { u64::MAX } else { (1 << common) - 1 };
    (a.arrays | b.arrays) & mask != 0
}

/// Whether an index has all documents in its order, field by field.
#[must_use]
pub fn is_ordered(index: &Index) -> bool {
    index.spec.pattern.fields().iter().all(|field| matches!(field.kind, FieldKind::Ordered(_)))
}
