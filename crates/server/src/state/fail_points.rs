//! Commands that fail on purpose, for tests of drivers: `configureFailPoint` with `failCommand`, and with
//! `onPrimaryTransactionalWrite`, by which the connection of a retryable write is lost before the write or behind it,
//! `failGetMoreAfterCursorCheckout`, by which a cursor is lost, and `maxTimeAlwaysTimeOut`.

use std::time::Duration;

use parking_lot::Mutex;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use crate::auth::credentials::random_bytes;
use crate::base::fields::Fields;

/// The fail points of a server.
#[derive(Debug, Default)]
pub struct FailPoints {
    fail_command: Mutex<FailCommand>,
    lost_write: Mutex<LostWrite>,
    lost_cursor: Mutex<LostCursor>,
    /// The fail point `maxTimeAlwaysTimeOut`: the time of every command that has one is over at once.
    time_out: Mutex<Mode>,
}

/// The fail point `onPrimaryTransactionalWrite`.
#[derive(Debug, Default)]
struct LostWrite {
    mode: Mode,
    loss: Option<Loss>,
    entered: i64,
}

/// The fail point `failGetMoreAfterCursorCheckout`: a `getMore` fails with the code, and its cursor is gone.
#[derive(Debug, Default)]
struct LostCursor {
    mode: Mode,
    code: i32,
    entered: i64,
}

/// How the connection of a retryable write is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing is written.
    Before,
    /// The client does not hear that the write was done.
    Behind,
}

/// The fail point `failCommand`.
#[derive(Debug, Default)]
struct FailCommand {
    mode: Mode,
    data: Option<FailData>,
    /// How often it was met.
    entered: i64,
}

/// How often a fail point acts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mode {
    #[default]
    Off,
    Always,
    Times(i64),
    Skip(i64),
    /// With this probability, from 0 to 1.
    Probability(f64),
}

/// What happens to which commands.
#[derive(Clone, Debug, Default)]
struct FailData {
    commands: Vec<String>,
    application: Option<String>,
    failure: Failure,
}

/// What happens to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// It waits before anything else.
    pub block: Option<Duration>,
    /// The connection is closed.
    pub close: bool,
    /// It fails with this code instead of running.
    pub code: Option<i32>,
    /// The labels of the error; none for those that the server would give, an empty list for no labels.
    pub labels: Option<Vec<String>>,
    /// Its reply carries this `writeConcernError`.
    pub write_concern_error: Option<DocumentBuf>,
    /// Documents that go into the reply's `errInfo`.
    pub extra: Option<DocumentBuf>,
}

/// Commands of handshakes, which fail only when they are named.
const HANDSHAKE: [&str; 4] = ["hello", "isMaster", "ismaster", "ping"];

impl FailPoints {
    /// Sets a fail point; how often it was met before.
    ///
    /// # Errors
    /// `FailPointSetFailed` (266) for one that is not known, `BadValue` (2) for a mode that is none, `TypeMismatch`
    /// (14).
    pub fn configure(&self, name: &str, mode: Value<'_>, data: Document<'_>) -> Result<i64> {
        let mode = Mode::parse(mode)?;
        if name == "maxTimeAlwaysTimeOut" {
            *self.time_out.lock() = mode;
            return Ok(0);
        }
        if name == "onPrimaryTransactionalWrite" {
            return self.configure_lost_write(mode, data);
        }
        if name == "failGetMoreAfterCursorCheckout" {
            return self.configure_lost_cursor(mode, data);
        }
        if name != "failCommand" {
            return Err(Error::new(ErrorCode::FAIL_POINT_SET_FAILED, format!("the fail point {name} is not there")));
        }
        let data = if mode == Mode::Off { None } else { Some(FailData::parse(data)?) };
        let mut point = self.fail_command.lock();
        let entered = point.entered;
        *point = FailCommand { mode, data, entered };
        Ok(entered)
    }

    fn configure_lost_write(&self, mode: Mode, data: Document<'_>) -> Result<i64> {
        let known = ["failBeforeCommitExceptionCode", "closeConnection"];
        if let Some(other) = data.elements().find(|element| !known.iter().any(|name| element.name == *name)) {
            return Err(Error::bad_value(format!("onPrimaryTransactionalWrite does not know '{}'", other.name)));
        }
        if Fields::new("data", data).bool("closeConnection")? == Some(false) {
            let what = "onPrimaryTransactionalWrite that keeps the connection is not supported";
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
        }
        let before = data.element("failBeforeCommitExceptionCode").is_some();
        let loss = Some(if before { Loss::Before } else { Loss::Behind });
        let mut point = self.lost_write.lock();
        let entered = point.entered;
        *point = LostWrite { mode, loss, entered };
        Ok(entered)
    }

