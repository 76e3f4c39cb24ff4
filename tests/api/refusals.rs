//! SPEC section 3, "Which refusal": every history of a document, every way to name a lock, before and after a sweep.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Caller, TestServer};

/// What a heartbeat or an unlock by alice gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gets {
    Done,
    NotFound,
    NotOwner,
    Expired,
    Released,
    Revoked,
    Mismatch,
}
use Gets::{Done, Expired, Mismatch, NotFound, NotOwner, Released, Revoked};

impl Gets {
    fn expected(self) -> (u16, &'static str) {
        match self {
            Done => (200, ""),
            NotFound => (404, "LOCK_NOT_FOUND"),
            NotOwner => (403, "NOT_OWNER"),
            Expired => (409, "LEASE_EXPIRED"),
            Released => (409, "LEASE_RELEASED"),
            Revoked => (409, "LEASE_REVOKED"),
            Mismatch => (409, "LEASE_MISMATCH"),
        }
    }
}

/// What alice gets for each way to name the lock.
#[derive(Debug, Clone, Copy)]
struct Row {
    nothing: Gets,
    lease: Gets,
    wrong_lease: Gets,
    session: Gets,
    other_session: Gets,
    lease_and_other_session: Gets,
}

impl Row {
    fn cells(self, lease: &Value) -> [(&'static str, Value, Gets); 6] {
        [
            ("nothing", json!({}), self.nothing),
            ("lease", json!({"lease_id": lease}), self.lease),
            ("wrong lease", json!({"lease_id": Uuid::from_u128(7)}), self.wrong_lease),
            ("session", json!({"session_id": "tab"}), self.session),
            ("other session", json!({"session_id": "other"}), self.other_session),
            (
                "lease and other session",
                json!({"lease_id": lease, "session_id": "other"}),
                self.lease_and_other_session,
            ),
        ]
    }

    /// The last lock ended: named by lease or session it says how; any other name is nobody's.
    fn ended(how: Gets) -> Self {
        Self {
            nothing: how,
            lease: how,
            wrong_lease: NotFound,
            session: how,
            other_session: NotFound,
            lease_and_other_session: how,
        }
    }

    /// The same, and someone else has the document now.
    fn ended_and_others(how: Gets) -> Self {
        Self { nothing: NotOwner, wrong_lease: NotOwner, other_session: NotOwner, ..Self::ended(how) }
    }

    /// The same as `ended`, a day later: only the lease itself is remembered.
    fn ended_long_ago(how: Gets) -> Self {
        Self { nothing: NotFound, session: NotFound, ..Self::ended(how) }
    }

    fn all(gets: Gets) -> Self {
        Self {
            nothing: gets,
            lease: gets,
            wrong_lease: gets,
            session: gets,
            other_session: gets,
            lease_and_other_session: gets,
        }
    }
}

/// A server and the people in its histories.
struct Story {
    server: TestServer,
    alice: Caller,
    bob: Caller,
}

impl Story {
    async fn begin() -> Self {
        let server = TestServer::start().await;
        let (alice, bob) = (server.editor("alice"), server.editor("bob"));
        Self { server, alice, bob }
    }

    /// The lease of alice's lock, taken by session `tab` unless `body` says otherwise.
    async fn alices(&self, path: &str, mut body: Value) -> Value {
        if body.get("session_id").is_none() {
            body["session_id"] = json!("tab");
        }
        self.alice.post(path, body).await.ok()["lease_id"].clone()
    }

    async fn bobs(&self, path: &str, body: Value) -> Value {
        self.bob.post(path, body).await.ok()["lease_id"].clone()
    }

