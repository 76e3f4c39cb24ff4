//! What a client that does not play by the rules may cost: the memory of a real process, at its highest.

use doclock::auth::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    caller::eventually,
    client::sequence,
    costs::{forget_peak, peak},
    process::{Home, Process, token},
    raw::{Frame, Raw},
};

const MIB: u64 = 1024 * 1024;
/// For what a busy server needs for a moment, whoever listens.
const ROOM: u64 = 12 * MIB;
const LOCKS: &str = "/api/rooms/room/locks";
const BULK: usize = 100;
const BULKS: usize = 100;

fn is_flat(process: &Process, before: u64) {
    let grown = peak(process).saturating_sub(before);
    println!("{} MiB before, {} KiB more at the peak", before / MIB, grown / 1024);
    assert!(grown < ROOM, "{} MiB more", grown / MIB);
}

fn documents() -> Value {
    (0..BULK).map(|index| index.to_string()).collect()
}

/// Twenty megabytes for all who listen: locks with much to say, and their unlocks. The last ones are kept.
async fn load(process: &Process) {
    let editor = process.editor("alice");
    for bulk in 0..BULKS {
        if bulk > 0 {
            editor.send(Method::DELETE, LOCKS, json!({"documents": documents()})).await.ok();
        }
        let metadata = json!({"text": "x".repeat(2000)});
        let body = json!({"documents": documents(), "ttl_seconds": 300, "metadata": metadata});
        editor.send(Method::POST, LOCKS, body).await.ok();
    }
}

/// Everything up to the last sequence, without gap.
async fn listen(mut reader: Raw, first: i64, last: i64) {
    for expected in first..=last {
        assert_eq!(sequence(&reader.text().await), expected);
    }
    assert!(reader.bytes > 20_000_000, "only {} bytes have passed", reader.bytes);
}

/// The same load for the same readers; answers the last sequence.
async fn load_with_readers(process: &Process) -> i64 {
    const READERS: usize = 3;
    let mut readers = Vec::new();
    let mut last = 0;
    for _ in 0..READERS {
        let (reader, told) = Raw::in_room(&process.base, "room", &token("eve", Role::Viewer)).await;
        let start = sequence(&told);
        last = start + i64::try_from((2 * BULKS - 1) * BULK).unwrap();
        readers.push(tokio::spawn(listen(reader, start + 1, last)));
    }
    load(process).await;
    for reader in readers {
        reader.await.unwrap();
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_stops_reading_costs_neither_memory_nor_anyone_a_notice() {
    let home = Home::new();
    let process = home.start();
    let (editor, admin) = (process.editor("alice"), process.admin());
    // What the load costs by itself.
    load_with_readers(&process).await;
    let before = peak(&process);
    editor.send(Method::DELETE, LOCKS, json!({"documents": documents()})).await.ok();
    let viewer = token("eve", Role::Viewer);
    let (mut stalled, told) = Raw::in_room(&process.base, "room", &viewer).await;
    let start = sequence(&told);
    let last = load_with_readers(&process).await;
    is_flat(&process, before);
    // It is given up although it has read nothing of it.
    eventually("it is given up", async || (admin.metric("doclock_sockets").await == 0).then_some(())).await;

    let mut known = start;
    let code = loop {
        match stalled.next().await {
            Some(Frame::Text(notice)) => {
                assert_eq!(sequence(&notice), known + 1, "what does arrive has no gap");
                known = sequence(&notice);
            }
            Some(Frame::Close(code)) => break code,
            other => panic!("{other:?}: cut, not closed"),
        }
    };
    assert_eq!(code, 4408);
    assert!(known < last);
    let mut socket = crate::client::open(&process.base, "/ws", &[("authorization", &format!("Bearer {viewer}"))]).await;
    assert_eq!(socket.next().await["type"], "welcome");
    let told = socket.subscribe("room", Some(json!({"epoch": told["epoch"], "sequence": known}))).await;
    assert_eq!(sequence(&told.opening), last);
    // More was missed than is told one by one: it knows the room as it is.
    let tokens = |locks: &[Value]| -> Vec<_> {
        let mut tokens: Vec<_> =
            locks.iter().map(|lock| (lock["document"].to_string(), lock["fencing_token"].as_i64())).collect();
        tokens.sort();
        tokens
    };
    assert_eq!(tokens(&told.locks), tokens(&admin.locks().await));
    assert_eq!(told.locks.len(), BULK);
    process.stop();
}

async fn send_declared_terabyte(process: &Process, mebibytes: u64) {
    let mut socket = Raw::open(&process.base, "/ws", &token("mallory", Role::Editor)).await;
    assert_eq!(socket.text().await["type"], "welcome");
    // Refused by what it declares, before anything of it is there.
    assert!(socket.send(&[0x81, 0xFF, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4]).await);
    assert!(matches!(socket.next().await, Some(Frame::Close(1009))));
    let mebibyte = vec![b'x'; 1 << 20];
    let mut sent = 0;
    // For a while it is read, so that the close arrives; then the connection ends.
    while sent < mebibytes && socket.send(&mebibyte).await {
        sent += 1;
    }
    println!("{sent} MiB sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_declares_a_terabyte_is_refused_and_none_of_it_is_kept() {
    const MEBIBYTES: u64 = 300;
    let home = Home::new();
    let process = home.start();
    send_declared_terabyte(&process, 1).await;
    forget_peak(&process);
    let before = peak(&process);
    send_declared_terabyte(&process, MEBIBYTES).await;
    is_flat(&process, before);
    let admin = process.admin();
    eventually("it is gone", async || (admin.metric("doclock_sockets").await == 0).then_some(())).await;
    process.stop();
}
