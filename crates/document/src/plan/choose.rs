//! The choice of a plan.
//!
//! An index with one entry at most is taken at once. Else the engine tells about how many entries each candidate has,
//! from the branches of its trees, and the one with the least work is taken: entries to walk over, documents to fetch,
//! documents to sort. With a limit and the right order, a scan ends early.

use std::collections::BTreeMap;
use std::sync::Arc;

use spinney::{SeqNum, Table};

use super::allowed::AllowedIndexes;
use super::candidate::{Asked, Candidate};
use super::index_scans::{is_id_pattern, of_collection, of_index};
use super::limits::within_limits;
use super::query::{Hint, Query};
use super::ranges::joined;
use super::scan::{KeyBounds, Scan};
use super::shape::shape;
use super::tree::Plan;
use crate::base::interrupt;
use crate::base::{Error, ErrorCode, Result};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, Index, IndexFilter, NamedIndex, Schema};
use crate::collation::has_text;
use crate::keys::encode_id;
use crate::query::Filter;
use crate::query::node::Node;
use crate::query::predicate::Comparison;

/// Tells about how many entries of a table are in a range.
pub type Estimate<'e> = &'e dyn Fn(&Table, &KeyBounds) -> Result<u64>;

/// What a plan is chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The collection.
    pub collection: &'s CollectionState,
    /// Its schema.
    pub schema: &'s Schema,
    /// The newest change that the reader sees: an index that became ready later lacks entries.
    pub seqnum: SeqNum,
}

impl Subject<'_> {
    /// Whether the collection is capped.
    const fn is_capped(self) -> bool {
        self.collection.capped.is_some()
    }
}

/// The most ranges of a scan that are estimated; the rest is taken to be alike.
const ESTIMATED_RANGES_MAX: usize = 8;

/// The most plans for the branches of an `$or` that are run one after the other; of more, those over the same index
/// are joined.
const APART_MAX: usize = 50;

/// Chooses the plan of a query.
///
/// # Errors
/// `BadValue` (2) for a hint that names no index; those of the engine.
pub fn plan(subject: Subject<'_>, query: &Query, estimate: Estimate<'_>) -> Result<Plan> {
    let limited = query.min.is_some() || query.max.is_some();
    let allowed = query.allowed.as_deref().filter(|_| !limited);
    if let Some(allowed) = allowed
        && let Some(plan) = of_allowed(subject, query, allowed, estimate)?
    {
        return Ok(plan);
    }
    // Query settings and index filters are stronger than a hint.
    let hint = query.hint.as_ref().filter(|_| allowed.is_none());
    if hint.is_none()
        && !limited
        && let Some(plan) = by_id(subject, query.filter.root())
    {
        return Ok(plan);
    }
    if matches!(query.filter.root(), Node::Always(false)) {
        return Ok(Plan::Nothing);
    }
    let asked = Asked::new(query);
    let filter = subject.collection.filters.of(|| shape(query)).filter(|_| !limited && allowed.is_none());
    let hint = hint.filter(|_| filter.is_none());
    let considered = filter.as_deref().map_or(Considered::All, Considered::Filtered);
    let candidates = match hint {
        Some(hint) => hinted(subject, &asked, hint)?,
        None if limited => {
            let what = "When using min()/max() a hint of which index to use must be provided";
            return Err(Error::new(ErrorCode::new(51173), what));
        }
        None => all(subject, &asked, considered)?,
    };
    let chosen = choose(subject, &asked, candidates, (considered, hint.is_some()), estimate)?;
    Ok(chosen.unwrap_or(Plan::Nothing))
}

/// The indexes that are considered.
#[derive(Clone, Copy, Debug)]
enum Considered<'c> {
    All,
    /// Those of an index filter.
    Filtered(&'c IndexFilter),
    /// Those of query settings.
    Allowed(&'c AllowedIndexes),
}

impl Considered<'_> {
    fn has(self, index: &Index) -> bool {
        let (name, pattern) = (&index.spec.name, index.spec.pattern.document());
        match self {
            Self::All => true,
            Self::Filtered(filter) => filter.allows(name, pattern),
            Self::Allowed(allowed) => allowed.has(name, pattern),
        }
    }

    /// Whether `_id` may be searched for in the order in which documents are stored.
    fn has_id(self) -> bool {
        !matches!(self, Self::Allowed(allowed) if !allows_id(allowed))
    }

    /// Whether all documents may be looked at.
    const fn has_scans(self) -> bool {
        !matches!(self, Self::Allowed(AllowedIndexes { natural: false, .. }))
    }
}

