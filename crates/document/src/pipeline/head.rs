//! What of a pipeline a query can do: filters, a sort, a limit, and which fields are needed.
//!
//! # Invariants
//! 1. A `$match` moves before a stage only if it reads fields that the stage leaves as they are, and has the same
//!    answer whenever it is asked.
//! 2. Nothing moves over a `$limit`, a `$skip` or a `$sample`.
//! 3. A projection that the query takes over is part of its answer, unless the next stage gives the same without it.
//! 4. Fields are left out only if no stage reads them and none shows them, by the first component of their paths. A
//!    field that a stage replaces is shown by its place among the others.

use super::rewrites::{Rewrite, Rewrites};
use crate::aggregate::effect::{Fields, Passes};
use crate::aggregate::{Pipeline, Step};
use crate::base::Result;
use crate::bson::DocumentBuilder;
use crate::expr::Context;
use crate::plan::Query;
use crate::projection::{Projection, Use};
use crate::query::{Filter, Node};

/// A pipeline in two parts.
#[derive(Debug)]
pub struct Head {
    /// What a query does.
    pub query: Query,
    /// The stages that run over its documents.
    pub rest: Pipeline,
    /// The stages that the query stands for, in the order in which they are done.
    pub taken: Vec<Step>,
}

impl Head {
    /// Takes the head off a pipeline over a collection.
    ///
    /// # Errors
    /// None that a pipeline which was parsed brings about.
    pub fn of(pipeline: &Pipeline, rewrites: Rewrites) -> Result<Self> {
        let mut steps = pipeline.stages().to_vec();
        let mut query = Query::new(Filter::all());
        if rewrites.has(Rewrite::EarlyFilters) {
            move_filters(&mut steps);
        }
        if !rewrites.has(Rewrite::Head) {
            return Ok(Self { query, rest: Pipeline::of(steps), taken: Vec::new() });
        }
        let mut taken = take_filters(&steps, &mut query);
        if let Some(sort) = steps.get(taken).and_then(|step| step.as_sort()) {
            query.sort = Some(sort.clone());
            taken += 1;
        }
        taken += take_cuts(&steps[taken..], &mut query);
        let mut taken: Vec<Step> = steps.drain(..taken).collect();
        if rewrites.has(Rewrite::LimitedSorts) {
            limit_sorts(&mut steps);
        }
        if let Some(projection) = plain_projection(&steps) {
            taken.push(steps.remove(0));
            if !(rewrites.has(Rewrite::NeededFields) && changes_nothing_for(&projection, steps.first())) {
                query.projection = Some(projection);
            }
        }
        if query.projection.is_none() && rewrites.has(Rewrite::NeededFields) {
            query.needed = needed(&steps).map(|fields| inclusion(&fields)).transpose()?;
        }
        Ok(Self { query, rest: Pipeline::of(steps), taken })
    }
}

