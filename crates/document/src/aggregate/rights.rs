//! What pipelines need of their client: the rows of the stages declare it, and the parsed stages name the collections.

use super::stage::{Inner, Needs, Pipeline, Scope, Step};
use super::table;
use crate::base::{Need, On};
use crate::bson::{Document, Value};

/// What a pipeline needs: `find` on what it is over, unless it begins with a stage that makes its documents itself, and
/// what each of its stages needs.
#[must_use]
pub fn of_pipeline(pipeline: &Pipeline, scope: &Scope<'_>) -> Need {
    let mut needs = Vec::new();
    if !pipeline.starts_with_source() {
        needs.push(Need::Action("find", scope.target()));
    }
    needs.extend(of_stages(pipeline, scope));
    Need::All(needs)
}

/// What the stages of a pipeline need, but not what their input needs.
#[must_use]
pub fn of_stages(pipeline: &Pipeline, scope: &Scope<'_>) -> Vec<Need> {
    pipeline.stages().iter().map(|step| of_step(step, scope)).collect()
}

/// What the stage of a name needs that watches changes of something.
#[must_use]
pub fn of_watch(name: &str, watched: &On) -> Need {
    match table::stage(name).map(|stage| stage.needs) {
        Some(Needs::Watched(actions)) => Need::actions(actions, watched),
        _ => Need::NEVER,
    }
}

fn of_spec(name: &str, spec: Value<'_>, scope: &Scope<'_>) -> Need {
    let spec = spec.as_document().unwrap_or(Document::empty());
    match table::stage(name).map(|stage| stage.needs) {
        Some(Needs::Nothing) => Need::NOTHING,
        Some(Needs::OnCollection(action)) => Need::Action(action, scope.target()),
        Some(Needs::By(need)) => need(spec, scope),
        // The parsed stage alone tells what the others need.
        _ => Need::NEVER,
    }
}

fn of_step(step: &Step, scope: &Scope<'_>) -> Need {
    let inner = step.inner();
    // What a stage reads counts whatever its row declares.
    let mut needs: Vec<Need> = inner.iter().map(|inner| of_inner(inner, scope)).collect();
    needs.push(match table::stage(step.name()).map(|stage| stage.needs) {
        Some(Needs::Inner) if inner.is_empty() => Need::NEVER,
        Some(Needs::Inner) => Need::NOTHING,
        Some(Needs::Writes) => written(step, scope),
        _ => of_spec(step.name(), step.spec().first().map_or(Value::Null, |first| first.value), scope),
    });
    Need::All(needs)
}

fn of_inner(inner: &Inner, scope: &Scope<'_>) -> Need {
    if inner.is_over_input {
        return Need::All(of_stages(&inner.pipeline, scope));
    }
    of_pipeline(&inner.pipeline, &Scope { over: inner.over.as_ref(), ..*scope })
}

fn written(step: &Step, scope: &Scope<'_>) -> Need {
    let (actions, written) = (step.write_actions(), step.namespaces());
    if actions.is_empty() || written.is_empty() {
        return Need::NEVER;
    }
    let bypass = scope.bypasses_validation.then_some("bypassDocumentValidation");
    let all: Vec<_> = actions.into_iter().chain(bypass).collect();
    Need::All(written.iter().map(|namespace| Need::actions(&all, &scope.on(namespace))).collect())
}
