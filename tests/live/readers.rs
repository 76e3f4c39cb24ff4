//! Readers that are cut off at random and come back elsewhere with what they know; editors who go on until each of
//! their turns is in the log. Whatever is done to the servers meanwhile, every reader has its room's whole log.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use doclock::auth::Role;
use serde_json::{Value, json};
use tokio::sync::{Barrier, watch};

use crate::{
    caller::Caller,
    client::{self, Socket, sequence},
    process::token,
    raw::Dice,
};

const READERS: usize = 50;
const ROOMS: usize = 4;
const EDITORS: usize = 8;
const TURNS: usize = 125;
/// What the editors do together: each turn is a lock and an unlock.
pub const EVENTS: usize = EDITORS * TURNS * 2;

/// The last sequence of each room, once everything has happened.
type Last = Option<HashMap<String, i64>>;

/// `meanwhile` gets to know how many events there are so far.
pub async fn every_reader_gets_its_room<T>(
    bases: Vec<String>,
    admin: impl Fn() -> Caller,
    meanwhile: impl AsyncFnOnce(Arc<AtomicUsize>) -> T,
) -> T {
    let all_there = Arc::new(Barrier::new(READERS + 1));
    let (finish, last) = watch::channel(None);
    let readers: Vec<_> = (0..READERS)
        .map(|number| {
            let reader = Reader::new(number, bases.clone(), last.clone());
            tokio::spawn(reader.run(Arc::clone(&all_there)))
        })
        .collect();
    all_there.wait().await;
    let done = Arc::new(AtomicUsize::new(0));
    let editors: Vec<_> =
        (0..EDITORS).map(|editor| tokio::spawn(edit(editor, bases.clone(), Arc::clone(&done)))).collect();
    let answer = meanwhile(done).await;
    for editor in editors {
        editor.await.unwrap();
    }
    let log = admin().events().await;
    assert_eq!(log.len(), EVENTS);
    finish.send_replace(Some(
        log.iter().map(|event| (event["room"].as_str().unwrap().to_owned(), sequence(event))).collect(),
    ));
    let mut cuts = 0;
    for (number, reader) in readers.into_iter().enumerate() {
        let reader = tokio::time::timeout(client::PATIENCE, reader).await;
        let Reader { room, seen, visits, .. } =
            reader.unwrap_or_else(|_| panic!("reader {number} still waits")).unwrap();
        let expected: Vec<_> = log.iter().filter(|event| event["room"] == room).map(sequence).collect();
        assert_eq!(seen, expected, "reader {number}");
        cuts += visits - 1;
    }
    assert!(cuts > READERS * 5, "{cuts} cuts");
    answer
}

fn room(number: usize) -> String {
    format!("room {}", number % ROOMS)
}

/// None while there is no server.
async fn connect(base: &str, sub: &str, role: Role) -> Option<Socket> {
    let bearer = format!("Bearer {}", token(sub, role));
    let mut socket = client::try_open(base, "/ws", &[("authorization", &bearer)]).await.ok()?;
    // One that is stopping has nothing more to say.
    (socket.try_next().await?["type"] == "welcome").then_some(socket)
}

/// Not every moment, while a server is away.
async fn breathe() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

struct Reader {
    number: usize,
    room: String,
    bases: Vec<String>,
    dice: Dice,
    seen: Vec<i64>,
    /// For the next visit.
    after: Option<Value>,
    visits: usize,
    last: watch::Receiver<Last>,
}

impl Reader {
    fn new(number: usize, bases: Vec<String>, last: watch::Receiver<Last>) -> Self {
        let dice = Dice(number as u64);
        Self { number, room: room(number), bases, dice, seen: Vec::new(), after: None, visits: 0, last }
    }

    async fn run(mut self, all_there: Arc<Barrier>) -> Self {
        loop {
            // To another server each time, if there is one.
            let base = &self.bases[(self.number + self.visits) % self.bases.len()];
            let Some(mut socket) = connect(base, &format!("reader {}", self.number), Role::Viewer).await else {
                breathe().await;
                continue;
            };
            let is_first = self.visits == 0;
            self.visits += 1;
            let is_in = self.join(&mut socket).await;
            if is_first {
                assert!(is_in);
                all_there.wait().await;
            }
            if is_in && self.has_listened_to_the_end(&mut socket).await {
                socket.is_quiet().await;
                return self;
            }
            // Cut, not closed: with the socket all that it has not read is gone.
        }
    }

    /// Not, if it is cut off before it has been told everything.
    async fn join(&mut self, socket: &mut Socket) -> bool {
        let is_back = self.after.is_some();
        let mut subscribe = json!({"type": "subscribe", "room": self.room});
        if let Some(after) = &self.after {
            subscribe["after"] = after.clone();
        }
        socket.say(subscribe).await;
        if is_back && self.dice.roll(8) == 0 {
            return false;
        }
        let (mut missed, mut opening) = (Vec::new(), None);
        loop {
            let Some(page) = socket.try_next().await.filter(|page| page["type"] != "goodbye") else { return false };
            missed.extend(page["events"].as_array().into_iter().flatten().map(sequence));
            let is_last = page["more"] == false;
            let opening = opening.get_or_insert(page);
            assert_eq!((&opening["type"], &opening["recovered"]), (&json!("subscribed"), &json!(is_back)), "{opening}");
            if is_last {
                self.after = Some(json!({"epoch": opening["epoch"], "sequence": opening["sequence"]}));
                self.seen.append(&mut missed);
                return true;
            }
        }
    }

    async fn has_listened_to_the_end(&mut self, socket: &mut Socket) -> bool {
        for _ in 0..=self.dice.roll(30) {
            let notice = loop {
                if self.has_all() {
                    return true;
                }
                tokio::select! {
                    notice = socket.try_next() => break notice,
                    changed = self.last.changed() => changed.unwrap(),
                }
            };
            let Some(notice) = notice else { return false };
            if notice["type"] != "goodbye" {
                self.seen.push(sequence(&notice));
                self.after.as_mut().unwrap()["sequence"] = notice["sequence"].clone();
            }
        }
        false
    }

    fn has_all(&self) -> bool {
        let last = self.last.borrow();
        last.as_ref().is_some_and(|last| last.get(&self.room) == self.seen.last())
    }
}

async fn edit(editor: usize, bases: Vec<String>, done: Arc<AtomicUsize>) {
    let (base, sub) = (&bases[editor % bases.len()], format!("editor {editor}"));
    let mut socket = None;
    for turn in 0..TURNS {
        for kind in ["lock", "unlock"] {
            // The session makes a lock that is asked for twice the same lock.
            let ask =
                json!({"type": kind, "id": turn, "room": room(editor + turn), "document": sub, "session_id": "tab"});
            while !is_done(&mut socket, &ask).await {
                breathe().await;
                socket = connect(base, &sub, Role::Editor).await;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Not, if there is no answer: then it may have been done, or not.
async fn is_done(socket: &mut Option<Socket>, ask: &Value) -> bool {
    let Some(socket) = socket else { return false };
    if !socket.send_raw(tokio_tungstenite::tungstenite::Message::text(ask.to_string())).await {
        return false;
    }
    loop {
        match socket.try_next().await {
            Some(answer) if answer["type"] == "goodbye" => {}
            Some(answer) if answer["type"] == "error" => {
                let has_been_done = ask["type"] == "unlock" && answer["code"] == "LEASE_RELEASED";
                assert!(has_been_done || answer["retryable"] == true, "{answer}");
                return has_been_done;
            }
            Some(_) => return true,
            None => return false,
        }
    }
}
