//! The tables as sea-orm reads them. The writers' statements name the same columns.

pub mod document {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "documents")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub room: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub document: String,
        pub fencing_token: i64,
        pub capacity: i32,
        pub document_version: Option<String>,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod document_lock {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "document_locks")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub room: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub document: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub slot: i32,
        pub lease_id: Uuid,
        pub hold: i64,
        pub fencing_token: i64,
        pub owner_id: String,
        pub session_id: Option<String>,
        pub name: Option<String>,
        pub acquired_at: i64,
        pub expires_at: i64,
        pub due_at: i64,
        pub ttl_seconds: i32,
        pub metadata: Option<String>,
        pub document_version: Option<String>,
        pub linger_ms: Option<i32>,
        pub extend_ids: Option<String>,
        pub kind: Option<String>,
        pub claim_ms: Option<i32>,
        pub activity: Option<String>,
        pub active_at: Option<i64>,
        pub is_wanted: bool,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod lock_waiter {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "lock_waiters")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub room: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub document: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub place: i64,
        pub lease_id: Uuid,
        pub owner_id: String,
        pub session_id: Option<String>,
        pub name: Option<String>,
        pub kind: Option<String>,
        pub joined_at: i64,
        pub expires_at: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod lock_handover {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "lock_handovers")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub handover_id: Uuid,
        pub tenant: String,
        pub room: String,
        pub document: String,
        pub lease_id: Uuid,
        pub holder_id: String,
        pub owner_id: String,
        pub session_id: Option<String>,
        pub name: Option<String>,
        pub kind: Option<String>,
        pub message: Option<String>,
        pub asked_at: i64,
        pub expires_at: i64,
        pub outcome: Option<String>,
        pub answer: Option<String>,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod event {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "events")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub sequence: i64,
        pub tenant: String,
        pub room: String,
        pub document: String,
        pub at: i64,
        pub kind: String,
        pub lease_id: Option<Uuid>,
        pub fencing_token: i64,
        pub owner_id: String,
        pub session_id: Option<String>,
        pub reason: Option<String>,
        pub by: Option<String>,
        pub note: Option<String>,
        pub recipient: Option<String>,
        pub held_ms: Option<i64>,
        pub waited_ms: Option<i64>,
        pub body: String,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod log_head {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "log_head")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
        pub epoch: Uuid,
        pub sequence: i64,
        pub token_floor: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod outage {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "outages")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub back_at: i64,
        pub last_alive: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod server_life {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "server_life")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
        pub last_alive: i64,
        pub clock_offset: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod live_server {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "live_servers")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub server_id: Uuid,
        pub version: i64,
        pub floor: i64,
        pub seen_at: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod participant {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "participants")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub server_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub room: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub owner_id: String,
        pub name: Option<String>,
        pub is_here: bool,
        pub version: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod holder_activity {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "holder_activity")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub room: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub document: String,
        pub server_id: Uuid,
        pub activity: String,
        pub active_at: i64,
        pub said_at: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod stream_ticket {
    use sea_orm::entity::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stream_tickets")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub body: String,
        pub expires_at: i64,
    }

    #[derive(Debug, Clone, Copy, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
