//! Plans as `explain` shows them: documents of stages in the shape that MongoDB's tools read.

use super::query::Query;
use super::scan::Scan;
use super::tree::Plan;
use crate::bson::number::count;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::index_spec::ID_INDEX;
use crate::collation::collation_key;
use crate::keys::{Direction, FieldKind};
use crate::projection::Projection;
use crate::query::bounds::{Bounds, Interval};

/// The parts of a query as the client wrote them.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'q> {
    /// The filter.
    pub filter: Document<'q>,
    /// The sort pattern.
    pub sort: Document<'q>,
    /// The projection.
    pub projection: Document<'q>,
}

/// What a query did, as `executionStats` tells it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executed {
    /// The documents that it gave.
    pub returned: u64,
    /// The entries of indexes that it looked at.
    pub keys: u64,
    /// The documents that it looked at.
    pub documents: u64,
    /// The time that it took.
    pub millis: u64,
}

/// The tree of stages of a plan.
#[must_use]
pub fn stages(plan: &Plan, query: &Query, shown: Shown<'_>, executed: Option<Executed>) -> DocumentBuf {
    let explain = Explain { query, shown, executed };
    let covered = matches!(plan, Plan::Covered(_));
    let mut tree = explain.of_plan(plan);
    if query.skip > 0 {
        tree = explain.over("SKIP", &tree, |stage| {
            stage.append("skipAmount", count(query.skip));
        });
    }
    if let Some(projection) = query.kept() {
        let name = match (covered, projection.plain_paths().is_some()) {
            (true, _) => "PROJECTION_COVERED",
            (false, true) if is_simple(projection) => "PROJECTION_SIMPLE",
            _ => "PROJECTION_DEFAULT",
        };
        tree = explain.over(name, &tree, |stage| {
            stage.append("transformBy", shown.projection);
        });
    }
    if query.return_key {
        tree = explain.over("RETURN_KEY", &tree, |_| {});
    }
    match query.limit {
        Some(limit) => explain.over("LIMIT", &tree, |stage| {
            stage.append("limitAmount", count(limit));
        }),
        None => tree,
    }
}

/// `executionStats` of a query that has run.
#[must_use]
pub fn stats(tree: &DocumentBuf, executed: Executed) -> DocumentBuf {
    let mut stats = DocumentBuilder::new();
    stats.append("executionSuccess", true);
    stats.append("nReturned", count(executed.returned));
    stats.append("executionTimeMillis", count(executed.millis));
    stats.append("totalKeysExamined", count(executed.keys));
    stats.append("totalDocsExamined", count(executed.documents));
    stats.append("executionStages", tree.view());
    stats.finish()
}

struct Explain<'q> {
    query: &'q Query,
    shown: Shown<'q>,
    executed: Option<Executed>,
}