/// Whether query settings allow the index of `_id`.
fn allows_id(allowed: &AllowedIndexes) -> bool {
    allowed.indexes.iter().any(|index| match index {
        NamedIndex::Name(name) => name == ID_INDEX,
        NamedIndex::Pattern(pattern) => is_id_pattern(pattern.view()),
    })
}

/// The plan of a query by the indexes that query settings allow; nothing when none of them is of use.
fn of_allowed(
    subject: Subject<'_>,
    query: &Query,
    allowed: &AllowedIndexes,
    estimate: Estimate<'_>,
) -> Result<Option<Plan>> {
    if allows_id(allowed)
        && let Some(plan) = by_id(subject, query.filter.root())
    {
        return Ok(Some(plan));
    }
    let (asked, considered) = (Asked::new(query), Considered::Allowed(allowed));
    let candidates = all(subject, &asked, considered)?;
    choose(subject, &asked, candidates, (considered, false), estimate)
}

/// The plan of the candidate with the least work, if one is of use.
fn choose(
    subject: Subject<'_>,
    asked: &Asked<'_>,
    candidates: Vec<Candidate>,
    (considered, hinted): (Considered<'_>, bool),
    estimate: Estimate<'_>,
) -> Result<Option<Plan>> {
    let query = asked.query;
    let (bounded, whole): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| !candidate.is_unbounded());
    if !hinted
        && bounded.is_empty()
        && let Some(union) = by_branches(subject, asked, considered, estimate)?
    {
        return Ok(Some(union));
    }
    // Scans of a whole index are of use for their order, or for what they cover, unless the order in which documents
    // are stored is one that is promised.
    let covering = |candidate: &Candidate| candidate.covered && !subject.is_capped();
    let sorting = |candidate: &Candidate| query.sort.is_some() && candidate.sorted;
    let chosen = if bounded.is_empty() {
        let plain = |candidate: &Candidate| candidate.scan.index.is_none() && considered.has_scans();
        let of_use = whole.into_iter().filter(|one| sorting(one) || plain(one) || covering(one) || hinted);
        best(subject, query, of_use.collect(), estimate)?
    } else {
        let of_use = bounded.into_iter().chain(whole.into_iter().filter(sorting));
        best(subject, query, of_use.collect(), estimate)?
    };
    Ok(chosen.map(|chosen| finish(query, chosen)))
}

/// The plan of a candidate, sorted when it must be.
fn finish(query: &Query, chosen: Candidate) -> Plan {
    if chosen.scan.bounds.iter().any(|bounds| bounds.intervals.is_empty()) {
        return Plan::Nothing;
    }
    let sorted = chosen.sorted || query.sort.is_none();
    let scan = if chosen.covered { Plan::Covered(chosen.scan) } else { Plan::Scan(chosen.scan) };
    if sorted { scan } else { Plan::Sort(Box::new(scan)) }
}

/// The plan of a filter for one `_id`, by which the documents of a capped collection are not stored.
fn by_id(subject: Subject<'_>, filter: &Node) -> Option<Plan> {
    let stored = subject.collection.collation();
    match filter {
        _ if subject.is_capped() => None,
        Node::Leaf { path, test } if path.is_id() => match test.as_comparison()? {
            (Comparison::Equal, id, by) if by == stored || !has_text(&id) => {
                let mut key = Vec::with_capacity(32);
                encode_id(&mut key, &id, stored);
                Some(Plan::Id(key))
            }
            _ => None,
        },
        Node::And(parts) => parts.iter().find_map(|part| by_id(subject, part)),
        _ => None,
    }
}

fn usable(subject: Subject<'_>) -> impl Iterator<Item = &Arc<Index>> {
    let seen = move |index: &&Arc<Index>| index.ready && index.ready_at <= subject.seqnum;
    subject.schema.indexes.iter().filter(seen)
}

