//! What servers on one database tell each other and may lose: who is in their rooms, and stream passes, which are in
//! the table `stream_tickets`.
//!
//! Nothing here is part of a batch, and no lock depends on it. With SQLite there is one server, which keeps all of this
//! in memory: rows would only outlive the process that they speak of.

use std::{future::Future, time::Duration};

use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, DatabaseConnection, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect, TransactionTrait,
    sea_query::{Expr, OnConflict},
};
use uuid::Uuid;

use super::{
    Queries, StorageError,
    entities::{holder_activity, live_server, participant, stream_ticket},
    queries::key,
};
use crate::locking::{Activity, DocumentKey, Timestamp};

/// How many rows one statement writes.
const CHUNK: usize = 1000;
/// How long one operation may take, with all its statements. The database's own timeouts are shorter.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct SoftState {
    queries: Queries,
}

/// A server as it last described itself.
#[derive(Debug, Clone, Copy)]
pub struct LiveServer {
    pub id: Uuid,
    /// Counts how often it has written a change.
    pub version: i64,
    pub seen_at: Timestamp,
}

/// Somebody who is, or no longer is, in a room of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParticipantRow {
    pub tenant: String,
    pub room: String,
    pub owner_id: String,
    pub name: Option<String>,
    pub is_here: bool,
}

/// What a holder has said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivitySaid {
    pub key: DocumentKey,
    pub activity: Activity,
    pub active_at: Timestamp,
}

/// What a server has written of the people in its rooms.
#[derive(Debug)]
pub struct Said {
    pub version: i64,
    pub rows: Vec<ParticipantRow>,
    /// Whether the rows are everyone who is there, rather than the changes.
    pub is_complete: bool,
}

impl SoftState {
    pub(super) fn new(queries: Queries) -> Self {
        Self { queries }
    }

    /// Writes a new server, with everyone who is there. `before` are the ids it had earlier, which go in the same
    /// moment.
    pub async fn appear(
        &self,
        server: Uuid,
        before: &[Uuid],
        rows: Vec<ParticipantRow>,
        now: Timestamp,
    ) -> Result<(), StorageError> {
        in_time(async {
            let transaction = self.database().begin().await?;
            let forget =
                live_server::Entity::delete_many().filter(live_server::Column::ServerId.is_in(before.to_vec()));
            forget.exec(&transaction).await?;
            let row = live_server::Model { server_id: server, version: 1, floor: 0, seen_at: now.millis() };
            live_server::Entity::insert(row.into_active_model()).exec_without_returning(&transaction).await?;
            write(&transaction, server, 1, rows).await?;
            transaction.commit().await
        })
        .await
    }

