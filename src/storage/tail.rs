//! Reads of those who follow the log: the publisher, and sockets that join a room.
//!
//! A join reads its room and the head of the log in one transaction. So there is neither gap nor overlap between what
//! the socket is told up to the head and what the hub tells it after the head.

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

pub use super::event_log::Head;
use super::{
    Queries, StorageError,
    entities::{document_lock, event, log_head, outage},
    event_log::Logged,
    queries::{in_time, lock},
};
use crate::{
    locking::{
        Event, Lock, Timestamp,
        names::{RoomId, TenantId},
    },
    time::liveness::{Outage, Outages},
};

/// A subscriber who has missed more events than this gets a snapshot.
pub const REPLAY_MAX: u64 = 1000;

/// An event with its place in the log.
pub type Sequenced = (i64, Event);

/// What a newcomer to a room is told first.
#[derive(Debug)]
pub struct Start {
    pub head: Head,
    pub told: Told,
}

#[derive(Debug)]
pub enum Told {
    /// A snapshot: all locks of the room that no event up to the head has ended.
    Locks(Vec<Lock>),
    /// What has happened in the room since the subscriber was last there.
    Missed(Vec<Sequenced>),
}

impl Queries {
    pub async fn head(&self) -> Result<Head, StorageError> {
        Ok(in_time(head(self.reads())).await?)
    }

    /// Returns events of all tenants, for the publisher.
    pub async fn log_after(&self, sequence: i64, limit: u64) -> Result<Vec<Sequenced>, StorageError> {
        let rows = event::Entity::find()
            .filter(event::Column::Sequence.gt(sequence))
            .order_by_asc(event::Column::Sequence)
            .limit(limit);
        sequenced(in_time(rows.all(self.reads())).await?)
    }

    /// Returns events of some rooms, and the head they reach to.
    pub async fn rooms_after(
        &self,
        tenant: &TenantId,
        rooms: &[&RoomId],
        sequence: i64,
        limit: u64,
    ) -> Result<(Vec<Sequenced>, Head), StorageError> {
        let snapshot = self.snapshot().await?;
        let head = in_time(head(&snapshot)).await?;
        Ok((sequenced(in_time(rooms_rows(&snapshot, tenant, rooms, sequence, limit)).await?)?, head))
    }

    /// Returns what a newcomer is told first: what it has missed since `after`; or a snapshot, if it was never there,
    /// comes from another epoch, or has missed more than can be replayed.
    pub async fn start(&self, tenant: &TenantId, room: &RoomId, after: Option<Head>) -> Result<Start, StorageError> {
        let snapshot = self.snapshot().await?;
        let head = in_time(head(&snapshot)).await?;
        if let Some(after) = after.filter(|after| after.epoch == head.epoch && after.sequence <= head.sequence)
            && (after.sequence == head.sequence || in_time(reaches_back(&snapshot, after.sequence)).await?)
        {
            let rows = in_time(rooms_rows(&snapshot, tenant, &[room], after.sequence, REPLAY_MAX + 1)).await?;
            if rows.len() as u64 <= REPLAY_MAX {
                return Ok(Start { head, told: Told::Missed(sequenced(rows)?) });
            }
        }
        // Overdue locks are read too: subscribers take a lock for held until an event says otherwise.
        let locks = document_lock::Entity::find()
            .filter(document_lock::Column::Tenant.eq(tenant.as_str()))
            .filter(document_lock::Column::Room.eq(room.as_str()))
            .order_by_asc(document_lock::Column::Document)
            .order_by_asc(document_lock::Column::Slot);
        let locks = in_time(locks.all(&snapshot)).await?;
        let outages = in_time(outages(&snapshot)).await?;
        Ok(Start { head, told: Told::Locks(locks.into_iter().map(|row| lock(row, &outages)).collect()) })
    }
}

async fn outages(reads: &impl ConnectionTrait) -> Result<Outages, sea_orm::DbErr> {
    let outage = |row: outage::Model| Outage {
        last_alive: Timestamp::from_millis(row.last_alive),
        back: Timestamp::from_millis(row.back_at),
    };
    Ok(Outages::new(outage::Entity::find().all(reads).await?.into_iter().map(outage).collect()))
}

async fn head(reads: &impl ConnectionTrait) -> Result<Head, sea_orm::DbErr> {
    let row = log_head::Entity::find().one(reads).await?;
    let row = row.ok_or_else(|| sea_orm::DbErr::RecordNotFound("the log has no head".to_owned()))?;
    Ok(Head { epoch: row.epoch, sequence: row.sequence })
}

/// Returns whether nothing after the sequence has been pruned.
async fn reaches_back(reads: &impl ConnectionTrait, sequence: i64) -> Result<bool, sea_orm::DbErr> {
    let oldest = event::Entity::find()
        .select_only()
        .column(event::Column::Sequence)
        .order_by_asc(event::Column::Sequence)
        .limit(1)
        .into_tuple::<i64>()
        .one(reads)
        .await?;
    Ok(oldest.is_some_and(|oldest| oldest <= sequence + 1))
}

async fn rooms_rows(
    reads: &impl ConnectionTrait,
    tenant: &TenantId,
    rooms: &[&RoomId],
    after: i64,
    limit: u64,
) -> Result<Vec<event::Model>, sea_orm::DbErr> {
    event::Entity::find()
        .filter(event::Column::Tenant.eq(tenant.as_str()))
        .filter(event::Column::Room.is_in(rooms.iter().map(|room| room.as_str())))
        .filter(event::Column::Sequence.gt(after))
        .order_by_asc(event::Column::Sequence)
        .limit(limit)
        .all(reads)
        .await
}

fn sequenced(rows: Vec<event::Model>) -> Result<Vec<Sequenced>, StorageError> {
    rows.into_iter().map(|row| Ok((row.sequence, Logged::try_from(row)?.into_event()?))).collect()
}