/// The candidates of the indexes that are considered.
fn all(subject: Subject<'_>, asked: &Asked<'_>, considered: Considered<'_>) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for index in usable(subject).filter(|index| !index.spec.hidden && considered.has(index)) {
        interrupt::check()?;
        found.extend(of_index(asked, index, false, subject.collection.collation()));
    }
    // A scan of the collection is for its order, its bounds, or when there is nothing else.
    let by_id = asked.mentions_id() && considered.has_id();
    if by_id || considered.has_scans() && found.iter().all(Candidate::is_unbounded) {
        found.extend(of_collection(asked, subject.collection.collation(), subject.is_capped()));
    }
    Ok(found)
}

/// The candidates of the index that a query must use.
fn hinted(subject: Subject<'_>, asked: &Asked<'_>, hint: &Hint) -> Result<Vec<Candidate>> {
    let bad = || {
        let what = "error processing query: planner returned error :: caused by :: hint provided does not correspond \
                    to an existing index";
        Error::bad_value(what)
    };
    let stored = subject.collection.collation();
    let collection = match hint {
        Hint::Natural { reverse } => {
            let asked_all = Query::new(Filter::all());
            let mut candidates = of_collection(&Asked::new(&asked_all), stored, subject.is_capped());
            candidates.iter_mut().for_each(|candidate| {
                candidate.scan.reverse = *reverse;
                candidate.sorted = asked.query.sort.is_none();
            });
            return Ok(candidates);
        }
        Hint::Name(name) => name == ID_INDEX,
        Hint::Pattern(pattern) => is_id_pattern(pattern.view()),
    };
    let index = match hint {
        Hint::Name(name) => usable(subject).find(|index| index.spec.name == *name),
        Hint::Pattern(pattern) => usable(subject)
            .find(|index| index.spec.pattern.document().as_bytes() == pattern.as_bytes())
            .or_else(|| usable(subject).find(|index| same_pattern(index, pattern.view()))),
        Hint::Natural { .. } => None,
    };
    let index = index.filter(|index| !index.spec.hidden);
    let limited = asked.query.min.is_some() || asked.query.max.is_some();
    if limited && index.is_some_and(|index| index.spec.pattern.is_wildcard()) {
        return Err(Error::new(ErrorCode::new(51174), "A wildcard index cannot be used with min() or max()"));
    }
    let mut candidates = match index {
        Some(index) => of_index(asked, index, true, stored),
        None if collection => of_collection(asked, stored, subject.is_capped()),
        None => return Err(bad()),
    };
    if limited {
        candidates = within_limits(asked.query, candidates, stored)?;
    }
    if candidates.is_empty() {
        let what = "No query solutions: the hinted index does not have all documents that the query asks for";
        return Err(Error::new(ErrorCode::NO_QUERY_EXECUTION_PLANS, what));
    }
    Ok(candidates)
}

/// Whether an index has the pattern of a hint, numbers compared by value.
fn same_pattern(index: &Index, pattern: crate::bson::Document<'_>) -> bool {
    let (a, b) = (index.spec.pattern.document(), pattern);
    crate::bson::equal(&crate::bson::Value::Document(a), &crate::bson::Value::Document(b))
}

/// A plan for each branch of an `$or`, when all have bounds.
fn by_branches(
    subject: Subject<'_>,
    asked: &Asked<'_>,
    considered: Considered<'_>,
    estimate: Estimate<'_>,
) -> Result<Option<Plan>> {
    if asked.branches.is_empty() {
        return Ok(None);
    }
    let mut plans = Vec::with_capacity(asked.branches.len());
    let many = asked.branches.len() > APART_MAX;
    for branch in &asked.branches {
        interrupt::check()?;
        if !many
            && considered.has_id()
            && let Some(plan) = by_id(subject, branch)
        {
            plans.push(plan);
            continue;
        }
        let query = Query::new(Filter::from_node(branch.clone()));
        let branch = Asked::new(&query);
        let candidates = all(subject, &branch, considered)?.into_iter();
        let bounded = candidates.filter(|candidate| !candidate.is_unbounded()).collect();
        let Some(mut chosen) = best(subject, &query, bounded, estimate)? else { return Ok(None) };
        chosen.scan.exact &= !asked.alone;
        match finish(&query, chosen) {
            Plan::Nothing => {}
            plan => plans.push(plan),
        }
    }
    let union = Plan::Union(if many { by_index(plans) } else { plans });
    Ok(Some(if asked.query.sort.is_some() { Plan::Sort(Box::new(union)) } else { union }))
}

