//! The fields that every command takes.

use super::parse::wrong_type;
use super::spec::{Access, Declaration, Field, FieldType};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Fields, Kind, Timestamp, Value, long_of};

/// The command that goes on with a cursor, which reads as the command that opened it.
pub(super) const GET_MORE: &str = "getMore";

/// The generic fields. Those that only matter between the servers of a cluster are accepted without effect, as a single
/// server of MongoDB does.
pub const FIELDS: &[Field] = &[
    Field::optional("$db", FieldType::String),
    Field::optional("lsid", FieldType::Object),
    Field::optional("txnNumber", FieldType::OneOf(&[Kind::Int64])),
    Field::optional("autocommit", FieldType::StrictBool),
    Field::optional("startTransaction", FieldType::StrictBool),
    Field::optional("readConcern", FieldType::Object),
    Field::optional("writeConcern", FieldType::Object),
    Field::optional("$readPreference", FieldType::Object),
    Field::optional("$clusterTime", FieldType::Object),
    Field::optional("$audit", FieldType::Object),
    Field::optional("$client", FieldType::Object),
    Field::optional("$configServerState", FieldType::Object),
    Field::optional("$topologyTime", FieldType::Any),
    Field::optional("$configTime", FieldType::Any),
    Field::optional("$oplogQueryData", FieldType::Any),
    Field::optional("$queryOptions", FieldType::Object),
    Field::optional("$replData", FieldType::Any),
    Field::optional("$traceCtx", FieldType::Any),
    Field::optional("comment", FieldType::Any),
    Field::optional("maxTimeMS", FieldType::Any),
    Field::optional("maxTimeMSOpOnly", FieldType::Any),
    Field::optional("apiVersion", FieldType::String),
    Field::optional("apiStrict", FieldType::Bool),
    Field::optional("apiDeprecationErrors", FieldType::Bool),
    Field::optional("databaseVersion", FieldType::Object),
    Field::optional("shardVersion", FieldType::Any),
    Field::optional("help", FieldType::Bool),
    Field::optional("rawData", FieldType::Bool),
    Field::optional("mayBypassWriteBlocking", FieldType::Bool),
    Field::optional("expectPrefix", FieldType::Bool),
    Field::optional("requestGossipRoutingCache", FieldType::Any),
];

/// The most milliseconds of `maxTimeMS`.
const MAX_TIME_MS: i64 = i32::MAX as i64;

/// The least seconds that a member may be behind by a read preference.
const STALENESS_MIN: i64 = 90;

/// The values of the generic fields.
#[derive(Clone, Debug, Default)]
pub struct Generic<'r> {
    /// The id of the session.
    pub session: Option<[u8; 16]>,
    /// The number of the transaction or retryable write within the session.
    pub txn_number: Option<i64>,
    /// `false` for a command within a transaction.
    pub autocommit: Option<bool>,
    /// Whether the command begins a transaction.
    pub start_transaction: bool,
    /// What reads see.
    pub read_concern: ReadConcern,
    /// What a write's reply promises, if it was told.
    pub write_concern: Option<WriteConcern>,
    /// How long the command may take in milliseconds; 0 for no limit.
    pub max_time_ms: u64,
    /// A remark.
    pub comment: Option<Value<'r>>,
    /// The cluster time that the client knows.
    pub cluster_time: Option<Timestamp>,
}

/// A read concern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadConcern {
    /// The level, if it was told.
    pub level: Option<ReadLevel>,
    /// Reads see at least the writes up to this time.
    pub after: Option<Timestamp>,
    /// Reads see the writes up to this time.
    pub at: Option<Timestamp>,
}

/// The level of a read concern. On one server all of them mean the same, except that `Snapshot` may have a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// `local`.
    Local,
    /// `available`.
    Available,
    /// `majority`.
    Majority,
    /// `linearizable`.
    Linearizable,
    /// `snapshot`.
    Snapshot,
}

