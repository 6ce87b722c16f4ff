//! The statistics of a server in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use spinney_document::command::timing::CLASSES;

use super::members;
use crate::state::Server;

/// The statistics of the server in the text format of Prometheus.
pub(super) fn text(server: &Server) -> String {
    let (network, counters) = (&server.service.state().network, &server.counters);
    let operations = &server.service.state().counters;
    let (opened, refused) = server.connections.totals();
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: u64| {
        let end = if kind == "counter" { "_total" } else { "" };
        let name = format!("spinney_server_{name}{end}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}").expect("a String takes any text");
    };
    let current = u64::try_from(server.connections.current()).unwrap_or_default();
    put("connections", "gauge", "Connections that are open.", current);
    put("connections_opened", "counter", "Connections that were opened.", opened);
    put("connections_refused", "counter", "Connections that were too many.", refused);
    put("requests", "counter", "Requests that came.", load(&network.requests));
    put("in_bytes", "counter", "Bytes of requests.", load(&network.bytes_in));
    put("out_bytes", "counter", "Bytes of replies.", load(&network.bytes_out));
    put("compressed_requests", "counter", "Requests that came compressed.", counters.compressed_in.get());
    put("compressed_replies", "counter", "Replies that were compressed.", counters.compressed_out.get());
    put("protocol_errors", "counter", "Connections ended by a broken protocol.", counters.protocol_errors.get());
    put("logins", "counter", "Authentications that succeeded.", counters.authenticated.get());
    put("logins_refused", "counter", "Authentications that failed.", counters.refused.get());
    put("commands_unauthorized", "counter", "Commands that a client may not run.", counters.unauthorized.get());
    for (name, counter) in [
        ("inserts", &operations.insert),
        ("queries", &operations.query),
        ("updates", &operations.update),
        ("deletes", &operations.delete),
        ("getmores", &operations.getmore),
        ("commands", &operations.command),
    ] {
        put(name, "counter", "Operations of this kind.", load(counter));
    }
    put("cursors", "gauge", "Cursors that are open.", server.service.state().cursors.counts().open);
    put_process(&mut text);
    members::put(&mut text, server);
    put_commands(&mut text, server);
    text
}

/// The memory of the process, by the names that Prometheus's own libraries have for it.
fn put_process(text: &mut String) {
    let (resident, mapped) = spinney_document::command::process_bytes();
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Memory of the process that is in use.", resident),
        ("process_virtual_memory_bytes", "Addresses that the process has mapped.", mapped),
    ] {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}").expect("a String takes any text");
    }
}

/// How often each command ran, how often it failed, and a histogram of the time that it took.
fn put_commands(text: &mut String, server: &Server) {
    const ANY: &str = "a String takes any text";
    let name = "spinney_server_command_seconds";
    writeln!(text, "# HELP {name} Time that commands took.\n# TYPE {name} histogram").expect(ANY);
    for (command, timed) in server.service.state().timings.iter() {
        let mut below = 0;
        for (at, count) in timed.classes.iter().enumerate().take(CLASSES - 1) {
            below += count;
            let seconds = spinney_document::base::num::nearest_f64(1_i64 << at) / 1e6;
            writeln!(text, "{name}_bucket{{command=\"{command}\",le=\"{seconds}\"}} {below}").expect(ANY);
        }
        writeln!(text, "{name}_bucket{{command=\"{command}\",le=\"+Inf\"}} {}", timed.total).expect(ANY);
        let sum = spinney_document::base::num::nearest_f64(i64::try_from(timed.micros).unwrap_or(i64::MAX)) / 1e6;
        writeln!(text, "{name}_sum{{command=\"{command}\"}} {sum}").expect(ANY);
        writeln!(text, "{name}_count{{command=\"{command}\"}} {}", timed.total).expect(ANY);
    }
    let name = "spinney_server_commands_failed_total";
    writeln!(text, "# HELP {name} Commands that failed.\n# TYPE {name} counter").expect(ANY);
    for (command, timed) in server.service.state().timings.iter() {
        writeln!(text, "{name}{{command=\"{command}\"}} {}", timed.failed).expect(ANY);
    }
}
