//! The command `profile`, and the documents of commands that are profiled or logged as slow.

use super::call::{Call, Reply};
use super::commands::Command;
use super::current::{kind_of, target_of};
use super::profiler::ProfileFilter;
use super::query_settings::shape_hash_of;
use super::reply::short;
use super::spec::{Field, FieldType, Target};
use super::statement_log::{Counts, Noted};
use crate::base::num::u64_of;
use crate::base::{Error, Need, Result, Summary};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Element, Value};
use crate::catalog::own::PROFILE;
use crate::expr::value::truth;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(
    "profile",
    Target::Value(FieldType::Number.kinds()),
    "Sets which commands of the database are written to system.profile; -1 tells it.",
    profile,
)
.fields(&[
    Field::optional("slowms", FieldType::Number),
    Field::optional("sampleRate", FieldType::Number),
    Field::optional("filter", FieldType::Any),
])
.needs_by(needs)];

/// What the command needs: to look at the settings is for all who may read what they bring about.
fn needs(call: &Call<'_>) -> Result<Need> {
    let change = Need::Action("enableProfiler", call.on_database());
    let looks = call.request.body.first().is_some_and(|first| first.value.as_exact_i64() == Some(-1));
    match looks && ["slowms", "sampleRate", "filter"].iter().all(|field| call.request.body.get(field).is_none()) {
        true => Ok(Need::Any(vec![change, Need::Action("find", call.on_collection("system.profile"))])),
        false => Ok(change),
    }
}

/// What a filter changes.
enum Filtered {
    AsIs,
    Unset,
    By(ProfileFilter),
}

fn profile(call: &Call<'_>) -> Result<Reply> {
    let (profiler, database) = (&call.state.profiler, call.request.database);
    let rate = call.value("sampleRate").and_then(|rate| rate.as_number()).map(|rate| rate.to_f64());
    if rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
        return Err(Error::bad_value("'sampleRate' must be between 0.0 and 1.0 inclusive"));
    }
    let filter = match call.request.body.get("filter") {
        None => Filtered::AsIs,
        Some(Value::Document(filter)) => {
            Filtered::By(ProfileFilter::parse(DocumentBuf::from(filter), &call.context()?)?)
        }
        Some(value) if value.as_str() == Some("unset") => Filtered::Unset,
        Some(_) => return Err(Error::bad_value("'filter' must be a document or the string 'unset'")),
    };
    let (was, slow_ms, sample_rate) = (profiler.of(database), profiler.slow_ms(), profiler.sample_rate());
    if let Some(millis) = call.long("slowms") {
        let millis = millis.clamp(i32::MIN.into(), i32::MAX.into());
        profiler.set_slow_ms(i32::try_from(millis).unwrap_or(i32::MAX));
    }
    if let Some(rate) = rate {
        profiler.set_sample_rate(rate);
    }
    let first = call.request.body.first().and_then(|first| first.value.as_number());
    let level = first.and_then(|level| level.trunc_to_i64()).and_then(|level| i32::try_from(level).ok());
    profiler.change(database, |profile| {
        if let Some(level @ 0..=2) = level {
            profile.level = level;
        }
        match filter {
            Filtered::AsIs => {}
            Filtered::Unset => profile.filter = None,
            Filtered::By(filter) => profile.filter = Some(std::sync::Arc::new(filter)),
        }
    });
    let mut reply = Reply::new();
    reply.append("was", was.level).append("slowms", slow_ms).append("sampleRate", sample_rate);
    if let Some(filter) = &was.filter {
        reply.append("filter", &with_operators(filter.document.view()));
        reply
            .append("note", "When a filter is set, slowms and sampleRate are not used to profile and to log commands.");
    }
    Ok(reply)
}

/// A filter in which values that are compared with stand behind `$eq`.
fn with_operators(filter: Document<'_>) -> DocumentBuf {
    let mut shown = DocumentBuilder::new();
    for element in filter {
        let name = element.name.as_bytes();
        let has_operators =
            |document: Document<'_>| document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$"));
        if name.starts_with(b"$") || element.value.as_document().is_some_and(has_operators) {
            shown.append_element(&element);
        } else {
            shown.open_document(name).append("$eq", element.value).close();
        }
    }
    shown.finish()
}

/// What ended, a command or a statement: how long it took and what it looked at.
struct Ended {
    micros: u64,
    examined: (u64, u64),
    plan: Option<Summary>,
}

