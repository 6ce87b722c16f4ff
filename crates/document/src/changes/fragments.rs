//! Events that are larger than a document may be, as fragments: `$changeStreamSplitLargeEvent`.

use super::begin::NOT_RESUMABLE;
use super::token::ResumeToken;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DocumentBuf, DocumentBuilder, Element};

/// The bytes of a fragment beside its fields: its `_id`, `splitEvent`, and the frame of the document.
const FRAME_BYTES: usize = 256;

/// The event in fragments, each with the token behind it. Each has the `_id` of its own token, `splitEvent` with its
/// number and how many there are, and some of the event's fields; small fields come first.
///
/// # Errors
/// `BSONObjectTooLarge` (10334) when a field alone is larger than a fragment.
pub(super) fn fragments(
    event: &DocumentBuf,
    token: &ResumeToken,
    bytes_max: usize,
) -> Result<Vec<(ResumeToken, DocumentBuf)>> {
    let mut fields: Vec<Element<'_>> = event.view().elements().filter(|element| element.name != "_id").collect();
    fields.sort_by_key(|field| field.raw().len());
    let mut groups: Vec<Vec<Element<'_>>> = Vec::new();
    let mut free = 0;
    for field in fields {
        let bytes = field.raw().len();
        if bytes + FRAME_BYTES > bytes_max {
            return Err(too_large(event));
        }
        match groups.last_mut() {
            Some(group) if bytes <= free => {
                group.push(field);
                free -= bytes;
            }
            _ => {
                groups.push(vec![field]);
                free = bytes_max - FRAME_BYTES - bytes;
            }
        }
    }
    let count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
    let numbered = (1_i32..).zip(1_u32..).zip(groups);
    Ok(numbered
        .map(|((number, fragment), group)| {
            let token = ResumeToken { fragment, ..*token };
            let mut built = DocumentBuilder::new();
            built.append("_id", &token.document());
            built.open_document("splitEvent").append("fragment", number).append("of", count).close();
            group.iter().for_each(|field| {
                built.append_element(field);
            });
            (token, built.finish())
        })
        .collect())
}

/// The error of an event that is larger than a document may be.
pub(super) fn too_large(event: &DocumentBuf) -> Error {
    let what = format!(
        "The event has {} bytes, which is more than a document may have; the stage $changeStreamSplitLargeEvent shows \
         large events in fragments",
        event.as_bytes().len()
    );
    Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what).with_label(NOT_RESUMABLE)
}

#[cfg(test)]
mod tests {
    use spinney::Lsn;

    use super::super::token::{Place, TokenKind};
    use super::*;
    use crate::bson::Timestamp;

    #[test]
    fn fragments_have_all_fields_once_and_tokens_that_ascend() {
        let time = Timestamp { time: 1, increment: 1 };
        let token = ResumeToken { at: Place::Lsn(Lsn(9)), seen: 3, kind: TokenKind::Event, time, fragment: 0 };
        let long = "x".repeat(600);
        let event = doc! {"_id": 1, "a": long.as_str(), "b": 2, "c": long.as_str(), "d": 4};
        let parts = fragments(&event, &token, 1000).unwrap();
        let names = |part: &DocumentBuf| -> Vec<String> {
            part.view().elements().map(|element| element.name.to_str_lossy().into_owned()).collect()
        };
        assert_eq!(names(&parts[0].1), ["_id", "splitEvent", "b", "d", "a"]);
        assert_eq!(names(&parts[1].1), ["_id", "splitEvent", "c"]);
        let split = parts[1].1.view().get("splitEvent").unwrap().as_document().unwrap().to_json();
        assert_eq!(split, r#"{"fragment":2,"of":2}"#);
        assert!(parts[0].0.document().view().to_json() < parts[1].0.document().view().to_json());
        assert!(
            parts.iter().all(|(token, part)| ResumeToken::parse(
                part.view().get("_id").unwrap().as_document().unwrap()
            )
            .unwrap()
                == *token)
        );
        let code = fragments(&event, &token, 700).unwrap_err().code();
        assert_eq!(code, ErrorCode::BSON_OBJECT_TOO_LARGE);
    }
}
