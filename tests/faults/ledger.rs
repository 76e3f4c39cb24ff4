//! What callers were told, and whether a server still knows it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    caller::{Answer, Caller, lock_path},
    process::Process,
};

const CLIENTS: u64 = 8;
const DOCUMENTS: u64 = 40;
const LONG_TTL: u32 = 300;

/// Identity of a grant: lease and token.
type Grant = (String, i64);

/// What one owner was told of its locks.
#[derive(Debug)]
struct Owner {
    name: String,
    random: u64,
    /// Locks that are live by the last answer. A lock whose last request has no answer may be live or not, so it is left out.
    held: BTreeMap<String, Grant>,
    /// Unlocks without an answer, which may have been done or not.
    unanswered: BTreeMap<String, Grant>,
    /// Every grant ever answered.
    granted: BTreeSet<(String, Grant)>,
    /// Answers that said to try again.
    unavailable: usize,
}

/// Why a request has no result.
enum NoResult {
    /// The connection broke, or the server is stopping.
    Gone,
    /// The database did not answer, so the request may have been done or not.
    Unavailable,
}

/// Several owners who lock, extend and unlock at random.
#[derive(Debug)]
pub struct Ledger {
    owners: Vec<Owner>,
    log: Vec<Value>,
    /// Whether owners try again when the database did not answer; otherwise it always must.
    expects_outages: bool,
}

impl Ledger {
    pub fn new() -> Self {
        let owner = |index| Owner {
            name: format!("owner-{index}"),
            random: index + 1,
            held: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            granted: BTreeSet::new(),
            unavailable: 0,
        };
        Self { owners: (0..CLIENTS).map(owner).collect(), log: Vec::new(), expects_outages: false }
    }

    pub fn expecting_outages() -> Self {
        Self { expects_outages: true, ..Self::new() }
    }

    /// How many answers said to try again.
    pub fn unavailable(&self) -> usize {
        self.owners.iter().map(|owner| owner.unavailable).sum()
    }

    pub fn granted(&self) -> usize {
        self.owners.iter().map(|owner| owner.granted.len()).sum()
    }

    /// Sends requests to the process until its connections break or `during` has ended.
    pub async fn load(self, process: &Process, during: impl Future<Output = ()>) -> Self {
        self.load_all(&[process], during).await
    }

    /// Does the same with the owners spread over several processes.
    pub async fn load_all(mut self, processes: &[&Process], during: impl Future<Output = ()>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let expects_outages = self.expects_outages;
        let mut tasks = JoinSet::new();
        for (mut owner, process) in self.owners.drain(..).zip(processes.iter().cycle()) {
            let (caller, stop) = (process.editor(&owner.name), Arc::clone(&stop));
            tasks.spawn(async move {
                while !stop.load(Ordering::Acquire) && owner.goes_on(&caller, expects_outages).await {}
                owner
            });
        }
        during.await;
        stop.store(true, Ordering::Release);
        self.owners = tasks.join_all().await;
        self
    }

    /// Checks that everything that was answered is there, that the log has no gap, and that it agrees with the lock table.
    pub async fn check(&mut self, process: &Process) {
        for owner in &self.owners {
            let caller = process.editor(&owner.name);
            for (document, grant) in &owner.held {
                assert_eq!(grant_of(&caller.read(document).await), *grant, "{document} of {}", owner.name);
            }
        }
        let log = process.admin().events().await;
        for (expected, event) in (1_i64..).zip(&log) {
            assert_eq!(event["sequence"], expected);
        }
        assert!(log.len() >= self.log.len() && log[..self.log.len()] == self.log[..], "what was logged has changed");
        let (grants, live) = replay(&log);
        for (document, grant) in self.owners.iter().flat_map(|owner| &owner.granted) {
            assert_eq!(grants.get(&(document.clone(), grant.1)), Some(&grant.0), "{document}");
        }
        let table = process.admin().locks().await;
        let table: BTreeMap<_, _> = table.iter().map(|lock| (text(lock, "document"), grant_of(lock))).collect();
        assert_eq!(table, live);
        self.log = log;
    }

