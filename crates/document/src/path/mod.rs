//! Dotted paths such as `a.b.0`: how filters, projections, sorts and updates name the values of a document.
//!
//! A component names a field of a document; where it stands for an array, it is applied to the array's documents, and
//! a component of digits is also a position in the array. What exactly happens at arrays depends on the use, so each
//! use has its own traversal: [`walk()`] for filters, [`mod@collect`] for sort keys.

pub mod collect;
pub mod disjoint;
pub mod dotted;
pub mod sort;
pub mod walk;

pub use disjoint::DisjointPaths;
pub use dotted::{Part, Path};
pub use sort::{Sort, SortKey};
pub use walk::{Arrays, Found, walk};
