//! The command `bulkWrite`: inserts, updates and deletes of several collections.

use std::ops::Range;

use super::call::{Call, Reply};
use super::commands::Command;
use super::commits::Commits;
use super::cursors::{Cursor, Known};
use super::find::hint as hint_of;
use super::insert::check_statements;
use super::needs::any_is_set;
use super::reply::{append_details, count, cursor_option, first_batch, short};
use super::spec::{Field, FieldType, Target};
use super::statement_ids::StatementIds;
use super::together::{TOGETHER_MAX, may_be_together, run_together};
use super::writes::{DeleteSpec, UpdateSpec, check_fields, check_once, is_set, update_result, value};
use super::written::{Written, ends_command};
use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, ErrorCode, Need, On, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Kind, Value, ValueBuf};
use crate::catalog::Namespace;
use crate::collection::{DeleteStatement, UpdateResult, UpdateStatement};
use crate::expr::Context;
use crate::notes::Outcome;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] =
    &[Command::new("bulkWrite", Target::Value(&[]), "Writes to several collections.", bulk_write)
        .fields(&[
            Field::required("ops", FieldType::Documents),
            Field::required("nsInfo", FieldType::Documents),
            Field::optional("ordered", FieldType::StrictBool),
            Field::optional("bypassDocumentValidation", FieldType::Bool),
            Field::optional("bypassEmptyTsReplacement", FieldType::Bool),
            Field::optional("let", FieldType::Object),
            Field::optional("errorsOnly", FieldType::StrictBool),
            Field::optional("cursor", FieldType::Object),
            Field::optional("stmtId", FieldType::Int),
            Field::optional("stmtIds", FieldType::Array),
        ])
        .needs_by(needs)
        .writes()
        .in_transactions()
        .admin_only()
        .stable()];

/// What each of the writes needs on its collection.
fn needs(call: &Call<'_>) -> Result<Need> {
    let namespaces = call.documents("nsInfo");
    let bypass = call.is_set("bypassDocumentValidation").then_some("bypassDocumentValidation");
    let mut needs = Vec::new();
    for write in call.documents("ops") {
        let operation = Operation::parse(write, namespaces.len())?;
        let mut actions: Vec<_> = bypass.into_iter().collect();
        match operation.what {
            What::Insert(_) => actions.push("insert"),
            What::Update(update) if update.upsert || any_is_set(&[write], "upsert") => {
                actions.extend(["update", "insert"]);
            }
            What::Update(_) => actions.push("update"),
            What::Delete(_) => actions.push("remove"),
        }
        let fields = namespaces.get(operation.place).map(|namespace| namespace.elements());
        for name in fields.into_iter().flatten().filter(|field| field.name == "ns") {
            needs.push(Need::actions(&actions, &On::namespace(name.value.as_str().unwrap_or_default())));
        }
    }
    Ok(Need::All(needs))
}

const INSERT_FIELDS: &[Field] =
    &[Field::required("insert", FieldType::Int), Field::required("document", FieldType::Object)];

const UPDATE_FIELDS: &[Field] = &[
    Field::required("update", FieldType::Int),
    Field::required("filter", FieldType::Object),
    Field::required("updateMods", FieldType::Any),
    Field::optional("multi", FieldType::StrictBool),
    Field::optional("upsert", FieldType::StrictBool),
    Field::optional("upsertSupplied", FieldType::Bool),
    Field::optional("arrayFilters", FieldType::Documents),
    Field::optional("hint", FieldType::Any),
    Field::optional("constants", FieldType::Object),
    Field::optional("collation", FieldType::Object),
    Field::optional("sort", FieldType::Object),
];

const DELETE_FIELDS: &[Field] = &[
    Field::required("delete", FieldType::Int),
    Field::required("filter", FieldType::Object),
    Field::optional("multi", FieldType::StrictBool),
    Field::optional("hint", FieldType::Any),
    Field::optional("collation", FieldType::Object),
];

const NAMESPACE_FIELDS: &[Field] = &[
    Field::required("ns", FieldType::String),
    Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
    Field::optional("encryptionInformation", FieldType::Object),
];

/// A statement, and the place of its namespace.
#[derive(Clone, Copy, Debug)]
struct Operation<'r> {
    place: usize,
    what: What<'r>,
}

