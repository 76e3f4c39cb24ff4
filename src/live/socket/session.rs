//! What a protocol can do with its socket: say something, say who the client is, join and leave rooms, run a command.
//!
//! One thing at a time is done beside the socket's loop (a [`Task`]). A task takes along the places it works on, and gives
//! back those it has when it is done; whatever drops it leaves them. A command that was accepted is finished and
//! answered, whatever ends the socket meanwhile.

use std::{mem, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::holdings::{Effect, HoldingNews, Holdings};
use crate::{
    auth::Caller,
    calls::{Code, Problem},
    live::{
        Close, End, Live, NotJoined, Outbox, Place, Scope, Seat, Subscriber, TooMany, Wire,
        messages::{Page, PageStart},
        subscribe::{Listener, Memberships, Subscription},
    },
    locking::{Timestamp, names::RoomId},
};

/// How long a new socket may take to say who it is.
const AUTH_MS: i64 = 10_000;
/// How long a socket that ends waits for the answer to its last command.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// What came of one step: nothing to tell, or the end of the socket.
pub type Step = Result<(), End>;

pub struct Session {
    pub live: Arc<Live>,
    outbox: Arc<Outbox>,
    wire: &'static Wire,
    place: Place,
    known: Option<Known>,
    /// When it must have said who it is, or say it anew.
    pub(super) known_until: Timestamp,
    places: Places,
    /// What it holds for its client; most hold nothing.
    pub(super) holdings: Option<Box<Holdings>>,
    pub(super) task: Option<Task>,
}

/// What came of a command.
#[derive(Debug)]
pub struct Answered {
    pub reply: Bytes,
    pub effect: Effect,
}

/// Who the client is, and its owner's turns to read the database.
#[derive(Clone)]
struct Known {
    caller: Arc<Caller>,
    turns: Arc<Semaphore>,
}

/// What the socket hears.
#[derive(Default)]
pub(super) struct Places {
    rooms: Memberships,
    /// Its place in every room it may see.
    everywhere: Option<Seat>,
}

/// What a task has got for the socket.
pub(super) type TaskOutcome = Result<(Places, Effect), End>;

/// What happens beside the socket's loop.
pub(super) enum Happening {
    Done(TaskOutcome),
    News(HoldingNews),
}

/// What a socket is busy with.
pub(super) struct Task {
    future: Pin<Box<dyn Future<Output = TaskOutcome>>>,
    is_command: bool,
}

impl Session {
    pub(super) fn new(live: Arc<Live>, outbox: Arc<Outbox>, wire: &'static Wire, place: Place) -> Self {
        let known_until = live.clock.now().plus_millis(AUTH_MS);
        Self {
            live,
            outbox,
            wire,
            place,
            known: None,
            known_until,
            places: Places::default(),
            holdings: None,
            task: None,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.live.clock.now()
    }

    pub fn say(&self, message: Bytes) -> Step {
        Ok(self.outbox.push(message)?)
    }

    /// Who the client is, once it has said so.
    pub fn caller(&self) -> Option<&Arc<Caller>> {
        self.known.as_ref().map(|known| &known.caller)
    }

    /// Says who the client is, until its token ends; or brings a newer token of the same client.
    pub fn identify(&mut self, caller: Arc<Caller>) -> Step {
        let turns = match &self.known {
            Some(known) if !is_same(&known.caller, &caller) => {
                return Err(End::Close(Close::Forbidden, "another token's socket"));
            }
            Some(known) => Arc::clone(&known.turns),
            None => {
                let too_many = |TooMany| End::Close(Close::TooMany, "too many sockets of this owner");
                self.place.belongs_to(&caller).map_err(too_many)?
            }
        };
        let left_ms = caller.expires_at.millis_since(self.live.clock.wall());
        self.known_until = self.now().plus_millis(left_ms);
        self.known = Some(Known { caller, turns });
        Ok(())
    }

    /// Runs a command beside the loop, and says its answer.
    pub fn run(&mut self, command: impl Future<Output = Answered> + 'static) {
        let outbox = Arc::clone(&self.outbox);
        let answered = async move {
            let Answered { reply, effect } = command.await;
            outbox.push(reply)?;
            Ok((Places::default(), effect))
        };
        self.task = Some(Task { future: Box::pin(answered), is_command: true });
    }

    /// What the socket holds for its client, from now on if it held nothing.
    pub fn holdings(&mut self) -> &mut Holdings {
        let Live { keeper, lines, .. } = &*self.live;
        self.holdings.get_or_insert_with(|| Box::new(Holdings::new(keeper.clone(), lines.clone())))
    }

    /// Fails if the socket hears every room: then it cannot subscribe to one, nor leave one.
    pub fn require_single_rooms(&self) -> Result<(), Problem> {
        match self.places.everywhere {
            Some(_) => Err(Problem::new(Code::BadRequest, "This socket hears every room already.")),
            None => Ok(()),
        }
    }

    /// Fails if the socket is in as many rooms as it may be, and not in this one.
    pub fn require_room_for(&self, room: &RoomId) -> Result<(), Problem> {
        let (limit, rooms) = (self.live.rooms_per_socket, &self.places.rooms);
        if limit != 0 && rooms.len() as u64 >= u64::from(limit) && !rooms.contains_key(room) {
            return Err(Problem::new(Code::LimitReached, format!("One socket may subscribe to {limit} rooms.")));
        }
        Ok(())
    }

    /// Joins a room, which the caller may see. Re-subscribing replaces the old subscription once the new snapshot is read;
    /// if the read fails, `refuse` says so and the old one stays.
    pub fn subscribe(&mut self, subscription: Subscription, refuse: impl FnOnce(&Problem) -> Bytes + 'static) -> Step {
        let listener = self.listener()?;
        let old = self.places.rooms.remove_entry(&subscription.room);
        self.join(async move {
            match listener.start(&subscription).await {
                Ok(start) => {
                    drop(old);
                    listener.join(subscription, start).await
                }
                Err(problem) => {
                    listener.outbox.push(refuse(&problem))?;
                    Ok(old.into_iter().collect())
                }
            }
        });
        Ok(())
    }

    /// Joins the room without which the socket is good for nothing.
    pub fn hear_only(&mut self, room: RoomId) -> Step {
        let listener = self.listener()?;
        self.join(async move {
            let subscription = Subscription { room, after: None, extensions: false, id: None };
            let start = listener.start(&subscription).await.map_err(|problem| End::cut_off(&problem))?;
            listener.join(subscription, start).await
        });
        Ok(())
    }

    /// Hears every room the caller may see, from now on, without a snapshot.
    pub fn hear_everything(&mut self) -> Step {
        let Listener { live, caller, outbox, wire, .. } = self.listener()?;
        let (epoch, sequence) = (live.hub.epoch(), live.hub.watermark());
        let page = Page {
            r#type: "subscribed",
            id: None,
            room: "*",
            start: Some(PageStart { epoch, sequence, recovered: false, server_time: self.now() }),
            locks: Some(&[]),
            events: None,
            more: false,
            participants: Some(&[]),
        };
        self.say((wire.page)(&page, None))?;
        let scope = Scope::Rooms(caller.rooms.clone());
        let subscriber = Subscriber::new(scope, outbox, &caller, wire, sequence, false);
        let joined = async move {
            match live.hub.join(&caller.tenant, vec![subscriber], None).await {
                Ok(seats) => {
                    let everywhere = seats.into_iter().next();
                    Ok((Places { rooms: Memberships::new(), everywhere }, Effect::Nothing))
                }
                // A thousand notices between two lines: let it come again.
                Err(NotJoined::TooOld) => Err(End::Close(Close::TooSlow, "too slow")),
                Err(NotJoined::Stopped) => Err(End::Gone),
            }
        };
        self.task = Some(Task { future: Box::pin(joined), is_command: false });
        Ok(())
    }

    pub fn unsubscribe(&mut self, room: &RoomId) {
        self.places.rooms.remove(room);
    }

    /// Goes on from the log when more came at once than the outbox holds, as soon as what is queued has been taken. Ends
    /// the socket if its outbox is closed.
    pub(super) fn catch_up(&mut self) -> Step {
        let from = self.outbox.full_from().ok_or(End::Gone)?;
        let listener = self.listener()?;
        let mut memberships = mem::take(&mut self.places.rooms);
        self.join(async move {
            listener.taken().await?;
            for membership in memberships.values_mut() {
                membership.leave(from);
            }
            // Only when nobody writes to it any more: what comes next must follow what it has.
            listener.live.hub.settle().await;
            listener.outbox.reopen();
            listener.go_on(&mut memberships, None).await?;
            Ok(memberships)
        });
        Ok(())
    }

    fn join(&mut self, joined: impl Future<Output = Result<Memberships, End>> + 'static) {
        let future = async move { Ok((Places { rooms: joined.await?, everywhere: None }, Effect::Nothing)) };
        self.task = Some(Task { future: Box::pin(future), is_command: false });
    }

    /// Fails if it is not known who the client is.
    fn listener(&self) -> Result<Listener, End> {
        let Known { caller, turns } = self.known.clone().ok_or(End::Gone)?;
        Ok(Listener { live: Arc::clone(&self.live), caller, outbox: Arc::clone(&self.outbox), wire: self.wire, turns })
    }

    /// Resolves when the task is done, and while there is none when there are news of what the socket holds. News wait for the
    /// task: it may be about to say what they are about. `ping` is the number of the ping that follows a grant.
    pub(super) async fn happens(&mut self, ping: u64) -> Happening {
        match (&mut self.task, &mut self.holdings) {
            (Some(task), _) => Happening::Done(task.future.as_mut().await),
            (None, Some(holdings)) => Happening::News(holdings.next(ping).await),
            (None, None) => std::future::pending().await,
        }
    }

    /// What the task has got is the socket's from now on.
    pub(super) fn take(&mut self, done: TaskOutcome) -> Step {
        self.task = None;
        let (Places { rooms, everywhere }, effect) = done?;
        if !matches!(effect, Effect::Nothing) {
            self.holdings().take(effect);
        }
        self.places.rooms.extend(rooms);
        self.places.everywhere = everywhere.or(self.places.everywhere.take());
        Ok(())
    }

    /// Finishes a command that was begun, and leaves all rooms.
    pub(super) async fn wind_up(&mut self, end: End) {
        if let Some(task) = self.task.take().filter(|task| task.is_command) {
            // Once it is begun it is committed, with or without someone to hear of it.
            let _ = tokio::time::timeout(LAST_ANSWER, task.future).await;
        }
        self.places = Places::default();
        // Tickets and grants that nobody has claimed are given up, unless the client has been sent away.
        if let (Some(holdings), End::Close(Close::Draining, _)) = (self.holdings.take(), end) {
            holdings.leave_to_others();
        }
    }
}

/// A new token may last longer, but what a socket hears must not depend on which one it was opened with.
fn is_same(known: &Caller, new: &Caller) -> bool {
    (&known.tenant, &known.owner, known.role, &known.rooms) == (&new.tenant, &new.owner, new.role, &new.rooms)
}
