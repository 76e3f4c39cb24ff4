//! Waits in line for a lock: for the length of a request, or for as long as a socket is there.

use tokio::sync::mpsc;

use super::{
    Call, Code, DocumentName, Problem, WaitTime,
    lock::{self, LockRequest},
    view::{DoneView, Timed},
};
use crate::{
    lines::{LineNews, NewsSender, Waiting},
    locking::{Command, Done, Lock, LockDocuments, Named, Outcome, Refusal, Renew, Span, Ticket, Unlock},
};

/// Held until the answer to a request that waited has been written. Dropping it before gives the lock up: nobody has got it.
#[derive(Debug)]
pub struct Receipt {
    call: Call,
    lock: Option<Lock>,
}

impl Receipt {
    pub fn is_written(mut self) {
        self.lock = None;
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        let (committer, owner) = (self.call.calls.committer.clone(), self.call.caller.owner.clone());
        let named = Named { lease_id: Some(lock.lease_id), ..Named::default() };
        let (tenant, keys) = (lock.key.tenant.clone(), vec![lock.key]);
        let unlock = Unlock { tenant, keys, owner, named, document_version: None, request: None };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = committer.submit(Command::Unlock(unlock)).await;
            });
        }
    }
}

/// What came of an attempt to lock.
enum Attempt {
    Done(Done),
    Waits { ticket: Ticket, lock: Box<Lock>, is_you: bool },
}

async fn attempt(call: &Call, command: LockDocuments) -> Result<Attempt, Problem> {
    let done = call.submit(Command::Lock(command)).await?.single();
    match done.map_err(|refusal| call.refused(&refusal))? {
        Done::Waiting { ticket, lock, is_you } => Ok(Attempt::Waits { ticket, lock, is_you }),
        done => Ok(Attempt::Done(done)),
    }
}

/// Answers the lock as soon as it is granted. When the time is up the ticket keeps its place for a while, and the answer
/// says where that is. A client that goes away drops this, and with it its place.
pub(super) async fn wait_for(
    call: &Call,
    command: LockDocuments,
    wait: WaitTime,
) -> Result<(Timed<DoneView>, Option<Receipt>), Problem> {
    let until = call.now().plus_millis(i64::try_from(wait.duration().as_millis()).unwrap_or_default());
    let (ticket, shown, is_you) = match attempt(call, command).await? {
        // It was this request's turn while nobody was there to hear of it.
        Attempt::Done(Done::Live { lock, .. }) if is_unclaimed(&lock) => {
            let (claimed, receipt) = receive(call, &lock).await?;
            let Some(done) = claimed else { return Err(held(call, &lock, true, None)) };
            return Ok((done_view(call, &done), Some(receipt)));
        }
        Attempt::Done(done) => return Ok((done_view(call, &done), None)),
        Attempt::Waits { ticket, lock, is_you } => (ticket, lock, is_you),
    };
    let (sender, mut news) = mpsc::unbounded_channel();
    let waiting = call.calls.lines.wait(&ticket, sender, false);
    let mut granted = missed_grant(call, &ticket).await?;
    while granted.is_none() {
        tokio::select! {
            heard = news.recv() => match heard {
                Some((_, LineNews::Granted(lock))) => granted = Some(*lock),
                Some((_, LineNews::Position(_))) => {}
                Some((_, LineNews::Lost)) | None => {
                    waiting.finish();
                    return Err(held(call, &shown, is_you, None));
                }
            },
            () = call.calls.clock.sleep_until(until) => break,
            () = call.calls.lines.drains() => {
                waiting.finish();
                let detail = "Your place in line is kept for a while: wait again, on another server if there is one.";
                return Err(Problem::new(Code::Draining, detail).retry_after_ms(1000));
            }
        }
    }
    if granted.is_none() {
        // The last moment counts: the ticket may have been served in it, and gets a new life otherwise.
        let gone = call.calls.committer.renew_tickets(vec![ticket.lease_id]).await?;
        if !gone.is_empty() {
            granted = missed_grant(call, &ticket).await?;
        }
    }
    let Some(lock) = granted else {
        let position = call.calls.queries.position(&ticket, call.now()).await?;
        // Somebody else may have it by now.
        let now_held = call.calls.queries.document(&ticket.key, &call.judged_at()).await?.locks.into_iter().next();
        waiting.finish();
        let is_own = |lock: &Lock| lock.holder.owner == call.caller.owner;
        return Err(match now_held {
            Some(lock) => held(call, &lock, is_own(&lock), position),
            None => held(call, &shown, is_you, position),
        });
    };
    waiting.finish();
    let (claimed, receipt) = receive(call, &lock).await?;
    let Some(done) = claimed else { return Err(held(call, &shown, is_you, None)) };
    Ok((done_view(call, &done), Some(receipt)))
}