/// Where what has ended may be written.
#[derive(Clone, Copy)]
struct Destinations {
    log: bool,
    profile: bool,
}

/// Writes a command that has ended to the log when it was slow, and to the profile of its database: itself, or each of
/// its statements when they were noted.
pub(super) fn note(call: &Call<'_>, micros: u64, done: &Result<DocumentBuf>) {
    let ended = Ended { micros, examined: call.interrupt.examined(), plan: call.interrupt.plan() };
    let statements = call.statements.take();
    let to = Destinations { log: true, profile: statements.is_empty() && is_profiled(call) };
    write(call, micros, to, &|| {
        describe(call, &ended, &short(call.request.body), |shown| append_done(shown, call.command.name, done))
    });
    if statements.is_empty() {
        return;
    }
    let name = call.command.name;
    let documents = call.documents(if name == "update" { "updates" } else { "deletes" });
    for Noted { at, micros, examined, plan, outcome } in statements {
        let Some(statement) = documents.get(at) else { continue };
        let ended = Ended { micros, examined, plan };
        write(call, micros, Destinations { log: false, profile: true }, &|| {
            let statement = short(statement_of(name, *statement).view());
            describe(call, &ended, &statement, |shown| append_counts(shown, name, &outcome))
        });
    }
}

/// Whether a command may be in the profile: it is about a collection or has searched. A search of the profile itself is
/// not in it, so that who looks changes nothing.
fn is_profiled(call: &Call<'_>) -> bool {
    let is_of_collection =
        matches!(call.command.target, Target::Collection | Target::CollectionOrDatabase | Target::Namespace);
    let collection = call.collection_name();
    let searches = matches!(kind_of(call.command.name), "query" | "getmore");
    let looks = searches && collection.is_some_and(|name| name == PROFILE);
    !looks && (is_of_collection || collection.is_some() || call.interrupt.plan().is_some())
}

/// Writes what took some microseconds to where it may be written, if the settings of the database say so.
fn write(call: &Call<'_>, micros: u64, to: Destinations, describe: &dyn Fn() -> DocumentBuf) {
    let (database, environment) = (call.request.database, call.state.database.environment());
    let logs_all = to.log && call.state.verbosity.logs_commands();
    let Some(verdict) = call.state.profiler.verdict(database, micros, logs_all, || environment.random()) else {
        return;
    };
    let logs = verdict.log && to.log;
    let profiles = verdict.profile && to.profile && !call.state.database.engine().is_read_only();
    if !logs && !profiles {
        return;
    }
    let document = describe();
    if !verdict.takes(&document) {
        return;
    }
    if logs {
        call.state.slow.add(document.clone());
    }
    if profiles {
        // A command is not refused because it cannot be profiled.
        if let Err(error) = verdict.write(&call.state.database, database, &document) {
            call.state.slow.failed(&error);
        }
    }
}

/// A statement of `update` or `delete` as a profile has it: with the fields that it leaves to their defaults.
fn statement_of(name: &str, statement: Document<'_>) -> DocumentBuf {
    let mut shown = DocumentBuilder::new();
    let shows: &[&str] = if name == "update" { &["q", "u", "c"] } else { &["q", "limit"] };
    for element in shows.iter().filter_map(|field| statement.element(field)) {
        shown.append_element(&element);
    }
    if name == "update" {
        for field in ["multi", "upsert"] {
            shown.append(field, statement.get(field).is_some_and(|value| truth(&value)));
        }
    }
    for element in statement.elements() {
        if !shows.contains(&&*element.name.to_str_lossy()) && element.name != "multi" && element.name != "upsert" {
            shown.append_element(&element);
        }
    }
    shown.finish()
}

