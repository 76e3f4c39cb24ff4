//! Bytes that mean nothing, and messages that nearly do.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use doclock::{auth::Role, live::socket::MAX_MESSAGE};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    caller::eventually,
    costs::open_connections,
    process::{DEADLINE, Home, token},
    raw::{Dice, Frame, Raw, masked},
};

const FRAMES: usize = 100_000;
const FRAMES_PER_SOCKET: usize = 10;
const CLIENTS: usize = 25;

const KINDS: [&str; 10] = [
    "subscribe",
    "unsubscribe",
    "lock",
    "extend",
    "unlock",
    "wait",
    "cancel_wait",
    "ask_handover",
    "answer_handover",
    "dance",
];
const FIELDS: [&str; 14] = [
    "room",
    "document",
    "after",
    "extensions",
    "ttl_seconds",
    "session_id",
    "request_id",
    "lease_id",
    "metadata",
    "capacity",
    "takeover",
    "expected_token",
    "wait_ms",
    "nonsense",
];

/// What a field might hold, and what it had better not.
fn value(dice: &mut Dice) -> Value {
    match dice.roll(14) {
        0 => json!("room"),
        1 => json!(format!("room {}", dice.roll(6))),
        2 => json!(""),
        3 => json!("\u{0}\u{7f}\u{202e}\u{1f512}"),
        4 => json!("x".repeat(dice.roll(300))),
        5 => json!(dice.roll(400)),
        6 => json!(-1),
        7 => json!(i64::MIN),
        8 => json!(u64::MAX),
        9 => json!(1e308),
        10 => json!({"epoch": uuid::Uuid::nil(), "sequence": i64::MAX}),
        11 => json!({"epoch": "x", "sequence": dice.roll(99)}),
        12 => json!([[], {}, null, [[[]]]]),
        _ => Value::Null,
    }
}

/// A message that was valid before some of its fields were changed: it is answered, whatever it says.
fn changed_message(dice: &mut Dice) -> Vec<u8> {
    let mut message =
        json!({"type": dice.one_of(&KINDS), "id": dice.roll(9), "room": format!("room {}", dice.roll(6))});
    for _ in 0..dice.roll(4) {
        message[*dice.one_of(&FIELDS)] = value(dice);
    }
    masked(message.to_string().as_bytes())
}

/// A frame that was valid before some of its bytes were changed, were cut off, or were never a frame.
fn broken_frame(dice: &mut Dice) -> Vec<u8> {
    if dice.roll(3) == 0 {
        return (0..=dice.roll(200)).map(|_| dice.byte()).collect();
    }
    let mut bytes = changed_message(dice);
    for _ in 0..=dice.roll(4) {
        let place = dice.roll(bytes.len());
        bytes[place] = dice.byte();
    }
    if dice.roll(4) == 0 {
        bytes.truncate(1 + dice.roll(bytes.len()));
    }
    bytes
}

/// Messages, a broken frame at the end, all sent at once; answers how many answers came.
async fn fuzz(base: &str, token: &str, dice: &mut Dice) -> usize {
    let path = *dice.one_of(&["/ws", "/ws/room", "/ws?rooms=*"]);
    let mut socket = Raw::open(base, path, token).await;
    let mut bytes: Vec<_> = (1..FRAMES_PER_SOCKET).flat_map(|_| changed_message(dice)).collect();
    bytes.extend(broken_frame(dice));
    let mut answers = 0;
    // Some leave in the middle of a word.
    if dice.roll(16) == 0 {
        socket.send(&bytes).await;
        return answers;
    }
    // Should the broken frame still wait for its end, it comes, and then something that is no frame.
    bytes.resize(bytes.len() + MAX_MESSAGE + 2, 0);
    socket.send(&bytes).await;
    loop {
        match socket.next().await {
            Some(Frame::Text(_)) => answers += 1,
            Some(Frame::Close(code)) => {
                assert!([1000, 1009, 4400].contains(&code), "{code}");
                return answers;
            }
            other => panic!("{other:?}: cut, not closed"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_100_000_random_frames_the_server_works_and_keeps_nothing_of_them() {
    let home = Home::new().set("DOCLOCK_LIMITS__SOCKETS_PER_OWNER", "0");
    let mut process = home.start();
    let (editor, admin) = (process.editor("alice"), process.admin());
    let mut witness = Raw::in_room(&process.base, "witness", &token("witness", Role::Viewer)).await.0;
    let witness = tokio::spawn(async move { witness.text_at_last().await });
    let before = open_connections(&process);
    let answers = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (base, answers) = (process.base.clone(), Arc::clone(&answers));
            tokio::spawn(async move {
                let (mut dice, token) = (Dice(client as u64), token(&format!("mallory {client}"), Role::Editor));
                for _ in 0..FRAMES / FRAMES_PER_SOCKET / CLIENTS {
                    answers.fetch_add(fuzz(&base, &token, &mut dice).await, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let answers = answers.load(Ordering::Relaxed);
    println!("{answers} answers");
    assert!(answers > FRAMES / 2, "only {answers} answers: hardly anything was read");
    // Only the witness is left; a socket's place is given back by its task as it ends.
    for gauge in ["doclock_sockets", "doclock_subscriptions"] {
        eventually(gauge, async || (admin.metric(gauge).await == 1).then_some(())).await;
    }
    eventually("connections are closed", async || (open_connections(&process) <= before + 4).then_some(())).await;
    editor.send(Method::POST, "/api/documents/witness/lock", json!({})).await.ok();
    let heard = tokio::time::timeout(DEADLINE, witness).await.expect("it hears nothing").unwrap();
    assert_eq!(heard["type"], "DocumentLocked");
    for gauge in ["doclock_sockets", "doclock_subscriptions"] {
        eventually(gauge, async || (admin.metric(gauge).await == 0).then_some(())).await;
    }
    assert!(process.is_running());
    let log = process.log();
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
    process.stop();
}
