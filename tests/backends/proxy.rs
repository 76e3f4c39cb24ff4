//! A proxy that loses something.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    task::JoinSet,
};

/// Returns whether these bytes get lost. Bytes of a request begin with its method, those of an answer with `HTTP/`.
type Loses = Box<dyn FnMut(&[u8]) -> bool + Send>;

pub struct Proxy {
    pub base: String,
    pub lost: Arc<AtomicUsize>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Loses this share of the answers, and closes their connections. Requests always arrive.
    pub async fn losing_answers(server: &str, seed: u64, share: f64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self::start(server, Box::new(move |bytes| bytes.starts_with(b"HTTP/") && random.f64() < share)).await
    }

    /// Loses heartbeats: they get no answer and do not arrive.
    pub async fn losing_heartbeats(server: &str) -> Self {
        Self::start(server, Box::new(|bytes| bytes.starts_with(b"PUT "))).await
    }

    async fn start(server: &str, loses: Loses) -> Self {
        let server = server.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let lost = Arc::new(AtomicUsize::new(0));
        let (loses, count) = (Arc::new(Mutex::new(loses)), Arc::clone(&lost));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let to_server = TcpStream::connect(&server).await.unwrap();
                connections.spawn(pass(client, to_server, Arc::clone(&loses), Arc::clone(&count)));
            }
        });
        Self { base, lost, _accepting: accepting }
    }
}

async fn pass(client: TcpStream, server: TcpStream, loses: Arc<Mutex<Loses>>, lost: Arc<AtomicUsize>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one direction ends, by what got lost too, both are closed.
    tokio::select! {
        () = copy(from_client, to_server, &loses, &lost) => {}
        () = copy(from_server, to_client, &loses, &lost) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, loses: &Mutex<Loses>, lost: &AtomicUsize) {
    let mut buffer = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if loses.lock().unwrap()(&buffer[..count]) {
            lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
