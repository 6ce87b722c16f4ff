//! Entries, votes and members of openraft, to and from those that are stored and sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::EntryPayload;
use openraft::impls::leader_id_std::LeaderId;
use openraft::vote::RaftLeaderId;
use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use spinney::base::num::u64_of;

use super::types::{Members, Payload, Peer, RaftEntry, RaftLogId, RaftVote, StoredMembers};
use crate::base::config::{Member, Times};
use crate::entry::log_entry::{EntryKind, LogEntry, LogId};

/// A place as it is stored.
pub(crate) fn place(id: &RaftLogId) -> LogId {
    LogId { term: id.leader_id.term, index: id.index }
}

/// A place as openraft has it.
pub(crate) fn raft_place(id: LogId) -> RaftLogId {
    RaftLogId::new(LeaderId::new(id.term, 0).to_committed(), id.index)
}

/// An entry as it is stored.
pub(crate) fn stored(entry: RaftEntry) -> LogEntry {
    let (kind, payload) = match entry.payload {
        EntryPayload::Blank => (EntryKind::Blank, Arc::default()),
        EntryPayload::Normal(Payload(bytes)) => (EntryKind::Change, bytes),
        EntryPayload::Membership(members) => (EntryKind::Members, encode_members(&members).into()),
    };
    LogEntry { id: place(&entry.log_id), kind, payload }
}

/// An entry as openraft has it.
///
/// # Errors
/// When its bytes make no sense.
pub(crate) fn raft_entry(entry: &LogEntry) -> Result<RaftEntry, Malformed> {
    let payload = match entry.kind {
        EntryKind::Blank => EntryPayload::Blank,
        EntryKind::Change => EntryPayload::Normal(Payload(Arc::clone(&entry.payload))),
        EntryKind::Members => EntryPayload::Membership(decode_members(&mut Decoder::new(&entry.payload))?),
    };
    Ok(RaftEntry { log_id: raft_place(entry.id), payload })
}

/// The bytes of members: the sets that vote, and all with their data.
pub(crate) fn encode_members(members: &Members) -> Vec<u8> {
    let mut out = Vec::new();
    let sets = members.get_joint_config();
    put_varint(&mut out, u64_of(sets.len()));
    for set in sets {
        put_varint(&mut out, u64_of(set.len()));
        set.iter().for_each(|id| put_varint(&mut out, *id));
    }
    let peers: Vec<_> = members.nodes().collect();
    put_varint(&mut out, u64_of(peers.len()));
    for (id, peer) in peers {
        put_varint(&mut out, *id);
        encode_peer(peer, &mut out);
    }
    out
}

/// Reads what [`encode_members`] wrote.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_members(input: &mut Decoder<'_>) -> Result<Members, Malformed> {
    let mut sets = Vec::new();
    for _ in 0..input.varint()? {
        let mut set = BTreeSet::new();
        for _ in 0..input.varint()? {
            set.insert(input.varint()?);
        }
        sets.push(set);
    }
    let mut peers = BTreeMap::new();
    for _ in 0..input.varint()? {
        peers.insert(input.varint()?, decode_peer(input)?);
    }
    if sets.is_empty() && peers.is_empty() {
        return Ok(Members::default());
    }
    Members::new(sets, peers).map_err(|_| Malformed)
}

fn encode_peer(peer: &Peer, out: &mut Vec<u8>) {
    put_varint(out, peer.version);
    out.extend_from_slice(&peer.set_id);
    encode_member(&peer.member, peer.times.is_some(), out);
    if let Some(Times { heartbeat_ms, election_timeout_ms }) = peer.times {
        [heartbeat_ms, election_timeout_ms].into_iter().for_each(|time| put_varint(out, time));
    }
}

fn decode_peer(input: &mut Decoder<'_>) -> Result<Peer, Malformed> {
    let (version, set_id) = (input.varint()?, input.array()?);
    let (member, has_times) = decode_member(input)?;
    let times = match has_times {
        true => Some(Times { heartbeat_ms: input.varint()?, election_timeout_ms: input.varint()? }),
        false => None,
    };
    Ok(Peer { version, set_id, times, member })
}

/// With whether the times of the set follow, which earlier versions do not know.
fn encode_member(member: &Member, has_times: bool, out: &mut Vec<u8>) {
    put_varint(out, member.id);
    put_len_prefixed(out, member.host.as_bytes());
    put_varint(out, u64::from(member.priority_thousandths));
    out.push(u8::from(member.hidden) | u8::from(member.votes) << 1 | u8::from(has_times) << 2);
}

fn decode_member(input: &mut Decoder<'_>) -> Result<(Member, bool), Malformed> {
    let id = input.varint()?;
    let host = String::from_utf8(input.len_prefixed()?.to_vec()).map_err(|_| Malformed)?;
    let priority_thousandths = u32::try_from(input.varint()?).map_err(|_| Malformed)?;
    let flags = input.u8()?;
    let [hidden, votes, has_times] = [1, 2, 4].map(|flag| flags & flag != 0);
    Ok((Member { id, host, priority_thousandths, hidden, votes }, has_times))
}

/// The bytes of a vote.
pub(crate) fn encode_vote(vote: &RaftVote, out: &mut Vec<u8>) {
    put_varint(out, vote.leader_id.term);
    put_varint(out, vote.leader_id.voted_for);
    out.push(u8::from(vote.committed));
}

/// Reads what [`encode_vote`] wrote.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_vote(input: &mut Decoder<'_>) -> Result<RaftVote, Malformed> {
    let (term, candidate) = (input.varint()?, input.varint()?);
    match input.u8()? {
        0 => Ok(RaftVote::new(term, candidate)),
        1 => Ok(RaftVote::new_committed(term, candidate)),
        _ => Err(Malformed),
    }
}

/// The members of a row by their identities.
///
/// # Errors
/// `Corruption` when the bytes make no sense.
pub(crate) fn stored_peers(row: Option<(LogId, Vec<u8>)>) -> spinney::Result<BTreeMap<u64, Peer>> {
    let malformed = |Malformed| {
        let what = "the members of the set, as they are stored, make no sense";
        spinney::Error::new(spinney::ErrorKind::Corruption, what)
    };
    let members = stored_members(row).map_err(malformed)?;
    Ok(members.membership().nodes().map(|(identity, peer)| (*identity, peer.clone())).collect())
}

/// Members with their place, from a row.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn stored_members(row: Option<(LogId, Vec<u8>)>) -> Result<StoredMembers, Malformed> {
    match row {
        None => Ok(StoredMembers::default()),
        Some((id, bytes)) => Ok(StoredMembers::new(Some(raft_place(id)), decode_members(&mut Decoder::new(&bytes))?)),
    }
}
