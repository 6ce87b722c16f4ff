//! Requests between members as bytes, and their replies.
//!
//! # Format
//! A byte for the kind, then the fields of openraft's message in order: votes, places (0, or 1 and the place), entries
//! as the log has them up to the end.

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, StreamAppendError, StreamAppendResult, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use spinney::base::codec::{Decoder, Malformed};

use super::convert::{decode_vote, encode_vote, place, raft_entry, raft_place, stored};
use super::types::{RaftLogId, Types};
use crate::entry::log_entry::{LogId, decode_all};

/// What a member asks another one of its consensus.
#[derive(Debug)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    TransferLeader(TransferLeaderRequest<Types>),
}

/// The bytes by which requests of the consensus begin.
pub(crate) const KINDS: std::ops::RangeInclusive<u8> = APPEND..=TRANSFER_LEADER;
/// The first byte of a request by which a primary sends entries or tells that it leads.
pub(crate) const APPEND: u8 = 1;
/// The first bytes of requests of candidates.
pub(crate) const BALLOTS: std::ops::RangeInclusive<u8> = VOTE..=PRE_VOTE;
const VOTE: u8 = 2;
const PRE_VOTE: u8 = 3;
const TRANSFER_LEADER: u8 = 4;

impl Request {
    /// Appends the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Append(request) => {
                out.push(APPEND);
                encode_vote(&request.vote, out);
                put_place(request.prev_log_id.as_ref(), out);
                put_place(request.leader_commit.as_ref(), out);
                request.entries.iter().for_each(|entry| stored(entry.clone()).encode(out));
            }
            Self::Vote(request) => encode_vote_request(VOTE, request, out),
            Self::PreVote(request) => encode_vote_request(PRE_VOTE, request, out),
            Self::TransferLeader(request) => {
                out.push(TRANSFER_LEADER);
                encode_vote(request.from_leader(), out);
                out.extend_from_slice(&request.to_node_id().to_le_bytes());
                put_place(request.last_log_id(), out);
            }
        }
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        match input.u8()? {
            APPEND => {
                let (vote, prev_log_id) = (decode_vote(&mut input)?, get_place(&mut input)?);
                let leader_commit = get_place(&mut input)?;
                let entries = decode_all(&mut input)?.iter().map(raft_entry).collect::<Result<_, _>>()?;
                Ok(Self::Append(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit }))
            }
            VOTE => Ok(Self::Vote(decode_vote_request(&mut input)?)),
            PRE_VOTE => Ok(Self::PreVote(decode_vote_request(&mut input)?)),
            TRANSFER_LEADER => {
                let (vote, to) = (decode_vote(&mut input)?, input.u64()?);
                Ok(Self::TransferLeader(TransferLeaderRequest::new(vote, to, get_place(&mut input)?)))
            }
            _ => Err(Malformed),
        }
    }
}

fn encode_vote_request(kind: u8, request: &VoteRequest<Types>, out: &mut Vec<u8>) {
    out.push(kind);
    encode_vote(&request.vote, out);
    put_place(request.last_log_id.as_ref(), out);
    out.push(u8::from(request.leadership_transfer));
}

fn decode_vote_request(input: &mut Decoder<'_>) -> Result<VoteRequest<Types>, Malformed> {
    let mut request = VoteRequest::new(decode_vote(input)?, get_place(input)?);
    request.leadership_transfer = input.u8()? != 0;
    Ok(request)
}

/// The bytes of a reply to entries.
pub(crate) fn encode_appended(reply: &AppendEntriesResponse<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    match reply {
        AppendEntriesResponse::Success => out.push(0),
        AppendEntriesResponse::PartialSuccess(place) => {
            out.push(1);
            put_place(place.as_ref(), &mut out);
        }
        AppendEntriesResponse::Conflict => out.push(2),
        AppendEntriesResponse::HigherVote(vote) => {
            out.push(3);
            encode_vote(vote, &mut out);
        }
    }
    out
}

/// Reads what [`encode_appended`] wrote.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_appended(bytes: &[u8]) -> Result<AppendEntriesResponse<Types>, Malformed> {
    let mut input = Decoder::new(bytes);
    match input.u8()? {
        0 => Ok(AppendEntriesResponse::Success),
        1 => Ok(AppendEntriesResponse::PartialSuccess(get_place(&mut input)?)),
        2 => Ok(AppendEntriesResponse::Conflict),
        3 => Ok(AppendEntriesResponse::HigherVote(decode_vote(&mut input)?)),
        _ => Err(Malformed),
    }
}

/// The bytes of a reply to entries that came by a connection for them: the last entry that is durable, or an error.
pub(crate) fn encode_streamed(reply: &StreamAppendResult<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    match reply {
        Ok(place) => {
            out.push(0);
            put_place(place.as_ref(), &mut out);
        }
        Err(StreamAppendError::Conflict(id)) => {
            out.push(1);
            put_place(Some(id), &mut out);
        }
        Err(StreamAppendError::HigherVote(vote)) => {
            out.push(2);
            encode_vote(vote, &mut out);
        }
    }
    out
}

/// Reads what [`encode_streamed`] wrote.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_streamed(bytes: &[u8]) -> Result<StreamAppendResult<Types>, Malformed> {
    let mut input = Decoder::new(bytes);
    Ok(match input.u8()? {
        0 => Ok(get_place(&mut input)?),
        1 => Err(StreamAppendError::Conflict(get_place(&mut input)?.ok_or(Malformed)?)),
        2 => Err(StreamAppendError::HigherVote(decode_vote(&mut input)?)),
        _ => return Err(Malformed),
    })
}

/// The bytes of a reply to a candidate.
pub(crate) fn encode_voted(reply: &VoteResponse<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_vote(&reply.vote, &mut out);
    out.push(u8::from(reply.vote_granted));
    put_place(reply.last_log_id.as_ref(), &mut out);
    out
}

/// Reads what [`encode_voted`] wrote.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_voted(bytes: &[u8]) -> Result<VoteResponse<Types>, Malformed> {
    let mut input = Decoder::new(bytes);
    let (vote, granted) = (decode_vote(&mut input)?, input.u8()? != 0);
    Ok(VoteResponse::new(vote, get_place(&mut input)?, granted))
}

/// The bytes of a reply to a primary that hands over.
pub(crate) fn encode_transferred(reply: &TransferLeaderResponse<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    match reply {
        Ok(()) => out.push(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.push(1);
            encode_vote(expected, &mut out);
            encode_vote(actual, &mut out);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.push(2);
            put_place(expected.as_ref(), &mut out);
            put_place(actual.as_ref(), &mut out);
        }
    }
    out
}

/// Reads what [`encode_transferred`] wrote.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_transferred(bytes: &[u8]) -> Result<TransferLeaderResponse<Types>, Malformed> {
    let mut input = Decoder::new(bytes);
    Ok(match input.u8()? {
        0 => Ok(()),
        1 => Err(TransferLeaderError::VoteChanged {
            expected: decode_vote(&mut input)?,
            actual: decode_vote(&mut input)?,
        }),
        2 => {
            Err(TransferLeaderError::LogNotFlushed { expected: get_place(&mut input)?, actual: get_place(&mut input)? })
        }
        _ => return Err(Malformed),
    })
}

fn put_place(id: Option<&RaftLogId>, out: &mut Vec<u8>) {
    LogId::encode_option(id.map(place), out);
}

fn get_place(input: &mut Decoder<'_>) -> Result<Option<RaftLogId>, Malformed> {
    Ok(LogId::decode_option(input)?.map(raft_place))
}