    /// Tries every cell for PUT and DELETE on documents that each had the history: half of them before a sweep, half
    /// after. `history` is told once for all documents, so that it can let time pass, and answers their leases.
    async fn check(self, row: Row, history: impl AsyncFnOnce(&Self, &[String]) -> Vec<Value>) {
        let (methods, cells) = ([Method::PUT, Method::DELETE], 6);
        let count = 2 * methods.len() * cells;
        let paths: Vec<_> = (0..count).map(|number| format!("/api/documents/room/{number}/lock")).collect();
        let leases = history(&self, &paths).await;
        // The history may have outlived the token.
        let alice = self.server.editor("alice");
        let mut documents = paths.iter().zip(&leases);
        for swept in [false, true] {
            if swept {
                self.server.sweep().await;
            }
            for method in &methods {
                for cell in 0..cells {
                    let (path, lease) = documents.next().unwrap();
                    let (name, named, gets) = row.cells(lease)[cell].clone();
                    let answer = alice.json(method.clone(), path, named).await;
                    let code = answer.body["code"].as_str().unwrap_or_default();
                    let told = format!("{method} naming {name}, swept: {swept}: {:#}", answer.body);
                    assert_eq!((answer.status, code), gets.expected(), "{told}");
                }
            }
        }
    }
}

/// For histories in which time does not pass.
async fn each(paths: &[String], history: impl AsyncFn(&str) -> Value) -> Vec<Value> {
    let mut leases = Vec::new();
    for path in paths {
        leases.push(history(path).await);
    }
    leases
}

#[tokio::test]
async fn a_document_never_locked_is_not_found() {
    let story = Story::begin().await;
    story.check(Row::all(NotFound), async |_, paths| vec![json!(Uuid::from_u128(8)); paths.len()]).await;
}

#[tokio::test]
async fn a_live_lock_with_a_session_must_be_named_rightly() {
    let row = Row { lease: Done, session: Done, ..Row::all(Mismatch) };
    let history =
        async |story: &Story, paths: &[String]| each(paths, async |path| story.alices(path, json!({})).await).await;
    Story::begin().await.check(row, history).await;
}

#[tokio::test]
async fn a_live_lock_without_session_needs_no_name() {
    let row = Row { nothing: Done, lease: Done, ..Row::all(Mismatch) };
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| story.alices(path, json!({"session_id": null})).await).await
    };
    Story::begin().await.check(row, history).await;
}

#[tokio::test]
async fn someone_elses_lock_is_not_ones_own_however_it_is_named() {
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| story.bobs(path, json!({"session_id": "tab"})).await).await
    };
    Story::begin().await.check(Row::all(NotOwner), history).await;
}

#[tokio::test]
async fn an_expired_lock_says_so() {
    let history = async |story: &Story, paths: &[String]| {
        let leases = each(paths, async |path| story.alices(path, json!({"ttl_seconds": 1})).await).await;
        story.server.pass_seconds(1).await;
        leases
    };
    Story::begin().await.check(Row::ended(Expired), history).await;
}

#[tokio::test]
async fn a_released_lock_says_so() {
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| {
            let lease = story.alices(path, json!({})).await;
            story.alice.delete(path, json!({"lease_id": lease})).await.ok();
            lease
        })
        .await
    };
    Story::begin().await.check(Row::ended(Released), history).await;
}

#[tokio::test]
async fn a_lock_taken_over_says_so_though_someone_else_holds_the_document() {
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| {
            let lease = story.alices(path, json!({})).await;
            story.server.admin().post(path, json!({"takeover": true})).await.ok();
            lease
        })
        .await
    };
    Story::begin().await.check(Row::ended_and_others(Revoked), history).await;
}

#[tokio::test]
async fn a_lock_revoked_by_an_admin_says_so() {
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| {
            let lease = story.alices(path, json!({})).await;
            let admin_path = format!("/api/admin/locks/{}", lease.as_str().unwrap());
            story.server.admin().delete(&admin_path, json!({})).await.ok();
            lease
        })
        .await
    };
    Story::begin().await.check(Row::ended(Revoked), history).await;
}

#[tokio::test]
async fn an_expired_lock_is_remembered_for_a_day_unless_its_lease_is_named() {
    let history = async |story: &Story, paths: &[String]| {
        let leases = each(paths, async |path| story.alices(path, json!({"ttl_seconds": 1})).await).await;
        story.server.pass_seconds(1).await;
        story.server.skip_hours(24).await;
        leases
    };
    Story::begin().await.check(Row::ended_long_ago(Expired), history).await;
}

#[tokio::test]
async fn a_released_lock_is_remembered_for_a_day_unless_its_lease_is_named() {
    let history = async |story: &Story, paths: &[String]| {
        let leases = each(paths, async |path| {
            let lease = story.alices(path, json!({})).await;
            story.alice.delete(path, json!({"lease_id": lease})).await.ok();
            lease
        })
        .await;
        story.server.skip_hours(24).await;
        leases
    };
    Story::begin().await.check(Row::ended_long_ago(Released), history).await;
}

#[tokio::test]
async fn an_ended_lock_is_still_remembered_almost_a_day_later() {
    let history = async |story: &Story, paths: &[String]| {
        let leases = each(paths, async |path| story.alices(path, json!({"ttl_seconds": 1})).await).await;
        story.server.pass_seconds(1).await;
        story.server.skip_hours(23).await;
        leases
    };
    Story::begin().await.check(Row::ended(Expired), history).await;
}