/// The plans with the scans of each index as one.
fn by_index(plans: Vec<Plan>) -> Vec<Plan> {
    let (mut others, mut scans) = (Vec::new(), BTreeMap::<_, Vec<Scan>>::new());
    for plan in plans {
        match plan {
            Plan::Scan(scan) if scan.groups.len() == 1 => {
                scans.entry(scan.index.as_ref().map(|index| index.table.id())).or_default().push(scan);
            }
            other => others.push(other),
        }
    }
    others.extend(scans.into_values().filter_map(joined).map(Plan::Scan));
    others
}

/// The candidate with the least work.
fn best(
    subject: Subject<'_>,
    query: &Query,
    mut candidates: Vec<Candidate>,
    estimate: Estimate<'_>,
) -> Result<Option<Candidate>> {
    let single =
        |candidate: &Candidate| candidate.single || candidate.scan.bounds.iter().any(|b| b.intervals.is_empty());
    if let Some(at) = candidates.iter().position(single) {
        return Ok(Some(candidates.swap_remove(at)));
    }
    if candidates.len() < 2 {
        return Ok(candidates.pop());
    }
    let table =
        |scan: &Scan| scan.index.as_ref().map_or_else(|| subject.collection.table.clone(), |index| index.table.clone());
    let entries = candidates
        .iter()
        .map(|candidate| entries_of(&candidate.scan, &table(&candidate.scan), estimate))
        .collect::<Result<Vec<_>>>()?;
    let fewest = entries.iter().copied().min().unwrap_or_default().max(1);
    let work = |at: usize| work_of(query, &candidates[at], entries[at], fewest);
    let order = |a: &usize, b: &usize| {
        let rank = |at: usize| {
            let candidate = &candidates[at];
            let open = candidate.scan.bounds.len() - candidate.bound;
            (!candidate.sorted, !candidate.covered, std::cmp::Reverse(candidate.bound), open)
        };
        work(*a).cmp(&work(*b)).then_with(|| rank(*a).cmp(&rank(*b))).then(a.cmp(b))
    };
    let chosen = (0..candidates.len()).min_by(order);
    Ok(chosen.map(|at| candidates.swap_remove(at)))
}

/// About how many entries a scan walks over.
fn entries_of(scan: &Scan, table: &Table, estimate: Estimate<'_>) -> Result<u64> {
    let ranges = scan.groups.iter().map(|group| group.ranges.len()).sum::<usize>();
    let mut sum = 0;
    for range in scan.groups.iter().flat_map(|group| &*group.ranges).take(ESTIMATED_RANGES_MAX) {
        sum += estimate(table, range)?;
    }
    let estimated = ranges.clamp(1, ESTIMATED_RANGES_MAX);
    Ok(sum.saturating_mul(crate::base::num::u64_of(ranges)) / crate::base::num::u64_of(estimated))
}

/// The work of a candidate, in entries walked over. The candidate with the fewest entries tells how many documents
/// match at most, and so how far a scan in the right order must go for a limit.
fn work_of(query: &Query, candidate: &Candidate, entries: u64, fewest: u64) -> u64 {
    let each: u64 = match (&candidate.scan.index, candidate.covered) {
        (None, _) => 2,
        (Some(_), true) => 1,
        (Some(_), false) => 6,
    };
    let sorts = query.sort.is_some() && !candidate.sorted;
    let mut walked = entries;
    if let (Some(limit), false) = (query.limit, sorts) {
        let wanted = limit.saturating_add(query.skip).saturating_mul(entries.max(1)) / fewest;
        walked = walked.min(wanted.max(1));
    }
    let sorting = if sorts { fewest.min(entries).saturating_mul(4) } else { 0 };
    walked.saturating_mul(each).saturating_add(sorting)
}
