//! A place where locks are kept: the memory of this process, or a server of its own.

use doclock::{
    auth::Role,
    client::{Backend, DoclockServer, LockManager, LockName, MemoryLocks},
};
use reqwest::Method;
use serde_json::json;

use crate::{
    caller::Caller,
    process::{Home, Process, token},
};

/// The one document that tests lock.
pub const NAME: &str = "room/it";

pub enum World {
    Memory(MemoryLocks),
    Server { process: Process, admin: Caller, _home: Home },
}

impl World {
    pub fn memory() -> Self {
        Self::Memory(MemoryLocks::new())
    }

    pub fn server() -> Self {
        let home = Home::new();
        let process = home.start();
        Self::Server { admin: process.admin(), process, _home: home }
    }

    pub fn backend(&self) -> Backend {
        match self {
            Self::Memory(locks) => locks.clone().into(),
            Self::Server { process, .. } => server_at(&process.base),
        }
    }

    pub fn manager(&self, parallelism: u32) -> LockManager {
        LockManager::new(NAME, parallelism).unwrap().backend(self.backend())
    }

    /// Ends whatever lock there is, as an admin can.
    pub async fn revoke(&self) {
        match self {
            Self::Memory(locks) => locks.revoke(&LockName::parse(NAME).unwrap()),
            Self::Server { admin, .. } => {
                let body = json!({ "filter": { "room": "room" } });
                admin.send(Method::POST, "/api/admin/locks/unlock", body).await.ok();
            }
        }
    }

    /// How many are in line.
    pub async fn waiting(&self) -> usize {
        match self {
            Self::Memory(locks) => locks.waiting(&LockName::parse(NAME).unwrap()),
            Self::Server { admin, .. } => in_line(admin).await,
        }
    }
}

pub fn server_at(base: &str) -> Backend {
    DoclockServer::new(base, token("job", Role::Editor)).unwrap().into()
}

pub async fn in_line(caller: &Caller) -> usize {
    let answer = caller.get("/api/documents/room/it/lock").await.ok();
    usize::try_from(answer["waiting"].as_u64().unwrap()).unwrap()
}

/// The tokens that were granted, and how locks ended, in the order of the log.
pub async fn history(admin: &Caller) -> (Vec<u64>, Vec<String>) {
    let events = admin.events().await;
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let tokens = of("DocumentLocked").map(|event| event["fencing_token"].as_u64().unwrap()).collect();
    let ends = of("DocumentUnlocked").map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
    (tokens, ends)
}

/// Each test is run in both worlds.
macro_rules! in_both_worlds {
    ($($promise:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                super::$promise(&crate::world::World::memory()).await;
            })+
        }
        mod with_a_server {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                super::$promise(&crate::world::World::server()).await;
            })+
        }
    };
}
pub(crate) use in_both_worlds;