    /// Writes what has changed on a server, or only that it still runs. Returns false if other servers have given it up
    /// meanwhile.
    pub async fn say(
        &self,
        server: Uuid,
        version: i64,
        rows: Vec<ParticipantRow>,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        in_time(async {
            let transaction = self.database().begin().await?;
            let said = live_server::Entity::update_many()
                .col_expr(live_server::Column::Version, Expr::value(version))
                .col_expr(live_server::Column::SeenAt, Expr::value(now.millis()))
                .filter(live_server::Column::ServerId.eq(server))
                .exec(&transaction)
                .await?;
            if said.rows_affected == 0 {
                return Ok(false);
            }
            write(&transaction, server, version, rows).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Deletes the people who had left by `version`. A server that has not read that far has to read everything.
    pub async fn forget_departed(&self, server: Uuid, version: i64) -> Result<(), StorageError> {
        in_time(async {
            let transaction = self.database().begin().await?;
            live_server::Entity::update_many()
                .col_expr(live_server::Column::Floor, Expr::value(version))
                .filter(live_server::Column::ServerId.eq(server))
                .exec(&transaction)
                .await?;
            participant::Entity::delete_many()
                .filter(participant::Column::ServerId.eq(server))
                .filter(participant::Column::Version.lte(version))
                .filter(participant::Column::IsHere.eq(false))
                .exec(&transaction)
                .await?;
            transaction.commit().await
        })
        .await
    }

    /// Deletes servers, with everyone who was there.
    pub async fn forget_servers(&self, servers: &[Uuid]) -> Result<(), StorageError> {
        let forget = live_server::Entity::delete_many().filter(live_server::Column::ServerId.is_in(servers.to_vec()));
        in_time(forget.exec(self.database())).await?;
        Ok(())
    }

    pub async fn servers(&self) -> Result<Vec<LiveServer>, StorageError> {
        let rows = in_time(live_server::Entity::find().all(self.database())).await?;
        let server = |row: live_server::Model| LiveServer {
            id: row.server_id,
            version: row.version,
            seen_at: Timestamp::from_millis(row.seen_at),
        };
        Ok(rows.into_iter().map(server).collect())
    }

    /// Returns what a server has written after a version, or everything if changes since then have been deleted; `None`
    /// if the server is gone.
    pub async fn said_since(&self, server: Uuid, version: Option<i64>) -> Result<Option<Said>, StorageError> {
        in_time(async {
            // Both reads are of one moment, so that nothing is deleted between them.
            let snapshot = self.queries.snapshot().await?;
            let Some(live) = live_server::Entity::find_by_id(server).one(&snapshot).await? else { return Ok(None) };
            let of_server = participant::Entity::find().filter(participant::Column::ServerId.eq(server));
            let known = version.filter(|version| *version >= live.floor);
            let rows = match known {
                Some(known) => of_server.filter(participant::Column::Version.gt(known)),
                None => of_server.filter(participant::Column::IsHere.eq(true)),
            };
            let rows = rows.all(&snapshot).await?.into_iter().map(ParticipantRow::from).collect();
            Ok(Some(Said { version: live.version, rows, is_complete: known.is_none() }))
        })
        .await
    }

    /// Tells other servers what holders have said here.
    pub async fn say_activity(
        &self,
        server: Uuid,
        said: Vec<ActivitySaid>,
        now: Timestamp,
    ) -> Result<(), StorageError> {
        use holder_activity::Column::{ActiveAt, Activity, Document, Room, SaidAt, ServerId, Tenant};
        in_time(async {
            for chunk in said.chunks(CHUNK) {
                let rows = chunk.iter().map(|row| holder_activity::ActiveModel {
                    tenant: Set(row.key.tenant.to_string()),
                    room: Set(row.key.room.to_string()),
                    document: Set(row.key.document.to_string()),
                    server_id: Set(server),
                    activity: Set(row.activity.name().to_owned()),
                    active_at: Set(row.active_at.millis()),
                    said_at: Set(now.millis()),
                });
                let or_update = OnConflict::columns([Tenant, Room, Document])
                    .update_columns([ServerId, Activity, ActiveAt, SaidAt])
                    .to_owned();
                let insert = holder_activity::Entity::insert_many(rows).on_conflict(or_update);
                insert.exec_without_returning(self.database()).await?;
            }
            Ok(())
        })
        .await
    }

    /// What holders have said to other servers since then.
    pub async fn activity_since(&self, server: Uuid, since: Timestamp) -> Result<Vec<ActivitySaid>, StorageError> {
        let said = holder_activity::Entity::find()
            .filter(holder_activity::Column::SaidAt.gt(since.millis()))
            .filter(holder_activity::Column::ServerId.ne(server))
            .limit(CHUNK as u64);
        let row = |row: holder_activity::Model| ActivitySaid {
            key: key(&row.tenant, &row.room, &row.document),
            activity: Activity::from_stored(Some(&row.activity)),
            active_at: Timestamp::from_millis(row.active_at),
        };
        Ok(in_time(said.all(self.database())).await?.into_iter().map(row).collect())
    }

    pub async fn forget_activity(&self, before: Timestamp) -> Result<(), StorageError> {
        let old = holder_activity::Entity::delete_many().filter(holder_activity::Column::SaidAt.lte(before.millis()));
        in_time(old.exec(self.database())).await?;
        Ok(())
    }

    /// Keeps a stream pass, unless there are `limit` already. Returns whether it did.
    pub async fn keep_ticket(
        &self,
        digest: [u8; 32],
        body: String,
        expires_at: Timestamp,
        limit: u64,
    ) -> Result<bool, StorageError> {
        in_time(async {
            if stream_ticket::Entity::find().limit(limit).count(self.database()).await? >= limit {
                return Ok(false);
            }
            let ticket = stream_ticket::Model { digest: digest.to_vec(), body, expires_at: expires_at.millis() };
            let insert = stream_ticket::Entity::insert(ticket.into_active_model());
            insert.exec_without_returning(self.database()).await?;
            Ok(true)
        })
        .await
    }

    /// Deletes a stream pass and returns it, if it was there. One statement, so that only one of several servers gets
    /// it.
    pub async fn take_ticket(&self, digest: [u8; 32]) -> Result<Option<String>, StorageError> {
        let delete = stream_ticket::Entity::delete_many().filter(stream_ticket::Column::Digest.eq(digest.to_vec()));
        let taken = in_time(delete.exec_with_returning(self.database())).await?;
        Ok(taken.into_iter().next().map(|ticket| ticket.body))
    }

    pub async fn prune_tickets(&self, now: Timestamp) -> Result<(), StorageError> {
        let overdue = stream_ticket::Entity::delete_many().filter(stream_ticket::Column::ExpiresAt.lte(now.millis()));
        in_time(overdue.exec(self.database())).await?;
        Ok(())
    }

    fn database(&self) -> &DatabaseConnection {
        self.queries.reads()
    }
}

async fn write(
    transaction: &DatabaseTransaction,
    server: Uuid,
    version: i64,
    rows: Vec<ParticipantRow>,
) -> Result<(), DbErr> {
    use participant::Column::{IsHere, Name, OwnerId, Room, ServerId, Tenant, Version};
    let mut rows = rows.into_iter().map(|row| participant::ActiveModel {
        server_id: Set(server),
        tenant: Set(row.tenant),
        room: Set(row.room),
        owner_id: Set(row.owner_id),
        name: Set(row.name),
        is_here: Set(row.is_here),
        version: Set(version),
    });
    loop {
        let chunk: Vec<_> = rows.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            return Ok(());
        }
        let or_update =
            OnConflict::columns([ServerId, Tenant, Room, OwnerId]).update_columns([Name, IsHere, Version]).to_owned();
        let insert = participant::Entity::insert_many(chunk).on_conflict(or_update);
        insert.exec_without_returning(transaction).await?;
    }
}

impl From<participant::Model> for ParticipantRow {
    fn from(row: participant::Model) -> Self {
        let participant::Model { tenant, room, owner_id, name, is_here, .. } = row;
        Self { tenant, room, owner_id, name, is_here }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, DbErr>>) -> Result<T, StorageError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(StorageError::Unavailable("the database does not answer".to_owned())),
    }
}
