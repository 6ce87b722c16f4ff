//! What a command needs of its client.

use super::call::{Call, Needs};
use super::request::Request;
use super::spec::{Declaration, Privilege, Resource, Target};
use crate::aggregate::{self, Scope, rights};
use crate::base::{Need, On, Result};
use crate::bson::{Array, Value};
use crate::catalog::{Entry, Namespace};
use crate::changes::StreamOptions;
use crate::expr::Context;

/// What a call of a command needs.
///
/// # Errors
/// Those of the fields, which the command would return as well.
pub(super) fn of_call(call: &Call<'_>) -> Result<Need> {
    match call.table.needs(call.command.name) {
        Needs::Undeclared => Ok(Need::NEVER),
        Needs::Nothing | Needs::Login => Ok(Need::NOTHING),
        Needs::All(privileges) => Ok(of_privileges(privileges, call.command, call.request)),
        Needs::By(need) => need(call),
    }
}

/// Privileges as what they are about in a request.
pub(super) fn of_privileges(privileges: &[Privilege], command: &Declaration, request: &Request<'_>) -> Need {
    let need = |privilege: &Privilege| {
        let on = match privilege.resource {
            Resource::Cluster => Some(On::Cluster),
            Resource::Database => Some(On::Database(request.database.to_owned())),
            Resource::Collection => target_of(command, request),
        };
        on.map_or(Need::NEVER, |on| Need::Action(privilege.action, on))
    };
    Need::All(privileges.iter().map(need).collect())
}

/// The collection that a request names, if it names one.
fn target_of(command: &Declaration, request: &Request<'_>) -> Option<On> {
    let name = request.body.first().and_then(|first| first.value.as_str())?;
    match command.target {
        Target::Namespace => Some(On::namespace(name)),
        Target::Collection | Target::CollectionOrDatabase => Some(On::collection(request.database, name)),
        Target::Value(_) => None,
    }
}

impl Call<'_> {
    /// The database that the command was sent to.
    #[must_use]
    pub fn on_database(&self) -> On {
        On::Database(self.request.database.to_owned())
    }

    /// A collection of the database that the command was sent to.
    #[must_use]
    pub fn on_collection(&self, name: &str) -> On {
        On::collection(self.request.database, name)
    }

    /// The collection that the command names, if it names one.
    #[must_use]
    pub fn on_target(&self) -> Option<On> {
        target_of(self.command, self.request)
    }

    /// Actions on the collection that the command names, and on those that it writes without validation.
    #[must_use]
    pub(super) fn writes_need(&self, actions: &[&'static str]) -> Need {
        let Some(on) = self.on_target() else { return Need::NEVER };
        let bypass = self.is_set("bypassDocumentValidation").then_some("bypassDocumentValidation");
        Need::actions(&actions.iter().copied().chain(bypass).collect::<Vec<_>>(), &on)
    }

    /// What a pipeline needs over a collection of the database, or over the database.
    ///
    /// # Errors
    /// Those of the stages.
    pub(super) fn pipeline_needs(&self, over: Option<&str>, stages: Array<'_>, context: &Context) -> Result<Need> {
        let over = over.map(|name| aggregate::Namespace { database: None, collection: name.to_owned() });
        let scope = Scope {
            database: self.request.database,
            over: over.as_ref(),
            user: self.request.client.user.as_deref().unwrap_or_default(),
            bypasses_validation: self.is_set("bypassDocumentValidation"),
        };
        let Some((operand, rest)) = super::change_stream::split(stages) else {
            return Ok(rights::of_pipeline(&aggregate::parse(stages, context)?, &scope));
        };
        let watches_all = StreamOptions::parse(operand)?.all_databases;
        let watched = if watches_all { On::AnyDatabase } else { scope.target() };
        let mut needs = vec![rights::of_watch(super::change_stream::STAGE, &watched)];
        let rest = rest.view().get("rest").and_then(|rest| rest.as_array()).unwrap_or(Array::empty());
        needs.extend(rights::of_stages(&aggregate::parse(rest, context)?, &scope));
        Ok(Need::All(needs))
    }

    /// What a client needs to make a name of the database a view. A client that may read the view must be allowed to
    /// read all that the view reads; one that may not read the view sees nothing by it.
    ///
    /// # Errors
    /// Those of the stages.
    pub(super) fn view_needs(&self, name: &str, on: &str, stages: Array<'_>) -> Result<Need> {
        let given = stages.values().filter(|stage| !stage.is_nullish());
        let stages = crate::bson::ValueBuf::array(given);
        let stages = stages.view().as_array().unwrap_or(Array::empty());
        let all = self.pipeline_needs(Some(on), stages, &Context::default())?;
        Ok(Need::Any(vec![Need::Lacks("find", self.on_collection(name)), all]))
    }

    /// The view of a name of the database, if it is one.
    pub(super) fn view(&self, name: &str) -> Option<(String, crate::bson::DocumentBuf)> {
        let namespace = Namespace::new(self.request.database, name).ok()?;
        match self.state.database.catalog().find(&namespace) {
            Some(Entry::View(options)) => options.view.clone(),
            _ => None,
        }
    }
}

/// Whether one of some documents has a field that is true.
pub(super) fn any_is_set(documents: &[crate::bson::Document<'_>], name: &str) -> bool {
    let is_set = |value: &Value<'_>| crate::expr::value::truth(value);
    documents.iter().any(|document| document.elements().any(|field| field.name == *name && is_set(&field.value)))
}
