//! What the clients of a round share: its rooms, its servers, and the record of what they did.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use doclock::auth::Role;
use serde_json::Value;

use crate::{
    answers,
    caller::Caller,
    lines::Lines,
    record::{Answer, Call, Name, Record, Seen, Watch},
    request::Request,
    servers::token,
};

/// No server takes this long, whatever happens to it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before a server that did not answer is asked again.
const WHEN_AWAY: Duration = Duration::from_millis(60);
/// How many of the last locks anyone got are remembered, for others to ask about.
const SIGHTS: usize = 40;

pub const ADMIN: &str = "root";
pub const OWNERS: [&str; 8] = ["ann", "ben", "cleo", "dan", "eve", "finn", "gil", "hana"];

/// Half of them may take locks over from others.
pub fn may_take_over(owner: &str) -> bool {
    OWNERS.iter().position(|name| *name == owner).is_some_and(|index| index % 2 == 1)
}

pub struct World {
    pub watch: Watch,
    pub round: usize,
    pub bases: Vec<Name>,
    pub record: Record,
    pub stop: AtomicBool,
    /// A few documents that everyone wants, and semaphores.
    pub hot: Name,
    /// Documents that are locked several at a time.
    pub many: Name,
    /// Documents that nobody has locked before.
    pub fresh: Name,
    sights: Mutex<VecDeque<Seen>>,
}

impl World {
    pub fn new(watch: Watch, round: usize, bases: Vec<Name>) -> Self {
        let room = |name: &str| Name::from(format!("{name}-{round}"));
        Self {
            watch,
            round,
            bases,
            record: Record::default(),
            stop: AtomicBool::new(false),
            hot: room("hot"),
            many: room("many"),
            fresh: room("fresh"),
            sights: Mutex::default(),
        }
    }

    pub fn rooms(&self) -> [Name; 3] {
        [self.hot.clone(), self.many.clone(), self.fresh.clone()]
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Locks that someone got lately.
    #[expect(clippy::unwrap_used, reason = "poisoned only by a panic, which ends the run")]
    pub fn sights(&self) -> Vec<Seen> {
        self.sights.lock().unwrap().iter().cloned().collect()
    }

    #[expect(clippy::unwrap_used, reason = "poisoned only by a panic, which ends the run")]
    fn sighted(&self, seen: &Seen) {
        let mut sights = self.sights.lock().unwrap();
        sights.push_back(seen.clone());
        if sights.len() > SIGHTS {
            sights.pop_front();
        }
    }
}

/// Someone with a token, who can ask any server.
#[derive(Clone)]
pub struct Person {
    pub owner: Name,
    callers: Vec<Caller>,
    lines: Lines,
    world: Arc<World>,
}

impl Person {
    pub fn new(world: &Arc<World>, owner: &str) -> Self {
        let role = if owner == ADMIN { Role::Admin } else { Role::Editor };
        let token = token(owner, role, may_take_over(owner));
        let callers = world.bases.iter().map(|base| Caller::new(base, token.clone())).collect();
        let lines = Lines::new(&world.bases, token);
        Self { owner: owner.into(), callers, lines, world: Arc::clone(world) }
    }

    /// The same over a socket where that can be asked for over one.
    pub async fn say(&self, server: usize, request: &Arc<Request>, patience: Option<Duration>) -> Answer {
        if !Lines::can_send(request) {
            return self.send(server, request, patience).await;
        }
        let said = async { self.lines.try_send(server, request).await };
        self.recorded(server, request, patience, said).await
    }

    /// Asks, and writes down what came of it. With little patience the connection is dropped before the answer is there.
    pub async fn send(&self, server: usize, request: &Arc<Request>, patience: Option<Duration>) -> Answer {
        let (method, path, body) = (request.method(), request.path(), request.body());
        let sent = async {
            let answer = self.callers[server].try_send(method, &path, &body).await?;
            Some((answer.status, answer.body))
        };
        self.recorded(server, request, patience, sent).await
    }

    async fn recorded(
        &self,
        server: usize,
        request: &Arc<Request>,
        patience: Option<Duration>,
        sent: impl Future<Output = Option<(u16, Value)>>,
    ) -> Answer {
        let world = &self.world;
        let invoked = world.watch.now();
        let answer = match tokio::time::timeout(patience.unwrap_or(PATIENCE), sent).await {
            Ok(Some((status, body))) => answers::answer(request, status, &body),
            Ok(None) => Answer::Lost,
            Err(_) if patience.is_some() => Answer::Lost,
            Err(_) => Answer::Odd(format!("no answer within {PATIENCE:?}")),
        };
        answer.live().iter().for_each(|seen| world.sighted(seen));
        world.record.add(Call {
            owner: self.owner.clone(),
            server,
            request: Arc::clone(request),
            invoked,
            settled: world.watch.now(),
            answer: answer.clone(),
        });
        let is_away = matches!(&answer, Answer::Refused(refused) if refused.status == 503)
            || matches!(&answer, Answer::Unknown)
            || matches!(&answer, Answer::Lost if patience.is_none());
        if is_away {
            tokio::time::sleep(WHEN_AWAY).await;
        }
        answer
    }
}