pub(super) fn is_unclaimed(lock: &Lock) -> bool {
    matches!(lock.span, Span::Claim(_))
}

/// Claims a grant for an answer that is about to be written. The receipt comes first: a client that goes away while the
/// claim is committed must not leave a lock behind that lives its whole ttl. The claim is none if the grant has ended
/// meanwhile.
pub(super) async fn receive(call: &Call, lock: &Lock) -> Result<(Option<Done>, Receipt), Problem> {
    let receipt = Receipt { call: call.clone(), lock: Some(lock.clone()) };
    Ok((claim(call, lock).await?, receipt))
}

/// A grant that came before anyone was registered to hear of it.
async fn missed_grant(call: &Call, ticket: &Ticket) -> Result<Option<Lock>, Problem> {
    let queries = &call.calls.queries;
    if queries.position(ticket, call.now()).await?.is_some() {
        return Ok(None);
    }
    Ok(queries.lock_by_lease(&ticket.key.tenant, ticket.lease_id, &call.judged_at()).await?)
}

/// The grant has reached somebody: it lives its whole ttl. None if it has ended meanwhile.
async fn claim(call: &Call, lock: &Lock) -> Result<Option<Done>, Problem> {
    let leases = vec![(lock.key.clone(), lock.lease_id)];
    let Outcome { done, .. } = call.submit(Command::Renew(Renew { leases })).await?;
    Ok(done.into_iter().next())
}

fn done_view(call: &Call, done: &Done) -> Timed<DoneView> {
    let now = call.now();
    Timed { answer: DoneView::new(done, &call.caller, now), server_time: now }
}

/// The refusal of a wait that was in vain.
fn held(call: &Call, lock: &Lock, is_you: bool, position: Option<u64>) -> Problem {
    let free_at = lock.expires_at;
    let refusal = Refusal::Held { lock: Box::new(lock.clone()), is_you, free_at };
    let problem = call.refused(&refusal);
    position.into_iter().fold(problem, |problem, position| problem.with("position", position))
}

/// What a socket that waits has got: the lock at once, or a place in line.
#[derive(Debug)]
pub enum Waited {
    Granted(Timed<DoneView>, Box<Lock>),
    InLine { waiting: Waiting, position: u64 },
}

/// Takes a place in line for a socket, which hears by `news` when it is its turn.
pub async fn run(call: &Call, name: DocumentName, request: LockRequest, news: NewsSender) -> Result<Waited, Problem> {
    let command = lock::command(call, name, request, true)?;
    let ticket = match attempt(call, command).await? {
        Attempt::Done(mut done) => {
            if let Done::Live { lock, .. } = &done
                && is_unclaimed(lock)
            {
                done = claim(call, lock).await?.unwrap_or(done);
            }
            let view = done_view(call, &done);
            return match done {
                Done::Live { lock, .. } => Ok(Waited::Granted(view, Box::new(lock))),
                Done::Ended { .. } | Done::Waiting { .. } | Done::LeftLine | Done::Asked(_) => {
                    Err(Problem::new(Code::OutcomeUnknown, "The lock was answered by something else."))
                }
            };
        }
        Attempt::Waits { ticket, .. } => ticket,
    };
    let waiting = call.calls.lines.wait(&ticket, news.clone(), true);
    let position = call.calls.queries.position(&ticket, call.now()).await?;
    if position.is_none()
        && let Some(lock) = missed_grant(call, &ticket).await?
    {
        let _ = news.send((ticket.lease_id, LineNews::Granted(Box::new(lock))));
    }
    Ok(Waited::InLine { waiting, position: position.unwrap_or(1) })
}
