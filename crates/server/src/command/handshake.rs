//! `hello` and its older forms: what the server is and can, and the wait for a change of that.

use std::time::Duration;

use spinney_document::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuilder, Timestamp, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;
use super::{replica_config, sasl};
use crate::base::clock::now_ms;
use crate::base::fields::whole;
use crate::state::Server;
use crate::state::replica::{Replica, Standing, millis, standing};
use crate::state::topology::election_id;
use spinney_wire::message::BATCH_MAX;
use spinney_wire::{Compressor, MESSAGE_BYTES_MAX};

/// The newest version of the wire protocol that is spoken: that of MongoDB 8.0.
pub const WIRE_VERSION_MAX: i32 = 25;

/// Minutes after which a session ends that is not used.
pub const SESSION_MINUTES: i32 = 30;

/// The largest description of a client.
const METADATA_BYTES_MAX: usize = 512;

/// `hello`, `isMaster`.
///
/// # Errors
/// `ClientMetadataCannotBeMutated` (186) for a second description of the client, 31368 for a version without a time to
/// wait or the reverse, `TypeMismatch` (14).
pub fn hello(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    wait_for_change(call)?;
    describe_client(call)?;
    let (topology, old) = (&call.server.topology, call.name != "hello");
    // Before what it is the version of: a change in between is heard of by the next wait.
    let version = topology.version();
    let mut reply = DocumentBuilder::new();
    if call.fields().bool("helloOk")? == Some(true) {
        reply.append("helloOk", true);
    }
    append_role(&mut reply, call.server, old);
    append_version(&mut reply, call.server, version);
    for (name, number) in [
        ("maxBsonObjectSize", DOCUMENT_BYTES_MAX),
        ("maxMessageSizeBytes", MESSAGE_BYTES_MAX),
        ("maxWriteBatchSize", BATCH_MAX),
    ] {
        reply.append(name, i32::try_from(number).unwrap_or(i32::MAX));
    }
    reply.append("localTime", Value::DateTime(now_ms()));
    reply.append("logicalSessionTimeoutMinutes", SESSION_MINUTES);
    reply.append("connectionId", i32::try_from(call.session.client.connection).unwrap_or(i32::MAX));
    reply.append("minWireVersion", 0).append("maxWireVersion", WIRE_VERSION_MAX).append("readOnly", false);
    agree_on_compression(&mut reply, call)?;
    sasl::in_handshake(&mut reply, call)?;
    Ok(reply)
}

/// Waits for another topology than the one that the client knows, when it asks for that.
fn wait_for_change(call: &Call<'_>) -> Result<()> {
    let fields = call.fields();
    match (fields.nested("topologyVersion")?, fields.number("maxAwaitTimeMS")?) {
        (None, None) => Ok(()),
        (Some(known), Some(time)) => {
            let time = u64::try_from(time)
                .map_err(|_| Error::new(ErrorCode::new(31_373), "maxAwaitTimeMS must be a non-negative integer"))?;
            let topology = &call.server.topology;
            let same_process = matches!(known.get("processId"), Some(Value::ObjectId(id)) if id == topology.process());
            let counter = known.get("counter").as_ref().and_then(whole);
            let counter = counter.ok_or_else(|| Error::bad_value("topologyVersion has no counter"))?;
            if same_process {
                topology.wait_for_change(counter, Duration::from_millis(time));
            }
            Ok(())
        }
        (Some(_), None) => {
            let what = "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'";
            Err(Error::new(ErrorCode::new(31_368), what))
        }
        (None, Some(_)) => {
            let what = "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'";
            Err(Error::new(ErrorCode::new(31_368), what))
        }
    }
}

/// The name of the application in what a client tells of itself.
#[must_use]
pub fn application(client: Document<'_>) -> Option<&str> {
    client.get("application")?.as_document()?.get("name")?.as_str()
}

/// Notes what the client tells of itself.
fn describe_client(call: &mut Call<'_>) -> Result<()> {
    let Some(client) = call.fields().nested("client")? else { return Ok(()) };
    if call.session.metadata.is_some() {
        let what = "The client metadata document may only be sent in the first hello";
        return Err(Error::new(ErrorCode::CLIENT_METADATA_CANNOT_BE_MUTATED, what));
    }
    if client.as_bytes().len() > METADATA_BYTES_MAX {
        let what = format!("The client metadata document must be less then or equal to {METADATA_BYTES_MAX} bytes");
        return Err(Error::new(ErrorCode::CLIENT_METADATA_DOCUMENT_TOO_LARGE, what));
    }
    call.session.client.application = application(client).map(str::to_owned);
    call.session.metadata = Some(client.into());
    Ok(())
}

