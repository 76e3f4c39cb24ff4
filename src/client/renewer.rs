//! The one background thread of this process, on whose runtime all locks are taken, renewed and released.

use std::{
    sync::{LazyLock, OnceLock, mpsc},
    thread::{self, ThreadId},
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

use super::LockError;

struct Renewer {
    handle: Handle,
    thread: ThreadId,
}

static RENEWER: OnceLock<Result<Renewer, String>> = OnceLock::new();

/// How many pieces of work nobody waits for are not done yet.
static IN_BACKGROUND: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

fn renewer() -> Result<&'static Renewer, LockError> {
    let started = RENEWER.get_or_init(|| start().map_err(|error| error.to_string()));
    started.as_ref().map_err(|reason| LockError::NotConfigured(format!("the thread for locks cannot start: {reason}")))
}

fn start() -> std::io::Result<Renewer> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (sender, id) = mpsc::channel();
    let run = move || {
        let _ = sender.send(thread::current().id());
        runtime.block_on(std::future::pending::<()>());
    };
    let thread = thread::Builder::new().name("doclock-renewer".to_owned()).spawn(run)?;
    Ok(Renewer { handle, thread: id.recv().unwrap_or_else(|_| thread.thread().id()) })
}

/// Whether this is the renewer's own thread, which must not wait for itself.
pub(super) fn is_here() -> bool {
    matches!(RENEWER.get(), Some(Ok(renewer)) if renewer.thread == thread::current().id())
}

/// Runs `work` on the renewer. Dropping the future that is returned drops the work.
pub(super) async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, LockError> {
    let task = renewer()?.handle.spawn(work);
    let _abort = AbortOnDrop(task.abort_handle());
    result(task).await
}

/// Runs `work` on the renewer to its end, whether or not anyone waits for it.
pub(super) fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, LockError> {
    let renewer = renewer()?;
    let busy = Busy::new();
    Ok(renewer.handle.spawn(async move {
        let _busy = busy;
        work.await
    }))
}

pub(super) async fn result<T>(task: JoinHandle<T>) -> Result<T, LockError> {
    match task.await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(LockError::NotConfigured("the thread for locks has ended".to_owned())),
    }
}

/// Returns when every release that nobody waits for is done, at the latest after `limit`. For the end of a program.
pub async fn settle(limit: Duration) {
    let idle = async { IN_BACKGROUND.subscribe().wait_for(|count| *count == 0).await.map(drop) };
    let _ = run(tokio::time::timeout(limit, idle)).await;
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Busy;

impl Busy {
    fn new() -> Self {
        IN_BACKGROUND.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IN_BACKGROUND.send_modify(|count| *count -= 1);
    }
}