    fn configure_lost_cursor(&self, mode: Mode, data: Document<'_>) -> Result<i64> {
        // Drivers set it with the data of `failCommand`: it is about no other command.
        let known = ["errorCode", "closeConnection", "failCommands"];
        if let Some(other) = data.elements().find(|element| !known.iter().any(|name| element.name == *name)) {
            return Err(Error::bad_value(format!("failGetMoreAfterCursorCheckout does not know '{}'", other.name)));
        }
        let fields = Fields::new("data", data);
        if fields.bool("closeConnection")? == Some(true) {
            let what = "failGetMoreAfterCursorCheckout that closes the connection is not supported";
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
        }
        let code = fields.number("errorCode")?.and_then(|code| i32::try_from(code).ok());
        let Some(code) = code.or((mode == Mode::Off).then_some(0)) else {
            return Err(Error::bad_value("failGetMoreAfterCursorCheckout needs an 'errorCode'"));
        };
        let mut point = self.lost_cursor.lock();
        let entered = point.entered;
        *point = LostCursor { mode, code, entered };
        Ok(entered)
    }

    /// The code with which a `getMore` is to fail, if it is.
    pub fn meet_cursor(&self) -> Option<i32> {
        let mut point = self.lost_cursor.lock();
        let acts = point.mode.step();
        point.entered += i64::from(acts);
        acts.then_some(point.code)
    }

    /// Whether a command whose time is limited is to fail as if the time were over.
    pub fn times_out(&self) -> bool {
        self.time_out.lock().step()
    }

    /// Whether the connection of a retryable write of some statements is to be lost, before it or behind it. Each
    /// statement that is written is met once: a write is asked about behind it only when it was not done before.
    pub fn meet_write(&self, when: Loss, statements: usize) -> bool {
        let mut point = self.lost_write.lock();
        if point.loss != Some(when) {
            return false;
        }
        let acts = (0..statements.max(1)).filter(|_| point.mode.step()).count();
        point.entered += i64::from(acts > 0);
        acts > 0
    }

    /// What is to happen to a command of an application, if anything is.
    pub fn meet(&self, command: &str, application: Option<&str>) -> Option<Failure> {
        let mut point = self.fail_command.lock();
        let data = point.data.as_ref().filter(|data| data.is_about(command, application))?;
        let failure = data.failure.clone();
        if !point.mode.step() {
            return None;
        }
        point.entered += 1;
        Some(failure)
    }
}

impl Mode {
    /// Whether the fail point acts now.
    fn step(&mut self) -> bool {
        let (acts, next) = match *self {
            Self::Off | Self::Times(0) => (false, Self::Off),
            Self::Always | Self::Skip(0) => (true, *self),
            Self::Times(left) => (true, Self::Times(left - 1)),
            Self::Skip(left) => (false, Self::Skip(left - 1)),
            Self::Probability(share) => (is_drawn(share), *self),
        };
        *self = next;
        acts
    }