#[tokio::test]
async fn of_several_own_locks_one_must_be_named() {
    let row = Row { lease: Done, session: Done, ..Row::all(Mismatch) };
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| {
            let lease = story.alices(path, json!({"capacity": 3})).await;
            story.alices(path, json!({"capacity": 3, "session_id": null})).await;
            lease
        })
        .await
    };
    Story::begin().await.check(row, history).await;
}

#[tokio::test]
async fn of_several_own_locks_without_session_the_lease_must_be_named() {
    let row = Row { lease: Done, ..Row::all(Mismatch) };
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| {
            let lease = story.alices(path, json!({"capacity": 2, "session_id": null})).await;
            story.alices(path, json!({"session_id": null})).await;
            lease
        })
        .await
    };
    Story::begin().await.check(row, history).await;
}

#[tokio::test]
async fn an_expired_lock_says_so_though_someone_else_holds_the_document() {
    let history = async |story: &Story, paths: &[String]| {
        let leases = each(paths, async |path| story.alices(path, json!({"ttl_seconds": 1})).await).await;
        story.server.pass_seconds(1).await;
        each(paths, async |path| story.bobs(path, json!({})).await).await;
        leases
    };
    Story::begin().await.check(Row::ended_and_others(Expired), history).await;
}

#[tokio::test]
async fn an_overdue_lock_beside_someone_elses_in_a_semaphore_says_so() {
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| story.bobs(path, json!({"capacity": 2})).await).await;
        let leases = each(paths, async |path| story.alices(path, json!({"ttl_seconds": 1})).await).await;
        story.server.pass_seconds(1).await;
        leases
    };
    Story::begin().await.check(Row::ended_and_others(Expired), history).await;
}

#[tokio::test]
async fn beside_a_live_lock_only_the_lease_of_an_ended_one_says_how() {
    let row = Row { lease: Released, lease_and_other_session: Released, ..Row::all(Mismatch) };
    let history = async |story: &Story, paths: &[String]| {
        each(paths, async |path| {
            let lease = story.alices(path, json!({})).await;
            story.alice.delete(path, json!({"lease_id": lease})).await.ok();
            story.alices(path, json!({"session_id": "new"})).await;
            lease
        })
        .await
    };
    Story::begin().await.check(row, history).await;
}

#[tokio::test]
async fn an_overdue_lock_does_not_make_the_live_one_ambiguous() {
    let row = Row { nothing: Done, lease: Expired, lease_and_other_session: Expired, ..Row::all(Mismatch) };
    let history = async |story: &Story, paths: &[String]| {
        let leases = each(paths, async |path| story.alices(path, json!({"ttl_seconds": 1, "capacity": 2})).await).await;
        each(paths, async |path| story.alices(path, json!({"session_id": null})).await).await;
        story.server.pass_seconds(1).await;
        leases
    };
    Story::begin().await.check(row, history).await;
}

#[tokio::test]
async fn the_text_of_metadata_changes_no_answer() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let path = "/api/documents/room/lock";
    // Text that PostgreSQL cannot read as JSON, and text that looks like a column.
    let metadata = json!({"nul": "\u{0}", "expires_at": 7, "text": "\"expires_at\":1"});
    let lock = alice.post(path, json!({"metadata": metadata, "ttl_seconds": 2})).await.ok();
    assert_eq!(lock["metadata"], metadata);
    assert_eq!(server.editor("bob").get(path).await.ok()["lock"]["metadata"], metadata);
    server.pass_seconds(2).await;
    for body in [json!({}), json!({"lease_id": lock["lease_id"]})] {
        alice.put(path, body).await.problem(409, "LEASE_EXPIRED");
    }
    assert_eq!(server.events().await[0]["metadata"], metadata);
}

#[tokio::test]
async fn a_session_is_remembered_among_its_owners_last_hundred_ends() {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    let path = "/api/documents/room/lock";
    let hold_once = async |session: &str| {
        alice.post(path, json!({ "session_id": session })).await.ok();
        alice.delete(path, json!({ "session_id": session })).await.ok();
    };
    hold_once("first").await;
    for _ in 0..99 {
        hold_once("other").await;
    }
    alice.put(path, json!({"session_id": "first"})).await.problem(409, "LEASE_RELEASED");
    hold_once("other").await;
    alice.put(path, json!({"session_id": "first"})).await.problem(404, "LOCK_NOT_FOUND");
    alice.put(path, json!({"session_id": "other"})).await.problem(409, "LEASE_RELEASED");
}
