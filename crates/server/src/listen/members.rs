//! What the page and the metrics show of a replica set: the members, how far each is behind, and the log held for them.

use std::fmt::Write as _;

use spinney_document::bson::{DocumentBuilder, Value};
use spinney_replica::{MemberStatus, Status};

use crate::state::replica::{millis, standing};
use crate::state::{Replica, Server, Standing};

/// A member as this server knows it.
struct Shown<'s> {
    host: &'s str,
    role: &'static str,
    /// The operations that it does not have yet, and for how many milliseconds it has not; nothing when that is not
    /// known.
    lag: Option<(u64, i64)>,
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The members of the configuration, in its order.
fn members<'s>(replica: &Replica, status: &'s Status) -> Vec<Shown<'s>> {
    let all = status.config.as_ref().map_or(&[][..], |config| &config.members);
    let shown = all.iter().map(|member| {
        let own = Some(member.id) == status.me;
        let role = match standing(status) {
            _ if Some(member.id) == status.primary => "primary",
            Standing::Other if own => "no member yet",
            _ => "secondary",
        };
        let matched = status.members.iter().find(|known| known.id == member.id);
        let lag = match matched {
            _ if own => Some((status.committed.saturating_sub(status.applied), millis(replica.behind(status)))),
            Some(MemberStatus { matched: Some(matched), .. }) => {
                Some((status.last.saturating_sub(*matched), millis(replica.lag(status, *matched))))
            }
            _ => None,
        };
        Shown { host: &member.host, role, lag }
    });
    shown.collect()
}

/// Appends the field `replica`: null when there are no other members.
pub(super) fn append(all: &mut DocumentBuilder, server: &Server) {
    let Some(replica) = server.replica() else {
        all.append("replica", Value::Null);
        return;
    };
    let status = replica.node.status();
    all.open_document("replica").append("term", long(status.term)).append("elections", long(status.elections));
    all.append("writable", status.writable).append("last", long(status.last)).append("applied", long(status.applied));
    all.append("logBytes", long(status.log_bytes));
    all.append("applyFailures", long(status.apply_failures));
    match &status.stalled {
        Some(stalled) => all.append("stalled", &*stalled.why),
        None => all.append("stalled", Value::Null),
    };
    all.open_array("members");
    for Shown { host, role, lag } in members(replica, &status) {
        all.push_document().append("host", host).append("role", role);
        if let Some((operations, time)) = lag {
            all.append("lagOperations", long(operations)).append("lagMillis", time);
        }
        all.close();
    }
    all.close().close();
}

/// Writes what Prometheus is told of the set; nothing when there are no other members.
pub(super) fn put(text: &mut String, server: &Server) {
    const ANY: &str = "a String takes any text";
    let Some(replica) = server.replica() else { return };
    let status = replica.node.status();
    let mut put = |name: &str, kind: &str, help: &str, value: u64| {
        let end = if kind == "counter" { "_total" } else { "" };
        let name = format!("spinney_replica_{name}{end}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}").expect(ANY);
    };
    put("primary", "gauge", "Whether this member takes writes.", u64::from(status.writable));
    put("term", "gauge", "The term: it grows with each election.", status.term);
    put("elections", "counter", "Elections that this member has called.", status.elections);
    put("apply_failures", "counter", "How often an entry could not be applied.", status.apply_failures);
    let stalled = u64::from(status.stalled.is_some());
    put("stalled", "gauge", "Whether no entries are applied: space is lacking, or the data disagrees.", stalled);
    put("last_index", "gauge", "The index of the last entry of the log.", status.last);
    put("committed_index", "gauge", "The index up to which a majority has the log.", status.committed);
    put("applied_index", "gauge", "The index up to which entries are applied here.", status.applied);
    put("log_bytes", "gauge", "Bytes of log that are held for other members.", status.log_bytes);
    let name = "spinney_replica_member_program";
    writeln!(text, "# HELP {name} The programs that members run; always 1.\n# TYPE {name} gauge").expect(ANY);
    for known in &status.members {
        let host = status.config.as_ref().and_then(|config| config.by_id(known.id)).map(|member| &member.host);
        if let (Some(host), Some((version, format))) = (host, &known.program) {
            writeln!(text, "{name}{{member=\"{host}\",version=\"{version}\",format=\"{format}\"}} 1").expect(ANY);
        }
    }
    let members = members(replica, &status);
    for (name, help) in [
        ("member_lag_operations", "Operations that a member does not have yet, as this one knows."),
        ("member_lag_milliseconds", "For how long a member has not had all operations, as this one knows."),
    ] {
        let name = format!("spinney_replica_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge").expect(ANY);
        for Shown { host, lag, .. } in &members {
            if let Some((operations, time)) = lag {
                let value = if name.ends_with("operations") { long(*operations) } else { *time };
                writeln!(text, "{name}{{member=\"{host}\"}} {value}").expect(ANY);
            }
        }
    }
}