/// Moves each `$match` as far to the front as it may go.
fn move_filters(steps: &mut [Step]) {
    for from in 1..steps.len() {
        if steps[from].as_filter().is_none() {
            continue;
        }
        let Some(effect) = steps[from].effect().filter(|effect| effect.lets_filters_pass) else { continue };
        let mut at = from;
        while at > 0 {
            let before = steps[at - 1].effect();
            if !before.is_some_and(|before| before.lets_filters_pass && effect.reads.pass(&before.passes)) {
                break;
            }
            // Filters stay in their order.
            if steps[at - 1].as_filter().is_some() {
                break;
            }
            steps.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Joins the filters at the front; how many stages those are.
fn take_filters(steps: &[Step], query: &mut Query) -> usize {
    let filters: Vec<&Filter> = steps.iter().map_while(|step| step.as_filter()).collect();
    query.filter = match &filters[..] {
        [] => Filter::all(),
        [filter] => (*filter).clone().with_implied(),
        several => {
            let mut nodes = Vec::new();
            for filter in several {
                match filter.root() {
                    Node::And(parts) => nodes.extend(parts.iter().cloned()),
                    node => nodes.push(node.clone()),
                }
            }
            Filter::from_node(Node::And(nodes)).with_implied()
        }
    };
    filters.len()
}

/// Takes the `$skip`s and `$limit`s at the front; how many stages those are.
fn take_cuts(steps: &[Step], query: &mut Query) -> usize {
    let mut taken = 0;
    for step in steps {
        if let Some(count) = step.as_limit() {
            query.limit = Some(query.limit.map_or(count, |limit| limit.min(count)));
        } else if let Some(count) = step.as_skip() {
            // Both must stay within their types: a skip that goes beyond has a stage of its own.
            let Some(skip) = query.skip.checked_add(count) else { break };
            query.skip = skip;
            query.limit = query.limit.map(|limit| limit.saturating_sub(count));
        } else {
            break;
        }
        taken += 1;
    }
    taken
}

/// Tells sorts that only their first documents are wanted.
fn limit_sorts(steps: &mut [Step]) {
    for at in 0..steps.len() {
        if steps[at].as_sort().is_none() {
            continue;
        }
        let mut cuts = Query::new(Filter::all());
        take_cuts(&steps[at + 1..], &mut cuts);
        if let Some(count) = cuts.limit.and_then(|limit| limit.checked_add(cuts.skip)) {
            steps[at] = steps[at].limited(count);
        }
    }
}

/// The projection of the first stage, if it keeps fields and does nothing else.
fn plain_projection(steps: &[Step]) -> Option<Projection> {
    let projection = steps.first()?.as_projection()?;
    projection.plain_paths().is_some().then(|| projection.clone())
}

/// Whether a stage behind a projection gives the same without it: its documents are made of fields that the projection
/// keeps whole.
fn changes_nothing_for(projection: &Projection, next: Option<&Step>) -> bool {
    let Some(effect) = next.and_then(|next| next.effect()) else { return false };
    effect.passes == Passes::none() && effect.reads.pass(&Passes::of_projection(projection))
}

/// The fields at the top of a document that stages need; nothing when they may need all.
fn needed(steps: &[Step]) -> Option<Fields> {
    let mut needed = Fields::none();
    // The fields that come to a stage as they were at first; the others are made by stages.
    let mut original = Passes::all();
    // The fields at whose places there is something, be it as it was at first or what a stage put there.
    let mut placed = Passes::all();
    for step in steps {
        let effect = step.effect()?;
        let Fields::Some(reads) = effect.reads else { return None };
        let Fields::Some(names) = &mut needed else { return None };
        match &original {
            Passes::AllBut(others) => names.extend(reads.into_iter().filter(|name| !others.contains(name))),
            Passes::Only(kept) => names.extend(reads.into_iter().filter(|name| kept.contains(name))),
        }
        original = both(original, effect.passes);
        placed = both(placed, effect.placed);
        if matches!(&placed, Passes::Only(kept) if kept.is_empty()) {
            return Some(needed);
        }
    }
    // What passes all stages is shown at the end, and so is the place of a field that a stage has replaced.
    match (placed, &mut needed) {
        (Passes::Only(kept), Fields::Some(names)) => {
            names.extend(kept);
            Some(needed)
        }
        _ => None,
    }
}

/// The fields that pass two stages.
fn both(first: Passes, second: Passes) -> Passes {
    match (first, second) {
        (Passes::AllBut(mut a), Passes::AllBut(b)) => {
            a.extend(b);
            Passes::AllBut(a)
        }
        (Passes::Only(mut kept), Passes::AllBut(others)) | (Passes::AllBut(others), Passes::Only(mut kept)) => {
            kept.retain(|name| !others.contains(name));
            Passes::Only(kept)
        }
        (Passes::Only(mut a), Passes::Only(b)) => {
            a.retain(|name| b.contains(name));
            Passes::Only(a)
        }
    }
}

/// The projection that keeps some fields whole; `_id` alone when there are none.
fn inclusion(fields: &Fields) -> Result<Projection> {
    let mut builder = DocumentBuilder::new();
    if let Fields::Some(names) = fields {
        if !names.is_empty() && !names.contains(&b"_id"[..]) {
            builder.append("_id", false);
        }
        for name in names {
            builder.append(name, true);
        }
        if names.is_empty() {
            builder.append("_id", true);
        }
    }
    Projection::parse(builder.finish().view(), Use::Pipeline, &Context::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate;
    use crate::bson::{DocumentBuf, Value};

    /// The head of a pipeline: its filter's size, sort, skip, limit and projected paths, and the names of the rest.
    fn head(stages: &str) -> String {
        let text = DocumentBuf::from_json(&format!("{{\"v\":{stages}}}")).unwrap();
        let Some(Value::Array(stages)) = text.view().get("v") else { panic!("no array") };
        let head = Head::of(&aggregate::parse(stages, &Context::default()).unwrap(), Rewrites::default()).unwrap();
        let filters = match head.query.filter.root() {
            Node::And(nodes) => nodes.len(),
            _ => 1,
        };
        let sort = head.query.sort.as_ref().map_or(0, |sort| sort.fields().len());
        let paths = head.query.kept().and_then(|projection| projection.plain_paths());
        let paths = paths.map_or_else(|| "all".to_owned(), |paths| paths.join(","));
        let rest: Vec<_> = head.rest.stages().iter().map(|step| step.name()).collect();
        let limit = head.query.limit.map_or(-1, u64::cast_signed);
        format!("{filters} {sort} {} {limit} {paths} | {}", head.query.skip, rest.join(" "))
    }

    #[test]
    fn filters_sorts_and_cuts_at_the_front_are_part_of_the_query() {
        for (stages, expected) in [
            ("[]", "0 0 0 -1 all | "),
            (r#"[{"$match":{"a":1}},{"$match":{"b":1}}]"#, "2 0 0 -1 all | "),
            (r#"[{"$sort":{"a":1}},{"$match":{"b":1}},{"$limit":5}]"#, "1 1 0 5 all | "),
            (r#"[{"$limit":5},{"$match":{"b":1}}]"#, "0 0 0 5 all | $match"),
            (r#"[{"$limit":9},{"$skip":2},{"$limit":20},{"$skip":1}]"#, "0 0 3 6 all | "),
            (r#"[{"$limit":2},{"$skip":3}]"#, "0 0 3 0 all | "),
            (r#"[{"$sample":{"size":2}},{"$match":{"b":1}}]"#, "0 0 0 -1 all | $sample $match"),
            (r#"[{"$match":{"$expr":{"$lt":[{"$rand":{}},0.5]}}},{"$sort":{"a":1}}]"#, "1 1 0 -1 all | "),
            (r#"[{"$sort":{"a":1}},{"$match":{"$expr":{"$lt":[{"$rand":{}},0.5]}}}]"#, "0 1 0 -1 all | $match"),
        ] {
            assert_eq!(head(stages), expected, "{stages}");
        }
    }

    #[test]
    fn filters_move_before_stages_that_leave_their_fields_alone() {
        for (stages, expected) in [
            (r#"[{"$set":{"x":1}},{"$match":{"a":1}}]"#, "1 0 0 -1 all | $set"),
            (r#"[{"$set":{"a":1}},{"$match":{"a":1}}]"#, "0 0 0 -1 all | $set $match"),
            (r#"[{"$set":{"a.b":1}},{"$match":{"a.c":1}}]"#, "0 0 0 -1 all | $set $match"),
            (r#"[{"$unwind":"$a"},{"$match":{"b":1}}]"#, "1 0 0 -1 all | $unwind"),
            (r#"[{"$unwind":"$a"},{"$match":{"a":1}}]"#, "0 0 0 -1 all | $unwind $match"),
            (r#"[{"$unset":"b"},{"$match":{"a":1}}]"#, "1 0 0 -1 all | $unset"),
            (r#"[{"$unset":"b"},{"$match":{"b":null}}]"#, "0 0 0 -1 all | $unset $match"),
            (r#"[{"$project":{"a":1}},{"$match":{"a":1}}]"#, "1 0 0 -1 _id,a | "),
            (r#"[{"$project":{"a":1}},{"$match":{"b":1}}]"#, "0 0 0 -1 _id,a | $match"),
            (r#"[{"$project":{"b":"$a"}},{"$match":{"b":1}}]"#, "0 0 0 -1 _id,a | $project $match"),
            (r#"[{"$group":{"_id":"$a"}},{"$match":{"_id":1}}]"#, "0 0 0 -1 a | $group $match"),
            (
                r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"d"}},{"$match":{"a":1}}]"#,
                "1 0 0 -1 all | $lookup",
            ),
        ] {
            assert_eq!(head(stages), expected, "{stages}");
        }
    }

    #[test]
    fn only_fields_that_are_needed_are_read() {
        for (stages, expected) in [
            (r#"[{"$group":{"_id":"$a.b","n":{"$sum":"$c"}}}]"#, "0 0 0 -1 a,c | $group"),
            (r#"[{"$group":{"_id":null,"n":{"$push":"$$ROOT"}}}]"#, "0 0 0 -1 all | $group"),
            (r#"[{"$count":"n"}]"#, "0 0 0 -1 _id | $count"),
            (r#"[{"$set":{"x":"$y"}},{"$group":{"_id":"$x"}}]"#, "0 0 0 -1 y | $set $group"),
            (r#"[{"$project":{"x":"$y"}},{"$group":{"_id":"$x"}}]"#, "0 0 0 -1 y | $project $group"),
            (r#"[{"$set":{"x":"$y"}},{"$project":{"x":1,"z":1}}]"#, "0 0 0 -1 _id,x,y,z | $set $project"),
            (r#"[{"$set":{"x":"$y"}},{"$project":{"x.u":1,"z":1}}]"#, "0 0 0 -1 _id,x,y,z | $set $project"),
            (r#"[{"$unwind":"$a"},{"$sortByCount":"$a"}]"#, "0 0 0 -1 a | $unwind $group $sort"),
            (r#"[{"$project":{"a":1,"b":1}},{"$group":{"_id":"$a"}}]"#, "0 0 0 -1 a | $group"),
            (r#"[{"$project":{"a":1}},{"$group":{"_id":"$z"}}]"#, "0 0 0 -1 _id,a | $group"),
            (r#"[{"$project":{"a.b":1}},{"$group":{"_id":"$a"}}]"#, "0 0 0 -1 _id,a.b | $group"),
            (r#"[{"$facet":{"a":[{"$count":"n"}]}}]"#, "0 0 0 -1 all | $facet"),
        ] {
            assert_eq!(head(stages), expected, "{stages}");
        }
    }
}
