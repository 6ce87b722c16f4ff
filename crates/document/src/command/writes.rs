//! The commands `update` and `delete`.

use std::borrow::Cow;
use std::ops::Range;

use super::call::{Call, Reply};
use super::commands::Command;
use super::commits::Commits;
use super::find::hint;
use super::insert::check_statements;
use super::needs::any_is_set;
use super::parse::{check_field, is_absent};
use super::reply::{append_write_errors, count};
use super::spec::{Field, FieldType, Privilege, Target};
use super::state::Counters;
use super::statement_ids::StatementIds;
use super::statement_log::{Counts, Noted};
use super::together::{TOGETHER_MAX, Together, may_be_together, run_together};
use super::written::{Written, ends_command};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Need, Result};
use crate::bson::{Document, Fields, Kind, Value, ValueBuf};
use crate::collation::Collation;
use crate::collection::{DeleteStatement, UpdateResult, UpdateStatement};
use crate::expr::Context;
use crate::notes::Outcome;
use crate::path::Sort;
use crate::plan::Query;
use crate::query::Filter;
use crate::session::Scope;
use crate::update::Update;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("update", Target::Collection, "Updates documents.", update)
        .fields(&[
            Field::required("updates", FieldType::Documents),
            Field::optional("ordered", FieldType::Bool),
            Field::optional("bypassDocumentValidation", FieldType::Bool),
            Field::optional("bypassEmptyTsReplacement", FieldType::Bool),
            Field::optional("let", FieldType::Object),
            Field::optional("stmtId", FieldType::Int),
            Field::optional("stmtIds", FieldType::Array),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs_by(update_needs)
        .writes()
        .in_transactions()
        .stable(),
    Command::new("delete", Target::Collection, "Deletes documents.", delete)
        .fields(&[
            Field::required("deletes", FieldType::Documents),
            Field::optional("ordered", FieldType::Bool),
            Field::optional("bypassDocumentValidation", FieldType::Bool),
            Field::optional("let", FieldType::Object),
            Field::optional("stmtId", FieldType::Int),
            Field::optional("stmtIds", FieldType::Array),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs(&[Privilege::on_collection("remove")])
        .writes()
        .in_transactions()
        .stable(),
];

/// What an `update` needs, which inserts as well when one of its statements is an upsert.
fn update_needs(call: &Call<'_>) -> Result<Need> {
    let inserts = any_is_set(&call.documents("updates"), "upsert");
    Ok(call.writes_need(if inserts { &["update", "insert"] } else { &["update"] }))
}

/// The fields of a statement of `update`.
const UPDATE_FIELDS: &[Field] = &[
    Field::required("q", FieldType::Object),
    Field::required("u", FieldType::Any),
    Field::optional("c", FieldType::Object),
    Field::optional("multi", FieldType::Bool),
    Field::optional("upsert", FieldType::Bool),
    Field::optional("upsertSupplied", FieldType::Bool),
    Field::optional("collation", FieldType::Object),
    Field::optional("arrayFilters", FieldType::Documents),
    Field::optional("hint", FieldType::OneOf(&[Kind::String, Kind::Document])),
    Field::optional("sort", FieldType::Object),
    Field::optional("sampleId", FieldType::Any),
    Field::optional("allowShardKeyUpdatesWithoutFullShardKeyInQuery", FieldType::Bool),
];

/// The fields of a statement of `delete`.
const DELETE_FIELDS: &[Field] = &[
    Field::required("q", FieldType::Object),
    Field::required("limit", FieldType::Long),
    Field::optional("collation", FieldType::Object),
    Field::optional("hint", FieldType::OneOf(&[Kind::String, Kind::Document])),
    Field::optional("sampleId", FieldType::Any),
];

/// Reads the fields of a document within a command, and checks them by their declarations.
///
/// # Errors
/// `IDLUnknownField` (40415), `IDLFailedToParse` (40414), `TypeMismatch` (14).
pub(super) fn check_fields<'r>(name: &str, declared: &[Field], document: Document<'r>) -> Result<Fields<'r>> {
    let fields = Fields::of(document);
    for element in fields.as_slice() {
        match declared.iter().find(|field| element.name == field.name) {
            Some(field) => check_field(name, field, &element.value)?,
            None => {
                let what = format!("BSON field '{name}.{}' is an unknown field.", element.name);
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        }
    }
    let is_there = |field: &Field| fields.get(field.name).is_some_and(|value| !is_absent(field, &value));
    match declared.iter().find(|field| field.required && !is_there(field)) {
        Some(field) => {
            let what = format!("BSON field '{name}.{}' is missing but a required field", field.name);
            Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what))
        }
        None => Ok(fields),
    }
}

