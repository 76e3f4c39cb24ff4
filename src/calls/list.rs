//! Lists the live locks of a room, page by page.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Call, PageLimit, Problem,
    fields::number_text,
    view::{LockView, Timed},
};
use crate::{
    auth::{Role, RoomGlobs},
    locking::names::{DocumentId, RoomId},
    storage::queries::{LockCursor, LockFilter},
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// 100 unless given.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LockPageView {
    items: Vec<LockView>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

pub async fn run(call: &Call, room: RoomId, page: PageParams) -> Result<Timed<LockPageView>, Problem> {
    call.caller.require_in(Role::Viewer, &room)?;
    let filter = LockFilter { room: Some(room), ..LockFilter::default() };
    let after = page.cursor.as_deref().map(decode_cursor).transpose()?;
    let limit = PageLimit::parse(page.limit)?.items();
    let (tenant, rooms, at) = (&call.caller.tenant, &RoomGlobs::all(), call.judged_at());
    let found = call.calls.queries.locks(tenant, rooms, &filter, after.as_ref(), limit, &at).await?;
    let now = call.now();
    let items = found.locks.iter().map(|lock| LockView::new(lock, &call.caller, now)).collect();
    let answer = LockPageView { items, next_cursor: found.next.as_ref().map(encode_cursor) };
    Ok(Timed { answer, server_time: now })
}

pub(super) fn encode_cursor(LockCursor { room, document, slot }: &LockCursor) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_string(&(room, document, slot)).unwrap_or_default())
}

pub(super) fn decode_cursor(text: &str) -> Result<LockCursor, Problem> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    let parts: Option<(RoomId, DocumentId, i32)> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let (room, document, slot) = parts.ok_or_else(|| Problem::invalid("cursor", "is not one this server gave"))?;
    Ok(LockCursor { room: room.to_string(), document: document.to_string(), slot })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_as_it_was_given_and_nothing_else_is() {
        let cursor = LockCursor { room: "a/b".to_owned(), document: "議事録".to_owned(), slot: 3 };
        assert_eq!(decode_cursor(&encode_cursor(&cursor)).unwrap(), cursor);
        for text in ["", "nonsense", &BASE64_URL_SAFE_NO_PAD.encode(r#"["",  "a", 1]"#)] {
            assert!(decode_cursor(text).is_err(), "{text}");
        }
    }
}