#[derive(Clone, Copy, Debug)]
enum What<'r> {
    Insert(Document<'r>),
    Update(UpdateSpec<'r>),
    Delete(DeleteSpec<'r>),
}

impl<'r> Operation<'r> {
    fn parse(operation: Document<'r>, namespaces: usize) -> Result<Self> {
        let name = operation.first().and_then(|first| first.name.as_str()).unwrap_or_default();
        let declared = match name {
            "insert" => INSERT_FIELDS,
            "update" => UPDATE_FIELDS,
            "delete" => DELETE_FIELDS,
            _ => {
                let what = format!("BSON field 'bulkWrite.ops.{name}' is an unknown field.");
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        };
        let fields = check_fields("bulkWrite.ops", declared, operation)?;
        let number = operation.first().and_then(|first| first.value.as_number()?.trunc_to_i64()).unwrap_or(-1);
        let place = u64::try_from(number).map(usize_of).ok().filter(|place| *place < namespaces);
        let place = place.ok_or_else(|| {
            let what = format!("BulkWrite ops entry has an invalid nsInfo index: {number}");
            Error::bad_value(what)
        })?;
        let document = |name| value(&fields, name).and_then(|value| value.as_document());
        let filter = document("filter").unwrap_or(Document::empty());
        fields.get("hint").map(hint_of).transpose()?;
        if !matches!(fields.get("updateMods"), None | Some(Value::Document(_) | Value::Array(_))) {
            let what = "Update argument must be either an object or an array";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        let (hint, collation) = (fields.get("hint"), value(&fields, "collation"));
        let multi = is_set(&fields, "multi");
        let what = match name {
            "insert" => What::Insert(document("document").unwrap_or(Document::empty())),
            "update" => What::Update(UpdateSpec {
                filter,
                update: fields.get("updateMods").unwrap_or(Value::Null),
                constants: document("constants"),
                array_filters: value(&fields, "arrayFilters"),
                hint,
                sort: document("sort"),
                collation,
                multi,
                upsert: is_set(&fields, "upsert"),
            }),
            _ => What::Delete(DeleteSpec { filter, hint, collation, multi }),
        };
        Ok(Self { place, what })
    }

    /// Whether it may be in one commit with a statement before it: both change single documents of one collection.
    fn follows(&self, before: &Self) -> bool {
        let single = |operation: &Self| !operation.is_multi() && !matches!(operation.what, What::Insert(_));
        self.place == before.place && single(self) && single(before)
    }

    /// Compiles an update or a delete; an insert is none.
    fn compile(&self, context: &Context) -> Option<Result<Statement>> {
        match self.what {
            What::Insert(_) => None,
            What::Update(update) => Some(update.compile(context).map(Statement::Update)),
            What::Delete(delete) => Some(delete.compile(context).map(Statement::Delete)),
        }
    }

    const fn is_multi(&self) -> bool {
        match self.what {
            What::Insert(_) => false,
            What::Update(update) => update.multi,
            What::Delete(delete) => delete.multi,
        }
    }
}

/// A statement that changes documents, compiled.
#[derive(Debug)]
enum Statement {
    Update(UpdateStatement),
    Delete(DeleteStatement),
}

/// The sums that the reply tells.
#[derive(Debug, Default)]
struct Sums {
    errors: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

/// What the statements have done so far.
#[derive(Debug, Default)]
struct Done {
    sums: Sums,
    /// Of each statement, unless only errors are asked for.
    replies: Vec<DocumentBuf>,
    before: Vec<usize>,
    errors_only: bool,
}

impl Done {
    fn add(&mut self, at: usize, n: u64, modified: Option<u64>, upserted: Option<&ValueBuf>) {
        if self.errors_only {
            return;
        }
        let mut builder = DocumentBuilder::new();
        builder.append("ok", 1.0).append("idx", count(u64_of(at))).append("n", count(n));
        if let Some(modified) = modified {
            builder.append("nModified", count(modified));
        }
        if let Some(id) = upserted {
            builder.open_document("upserted").append("_id", id.view()).close();
        }
        self.replies.push(builder.finish());
    }

    /// Adds what an update or a delete did, and whether that was before.
    fn add_change(&mut self, operation: &Operation<'_>, at: usize, result: &UpdateResult, before: bool) {
        if matches!(operation.what, What::Update(_)) {
            let upserted = u64::from(result.upserted.is_some());
            self.sums.matched += result.matched;
            self.sums.modified += result.modified;
            self.sums.upserted += upserted;
            self.add(at, result.matched + upserted, Some(result.modified), result.upserted.as_ref());
        } else {
            self.sums.deleted += result.matched;
            self.add(at, result.matched, None, None);
        }
        self.before.extend(before.then_some(at));
    }

    fn add_error(&mut self, at: usize, error: &Error, is_update: bool) {
        self.sums.errors += 1;
        let mut builder = DocumentBuilder::new();
        builder.append("ok", 0.0).append("idx", count(u64_of(at))).append("code", error.code().number());
        builder.append("errmsg", error.message());
        append_details(&mut builder, error);
        builder.append("n", 0);
        if is_update {
            builder.append("nModified", 0);
        }
        self.replies.push(builder.finish());
    }
}

fn bulk_write(call: &Call<'_>) -> Result<Reply> {
    let operations = call.documents("ops");
    check_statements(operations.len())?;
    let namespaces = call.documents("nsInfo");
    // A single statement may change many documents.
    let commits = Commits::of(call, true)?;
    let mut targets = Vec::with_capacity(namespaces.len());
    for info in namespaces {
        let fields = check_fields("bulkWrite.nsInfo", NAMESPACE_FIELDS, info)?;
        let name = fields.get("ns").and_then(|ns| ns.as_str()).unwrap_or_default();
        targets.push(Written { call, namespace: Namespace::parse(name)?, options: commits.options });
    }
    let count_of_targets = targets.len();
    let parsed: Vec<Operation<'_>> =
        operations.into_iter().map(|operation| Operation::parse(operation, count_of_targets)).collect::<Result<_>>()?;
    parsed.iter().try_for_each(|operation| check_once(call, operation.is_multi()))?;
    let ids = StatementIds::of(call, parsed.len())?;
    let mut done = Done { errors_only: call.is_set("errorsOnly"), ..Done::default() };
    let ran = run(call, &parsed, &targets, &ids, &mut done);
    commits.end(call)?;
    ran?;
    let sums = &done.sums;
    let replies = Known::new(std::mem::take(&mut done.replies));
    let cursor = Cursor::new(replies, call.owner("admin.$cmd.bulkWrite"), short(call.request.body));
    let mut reply = first_batch(call, cursor, cursor_option(call)?)?;
    for (name, sum) in [
        ("nErrors", sums.errors),
        ("nInserted", sums.inserted),
        ("nMatched", sums.matched),
        ("nModified", sums.modified),
        ("nUpserted", sums.upserted),
        ("nDeleted", sums.deleted),
    ] {
        reply.append(name, count(sum));
    }
    ids.append_retried(&mut reply, &done.before);
    Ok(reply)
}

fn run(
    call: &Call<'_>,
    operations: &[Operation<'_>],
    targets: &[Written<'_, '_>],
    ids: &StatementIds,
    done: &mut Done,
) -> Result<()> {
    let (context, ordered) = (call.context()?, call.flag("ordered").unwrap_or(true));
    let (mut at, mut alone_until) = (0, 0);
    while let Some(operation) = operations.get(at) {
        call.check()?;
        let target = &targets[operation.place];
        let errors = done.sums.errors;
        let next = match operation.what {
            What::Insert(_) => {
                let same =
                    |other: &&Operation<'_>| other.place == operation.place && matches!(other.what, What::Insert(_));
                let len = operations[at..].iter().take_while(same).count();
                insert(call, target, &operations[at..at + len], at, ids, done)?;
                at + len
            }
            _ => {
                let collation = call.find(&target.namespace)?.and_then(|entry| entry.collation());
                let context = context.clone().collated(collation);
                if at >= alone_until {
                    let rest = operations[at..].iter().take(TOGETHER_MAX);
                    let places = at..at + rest.take_while(|other| other.follows(operation)).count();
                    if change_together(operations, target, &context, places.clone(), ids, done)? {
                        at = places.end;
                        continue;
                    }
                    alone_until = places.end;
                }
                match change(operation, target, &context, at, ids, done) {
                    Ok(()) => {}
                    Err(error) if ends_command(call, &error) => return Err(error),
                    Err(error) => done.add_error(at, &error, matches!(operation.what, What::Update(_))),
                }
                at + 1
            }
        };
        at = next;
        if done.sums.errors > errors {
            if call.is_in_transaction() {
                call.fail_transaction();
                return Ok(());
            }
            if ordered {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Inserts the documents of statements that follow each other, the first of which is at a place.
fn insert(
    call: &Call<'_>,
    target: &Written<'_, '_>,
    operations: &[Operation<'_>],
    first: usize,
    ids: &StatementIds,
    done: &mut Done,
) -> Result<()> {
    let documents: Vec<Document<'_>> = operations
        .iter()
        .filter_map(|operation| match operation.what {
            What::Insert(document) => Some(document),
            _ => None,
        })
        .collect();
    let ordered = call.flag("ordered").unwrap_or(true);
    let statement = |at: usize| ids.get(first + at);
    let inserted = target.collection(true).and_then(|collection| {
        let collection = collection.ok_or_else(|| Error::new(ErrorCode::NAMESPACE_NOT_FOUND, "no collection"))?;
        call.scoped.scope.insert(&collection, &documents, statement, ordered, target.options, || call.check())
    });
    let (inserted, before) = match inserted {
        Ok(inserted) => inserted,
        Err(error) if error.code() == ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW => {
            done.add_error(first, &error, false);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    done.before.extend(before.iter().map(|at| first + at));
    let mut errors = inserted.errors.iter().peekable();
    for at in 0..documents.len() {
        match errors.next_if(|(failed, _)| *failed == at) {
            Some((_, error)) => {
                done.add_error(first + at, error, false);
                if ordered {
                    break;
                }
            }
            None => {
                done.sums.inserted += 1;
                done.add(first + at, 1, None, None);
            }
        }
    }
    Ok(())
}

/// Runs an update or a delete.
fn change(
    operation: &Operation<'_>,
    target: &Written<'_, '_>,
    context: &Context,
    at: usize,
    ids: &StatementIds,
    done: &mut Done,
) -> Result<()> {
    let (result, before) = match operation.what {
        What::Update(update) => update.run(target, context, ids.get(at))?,
        What::Delete(delete) => {
            let (matched, before) = delete.run(target, context, ids.get(at))?;
            (UpdateResult { matched, ..UpdateResult::default() }, before)
        }
        What::Insert(_) => return Ok(()),
    };
    done.add_change(operation, at, &result, before);
    Ok(())
}

/// Runs updates and deletes of single documents of one collection in one commit, where each commit is agreed on.
/// Whether they were run, or have to run one after the other.
///
/// # Errors
/// Those of [`run_together`].
fn change_together(
    operations: &[Operation<'_>],
    target: &Written<'_, '_>,
    context: &Context,
    places: Range<usize>,
    ids: &StatementIds,
    done: &mut Done,
) -> Result<bool> {
    let all = &operations[places.clone()];
    if all.len() < 2 || !may_be_together(target.call) {
        return Ok(false);
    }
    // What cannot be compiled is told for its statement.
    let compiled: Result<Vec<Statement>> = all.iter().filter_map(|operation| operation.compile(context)).collect();
    let Ok(compiled) = compiled else { return Ok(false) };
    let creates = all.iter().any(|operation| matches!(operation.what, What::Update(update) if update.upsert));
    let together = run_together(target, ids, places.clone(), creates, |txn, collection, at| {
        let UpdateResult { matched, modified, upserted } = match &compiled[at - places.start] {
            Statement::Update(update) => txn.update(collection, update)?,
            Statement::Delete(delete) => {
                UpdateResult { matched: txn.delete_matches(collection, delete)?, ..UpdateResult::default() }
            }
        };
        Ok(Outcome::Changed { matched, modified, upserted })
    })?;
    let was_done = together.is_some();
    for ((at, operation), (outcome, before)) in places.zip(all).zip(together.into_iter().flatten()) {
        done.add_change(operation, at, &update_result(outcome), before);
    }
    Ok(was_done)
}
