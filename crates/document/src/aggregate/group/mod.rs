//! `$group`, and `$sortByCount`, which stands for a group and a sort.
//!
//! [`gather`] puts documents to their groups, [`keyed`] does so with keys of an index where these have all that a group
//! needs, and [`streamed`] gives each group as soon as it is complete, where the keys come in the order of the groups.

mod gather;
mod keyed;
pub(super) mod read;
mod spec;
mod stage;
mod streamed;

pub(super) use spec::Group;