    /// Returns whether every event of the log was answered to its caller, so that a request without an answer was not done.
    pub fn knows_the_whole_log(&self) -> bool {
        let known: BTreeSet<_> = self.owners.iter().flat_map(|owner| &owner.granted).cloned().collect();
        let (grants, live) = replay(&self.log);
        let held: BTreeMap<_, _> = self
            .owners
            .iter()
            .flat_map(|owner| owner.held.clone().into_iter().chain(owner.unanswered.clone()))
            .collect();
        grants.into_iter().all(|((document, token), lease)| known.contains(&(document, (lease, token)))) && live == held
    }
}

impl Owner {
    /// Sends one request and returns whether there is still a server for the next one.
    async fn goes_on(&mut self, caller: &Caller, expects_outages: bool) -> bool {
        match self.act(caller, expects_outages).await {
            Ok(()) => true,
            Err(NoResult::Gone) => false,
            Err(NoResult::Unavailable) => {
                self.unavailable += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
                true
            }
        }
    }

    async fn act(&mut self, caller: &Caller, expects_outages: bool) -> Result<(), NoResult> {
        let document = format!("document-{}", self.random(DOCUMENTS));
        let path = lock_path(&document);
        let send = async |method: Method, body: Value| {
            let answer = caller.try_send(method, &path, &body).await.ok_or(NoResult::Gone)?;
            served(answer, expects_outages)
        };
        if let Some(grant) = self.held.get(&document).cloned() {
            let named = json!({ "lease_id": grant.0 });
            if self.random(3) == 0 {
                assert_eq!(grant_of(&send(Method::PUT, named).await?.ok()), grant);
            } else {
                self.held.remove(&document);
                self.unanswered.insert(document.clone(), grant);
                assert_eq!(send(Method::DELETE, named).await?.ok()["released"], true);
                self.unanswered.remove(&document);
            }
            return Ok(());
        }
        let wish = json!({ "ttl_seconds": LONG_TTL, "session_id": self.name });
        let answer = send(Method::POST, wish).await?;
        if answer.status != 409 {
            let grant = grant_of(&answer.ok());
            self.granted.insert((document.clone(), grant.clone()));
            self.unanswered.remove(&document);
            self.held.insert(document, grant);
        }
        Ok(())
    }

    /// A xorshift generator, so that every run has the same load.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }
}

/// Returns an answer that says something about the lock. A server that is stopping has done nothing.
fn served(answer: Answer, expects_outages: bool) -> Result<Answer, NoResult> {
    if answer.status != 503 {
        return Ok(answer);
    }
    if expects_outages && answer.body["code"] != "DRAINING" {
        answer.is_unavailable(&["OUTCOME_UNKNOWN", "OVERLOADED"]);
        return Err(NoResult::Unavailable);
    }
    answer.is_unavailable(&["DRAINING"]);
    Err(NoResult::Gone)
}

/// Returns all grants by document and token, and the locks that are live after the last event. Checks that tokens count up
/// from 1 without gap.
fn replay(log: &[Value]) -> (BTreeMap<(String, i64), String>, BTreeMap<String, Grant>) {
    let (mut grants, mut live) = (BTreeMap::new(), BTreeMap::new());
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for event in log {
        let (document, grant) = (text(event, "document"), grant_of(event));
        if event["type"] == "DocumentLocked" {
            let token = last.entry(document.clone()).or_default();
            *token += 1;
            assert_eq!(grant.1, *token, "{event:#}");
            grants.insert((document.clone(), grant.1), grant.0.clone());
            assert_eq!(live.insert(document, grant), None, "{event:#}");
        } else {
            assert_eq!(live.remove(&document), Some(grant), "{event:#}");
        }
    }
    (grants, live)
}

fn grant_of(lock: &Value) -> Grant {
    assert!(lock.is_object(), "not a lock: {lock}");
    (text(lock, "lease_id"), lock["fencing_token"].as_i64().unwrap())
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap().to_owned()
}