impl Explain<'_> {
    fn stage(&self, name: &str) -> DocumentBuilder {
        let mut stage = DocumentBuilder::new();
        stage.append("stage", name);
        if let Some(executed) = self.executed {
            stage.append("nReturned", count(executed.returned));
            stage.append("executionTimeMillisEstimate", count(executed.millis));
        }
        stage
    }

    /// A stage over another one.
    fn over(&self, name: &str, input: &DocumentBuf, fill: impl FnOnce(&mut DocumentBuilder)) -> DocumentBuf {
        let mut stage = self.stage(name);
        fill(&mut stage);
        stage.append("inputStage", input.view());
        stage.finish()
    }

    fn of_plan(&self, plan: &Plan) -> DocumentBuf {
        match plan {
            Plan::Nothing => self.stage("EOF").finish(),
            Plan::Id(_) => {
                let mut stage = self.stage("IDHACK");
                if let Some(executed) = self.executed {
                    stage.append("keysExamined", count(executed.keys));
                    stage.append("docsExamined", count(executed.documents));
                }
                stage.finish()
            }
            Plan::Scan(scan) if scan.index.is_none() => self.of_collection(scan),
            Plan::Scan(scan) => {
                let entries = self.of_index(scan);
                self.over("FETCH", &entries, |stage| {
                    self.append_filter(stage);
                    if let Some(executed) = self.executed {
                        stage.append("docsExamined", count(executed.documents));
                    }
                })
            }
            Plan::Covered(scan) => self.of_index(scan),
            Plan::Union(plans) => {
                let mut stage = self.stage("OR");
                stage.open_array("inputStages");
                plans.iter().for_each(|plan| {
                    stage.push(Value::Document(self.of_plan(plan).view()));
                });
                stage.close();
                stage.finish()
            }
            Plan::Sort(input) => {
                let input = self.of_plan(input);
                self.over("SORT", &input, |stage| {
                    stage.append("sortPattern", self.shown.sort).append("memLimit", 100 << 20);
                    if let Some(limit) = self.query.limit {
                        stage.append("limitAmount", count(limit.saturating_add(self.query.skip)));
                    }
                    stage.append("type", "simple");
                })
            }
        }
    }

    fn append_filter(&self, stage: &mut DocumentBuilder) {
        if !self.shown.filter.is_empty() {
            stage.append("filter", self.shown.filter);
        }
    }

    fn of_collection(&self, scan: &Scan) -> DocumentBuf {
        let mut stage = self.stage(if scan.is_whole() { "COLLSCAN" } else { "CLUSTERED_IXSCAN" });
        self.append_filter(&mut stage);
        stage.append("direction", direction(scan.reverse));
        if !scan.is_whole() {
            append_bounds(&mut stage, [("_id", &scan.bounds[0], false)].into_iter(), self.query.collation.is_some());
        }
        if let Some(executed) = self.executed {
            stage.append("docsExamined", count(executed.documents));
        }
        stage.finish()
    }

    fn of_index(&self, scan: &Scan) -> DocumentBuf {
        if scan.groups.len() < 2 {
            return self.of_entries(scan);
        }
        let mut stage = self.stage("SORT_MERGE");
        stage.append("sortPattern", self.shown.sort).open_array("inputStages");
        stage.push(Value::Document(self.of_entries(scan).view()));
        stage.close();
        stage.append("merged", count(crate::base::num::u64_of(scan.groups.len())));
        stage.finish()
    }

    fn of_entries(&self, scan: &Scan) -> DocumentBuf {
        let mut stage = self.stage(if self.query.counts { "COUNT_SCAN" } else { "IXSCAN" });
        let Some(index) = &scan.index else { return stage.finish() };
        let spec = &index.spec;
        stage.append("keyPattern", spec.pattern.document());
        stage.append("indexName", if spec.is_id() { ID_INDEX } else { &spec.name });
        if let Some(collation) = spec.pattern.collation() {
            stage.append("collation", collation.document());
        }
        stage.append("isMultiKey", index.is_multikey()).open_document("multiKeyPaths");
        for (field, arrays) in spec.pattern.fields().iter().zip(index.multikey()) {
            stage.open_array(&field.path);
            let parts: Vec<&str> = field.path.split('.').collect();
            for at in (0..parts.len()).filter(|at| arrays >> at.to_owned().min(63) & 1 == 1) {
                stage.push(&*parts[..=at].join("."));
            }
            stage.close();
        }
        stage.close();
        stage
            .append("isUnique", spec.unique)
            .append("isSparse", spec.sparse)
            .append("isPartial", spec.partial.is_some());
        stage.append("indexVersion", 2).append("direction", direction(scan.reverse));
        // A wildcard's value is told under the path that is looked for.
        let path = spec.pattern.wildcard().and_then(|at| scan.bounds.get(at)?.intervals.first());
        let path = path.and_then(|point| point.low.value.view().as_str().map(str::to_owned)).unwrap_or_default();
        let names = spec.pattern.fields().iter().flat_map(|field| {
            let wildcard = matches!(field.kind, FieldKind::Wildcard(_));
            let name = if wildcard { &path } else { &field.path };
            wildcard.then_some("$_path").into_iter().chain([name.as_str()])
        });
        let directions = names.zip(spec.pattern.directions().map(|direction| direction == Direction::Descending));
        let bounds = directions.zip(&scan.bounds).map(|((name, descending), bounds)| (name, bounds, descending));
        // The bounds are told in the order of the walk.
        let bounds = bounds.map(|(name, bounds, descending)| (name, bounds, descending != scan.reverse));
        append_bounds(&mut stage, bounds, spec.pattern.collation().is_some());
        if let Some(executed) = self.executed {
            stage.append("keysExamined", count(executed.keys));
        }
        stage.finish()
    }
}

/// Whether a projection keeps whole fields only.
fn is_simple(projection: &Projection) -> bool {
    projection.plain_paths().is_some_and(|paths| paths.iter().all(|path| !path.contains('.')))
}

const fn direction(reverse: bool) -> &'static str {
    if reverse { "backward" } else { "forward" }
}

/// `indexBounds`: for each field its intervals, such as `["[1, 5)"]`; from the greater end when `backward`.
fn append_bounds<'b>(
    stage: &mut DocumentBuilder,
    bounds: impl Iterator<Item = (&'b str, &'b Bounds, bool)>,
    collated: bool,
) {
    stage.open_document("indexBounds");
    for (name, bounds, backward) in bounds {
        stage.open_array(name);
        let mut texts: Vec<String> =
            bounds.intervals.iter().map(|interval| text_of(interval, backward, collated)).collect();
        if backward {
            texts.reverse();
        }
        texts.iter().for_each(|text| {
            stage.push(text.as_str());
        });
        stage.close();
    }
    stage.close();
}

fn text_of(interval: &Interval, backward: bool, collated: bool) -> String {
    let (first, last) = if backward { (&interval.high, &interval.low) } else { (&interval.low, &interval.high) };
    let text = |value: Value<'_>| match value {
        Value::MinKey => "MinKey".to_owned(),
        Value::MaxKey => "MaxKey".to_owned(),
        Value::String(key) if collated && !key.is_empty() => collation_key(key),
        other => other.to_json(),
    };
    format!(
        "{}{}, {}{}",
        if first.inclusive { '[' } else { '(' },
        text(first.value.view()),
        text(last.value.view()),
        if last.inclusive { ']' } else { ')' }
    )
}