/// A write concern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteConcern {
    /// How many servers, or which: a number, `majority`, or another name.
    pub w: Option<Acknowledged>,
    /// Whether the write is in the log on the device.
    pub journal: Option<bool>,
    /// How long to wait for it, in milliseconds.
    pub timeout_ms: i64,
}

/// Which servers acknowledge a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// So many.
    Servers(i64),
    /// More than half of them.
    Majority,
    /// Those with a tag.
    Tag(String),
    /// So many for each of the tags.
    Tags(DocumentBuf),
}

impl WriteConcern {
    /// Whether the write must be on the device before the reply.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.journal == Some(true) || (self.w == Some(Acknowledged::Majority) && self.journal != Some(false))
    }
}

impl<'r> Generic<'r> {
    /// Reads the generic fields of a command whose fields have been checked.
    ///
    /// # Errors
    /// Those of MongoDB for values that are out of their range, or that the command does not take.
    pub fn parse(command: &Declaration, fields: &Fields<'r>) -> Result<Self> {
        let mut parsed = Self::default();
        // A transaction has the read concern of its first command, whatever that is.
        let begins = fields.get("startTransaction") == Some(Value::Bool(true));
        for element in fields.as_slice().iter().skip(1).filter(|element| !element.value.is_nullish()) {
            let value = element.value;
            match element.name.as_str() {
                Some("lsid") => parsed.session = value.as_document().map(session_id).transpose()?,
                Some("txnNumber") => parsed.txn_number = value.as_exact_i64(),
                Some("autocommit") => parsed.autocommit = Some(value == Value::Bool(true)),
                Some("startTransaction") => parsed.start_transaction = value == Value::Bool(true),
                Some("readConcern") => {
                    parsed.read_concern =
                        read_concern(command, value.as_document().unwrap_or(Document::empty()), begins)?;
                }
                Some("writeConcern") => {
                    parsed.write_concern =
                        Some(write_concern(command, fields, value.as_document().unwrap_or(Document::empty()))?);
                }
                Some("$readPreference") => check_read_preference(value.as_document().unwrap_or(Document::empty()))?,
                Some("maxTimeMS") => parsed.max_time_ms = max_time_ms(&value)?,
                Some("comment") => parsed.comment = Some(value),
                Some("$clusterTime") => parsed.cluster_time = Some(cluster_time(&value)?),
                _ => {}
            }
        }
        if matches!(parsed.read_concern.level, Some(ReadLevel::Linearizable)) && writes_by_pipeline(fields) {
            let what = "$out and $merge cannot be used with the readConcern level 'linearizable'";
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        check_api(command, fields)?;
        parsed.check_transaction()?;
        Ok(parsed)
    }

    fn check_transaction(&self) -> Result<()> {
        let invalid = |what: &str| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        if self.txn_number.is_some() && self.session.is_none() {
            return invalid("Transaction number requires a session ID to also be specified");
        }
        if self.txn_number.is_some_and(|number| number < 0) {
            return invalid("Transaction number cannot be negative");
        }
        match self.autocommit {
            Some(_) if self.txn_number.is_none() => {
                invalid("'autocommit' field requires a transaction number to also be specified")
            }
            Some(true) => invalid("Specifying autocommit=true is not allowed."),
            None if self.start_transaction => {
                invalid("Specifying 'startTransaction' requires the 'autocommit' field to be specified")
            }
            _ => Ok(()),
        }
    }
}

/// The id of a session, of a document such as `{id: UUID(..)}`.
///
/// # Errors
/// `TypeMismatch` (14), `IDLFailedToParse` (40414), `IDLUnknownField` (40415), `InvalidUUID` (207).
pub fn session_id(lsid: Document<'_>) -> Result<[u8; 16]> {
    let mut id = None;
    for element in lsid {
        match (element.name.as_str(), element.value) {
            (Some("id"), Value::Binary(4, bytes)) => {
                let what = "uuid must be a 16-byte binary field with UUID (4) subtype";
                id = Some(
                    *bytes
                        .first_chunk()
                        .filter(|_| bytes.len() == 16)
                        .ok_or_else(|| Error::new(ErrorCode::INVALID_UUID, what))?,
                );
            }
            (Some("id"), other) => {
                return Err(wrong_type("LogicalSessionId.id", &other, &[Kind::Binary]));
            }
            (Some("uid" | "txnNumber" | "txnUUID"), _) => {}
            (_, _) => {
                let what = format!("BSON field 'LogicalSessionId.{}' is an unknown field.", element.name);
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        }
    }
    let what = "BSON field 'LogicalSessionId.id' is missing but a required field";
    id.ok_or_else(|| Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what))
}

/// The milliseconds of `maxTimeMS`.
///
/// # Errors
/// `FailedToParse` (9) for a fraction, `BadValue` (2) for what is not from 0 to 2^31 - 1, `TypeMismatch` (14) for what
/// is no number.
pub fn max_time_ms(value: &Value<'_>) -> Result<u64> {
    if !value.kind().is_number() {
        return Err(wrong_type("maxTimeMS", value, FieldType::Long.kinds()));
    }
    let Some(number) = value.as_exact_i64() else {
        return Err(Error::new(ErrorCode::FAILED_TO_PARSE, "maxTimeMS has non-integral value"));
    };
    let whole = u64::try_from(number).ok().filter(|_| number <= MAX_TIME_MS);
    whole.ok_or_else(|| Error::bad_value(format!("{number} value for maxTimeMS is out of range [0, {MAX_TIME_MS}]")))
}

fn cluster_time(value: &Value<'_>) -> Result<Timestamp> {
    match value.as_document().and_then(|time| time.get("clusterTime")) {
        Some(Value::Timestamp(time)) => Ok(time),
        Some(other) => Err(wrong_type("$clusterTime.clusterTime", &other, &[Kind::Timestamp])),
        None => Err(Error::new(ErrorCode::NO_SUCH_KEY, "Missing expected field \"clusterTime\"")),
    }
}

fn read_concern(command: &Declaration, concern: Document<'_>, begins: bool) -> Result<ReadConcern> {
    let mut parsed = ReadConcern::default();
    let wrong = |name: &str, value: &Value<'_>, kind| wrong_type(&format!("readConcern.{name}"), value, &[kind]);
    for element in concern {
        match (element.name.as_str(), element.value) {
            (Some("level"), Value::Null | Value::Undefined) => {}
            (Some("level"), Value::String(level)) => {
                parsed.level = Some(match level.as_str() {
                    Some("local") => ReadLevel::Local,
                    Some("available") => ReadLevel::Available,
                    Some("majority") => ReadLevel::Majority,
                    Some("linearizable") => ReadLevel::Linearizable,
                    Some("snapshot") => ReadLevel::Snapshot,
                    _ => {
                        let what =
                            format!("Enumeration value '{level}' for field 'readConcern.level' is not a valid value.");
                        return Err(Error::bad_value(what));
                    }
                });
            }
            (Some("level"), other) => return Err(wrong("level", &other, Kind::String)),
            (Some("provenance"), value) => check_provenance(&value)?,
            (Some("afterClusterTime"), Value::Timestamp(time)) => parsed.after = Some(time),
            (Some("atClusterTime"), Value::Timestamp(time)) => parsed.at = Some(time),
            (Some(name @ ("afterClusterTime" | "atClusterTime")), other) => {
                return Err(wrong(name, &other, Kind::Timestamp));
            }
            (
                Some(
                    "allowTransactionTableSnapshot"
                    | "waitLastStableRecoveryTimestamp"
                    | "$readMajorityTemporarilyUnavailable"
                    | "afterOpTime",
                ),
                _,
            ) => {}
            _ => {
                let what = format!("BSON field 'readConcern.{}' is an unknown field.", element.name);
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        }
    }
    let invalid = |what: String| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    let (least, clock_begins) = (Timestamp { time: 0, increment: 0 }, Timestamp { time: 0, increment: 1 });
    if parsed.after == Some(least) || parsed.at.is_some_and(|at| at == least || at == clock_begins) {
        return invalid("a cluster time of a read concern cannot be a null timestamp".to_owned());
    }
    if parsed.at.is_some() && parsed.level != Some(ReadLevel::Snapshot) {
        return invalid("readConcern.atClusterTime is only allowed for readConcern level 'snapshot'".to_owned());
    }
    if parsed.at.is_some() && parsed.after.is_some() {
        return invalid("Can not specify both afterClusterTime and atClusterTime".to_owned());
    }
    // Drivers send the read concern of a snapshot session with the commands that go on with its cursors as well.
    let takes_levels = command.access == Access::Read || command.name == GET_MORE || begins;
    if !takes_levels && !matches!(parsed.level, None | Some(ReadLevel::Local)) {
        return invalid(format!("Command {} does not support this readConcern level", command.name));
    }
    Ok(parsed)
}

/// Checks which members a client allows to answer. A server that was asked answers, whatever tags it has, as MongoDB's
/// does.
fn check_read_preference(preference: Document<'_>) -> Result<()> {
    let value_of = |name: &str| preference.get(name).filter(|value| !value.is_nullish());
    let wrong = |name: &str, value: &Value<'_>, kinds| wrong_type(&format!("$readPreference.{name}"), value, kinds);
    let mode = match value_of("mode") {
        None => "primary",
        Some(Value::String(mode)) => match mode.as_str() {
            Some(name @ ("primary" | "primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest")) => name,
            _ => {
                let what = format!("Enumeration value '{mode}' for field '$readPreference.mode' is not a valid value.");
                return Err(Error::bad_value(what));
            }
        },
        Some(other) => return Err(wrong("mode", &other, &[Kind::String])),
    };
    let tags = match value_of("tags") {
        None => None,
        Some(Value::Array(tags)) => Some(tags),
        Some(other) => return Err(wrong("tags", &other, &[Kind::Array])),
    };
    let has_tags = tags.is_some_and(|tags| {
        // One empty set of tags means any member.
        tags.values().any(|set| set.as_document().is_none_or(|set| !set.is_empty()))
    });
    if mode == "primary" && has_tags {
        return Err(Error::bad_value("Only empty tags are allowed with primary read preference"));
    }
    let Some(staleness) = value_of("maxStalenessSeconds") else { return Ok(()) };
    let seconds =
        long_of(&staleness).ok_or_else(|| wrong("maxStalenessSeconds", &staleness, FieldType::Long.kinds()))?;
    if mode == "primary" && seconds > 0 {
        return Err(Error::bad_value("$maxStalenessSeconds can not be set for the primary mode"));
    }
    if seconds < 0 && seconds != -1 || seconds > i64::from(i32::MAX) {
        return Err(Error::bad_value(format!(
            "$maxStalenessSeconds must be -1 or from 90 to {}, it is {seconds}",
            i32::MAX
        )));
    }
    if (1..STALENESS_MIN).contains(&seconds) {
        let what = format!("$maxStalenessSeconds value can not be less than {STALENESS_MIN}");
        return Err(Error::new(ErrorCode::MAX_STALENESS_OUT_OF_RANGE, what));
    }
    Ok(())
}

/// Where a concern comes from: the client, or a default.
fn check_provenance(value: &Value<'_>) -> Result<()> {
    match value.as_str() {
        Some("clientSupplied" | "implicitDefault" | "customDefault" | "getLastErrorDefaults") => Ok(()),
        Some(other) => {
            let what = format!("Enumeration value '{other}' for field 'provenance' is not a valid value.");
            Err(Error::bad_value(what))
        }
        None if value.is_nullish() => Ok(()),
        None => Err(wrong_type("provenance", value, &[Kind::String])),
    }
}

/// Whether a command has a pipeline that ends with a stage which writes.
pub(super) fn writes_by_pipeline(fields: &Fields<'_>) -> bool {
    let stages = fields.get("pipeline").and_then(|pipeline| pipeline.as_array());
    let last = stages.and_then(|stages| stages.values().last()).and_then(|stage| stage.as_document());
    let name = last.and_then(Document::first).map(|first| first.name);
    name.is_some_and(|name| name == "$out" || name == "$merge")
}

/// Reads a write concern.
fn write_concern(command: &Declaration, fields: &Fields<'_>, concern: Document<'_>) -> Result<WriteConcern> {
    // A pipeline takes one whether it writes or not.
    if command.access != Access::Write && command.name != "aggregate" && !writes_by_pipeline(fields) {
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, "Command does not support writeConcern"));
    }
    let failed = |what: String| Error::new(ErrorCode::FAILED_TO_PARSE, what);
    let mut parsed = WriteConcern::default();
    let mut fsync = None;
    for element in concern.elements() {
        let value = element.value;
        let wrong = |name: &str, kinds| wrong_type(&format!("writeConcern.{name}"), &value, kinds);
        let flag = |name: &str| match value {
            Value::Bool(is) => Ok(is),
            other => other.as_f64().map(|number| number != 0.0).ok_or_else(|| wrong(name, FieldType::Bool.kinds())),
        };
        match element.name.as_str() {
            Some("w") => parsed.w = Some(acknowledged(&value)?),
            Some("j" | "fsync") if value.is_nullish() => {}
            Some("j") => parsed.journal = Some(flag("j")?),
            Some("fsync") => fsync = Some(flag("fsync")?),
            Some("wtimeout") => {
                parsed.timeout_ms = long_of(&value).unwrap_or_default();
                if parsed.timeout_ms > i64::from(i32::MAX) {
                    return Err(failed(format!("wtimeout must be a number of 32 bits, it is {value}")));
                }
            }
            Some("provenance") => check_provenance(&value)?,
            Some("wElectionId" | "wOpTime" | "getLastError") => {}
            _ => {
                let what = format!("BSON field 'writeConcern.{}' is an unknown field.", element.name);
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        }
    }
    if fsync == Some(true) && parsed.journal == Some(true) {
        return Err(failed("fsync and j options cannot be used together".to_owned()));
    }
    if fsync == Some(true) {
        parsed.journal = Some(true);
    }
    Ok(parsed)
}

fn acknowledged(value: &Value<'_>) -> Result<Acknowledged> {
    let failed = |what: &str| Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
    if value.is_nullish() {
        return Err(Error::bad_value("w has to be a number, string, or object"));
    }
    if let Some(name) = value.as_str() {
        return Ok(if name == "majority" { Acknowledged::Majority } else { Acknowledged::Tag(name.to_owned()) });
    }
    if let Value::Document(tags) = value {
        return match tags.elements().find(|tag| !tag.value.kind().is_number()) {
            _ if tags.is_empty() => failed("w as an object must have a tag"),
            Some(_) => failed("w as an object must have numbers"),
            None => Ok(Acknowledged::Tags((*tags).into())),
        };
    }
    match long_of(value).filter(|_| value.as_number().is_some_and(|number| !number.is_nan())) {
        Some(servers @ 0..=50) => Ok(Acknowledged::Servers(servers)),
        Some(_) => failed("w has to be a non-negative number and not greater than 50"),
        None => failed("w has to be a number, string, or object"),
    }
}

fn check_api(command: &Declaration, fields: &Fields<'_>) -> Result<()> {
    let version = fields.get("apiVersion").filter(|value| !value.is_nullish());
    let strict = fields.get("apiStrict").is_some_and(|value| crate::expr::value::truth(&value));
    let Some(version) = version else {
        if strict || fields.get("apiDeprecationErrors").is_some() {
            let what = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            return Err(Error::new(ErrorCode::new(4_886_600), what));
        }
        return Ok(());
    };
    if version.as_str() != Some("1") {
        return Err(Error::new(ErrorCode::API_VERSION_ERROR, format!("API version must be \"1\", it is {version}")));
    }
    if strict && !command.stable {
        let what = format!("Provided apiStrict:true, but the command {} is not in API Version 1", command.name);
        return Err(Error::new(ErrorCode::API_STRICT_ERROR, what));
    }
    Ok(())
}
