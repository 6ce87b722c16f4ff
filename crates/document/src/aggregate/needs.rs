//! What stages need of their client by their operand.

use super::stage::Scope;
use crate::base::{Need, On};
use crate::bson::{Document, Value};

/// `$currentOp`: the client's own commands for everybody.
pub(super) fn operations(spec: Document<'_>, _: &Scope<'_>) -> Need {
    match is_set(spec, "allUsers") {
        true => Need::Action("inprog", On::Cluster),
        false => Need::NOTHING,
    }
}

/// `$listSessions` and `$listLocalSessions`: the client's own sessions for everybody.
pub(super) fn sessions(spec: Document<'_>, scope: &Scope<'_>) -> Need {
    let text = |user: Document<'_>, field: &str| user.get(field).and_then(|value| value.as_str()).map(str::to_owned);
    let is_own = |value: Value<'_>| {
        let user = value.as_document().unwrap_or(Document::empty());
        let name = (text(user, "db").unwrap_or_default(), text(user, "user").unwrap_or_default());
        scope.user == format!("{}.{}", name.0, name.1)
    };
    let mut users = spec.get("users").and_then(|users| users.as_array()).into_iter().flatten();
    match !is_set(spec, "allUsers") && users.all(is_own) {
        true => Need::NOTHING,
        false => Need::Action("listSessions", On::Cluster),
    }
}

/// `$listClusterCatalog`: of all databases, when it is run on `admin`.
pub(super) fn catalog(_: Document<'_>, scope: &Scope<'_>) -> Need {
    match scope.database {
        "admin" => Need::Action("listDatabases", On::Cluster),
        database => Need::Action("listCollections", On::Database(database.to_owned())),
    }
}

/// `$querySettings`.
pub(super) fn settings(_: Document<'_>, _: &Scope<'_>) -> Need {
    Need::Action("querySettings", On::Cluster)
}

fn is_set(spec: Document<'_>, field: &str) -> bool {
    spec.get(field).is_some_and(|value| crate::expr::value::truth(&value))
}