/// An update as a command tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpdateSpec<'r> {
    pub(super) filter: Document<'r>,
    pub(super) update: Value<'r>,
    pub(super) constants: Option<Document<'r>>,
    pub(super) array_filters: Option<Value<'r>>,
    pub(super) hint: Option<Value<'r>>,
    pub(super) sort: Option<Document<'r>>,
    pub(super) collation: Option<Value<'r>>,
    pub(super) multi: bool,
    pub(super) upsert: bool,
}

/// A delete as a command tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeleteSpec<'r> {
    pub(super) filter: Document<'r>,
    pub(super) hint: Option<Value<'r>>,
    pub(super) collation: Option<Value<'r>>,
    pub(super) multi: bool,
}

/// The value of a field; nothing when it is missing or null.
pub(super) fn value<'r>(fields: &Fields<'r>, name: &str) -> Option<Value<'r>> {
    fields.get(name).filter(|value| !value.is_nullish())
}

/// Whether a field is true.
pub(super) fn is_set(fields: &Fields<'_>, name: &str) -> bool {
    value(fields, name).is_some_and(|value| crate::expr::value::truth(&value))
}

impl<'r> UpdateSpec<'r> {
    pub(super) fn parse(statement: Document<'r>) -> Result<Self> {
        let fields = check_fields("update.updates", UPDATE_FIELDS, statement)?;
        Ok(Self {
            filter: value(&fields, "q").and_then(|q| q.as_document()).unwrap_or(Document::empty()),
            update: value(&fields, "u").unwrap_or(Value::Null),
            constants: value(&fields, "c").and_then(|c| c.as_document()),
            array_filters: value(&fields, "arrayFilters"),
            hint: value(&fields, "hint"),
            sort: value(&fields, "sort").and_then(|sort| sort.as_document()),
            collation: value(&fields, "collation"),
            multi: is_set(&fields, "multi"),
            upsert: is_set(&fields, "upsert"),
        })
    }

    /// Compiles the update.
    ///
    /// # Errors
    /// Those of the filter, the update and the options.
    pub(super) fn compile(&self, context: &Context) -> Result<UpdateStatement> {
        let mut context = with_collation(context, self.collation)?;
        if let Some(constants) = self.constants {
            if !matches!(self.update, Value::Array(_)) {
                let what = "Constant values may only be specified for pipeline updates";
                return Err(Error::new(ErrorCode::new(51198), what));
            }
            context = Cow::Owned(context.into_owned().with_variables(constants));
        }
        let mut query = query(self.filter, self.hint, &context)?;
        let sort = self.sort.filter(|sort| !sort.is_empty());
        query.sort = sort.map(|sort| Sort::parse(sort, context.collation.as_ref())).transpose()?;
        let array_filters = self.array_filters.and_then(|filters| filters.as_array());
        let update = Update::parse(self.update, array_filters, &context)?;
        UpdateStatement::new(query, update, self.multi, self.upsert)
    }