/// The document of what has ended.
fn describe(
    call: &Call<'_>,
    ended: &Ended,
    command: &DocumentBuf,
    append_outcome: impl Fn(&mut DocumentBuilder),
) -> DocumentBuf {
    let (request, body) = (call.request, call.request.body);
    let mut shown = DocumentBuilder::new();
    shown.append("op", kind_of(call.command.name)).append("ns", &format!("{}.{}", request.database, target_of(body)));
    shown.open_document("command");
    for element in command.view() {
        match element.value.as_document() {
            // The command that an `explain` has within may be any, one with a password included.
            Some(inner) if call.command.name == "explain" => append_without_secrets(&mut shown, &element, inner),
            _ => drop(shown.append_element(&element)),
        }
    }
    let is_whole = command.view().first().is_some_and(|first| first.name == call.command.name);
    if is_whole && command.view().get("$db").is_none() {
        shown.append("$db", request.database);
    }
    shown.close();
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if let Some(hash) = shape_hash_of(request.database, body) {
        shown.append("queryShapeHash", &hash);
    }
    if let Some(plan) = &ended.plan {
        let (keys, documents) = ended.examined;
        shown.append("keysExamined", long(keys)).append("docsExamined", long(documents));
        shown.append("planSummary", &plan.summary());
    }
    append_outcome(&mut shown);
    shown.append("millis", long(ended.micros / 1000)).append("durationMicros", long(ended.micros));
    shown.append("ts", Value::DateTime(call.now_ms)).append("client", &request.client.address);
    if let Some(application) = &request.client.application {
        shown.append("appName", application);
    }
    shown.open_array("allUsers");
    let user = request.client.user.as_deref().and_then(|user| user.split_once('.'));
    if let Some((database, user)) = user {
        shown.push_document().append("user", user).append("db", database).close();
    }
    shown.close();
    shown.append("user", &user.map_or_else(String::new, |(database, user)| format!("{user}@{database}")));
    shown.finish()
}

/// Appends what became of a command.
fn append_done(shown: &mut DocumentBuilder, name: &str, done: &Result<DocumentBuf>) {
    match done {
        Ok(reply) => append_reply(shown, name, reply),
        Err(error) => append_error(shown, error),
    }
}

fn append_error(shown: &mut DocumentBuilder, error: &Error) {
    shown.append("ok", 0.0).append("errMsg", error.message());
    shown.append("errName", error.code_name().as_str()).append("errCode", error.code().number());
}

/// Appends what a statement of `update` or `delete` did.
fn append_counts(shown: &mut DocumentBuilder, name: &str, outcome: &Result<Counts>) {
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    match outcome {
        Err(error) => append_error(shown, error),
        Ok(counts) if name == "delete" => drop(shown.append("ndeleted", long(counts.n))),
        Ok(counts) => {
            shown.append("nMatched", long(counts.n.saturating_sub(counts.upserted)));
            shown.append("nModified", long(counts.modified));
            if counts.upserted > 0 {
                shown.append("upsert", true);
            }
            shown.append("nUpserted", long(counts.upserted));
        }
    }
}

/// Appends a command within another, without what proves who a client is.
fn append_without_secrets(shown: &mut DocumentBuilder, element: &Element<'_>, inner: Document<'_>) {
    shown.open_document(element.name.as_bytes());
    for field in inner.elements().filter(|field| field.name != "pwd" && field.name != "payload") {
        shown.append_element(&field);
    }
    shown.close();
}

/// Appends what a reply tells of how much was done.
fn append_reply(shown: &mut DocumentBuilder, name: &str, reply: &DocumentBuf) {
    let view = reply.view();
    if let Some(cursor) = view.get("cursor").and_then(|cursor| cursor.as_document()) {
        match cursor.get("id").and_then(|id| id.as_exact_i64()) {
            Some(0) | None => shown.append("cursorExhausted", true),
            Some(id) => shown.append("cursorid", id),
        };
        let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).and_then(|batch| batch.as_array());
        if let Some(batch) = batch {
            shown.append("nreturned", i64::try_from(batch.values().count()).unwrap_or(i64::MAX));
        }
    }
    let count = |field: &str| view.get(field).and_then(|count| count.as_exact_i64());
    let counted: &[(&str, &str)] = match name {
        "insert" => &[("n", "ninserted")],
        "delete" => &[("n", "ndeleted")],
        "update" => &[("n", "nMatched"), ("nModified", "nModified")],
        "bulkWrite" => &[
            ("nInserted", "ninserted"),
            ("nDeleted", "ndeleted"),
            ("nMatched", "nMatched"),
            ("nModified", "nModified"),
            ("nUpserted", "nUpserted"),
        ],
        _ => &[],
    };
    for (field, name) in counted {
        if let Some(count) = count(field) {
            shown.append(*name, count);
        }
    }
    shown.append("responseLength", i64::try_from(u64_of(reply.as_bytes().len())).unwrap_or(i64::MAX));
}
