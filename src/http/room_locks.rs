//! Handlers of `/api/rooms/{room}/locks`: all locks of a room, and several at once.

use actix_web::{Responder, web};

use super::{
    body::{Fields, Query},
    extract::RoomPath,
};
use crate::calls::{
    Call, Problem,
    extend_many::{self, ExtendManyRequest},
    list::{self, LockPageView, PageParams},
    lock_many::{self, LockManyRequest},
    unlock_many::{self, UnlockManyRequest},
    view::{EndedView, Items, LiveView, Timed},
};

/// Live locks of a room
#[utoipa::path(get, path = "/api/rooms/{room}/locks", tag = "rooms", params(PageParams),
    responses((status = 200, body = Timed<LockPageView>)))]
pub async fn room_locks(
    call: Call,
    RoomPath(room): RoomPath,
    Query(page): Query<PageParams>,
) -> Result<impl Responder, Problem> {
    list::run(&call, room, page).await.map(web::Json)
}

/// Lock several documents, all or nothing
#[utoipa::path(post, path = "/api/rooms/{room}/locks", tag = "rooms", request_body = LockManyRequest,
    responses((status = 200, body = Timed<Items<LiveView>>)))]
pub async fn lock_many(
    call: Call,
    RoomPath(room): RoomPath,
    Fields(request): Fields<LockManyRequest>,
) -> Result<impl Responder, Problem> {
    lock_many::run(&call, room, request).await.map(web::Json)
}

/// Heartbeat for several documents
///
/// Each on its own: what can be extended is, and a 409 lists in `failed` what could not and in `items` what was.
#[utoipa::path(put, path = "/api/rooms/{room}/locks", tag = "rooms", request_body = ExtendManyRequest,
    responses((status = 200, body = Timed<Items<LiveView>>)))]
pub async fn extend_many(
    call: Call,
    RoomPath(room): RoomPath,
    Fields(request): Fields<ExtendManyRequest>,
) -> Result<impl Responder, Problem> {
    extend_many::run(&call, room, request).await.map(web::Json)
}

/// Unlock several documents
///
/// Each on its own, as the heartbeat. The fields may be given as query parameters or as a JSON body.
#[utoipa::path(delete, path = "/api/rooms/{room}/locks", tag = "rooms", params(UnlockManyRequest),
    responses((status = 200, body = Timed<Items<EndedView>>)))]
pub async fn unlock_many(
    call: Call,
    RoomPath(room): RoomPath,
    Fields(request): Fields<UnlockManyRequest>,
) -> Result<impl Responder, Problem> {
    unlock_many::run(&call, room, request).await.map(web::Json)
}