    /// Runs the update in a collection, which is nothing when there is none.
    ///
    /// # Errors
    /// Those of [`Self::compile`] and of the update.
    pub(super) fn run(
        &self,
        target: &Written<'_, '_>,
        context: &Context,
        statement: i32,
    ) -> Result<(UpdateResult, bool)> {
        let compiled = self.compile(context)?;
        let Some(collection) = target.collection(self.upsert)? else { return Ok((UpdateResult::default(), false)) };
        let scope = &target.call.scoped.scope;
        if compiled.multi && matches!(scope, Scope::Alone) {
            return Ok((collection.run_update(&compiled, target.options)?, false));
        }
        let (outcome, before) = scope.run(&collection, target.options, statement, |txn| {
            let UpdateResult { matched, modified, upserted } = txn.update(&collection, &compiled)?;
            Ok(Outcome::Changed { matched, modified, upserted })
        })?;
        Ok((update_result(outcome), before))
    }
}

/// What a statement did that is an update or a delete.
pub(super) fn update_result(outcome: Outcome) -> UpdateResult {
    match outcome {
        Outcome::Changed { matched, modified, upserted } => UpdateResult { matched, modified, upserted },
        Outcome::Inserted | Outcome::Returned(_) => UpdateResult::default(),
    }
}

impl<'r> DeleteSpec<'r> {
    pub(super) fn parse(statement: Document<'r>) -> Result<Self> {
        let fields = check_fields("delete.deletes", DELETE_FIELDS, statement)?;
        let limit = value(&fields, "limit").unwrap_or(Value::Null);
        let multi = match limit.as_number().and_then(|limit| limit.trunc_to_i64()) {
            Some(0) => true,
            Some(1) => false,
            _ => {
                let what = format!("The limit field in delete objects must be 0 or 1. Got {limit}");
                return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
            }
        };
        Ok(Self {
            filter: value(&fields, "q").and_then(|q| q.as_document()).unwrap_or(Document::empty()),
            hint: value(&fields, "hint"),
            collation: value(&fields, "collation"),
            multi,
        })
    }

    /// Compiles the delete.
    ///
    /// # Errors
    /// Those of the filter and the options.
    pub(super) fn compile(&self, context: &Context) -> Result<DeleteStatement> {
        let query = query(self.filter, self.hint, &*with_collation(context, self.collation)?)?;
        Ok(DeleteStatement::new(query, self.multi))
    }

    /// Runs the delete; how many documents were deleted, and whether that was before.
    ///
    /// # Errors
    /// Those of the filter, the options and the delete.
    pub(super) fn run(&self, target: &Written<'_, '_>, context: &Context, statement: i32) -> Result<(u64, bool)> {
        let compiled = self.compile(context)?;
        let Some(collection) = target.collection(false)? else { return Ok((0, false)) };
        let scope = &target.call.scoped.scope;
        if compiled.multi && matches!(scope, Scope::Alone) {
            return Ok((collection.run_delete(&compiled, target.options)?, false));
        }
        let (outcome, before) = scope.run(&collection, target.options, statement, |txn| {
            let deleted = txn.delete_matches(&collection, &compiled)?;
            Ok(Outcome::Changed { matched: deleted, modified: 0, upserted: None })
        })?;
        Ok((update_result(outcome).matched, before))
    }
}

/// The constants of a statement, which may have a collation of its own.
///
/// # Errors
/// Those of the collation.
pub(super) fn with_collation<'c>(context: &'c Context, collation: Option<Value<'_>>) -> Result<Cow<'c, Context>> {
    Ok(match Collation::of_operation(collation)? {
        Some(collation) => Cow::Owned(context.clone().collated(collation)),
        None => Cow::Borrowed(context),
    })
}

/// The query of a statement.
///
/// # Errors
/// Those of the filter and the hint.
pub(super) fn query(filter: Document<'_>, hinted: Option<Value<'_>>, context: &Context) -> Result<Query> {
    let mut query = Query::new(Filter::parse(filter, context)?);
    query.collation.clone_from(&context.collation);
    query.hint = hinted.map(hint).transpose()?.flatten();
    Ok(query)
}