/// The version of what the server tells of its part in a set.
pub(super) fn append_version(reply: &mut DocumentBuilder, server: &Server, version: i64) {
    reply.open_document("topologyVersion");
    reply.append("processId", server.topology.process()).append("counter", version).close();
}

/// Whether the server takes writes, and what it knows of its replica set.
pub(super) fn append_role(reply: &mut DocumentBuilder, server: &Server, old: bool) {
    let writable = if old { "ismaster" } else { "isWritablePrimary" };
    let Some(set) = server.topology.set() else {
        reply.append(writable, true);
        return;
    };
    match server.replica() {
        None => {
            reply.append(writable, true);
            append_only_member(reply, server, set);
        }
        Some(replica) => append_member(reply, replica, set, writable),
    }
}

/// What the only member tells of the set.
fn append_only_member(reply: &mut DocumentBuilder, server: &Server, set: &str) {
    let address = server.topology.address();
    reply.append("secondary", false).append("setName", set).append("setVersion", 1);
    reply.open_array("hosts").push(address.as_str()).close();
    reply.append("primary", address.as_str()).append("me", address.as_str());
    reply.append("electionId", election_id(1));
    append_last_write(reply, (server.cluster_time(), 1), Duration::ZERO);
}

/// What a member tells of a set with several.
fn append_member(reply: &mut DocumentBuilder, replica: &Replica, set: &str, writable: &str) {
    let status = replica.node.status();
    let standing = standing(&status);
    reply.append(writable, standing == Standing::Primary).append("secondary", standing == Standing::Secondary);
    let (Some(config), Some(own)) = (&status.config, status.config.as_ref().and_then(|all| all.by_id(status.me?)))
    else {
        reply.append("info", "Does not have a valid replica set config").append("isreplicaset", true);
        return;
    };
    reply.append("setName", set).append("setVersion", replica_config::number(config.version));
    for (name, passive) in [("hosts", false), ("passives", true)] {
        let shown =
            config.members.iter().filter(|member| !member.hidden && passive == (member.priority_thousandths == 0));
        let shown: Vec<_> = shown.map(|member| member.host.as_str()).collect();
        if !passive || !shown.is_empty() {
            reply.open_array(name);
            shown.into_iter().for_each(|host| {
                reply.push(host);
            });
            reply.close();
        }
    }
    // A primary that takes no writes yet is no primary to clients.
    let primary = status.primary_host().filter(|_| standing == Standing::Primary || status.primary != status.me);
    if let Some(primary) = primary {
        reply.append("primary", primary);
    }
    reply.append("me", own.host.as_str());
    for (name, is) in [("passive", own.priority_thousandths == 0), ("hidden", own.hidden)] {
        if is {
            reply.append(name, true);
        }
    }
    if standing == Standing::Primary {
        reply.append("electionId", election_id(status.term));
    }
    append_last_write(reply, optime(status.applied, status.applied_term), replica.behind(&status));
}

fn append_last_write(reply: &mut DocumentBuilder, (ts, term): (Timestamp, i64), behind: Duration) {
    let date = Value::DateTime(now_ms().saturating_sub(millis(behind)));
    reply.open_document("lastWrite");
    for (name, date_name) in [("opTime", "lastWriteDate"), ("majorityOpTime", "majorityWriteDate")] {
        reply.open_document(name).append("ts", ts).append("t", term).close().append(date_name, date);
    }
    reply.close();
}

/// The place of an entry in the log of the set, in the form in which clients compare such places.
pub(super) fn optime(index: u64, term: u64) -> (Timestamp, i64) {
    (Timestamp::from_bits(index), i64::try_from(term).unwrap_or(i64::MAX))
}

/// Chooses a compressor that the client offers, and tells all that both have, in the client's order.
fn agree_on_compression(reply: &mut DocumentBuilder, call: &mut Call<'_>) -> Result<()> {
    let Some(offered) = call.fields().array("compression")? else { return Ok(()) };
    let names = offered.values().filter_map(|value| value.as_str());
    let common: Vec<_> = names.filter_map(Compressor::from_name).filter(|known| *known != Compressor::Noop).collect();
    call.session.compressor = common.first().copied();
    if !common.is_empty() {
        reply.open_array("compression");
        for compressor in &common {
            reply.push(compressor.name());
        }
        reply.close();
    }
    Ok(())
}

/// The request after a reply to an exhaust `hello`: it waits for another topology than the reply tells.
#[must_use]
pub fn next_request(request: Document<'_>, reply: Document<'_>) -> Option<spinney_document::bson::DocumentBuf> {
    request.get("maxAwaitTimeMS")?;
    let known = reply.element("topologyVersion")?;
    let mut next = DocumentBuilder::new();
    for element in request.elements().filter(|element| element.name != "client") {
        next.append_element(if element.name == "topologyVersion" { &known } else { &element });
    }
    Some(next.finish())
}
