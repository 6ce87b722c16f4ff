//! The cases of stages: each stage of the table, in each place where it may stand.

use crate::model::Need::{self, Act};
use crate::model::On::{AnyDatabase, Cluster, Coll, Db};
use crate::model::{Granted, On};
use crate::roles::{ROLES, Role};
use crate::world::{World, is_refused};

/// What a stage needs.
#[derive(Clone, Copy, Debug)]
enum Needs {
    /// `find` on the collection that the pipeline is over.
    Input,
    /// `find` on that collection and on others.
    InputAnd(&'static [Need]),
    /// This in place of `find`: it begins a pipeline, and reads no documents.
    Source(&'static [Need]),
    /// An action on the collection in place of `find`: it begins a pipeline, and tells of the collection.
    OnCollection(&'static str),
    /// `find` and `changeStream` on what is watched.
    Watches,
    /// It is not supported, so that the pipeline is an error for everybody.
    Unsupported,
}

/// A stage: its name, a specification of it, what it needs, and the database whose pipelines it begins, if it does.
type Row = (&'static str, &'static str, Needs, Option<&'static str>);

const fn computes(name: &'static str, spec: &'static str) -> Row {
    (name, spec, Needs::Input, None)
}

const fn unsupported(name: &'static str) -> Row {
    (name, "{}", Needs::Unsupported, None)
}

const SECRET: Need = Act("find", Coll("app", "secret"));
const TARGET: On = Coll("app", "target");

/// The rows.
const ROWS: &[Row] = &[
    computes("$match", r#"{"n": 1}"#),
    computes("$project", r#"{"m": 1}"#),
    computes("$addFields", r#"{"a": "$m"}"#),
    computes("$set", r#"{"a": "$m"}"#),
    computes("$unset", r#""n""#),
    computes("$limit", "2"),
    computes("$skip", "1"),
    computes("$count", r#""c""#),
    computes("$replaceRoot", r#"{"newRoot": {"a": "$m"}}"#),
    computes("$replaceWith", r#"{"a": "$m"}"#),
    computes("$redact", r#""$$KEEP""#),
    computes("$sample", r#"{"size": 2}"#),
    computes("$sort", r#"{"m": 1}"#),
    computes("$unwind", r#""$m""#),
    computes("$group", r#"{"_id": "$m"}"#),
    computes("$sortByCount", r#""$m""#),
    computes("$bucket", r#"{"groupBy": "$n", "boundaries": [0, 9], "output": {"a": {"$push": "$m"}}}"#),
    computes("$bucketAuto", r#"{"groupBy": "$n", "buckets": 2, "output": {"a": {"$push": "$m"}}}"#),
    computes("$setWindowFields", r#"{"sortBy": {"n": 1}, "output": {"a": {"$push": "$m"}}}"#),
    computes("$fill", r#"{"output": {"x": {"value": "$m"}}}"#),
    computes("$densify", r#"{"field": "n", "range": {"step": 1, "bounds": "full"}}"#),
    ("$documents", r#"[{"a": 1}]"#, Needs::Source(&[]), Some("app")),
    ("$facet", r#"{"a": [{"$unionWith": "secret"}]}"#, Needs::InputAnd(&[SECRET]), None),
    (
        "$lookup",
        r#"{"from": "secret", "localField": "n", "foreignField": "n", "as": "a"}"#,
        Needs::InputAnd(&[SECRET]),
        None,
    ),
    (
        "$lookup",
        r#"{"from": "secret", "let": {"x": "$n"}, "pipeline": [{"$match": {}}], "as": "a"}"#,
        Needs::InputAnd(&[SECRET]),
        None,
    ),
    (
        "$lookup",
        r#"{"from": {"db": "other", "coll": "secret"}, "pipeline": [], "as": "a"}"#,
        Needs::InputAnd(&[Act("find", Coll("other", "secret"))]),
        None,
    ),
    (
        "$lookup",
        r#"{"from": "shown", "pipeline": [], "as": "a"}"#,
        Needs::InputAnd(&[Act("find", Coll("app", "shown"))]),
        None,
    ),
    (
        "$lookup",
        r#"{"from": "secret", "pipeline": [{"$collStats": {"count": {}}}], "as": "a"}"#,
        Needs::InputAnd(&[Act("collStats", Coll("app", "secret"))]),
        None,
    ),
    (
        "$graphLookup",
        r#"{"from": "secret", "startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "a"}"#,
        Needs::InputAnd(&[SECRET]),
        None,
    ),
    ("$unionWith", r#""secret""#, Needs::InputAnd(&[SECRET]), None),
    (
        "$unionWith",
        r#"{"coll": "wide", "pipeline": [{"$unionWith": "secret"}]}"#,
        Needs::InputAnd(&[SECRET, Act("find", Coll("app", "wide"))]),
        None,
    ),
    ("$unionWith", r#""twice""#, Needs::InputAnd(&[Act("find", Coll("app", "twice"))]), None),
    ("$out", r#""target""#, Needs::InputAnd(&[Act("insert", TARGET), Act("remove", TARGET)]), None),
    (
        "$out",
        r#"{"db": "other", "coll": "made"}"#,
        Needs::InputAnd(&[Act("insert", Coll("other", "made")), Act("remove", Coll("other", "made"))]),
        None,
    ),
    ("$merge", r#""target""#, Needs::InputAnd(&[Act("insert", TARGET), Act("update", TARGET)]), None),
    ("$merge", r#"{"into": "target", "whenMatched": "fail"}"#, Needs::InputAnd(&[Act("insert", TARGET)]), None),
    ("$merge", r#"{"into": "target", "whenNotMatched": "discard"}"#, Needs::InputAnd(&[Act("update", TARGET)]), None),
    (
        "$merge",
        r#"{"into": {"db": "other", "coll": "secret"}, "whenMatched": [{"$set": {"z": 1}}]}"#,
        Needs::InputAnd(&[Act("insert", Coll("other", "secret")), Act("update", Coll("other", "secret"))]),
        None,
    ),
    ("$changeStream", "{}", Needs::Watches, Some("app")),
    ("$changeStream", r#"{"fullDocument": "updateLookup"}"#, Needs::Watches, Some("other")),
    (
        "$changeStream",
        r#"{"allChangesForCluster": true}"#,
        Needs::Source(&[Act("find", AnyDatabase), Act("changeStream", AnyDatabase)]),
        Some("admin"),
    ),
    unsupported("$changeStreamSplitLargeEvent"),
    unsupported("$geoNear"),
    unsupported("$search"),
    unsupported("$searchMeta"),
    unsupported("$vectorSearch"),
    unsupported("$listSearchIndexes"),
    unsupported("$rankFusion"),
    unsupported("$scoreFusion"),
    ("$collStats", r#"{"count": {}, "storageStats": {}, "latencyStats": {}}"#, Needs::OnCollection("collStats"), None),
    ("$indexStats", "{}", Needs::OnCollection("indexStats"), None),
    ("$planCacheStats", "{}", Needs::OnCollection("planCacheRead"), None),
    ("$currentOp", "{}", Needs::Source(&[]), Some("admin")),
    ("$currentOp", r#"{"allUsers": true}"#, Needs::Source(&[Act("inprog", Cluster)]), Some("admin")),
    ("$listSessions", r#"{"allUsers": true}"#, Needs::Source(&[Act("listSessions", Cluster)]), None),
    ("$listLocalSessions", "{}", Needs::Source(&[]), Some("app")),
    ("$listLocalSessions", r#"{"allUsers": true}"#, Needs::Source(&[Act("listSessions", Cluster)]), Some("app")),
    (
        "$listLocalSessions",
        r#"{"users": [{"user": "root", "db": "admin"}]}"#,
        Needs::Source(&[Act("listSessions", Cluster)]),
        Some("app"),
    ),
    ("$listClusterCatalog", "{}", Needs::Source(&[Act("listDatabases", Cluster)]), Some("admin")),
    ("$listClusterCatalog", "{}", Needs::Source(&[Act("listCollections", Db("app"))]), Some("app")),
    ("$querySettings", "{}", Needs::Source(&[Act("querySettings", Cluster)]), Some("admin")),
];

/// How a pipeline of a stage is reached.
#[derive(Clone, Copy, Debug)]
enum Way {
    Direct,
    Explained,
    Bypassing,
    Looked,
    United,
    Faceted,
    Viewed,
}

const WAYS: [Way; 7] =
    [Way::Direct, Way::Explained, Way::Bypassing, Way::Looked, Way::United, Way::Faceted, Way::Viewed];

impl Way {
    /// The command that runs a stage over a collection of `app` this way.
    fn command(self, collection: &str, stage: &str) -> String {
        let over = |collection: &str, pipeline: &str, more: &str| {
            format!(r#"{{"aggregate": "{collection}", "pipeline": [{pipeline}], "cursor": {{}}{more}}}"#)
        };
        match self {
            Self::Direct => over(collection, stage, ""),
            Self::Explained => format!(r#"{{"explain": {}}}"#, over(collection, stage, "")),
            Self::Bypassing => over(collection, stage, r#", "bypassDocumentValidation": true"#),
            Self::Looked => {
                let lookup = format!(r#"{{"$lookup": {{"from": "{collection}", "pipeline": [{stage}], "as": "l"}}}}"#);
                over("open", &lookup, "")
            }
            Self::United => {
                over("open", &format!(r#"{{"$unionWith": {{"coll": "{collection}", "pipeline": [{stage}]}}}}"#), "")
            }
            Self::Faceted => over(collection, &format!(r#"{{"$facet": {{"f": [{stage}]}}}}"#), ""),
            Self::Viewed => format!(r#"{{"create": "made", "viewOn": "{collection}", "pipeline": [{stage}]}}"#),
        }
    }

    /// Whether a role has what the command needs.
    fn allowed(self, granted: &Granted, collection: &'static str, needs: Needs, writes: bool) -> bool {
        let find = |name| granted.may("find", Coll("app", name));
        let stage = |granted: &Granted| match needs {
            Needs::Input => find(collection),
            Needs::InputAnd(others) => find(collection) && others.iter().all(|need| granted.meet(need)),
            Needs::Source(needs) => needs.iter().all(|need| granted.meet(need)),
            Needs::OnCollection(action) => granted.may(action, Coll("app", collection)),
            Needs::Watches => find(collection) && granted.may("changeStream", Coll("app", collection)),
            Needs::Unsupported => true,
        };
        let bypasses = |need: &Need| match need {
            Act(_, on) => granted.may("bypassDocumentValidation", *on),
            _ => true,
        };
        match self {
            Self::Direct | Self::Explained => stage(granted),
            Self::Bypassing => {
                let written = if let (Needs::InputAnd(others), true) = (needs, writes) { others } else { &[] };
                stage(granted) && written.iter().all(bypasses)
            }
            Self::Looked | Self::United => find("open") && stage(granted),
            Self::Faceted => find(collection) && stage(granted),
            Self::Viewed => {
                granted.may("createCollection", Coll("app", "made"))
                    && (!granted.may("find", Coll("app", "made")) || stage(granted))
            }
        }
    }
}

#[test]
fn each_stage_needs_what_its_row_says_wherever_it_stands() {
    let mut world = World::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, spec, needs, of_database) in ROWS {
        let stage = format!(r#"{{"{name}": {spec}}}"#);
        let writes = ["$out", "$merge"].contains(name);
        if let Some(database) = of_database {
            let command = format!(r#"{{"aggregate": 1, "pipeline": [{stage}], "cursor": {{}}}}"#);
            let allowed = |granted: &Granted| match needs {
                Needs::Source(needs) => needs.iter().all(|need| granted.meet(need)),
                _ => ["find", "changeStream"].iter().all(|action| granted.may(action, Db(database))),
            };
            check(&mut world, database, &command, &allowed, &mut wrong);
            count += ROLES.len();
            if matches!(needs, Needs::Source(_)) {
                continue;
            }
        }
        for collection in ["open", "secret"] {
            for way in WAYS {
                let allowed = |granted: &Granted| way.allowed(granted, collection, *needs, writes);
                check(&mut world, "app", &way.command(collection, &stage), &allowed, &mut wrong);
                count += ROLES.len();
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a command with each role. One that fails for root as well says nothing about rights but what it shows.
fn check(
    world: &mut World,
    database: &str,
    command: &str,
    allowed: &dyn Fn(&Granted) -> bool,
    wrong: &mut Vec<String>,
) {
    let root: Role = ("admin", "root");
    let (reply, _) = world.run(root, database, command);
    let valid = crate::client::number(&reply, "ok") == 1;
    for role in ROLES {
        let (reply, seen) = world.run(*role, database, command);
        let told = |what: &str| format!("{} of {}: {command} on {database}: {what}", role.1, role.0);
        let (allowed, refused) = (allowed(world.granted(*role)), is_refused(&reply));
        if valid && allowed == refused {
            wrong.push(told(if allowed { "is refused" } else { "is not refused" }));
        }
        wrong.extend(seen.iter().map(|what| told(what)));
    }
}

#[test]
fn each_stage_has_a_row() {
    let named = |name: &&&str| !ROWS.iter().any(|(row, ..)| *row == **name);
    let missing: Vec<_> = spinney_document::aggregate::stage_names().iter().filter(named).collect();
    assert!(missing.is_empty(), "stages without a row: {missing:?}");
    let known = |name: &str| spinney_document::aggregate::stage_names().contains(&name);
    assert!(ROWS.iter().all(|(name, ..)| known(name)), "rows of stages that there are not");
}