/// Refuses statements over many documents that are to be done once.
///
/// # Errors
/// `InvalidOptions` (72).
pub(super) fn check_once(call: &Call<'_>, multi: bool) -> Result<()> {
    if multi && matches!(call.scoped.scope, Scope::Once(_)) {
        let what = "Cannot use (or request) retryable writes with multi=true or limit=0";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    Ok(())
}

/// What the statements of a command have done so far.
#[derive(Debug, Default)]
struct Done {
    n: u64,
    modified: u64,
    upserted: Vec<(usize, ValueBuf)>,
    errors: Vec<(usize, Error)>,
    before: Vec<usize>,
}

impl Done {
    fn counts(&self) -> Counts {
        Counts { n: self.n, modified: self.modified, upserted: u64_of(self.upserted.len()) }
    }

    /// Adds what the statement at a place did, and whether that was before.
    fn add(&mut self, at: usize, result: UpdateResult, before: bool) {
        self.n += result.matched + u64::from(result.upserted.is_some());
        self.modified += result.modified;
        self.upserted.extend(result.upserted.map(|id| (at, id)));
        self.before.extend(before.then_some(at));
    }

    /// Adds what statements did that were done together; whether they were.
    fn add_together(&mut self, places: Range<usize>, together: Option<Together>) -> bool {
        let was_done = together.is_some();
        for (at, (outcome, before)) in places.zip(together.into_iter().flatten()) {
            self.add(at, update_result(outcome), before);
        }
        was_done
    }
}

/// Runs statements one after the other until one fails that the next must not follow. `together` runs those of a range
/// as one, if it can.
///
/// # Errors
/// Those that end the command: conflicts of a transaction, and limits of time.
fn run_all(
    call: &Call<'_>,
    count: usize,
    done: &mut Done,
    mut together: impl FnMut(Range<usize>, &mut Done) -> Result<bool>,
    mut run: impl FnMut(usize, &mut Done) -> Result<()>,
) -> Result<()> {
    let ordered = call.flag("ordered").unwrap_or(true);
    let mut alone_until = 0;
    let mut places = 0..count;
    while let Some(at) = places.next() {
        call.check()?;
        if at >= alone_until {
            let end = count.min(at + TOGETHER_MAX);
            // Each statement is profiled by itself.
            if end - at > 1 && !call.statements.is_on() && together(at..end, done)? {
                places.start = end;
                continue;
            }
            alone_until = end;
        }
        match noted(call, at, done, &mut run) {
            Ok(()) => {}
            Err(error) if ends_command(call, &error) => return Err(error),
            Err(error) => {
                done.errors.push((at, call.placed(error)));
                if call.is_in_transaction() {
                    call.fail_transaction();
                    break;
                }
                if ordered {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Runs a statement, and notes what it did where that is profiled.
fn noted(
    call: &Call<'_>,
    at: usize,
    done: &mut Done,
    run: &mut impl FnMut(usize, &mut Done) -> Result<()>,
) -> Result<()> {
    if !call.statements.is_on() {
        return run(at, done);
    }
    let (environment, before) = (call.state.database.environment(), done.counts());
    let (began_us, (keys, documents)) = (environment.monotonic_us(), call.interrupt.examined());
    let ran = run(at, done);
    let (examined, counts) = (call.interrupt.examined(), done.counts());
    call.statements.add(Noted {
        at,
        micros: environment.monotonic_us().saturating_sub(began_us),
        examined: (examined.0 - keys, examined.1 - documents),
        plan: call.interrupt.take_plan(),
        outcome: match &ran {
            Err(error) => Err(error.clone()),
            Ok(()) => Ok(Counts {
                n: counts.n - before.n,
                modified: counts.modified - before.modified,
                upserted: counts.upserted - before.upserted,
            }),
        },
    });
    ran
}

fn update(call: &Call<'_>) -> Result<Reply> {
    let statements = call.documents("updates");
    check_statements(statements.len())?;
    Counters::add(&call.state.counters.update, u64_of(statements.len()));
    let specs = statements.into_iter().map(UpdateSpec::parse).collect::<Result<Vec<_>>>()?;
    specs.iter().try_for_each(|spec| check_once(call, spec.multi))?;
    let commits = Commits::of(call, specs.len() > 1 || specs.iter().any(|spec| spec.multi))?;
    let target = Written { call, namespace: call.entry()?.0, options: commits.options };
    let (context, ids) = (call.context()?, StatementIds::of(call, specs.len())?);
    let mut done = Done::default();
    let may_be_together = may_be_together(call) && specs.iter().all(|spec| !spec.multi);
    let together = |places: Range<usize>, done: &mut Done| {
        if !may_be_together {
            return Ok(false);
        }
        let part = &specs[places.clone()];
        let compiled = part.iter().map(|spec| spec.compile(&context)).collect::<Result<Vec<_>>>();
        let Ok(compiled) = compiled else { return Ok(false) };
        let (first, creates) = (places.start, part.iter().any(|spec| spec.upsert));
        let together = run_together(&target, &ids, places.clone(), creates, |txn, collection, at| {
            let UpdateResult { matched, modified, upserted } = txn.update(collection, &compiled[at - first])?;
            Ok(Outcome::Changed { matched, modified, upserted })
        })?;
        Ok(done.add_together(places, together))
    };
    let ran = run_all(call, specs.len(), &mut done, together, |at, done| {
        let (result, before) = specs[at].run(&target, &context, ids.get(at))?;
        done.add(at, result, before);
        Ok(())
    });
    commits.end(call)?;
    ran?;
    let mut reply = Reply::new();
    reply.append("n", count(done.n));
    if !done.upserted.is_empty() {
        reply.open_array("upserted");
        for (at, id) in &done.upserted {
            reply.push_document().append("index", count(u64_of(*at))).append("_id", id.view()).close();
        }
        reply.close();
    }
    reply.append("nModified", count(done.modified));
    append_write_errors(&mut reply, &done.errors);
    ids.append_retried(&mut reply, &done.before);
    Ok(reply)
}

fn delete(call: &Call<'_>) -> Result<Reply> {
    let statements = call.documents("deletes");
    check_statements(statements.len())?;
    Counters::add(&call.state.counters.delete, u64_of(statements.len()));
    let specs = statements.into_iter().map(DeleteSpec::parse).collect::<Result<Vec<_>>>()?;
    specs.iter().try_for_each(|spec| check_once(call, spec.multi))?;
    let commits = Commits::of(call, specs.len() > 1 || specs.iter().any(|spec| spec.multi))?;
    let target = Written { call, namespace: call.entry()?.0, options: commits.options };
    let (context, ids) = (call.context()?, StatementIds::of(call, specs.len())?);
    let mut done = Done::default();
    let may_be_together = may_be_together(call) && specs.iter().all(|spec| !spec.multi);
    let together = |places: Range<usize>, done: &mut Done| {
        if !may_be_together {
            return Ok(false);
        }
        let compiled = specs[places.clone()].iter().map(|spec| spec.compile(&context)).collect::<Result<Vec<_>>>();
        let Ok(compiled) = compiled else { return Ok(false) };
        let first = places.start;
        let together = run_together(&target, &ids, places.clone(), false, |txn, collection, at| {
            let deleted = txn.delete_matches(collection, &compiled[at - first])?;
            Ok(Outcome::Changed { matched: deleted, modified: 0, upserted: None })
        })?;
        Ok(done.add_together(places, together))
    };
    let ran = run_all(call, specs.len(), &mut done, together, |at, done| {
        let (deleted, before) = specs[at].run(&target, &context, ids.get(at))?;
        done.add(at, UpdateResult { matched: deleted, ..UpdateResult::default() }, before);
        Ok(())
    });
    commits.end(call)?;
    ran?;
    let mut reply = Reply::new();
    reply.append("n", count(done.n));
    append_write_errors(&mut reply, &done.errors);
    ids.append_retried(&mut reply, &done.before);
    Ok(reply)
}
