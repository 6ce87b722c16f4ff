//! The log of a server: one line an event, as text or as JSON. Secrets never get there; values of commands only with
//! those that are slow.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use spinney_document::bson::date::to_iso;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::lines::Lines;

use super::clock::now_ms;

/// How important an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something that an operator expects.
    Info,
    /// Something that an operator should look at.
    Warning,
}

/// Where events are written.
#[derive(Debug)]
pub struct Log {
    json: bool,
    sink: Sink,
    /// What the command `getLog` shows.
    kept: OnceLock<Kept>,
}

/// Where lines are kept that a client may ask for.
#[derive(Debug)]
struct Kept {
    /// The last lines.
    lines: Arc<Lines>,
    /// Warnings of the beginning.
    startup_warnings: Arc<Lines>,
}

#[derive(Debug)]
enum Sink {
    Stderr,
    Memory(Mutex<Vec<u8>>),
}

impl Log {
    /// A log on standard error, as JSON or as text.
    #[must_use]
    pub fn stderr(json: bool) -> Self {
        Self { json, sink: Sink::Stderr, kept: OnceLock::new() }
    }

    /// A log in memory, for tests.
    #[must_use]
    pub fn memory(json: bool) -> Self {
        Self { json, sink: Sink::Memory(Mutex::default()), kept: OnceLock::new() }
    }

    /// What a log in memory holds.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.sink {
            Sink::Stderr => String::new(),
            Sink::Memory(bytes) => String::from_utf8_lossy(&bytes.lock()).into_owned(),
        }
    }

    /// Keeps the last lines there as well, and the warnings of the beginning; only the first call counts.
    pub fn keep_in(&self, lines: Arc<Lines>, startup_warnings: Arc<Lines>) {
        drop(self.kept.set(Kept { lines, startup_warnings }));
    }

    /// Writes a warning of the beginning of the server, which shells show to each client that asks for it.
    pub fn startup_warning(&self, event: &str, fields: &[(&str, &str)]) {
        self.warning(event, fields);
        if let Some(kept) = self.kept.get() {
            kept.startup_warnings.add(line_of(Level::Warning, "CONTROL", event, attributes_of(fields).view()));
        }
    }

    /// Writes an event with its fields. A log that cannot be written is no reason to stop.
    pub fn event(&self, level: Level, event: &str, fields: &[(&str, &str)]) {
        let attributes = attributes_of(fields);
        self.keep(level, "CONTROL", event, attributes.view());
        self.write(&if self.json { as_json(level, event, attributes.view()) } else { as_text(level, event, fields) });
    }

    /// Writes that a command was slow: what `system.profile` would hold of it.
    pub fn slow(&self, command: Document<'_>) {
        const EVENT: &str = "Slow query";
        self.keep(Level::Info, "COMMAND", EVENT, command);
        if self.json {
            self.write(&as_json(Level::Info, EVENT, command));
        } else {
            let values: Vec<_> =
                command.elements().map(|element| (element.name.to_str_lossy(), text_of(&element.value))).collect();
            let fields: Vec<_> = values.iter().map(|(name, value)| (&**name, value.as_str())).collect();
            self.write(&as_text(Level::Info, EVENT, &fields));
        }
    }

    fn keep(&self, level: Level, component: &str, event: &str, attributes: Document<'_>) {
        if let Some(kept) = self.kept.get() {
            kept.lines.add(line_of(level, component, event, attributes));
        }
    }

    fn write(&self, line: &str) {
        match &self.sink {
            Sink::Stderr => drop(std::io::stderr().lock().write_all(line.as_bytes())),
            Sink::Memory(bytes) => bytes.lock().extend_from_slice(line.as_bytes()),
        }
    }

    /// Writes an event of level [`Level::Info`].
    pub fn info(&self, event: &str, fields: &[(&str, &str)]) {
        self.event(Level::Info, event, fields);
    }

    /// Writes an event of level [`Level::Warning`].
    pub fn warning(&self, event: &str, fields: &[(&str, &str)]) {
        self.event(Level::Warning, event, fields);
    }
}

/// The fields of an event as a document.
fn attributes_of(fields: &[(&str, &str)]) -> DocumentBuf {
    let mut attributes = DocumentBuilder::new();
    for (name, value) in fields {
        attributes.append(name.replace('\0', ""), *value);
    }
    attributes.finish()
}

/// An event in the form in which MongoDB writes its log.
fn line_of(level: Level, component: &str, event: &str, attributes: Document<'_>) -> String {
    let severity = if level == Level::Warning { "W" } else { "I" };
    let connection = attributes.get("connection").map(|value| format!("conn{}", text_of(&value)));
    let mut line = DocumentBuilder::new();
    line.append("t", Value::DateTime(now_ms())).append("s", severity).append("c", component).append("id", 0);
    line.append("ctx", connection.as_deref().unwrap_or("server")).append("msg", event).append("attr", attributes);
    line.finish().view().to_json()
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
    }
}

/// A value without the quotes of a string.
fn text_of(value: &Value<'_>) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn as_json(level: Level, event: &str, fields: Document<'_>) -> String {
    let mut builder = DocumentBuilder::new();
    builder.append("time", to_iso(now_ms()).as_str()).append("level", name(level)).append("event", event);
    builder.append_all(fields);
    builder.finish().view().to_json() + "\n"
}

/// Values with anything but plain characters are quoted, so that a line stays a line.
fn as_text(level: Level, event: &str, fields: &[(&str, &str)]) -> String {
    let mut line = format!("{} {}: {event}", to_iso(now_ms()), name(level));
    for (name, value) in fields {
        let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let written = if plain { write!(line, " {name}={value}") } else { write!(line, " {name}={value:?}") };
        written.expect("a String takes any text");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_a_client_sends() {
        for json in [false, true] {
            let log = Log::memory(json);
            log.info("connection accepted", &[("peer", "a\nb\"c"), ("id", "7")]);
            log.warning("x", &[]);
            assert_eq!(log.text().lines().count(), 2);
            assert!(log.text().contains(if json { r#""id":"7""# } else { r#"peer="a\nb\"c" id=7"# }));
        }
    }
}
