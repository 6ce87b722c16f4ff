//! The log of a server: one line an event, as text or as JSON. Values of commands and secrets never get there.

use std::fmt::Write as _;
use std::io::Write as _;

use parking_lot::Mutex;
use spinney_document::bson::DocumentBuilder;
use spinney_document::bson::date::to_iso;

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
        Self { json, sink: Sink::Stderr }
    }

    /// A log in memory, for tests.
    #[must_use]
    pub fn memory(json: bool) -> Self {
        Self { json, sink: Sink::Memory(Mutex::default()) }
    }

    /// What a log in memory holds.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.sink {
            Sink::Stderr => String::new(),
            Sink::Memory(bytes) => String::from_utf8_lossy(&bytes.lock()).into_owned(),
        }
    }

    /// Writes an event with its fields. A log that cannot be written is no reason to stop.
    pub fn event(&self, level: Level, event: &str, fields: &[(&str, &str)]) {
        let line = if self.json { as_json(level, event, fields) } else { as_text(level, event, fields) };
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

fn name(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
    }
}

fn as_json(level: Level, event: &str, fields: &[(&str, &str)]) -> String {
    let mut builder = DocumentBuilder::new();
    builder.append("time", to_iso(now_ms()).as_str()).append("level", name(level)).append("event", event);
    for (name, value) in fields {
        builder.append(name.replace('\0', ""), *value);
    }
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