    fn parse(value: Value<'_>) -> Result<Self> {
        let wrong = || {
            let what = "the mode of a fail point is 'off', 'alwaysOn', {times: n}, {skip: n} or \
                        {activationProbability: p} with p from 0 to 1";
            Error::bad_value(what)
        };
        match (value.as_str(), value.as_document()) {
            (Some("off"), _) => Ok(Self::Off),
            (Some("alwaysOn"), _) => Ok(Self::Always),
            (None, Some(document)) => {
                let fields = Fields::new("mode", document);
                if let Some(share) = document.get("activationProbability") {
                    let share = share.as_f64().filter(|share| (0.0..=1.0).contains(share));
                    return share.map(Self::Probability).ok_or_else(wrong);
                }
                match (fields.number("times")?, fields.number("skip")?) {
                    (Some(times), None) if times >= 0 => Ok(Self::Times(times)),
                    (None, Some(skip)) if skip >= 0 => Ok(Self::Skip(skip)),
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// Whether a draw of this probability is lucky.
fn is_drawn(share: f64) -> bool {
    let drawn = random_bytes(4).ok().and_then(|bytes| bytes.first_chunk().copied().map(u32::from_le_bytes));
    drawn.is_some_and(|drawn| f64::from(drawn) < share * 2_f64.powi(32))
}

impl FailData {
    fn parse(data: Document<'_>) -> Result<Self> {
        let fields = Fields::new("data", data);
        let strings = |name: &str| -> Result<Option<Vec<String>>> {
            let array = fields.array(name)?;
            Ok(array.map(|array| array.values().filter_map(|value| value.as_str().map(str::to_owned)).collect()))
        };
        let known = [
            "failCommands",
            "errorCode",
            "errorLabels",
            "closeConnection",
            "blockConnection",
            "blockTimeMS",
            "appName",
            "writeConcernError",
            "errorExtraInfo",
        ];
        if let Some(other) = data.elements().find(|element| !known.iter().any(|name| element.name == *name)) {
            return Err(Error::bad_value(format!("failCommand does not know '{}'", other.name)));
        }
        let time = fields.number("blockTimeMS")?.and_then(|time| u64::try_from(time).ok());
        let block = fields.bool("blockConnection")?.unwrap_or(false);
        let failure = Failure {
            block: if block { Some(Duration::from_millis(time.unwrap_or_default())) } else { None },
            close: fields.bool("closeConnection")?.unwrap_or(false),
            code: fields.number("errorCode")?.and_then(|code| i32::try_from(code).ok()),
            labels: strings("errorLabels")?,
            write_concern_error: fields.nested("writeConcernError")?.map(DocumentBuf::from),
            extra: fields.nested("errorExtraInfo")?.map(DocumentBuf::from),
        };
        let commands = strings("failCommands")?.unwrap_or_default();
        Ok(Self { commands, application: fields.text("appName")?.map(str::to_owned), failure })
    }

    fn is_about(&self, command: &str, application: Option<&str>) -> bool {
        let application = self.application.as_deref().is_none_or(|wanted| application == Some(wanted));
        let named = self.commands.iter().any(|name| name == command);
        application && (named || self.commands.is_empty() && !HANDSHAKE.contains(&command))
    }
}

/// Labels that a failure of a write gets by itself.
const RETRYABLE: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436];

/// Codes after which a transaction is to be tried again as a whole.
const TRANSIENT: [i32; 6] = [24, 112, 239, 246, 251, 267];

/// Where a command runs, which decides what a driver may do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Neither in a transaction nor as a write that may be sent again.
    Alone,
    /// As a write that may be sent again.
    RetryableWrite,
    /// In a transaction.
    Transaction,
    /// It commits or aborts a transaction.
    EndOfTransaction,
}

impl Failure {
    /// The labels of a write whose reply carries the error of the write concern: those that were asked for, or those
    /// that the server would give.
    #[must_use]
    pub fn labels_behind_write(&self, place: Place) -> Vec<String> {
        let code = self.write_concern_error.as_ref().and_then(|error| error.view().get("code")?.as_exact_i64());
        let retryable = code.and_then(|code| i32::try_from(code).ok()).is_some_and(|code| RETRYABLE.contains(&code));
        let own = || match place {
            Place::RetryableWrite | Place::EndOfTransaction if retryable => vec!["RetryableWriteError".to_owned()],
            _ => Vec::new(),
        };
        self.labels.clone().unwrap_or_else(own)
    }

    /// The reply of a command that fails with the code.
    #[must_use]
    pub fn reply(&self, code: i32, place: Place) -> DocumentBuf {
        let mut reply = DocumentBuilder::new();
        reply.append("ok", 0.0).append("errmsg", "Failing command via 'failCommand' failpoint");
        reply.append("code", code).append("codeName", ErrorCode::new(code).name().as_str());
        if let Some(extra) = &self.extra {
            reply.append("errInfo", extra);
        }
        let own = || {
            let always = TRANSIENT.contains(&code);
            let (transient, retryable) = match place {
                Place::Alone => (false, false),
                Place::RetryableWrite => (false, RETRYABLE.contains(&code)),
                Place::Transaction => (always || RETRYABLE.contains(&code), false),
                Place::EndOfTransaction => (always, RETRYABLE.contains(&code)),
            };
            [(transient, "TransientTransactionError"), (retryable, "RetryableWriteError")]
                .into_iter()
                .filter(|(is, _)| *is)
                .map(|(_, label)| label.to_owned())
                .collect::<Vec<_>>()
        };
        let labels = self.labels.clone().unwrap_or_else(own);
        if !labels.is_empty() {
            reply.open_array("errorLabels");
            for label in &labels {
                reply.push(label);
            }
            reply.close();
        }
        reply.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(points: &FailPoints, mode: &str, data: &str) {
        let mode = DocumentBuf::from_json(mode).unwrap();
        let data = DocumentBuf::from_json(data).unwrap();
        points.configure("failCommand", mode.view().get("m").unwrap(), data.view()).unwrap();
    }

    #[test]
    fn a_fail_point_acts_as_often_as_its_mode_says() {
        let points = FailPoints::default();
        let acts = |count: usize| (0..count).map(|_| points.meet("insert", None).is_some()).collect::<Vec<_>>();
        assert_eq!(acts(1), [false]);
        set(&points, r#"{"m": {"times": 2}}"#, r#"{"failCommands": ["insert"], "errorCode": 11600}"#);
        assert!(points.meet("find", None).is_none());
        assert_eq!(acts(3), [true, true, false]);
        set(&points, r#"{"m": {"skip": 1}}"#, r#"{"failCommands": ["insert"], "errorCode": 11600}"#);
        assert_eq!(acts(3), [false, true, true]);
        set(&points, r#"{"m": "alwaysOn"}"#, r#"{"failCommands": ["insert"], "appName": "a", "errorCode": 1}"#);
        assert_eq!(acts(1), [false]);
        assert!(points.meet("insert", Some("a")).is_some());
        set(&points, r#"{"m": "off"}"#, "{}");
        assert!(points.meet("insert", Some("a")).is_none());
    }

    #[test]
    fn a_fail_point_may_act_with_a_probability() {
        let points = FailPoints::default();
        let data = r#"{"failCommands": ["insert"], "errorCode": 6}"#;
        let acts = |share: f64| {
            set(&points, &format!(r#"{{"m": {{"activationProbability": {share:?}}}}}"#), data);
            (0..400).filter(|_| points.meet("insert", None).is_some()).count()
        };
        assert_eq!((acts(0.0), acts(1.0)), (0, 400));
        assert!((1..400).contains(&acts(0.5)));
        let above = spinney_document::doc! {"activationProbability": 1.5};
        assert!(points.configure("failCommand", Value::Document(above.view()), Document::empty()).is_err());
    }

    #[test]
    fn the_time_of_commands_is_over_as_often_as_the_mode_says() {
        let points = FailPoints::default();
        let times = spinney_document::doc! {"times": 1};
        points.configure("maxTimeAlwaysTimeOut", Value::Document(times.view()), Document::empty()).unwrap();
        assert_eq!((points.times_out(), points.times_out()), (true, false));
    }

    #[test]
    fn a_write_is_lost_before_or_behind() {
        let points = FailPoints::default();
        assert!(!points.meet_write(Loss::Before, 1));
        let (times, before) =
            (spinney_document::doc! {"times": 1}, spinney_document::doc! {"failBeforeCommitExceptionCode": 1});
        let mode = || Value::Document(times.view());
        points.configure("onPrimaryTransactionalWrite", mode(), before.view()).unwrap();
        assert!(!points.meet_write(Loss::Behind, 1));
        assert!(points.meet_write(Loss::Before, 1) && !points.meet_write(Loss::Before, 1));
        let entered = points.configure("onPrimaryTransactionalWrite", mode(), Document::empty()).unwrap();
        assert!(entered == 1 && points.meet_write(Loss::Behind, 1));
        // Statements are skipped, not commands.
        let skip = spinney_document::doc! {"skip": 3};
        points.configure("onPrimaryTransactionalWrite", Value::Document(skip.view()), Document::empty()).unwrap();
        assert!(!points.meet_write(Loss::Behind, 3) && points.meet_write(Loss::Behind, 1));
    }

    #[test]
    fn a_cursor_is_lost_with_the_code_of_its_fail_point() {
        let points = FailPoints::default();
        let (times, data) = (spinney_document::doc! {"times": 1}, spinney_document::doc! {"errorCode": 6});
        let configure = |data: Document<'_>| {
            points.configure("failGetMoreAfterCursorCheckout", Value::Document(times.view()), data)
        };
        // The Node and Go drivers' tests send the data of `failCommand`.
        let of_command = spinney_document::doc! {"failCommands": &spinney_document::doc! {}, "errorCode": 6};
        configure(of_command.view()).unwrap();
        configure(data.view()).unwrap();
        assert_eq!((points.meet_cursor(), points.meet_cursor()), (Some(6), None));
        assert_eq!(configure(Document::empty()).unwrap_err().code(), ErrorCode::BAD_VALUE);
    }

    #[test]
    fn a_failure_has_the_labels_that_drivers_act_on() {
        let failure = Failure::default();
        let labels = |reply: DocumentBuf| reply.view().get("errorLabels").map(|labels| labels.to_string());
        assert_eq!(labels(failure.reply(11_600, Place::Alone)), None);
        assert!(labels(failure.reply(11_600, Place::RetryableWrite)).is_some());
        assert!(labels(failure.reply(112, Place::Transaction)).unwrap().contains("TransientTransactionError"));
        let concern = Some(spinney_document::doc! {"code": 91});
        let behind = Failure { write_concern_error: concern, ..Failure::default() };
        assert_eq!(behind.labels_behind_write(Place::RetryableWrite), ["RetryableWriteError"]);
        assert!(behind.labels_behind_write(Place::Alone).is_empty());
        let none = Failure { labels: Some(vec![]), ..Failure::default() };
        assert_eq!(labels(none.reply(11_600, Place::EndOfTransaction)), None);
    }

    #[test]
    fn a_fail_point_that_is_not_known_is_refused() {
        let points = FailPoints::default();
        let error = points.configure("other", Value::from("off"), Document::empty()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::FAIL_POINT_SET_FAILED);
    }
}
