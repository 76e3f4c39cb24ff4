use futures_util::StreamExt;
use tokio::{io::AsyncReadExt, net::TcpListener};

use super::*;

fn message(length: usize) -> Bytes {
    Bytes::from(vec![b'x'; length])
}

fn notify(outbox: &Arc<Outbox>, sequence: i64, length: usize) -> Result<(), Refused> {
    outbox.notify(sequence, message(length), &mut Due::default())
}

async fn written(outbox: &Arc<Outbox>) -> Vec<Bytes> {
    outbox.end();
    outbox.stream().filter_map(async |message| message.ok()).collect().await
}

#[tokio::test]
async fn an_outbox_takes_256_notices_or_256_kib_and_is_then_closed_as_too_slow() {
    for (length, fits) in [(10, 256), (64 * 1024, 4)] {
        let outbox = Outbox::streaming(Bytes::from_static(b"too slow"), false);
        for sequence in 0..fits {
            notify(&outbox, sequence, length).unwrap();
        }
        assert_eq!(notify(&outbox, fits, length), Err(Refused::TooSlow));
        assert_eq!(notify(&outbox, fits + 1, length), Err(Refused::Closed));
        outbox.stopped().await;
        assert_eq!(written(&outbox).await, [Bytes::from_static(b"too slow")]);
    }
}

#[tokio::test]
async fn a_full_outbox_that_recovers_says_where_from_and_still_takes_answers() {
    let outbox = Outbox::streaming(Bytes::from_static(b"too slow"), true);
    for sequence in 0..256 {
        notify(&outbox, sequence, 1).unwrap();
    }
    for sequence in 256..300 {
        assert_eq!(notify(&outbox, sequence, 1), Err(Refused::TooSlow));
    }
    outbox.stopped().await;
    assert_eq!(outbox.full_from(), Some(256));
    outbox.push(message(2)).unwrap();
    outbox.reopen();
    assert_eq!(outbox.full_from(), None);
    assert_eq!(written(&outbox).await.len(), 257);
}

#[tokio::test]
async fn pages_do_not_count_and_a_dropped_stream_closes() {
    let outbox = Outbox::streaming(Bytes::new(), false);
    outbox.push_page(message(BYTES * 2)).unwrap();
    assert_eq!(outbox.push_page(message(1)), Ok(()));
    drop(outbox.stream());
    outbox.drained().await;
    assert_eq!(outbox.push(message(1)), Err(Refused::Closed));
}

/// Runs where the writer of a thread can be started.
async fn locally<T>(test: impl Future<Output = T>) -> T {
    tokio::task::LocalSet::new().run_until(test).await
}

/// Both ends of a connection; the first takes little at a time.
async fn connected() -> (Arc<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (here, there) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let here = here.unwrap();
    socket2::SockRef::from(&here).set_send_buffer_size(4096).unwrap();
    (Arc::new(here), there.unwrap().0)
}

async fn received(mut there: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    there.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn a_connection_gets_everything_in_order_however_little_it_takes_at_once() {
    locally(async {
        let (here, there) = connected().await;
        let outbox = Outbox::writing(here, Bytes::new(), false);
        let messages: Vec<Bytes> = (0..40_u8).map(|number| vec![number; 50_000].into()).collect();
        for message in &messages {
            outbox.push_page(message.clone()).unwrap();
        }
        outbox.end();
        assert_eq!(received(there).await, messages.concat());
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_too_slow_is_told_so_between_two_messages() {
    locally(async {
        let (here, there) = connected().await;
        let outbox = Outbox::writing(here, Bytes::from_static(b"too slow"), false);
        let large = message(2 << 20);
        outbox.push_page(large.clone()).unwrap();
        outbox.push_page(message(10)).unwrap();
        // The writer has its turn, and finds that the connection does not take all of it.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        outbox.close_as_too_slow();
        assert_eq!(received(there).await, [&large[..], b"too slow"].concat());
    })
    .await;
}
