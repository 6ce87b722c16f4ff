//! Pipelines drawn from a seed: stages that read other collections within each other, with each role.

use crate::model::Granted;
use crate::roles::ROLES;
use crate::world::{World, is_refused};

/// The namespaces that are drawn, each with the names by which stages of `app` reach it.
const READ: [(&str, &str, &str); 6] = [
    ("app", "open", r#""open""#),
    ("app", "secret", r#""secret""#),
    ("app", "shown", r#""shown""#),
    ("app", "wide", r#""wide""#),
    ("other", "secret", r#"{"db": "other", "coll": "secret"}"#),
    ("admin", "system.users", r#"{"db": "admin", "coll": "system.users"}"#),
];

/// The number of an environment variable.
fn number_of(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Draws pipelines.
struct Draw {
    state: u64,
    /// What the pipeline reads.
    read: Vec<(&'static str, &'static str)>,
}

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % below
    }

    fn pipeline(&mut self, depth: usize, in_facet: bool) -> String {
        let count = self.next(3);
        let stages: Vec<_> = (0..count).map(|_| self.stage(depth, in_facet)).collect();
        stages.join(", ")
    }

    fn source(&mut self, of_database: bool) -> &'static str {
        let (database, name, spec) = READ[self.next(if of_database { READ.len() } else { 4 })];
        self.read.push((database, name));
        spec
    }

    fn stage(&mut self, depth: usize, in_facet: bool) -> String {
        let kinds = if depth == 0 { 3 } else { 7 };
        match self.next(kinds) {
            0 => r#"{"$match": {"n": {"$gte": 0}}}"#.to_owned(),
            1 => r#"{"$set": {"x": "$m"}}"#.to_owned(),
            2 => {
                let from = self.source(true);
                let fields = r#""startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "g""#;
                format!(r#"{{"$graphLookup": {{"from": {from}, {fields}}}}}"#)
            }
            3 => {
                let from = self.source(true);
                let inner = self.pipeline(depth - 1, in_facet);
                format!(r#"{{"$lookup": {{"from": {from}, "pipeline": [{inner}], "as": "l"}}}}"#)
            }
            4 => {
                let from = self.source(true);
                let inner = self.pipeline(depth - 1, in_facet);
                format!(r#"{{"$lookup": {{"from": {from}, "let": {{"v": "$n"}}, "pipeline": [{inner}], "as": "l"}}}}"#)
            }
            5 if !in_facet => format!(r#"{{"$facet": {{"f": [{}]}}}}"#, self.pipeline(depth - 1, true)),
            _ => {
                let from = self.source(false);
                let inner = self.pipeline(depth - 1, in_facet);
                format!(r#"{{"$unionWith": {{"coll": {from}, "pipeline": [{inner}]}}}}"#)
            }
        }
    }
}

/// Each pipeline is run as it is, explained, and as a view.
#[test]
fn a_pipeline_needs_find_on_all_that_it_reads() {
    let (count, seed) = (number_of("SPINNEY_RIGHTS", 400), number_of("SPINNEY_SEED", 1));
    let mut world = World::new();
    let mut wrong = Vec::new();
    for number in seed..seed + count {
        let mut draw = Draw { state: number.wrapping_mul(0x9E37_79B9_7F4A_7C15), read: vec![("app", "open")] };
        let pipeline = draw.pipeline(3, false);
        if pipeline.contains("$facet") && pipeline.matches("$facet").count() > 1 {
            continue;
        }
        let way = draw.next(3);
        let command = match way {
            0 => format!(r#"{{"aggregate": "open", "pipeline": [{pipeline}], "cursor": {{}}}}"#),
            1 => format!(r#"{{"explain": {{"aggregate": "open", "pipeline": [{pipeline}], "cursor": {{}}}}}}"#),
            _ => format!(r#"{{"create": "made", "viewOn": "open", "pipeline": [{pipeline}]}}"#),
        };
        let role = ROLES[draw.next(ROLES.len())];
        let (valid, _) = world.run(("admin", "root"), "app", &command);
        let (reply, seen) = world.run(role, "app", &command);
        let on = |database, name| (Some(database), Some(name), false);
        let reads = |granted: &Granted| draw.read.iter().all(|(db, name)| granted.allow("find", on(*db, *name)));
        let granted = world.granted(role);
        let made = |action| granted.allow(action, on("app", "made"));
        let allowed =
            if way < 2 { reads(granted) } else { made("createCollection") && (!made("find") || reads(granted)) };
        let told = |what: &str| format!("seed {number}: {} of {}: {command}: {what}", role.1, role.0);
        if crate::client::number(&valid, "ok") == 1 && allowed == is_refused(&reply) {
            wrong.push(told(if allowed { "is refused" } else { "is not refused" }));
        }
        wrong.extend(seen.iter().map(|what| told(what)));
    }
    let replay = "SPINNEY_RIGHTS=1 SPINNEY_SEED=<seed> cargo test -p spinney-server --test rights a_pipeline";
    assert!(wrong.is_empty(), "{} of {count} are wrong ({replay}):\n{}", wrong.len(), wrong.join("\n"));
}
