//! What is done with the sockets: one run for each line of the standard input. Fields are separated by tabs.
//!
//! - `fan TIMES NOTICES REQUEST…`: sends the requests in turn, each when every socket has got all notices of the one
//!   before.
//! - `paced SECONDS RATE HEARD REQUEST…`: so many requests a second, to one `{room}` after the other; HEARD is how many
//!   sockets hear each.
//! - `say MESSAGE`: every socket says it once; ends when each has had an answer.
//! - `extend SECONDS LOCK EXTEND`: every socket locks, then extends again and again, each when the last answer is
//!   there.
//!
//! In between pings are answered.

use std::{
    io::BufRead,
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};

use mio::Waker;

use crate::{
    Result,
    client::{Came, Client, Opening},
    frames::masked,
    http, now_ns,
};

const CALLERS: usize = 16;
const SECOND_NS: u64 = 1_000_000_000;
const PATIENCE_NS: u64 = 30 * SECOND_NS;
/// Every so many paced requests, one that does nothing is sent too.
const NOOP_EVERY: usize = 5;

struct Runs {
    client: Client,
    sockets: usize,
    rooms: usize,
    calls: SocketAddr,
    token: String,
    waker: Arc<Waker>,
}

pub fn serve(arguments: &[String]) -> Result {
    let [address, path, sockets, rooms, texts, token, calls, calls_token] = arguments else {
        return Err("eight arguments are needed".into());
    };
    let (sockets, rooms) = (sockets.parse()?, rooms.parse()?);
    let opening = Opening { address: address.parse()?, path, sockets, rooms, texts: texts.parse()?, token };
    let client = Client::open(&opening)?;
    let waker = client.waker()?;
    let (calls, token) = (calls.parse()?, calls_token.clone());
    let mut runs = Runs { client, sockets, rooms, calls, token, waker: Arc::clone(&waker) };
    let lines = lines(waker);
    println!("{{\"sockets\": {sockets}}}");
    loop {
        match lines.try_recv() {
            Ok(line) => println!("{}", runs.run(&line)?),
            Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
            Err(mpsc::TryRecvError::Empty) => runs.client.pump(None, |_, _| ())?,
        }
    }
}

fn lines(waker: Arc<Waker>) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
            let _ = waker.wake();
        }
        drop(sender);
        let _ = waker.wake();
    });
    lines
}

impl Runs {
    fn run(&mut self, line: &str) -> Result<String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let answer = match fields.as_slice() {
            ["fan", times, notices, requests @ ..] => self.fan(times.parse()?, notices.parse()?, requests),
            ["paced", seconds, rate, heard, requests @ ..] => {
                self.paced(seconds.parse()?, rate.parse()?, heard.parse()?, requests)
            }
            ["say", message] => self.say(message),
            ["extend", seconds, lock, extend] => self.extend(seconds.parse()?, lock, extend),
            _ => Err(format!("unknown: {line}").into()),
        };
        self.client.hang_up();
        answer
    }

    fn fan(&mut self, times: usize, notices: usize, requests: &[&str]) -> Result<String> {
        self.client.dial(self.calls, 1)?;
        let mut counts = vec![0_usize; self.sockets];
        let (mut received, mut bytes) = (0, 0);
        let begin = now_ns();
        for time in 1..=times {
            self.call(requests[(time - 1) % requests.len()])?;
            let (wanted, mut is_answered, deadline) = (time * notices * self.sockets, false, now_ns() + PATIENCE_NS);
            while received < wanted || !is_answered {
                let mut failed = None;
                self.client.pump(Some(Duration::from_secs(1)), |came, _| match came {
                    Came::Notice { socket, bytes: length, .. } => {
                        counts[socket] += 1;
                        received += 1;
                        bytes += length;
                    }
                    Came::Answer { status, .. } => {
                        is_answered = true;
                        failed = (status != 200).then_some(status);
                    }
                    Came::Text { .. } | Came::Woken => {}
                })?;
                if let Some(status) = failed {
                    return Err(format!("a request failed with {status}").into());
                }
                if now_ns() > deadline {
                    return Err(format!("{received} of {wanted} notices have come").into());
                }
            }
        }
        let seconds = seconds(now_ns() - begin);
        if let Some(wrong) = counts.iter().position(|count| *count != times * notices) {
            return Err(format!("socket {wrong} got {} notices of {}", counts[wrong], times * notices).into());
        }
        Ok(format!("{{\"seconds\": {seconds}, \"deliveries\": {received}, \"bytes\": {}}}", bytes / received.max(1)))
    }

    fn paced(&mut self, duration: u64, rate: u64, heard: usize, requests: &[&str]) -> Result<String> {
        let count = usize::try_from(duration * rate)?;
        let rooms: Vec<Vec<Vec<u8>>> = requests
            .iter()
            .map(|request| {
                let named = |room: usize| request.replace("{room}", &room.to_string());
                (0..self.rooms).map(|room| http::request(&named(room), &self.token)).collect()
            })
            .collect();
        let noop = http::request("GET /healthz", &self.token);
        let expected = count * heard;
        let mut seen = Seen { rooms: self.rooms, ..Seen::new(count, expected) };
        self.client.dial(self.calls, CALLERS)?;
        let begin = now_ns() + SECOND_NS / 10;
        tick(Arc::clone(&self.waker), begin, rate, count as u64);
        let deadline = begin + duration * SECOND_NS + PATIENCE_NS;
        while seen.receipts.len() < expected || seen.answers < count {
            while seen.sent < count && now_ns() >= begin + seen.sent as u64 * SECOND_NS / rate {
                let Some(caller) = self.client.free_caller() else { break };
                seen.calls[caller] = Call::Event(seen.sent);
                seen.sent_ns[seen.sent] = now_ns();
                let request = &rooms[(seen.sent / self.rooms) % requests.len()][seen.sent % self.rooms];
                self.client.call(caller, request)?;
                seen.sent += 1;
                if seen.sent.is_multiple_of(NOOP_EVERY)
                    && let Some(caller) = self.client.free_caller()
                {
                    seen.calls[caller] = Call::Noop(now_ns());
                    self.client.call(caller, &noop)?;
                }
            }
            self.client.pump(Some(Duration::from_millis(100)), |came, now| seen.came(&came, now))?;
            if seen.failures > 0 {
                return Err(format!("{} requests failed", seen.failures).into());
            }
            if now_ns() > deadline {
                return Err(format!("{} of {expected} notices have come", seen.receipts.len()).into());
            }
        }
        Ok(seen.told(now_ns() - begin))
    }

    fn say(&mut self, message: &str) -> Result<String> {
        for socket in 0..self.sockets {
            let named = message.replace("{room}", &socket.to_string());
            self.client.say(socket, &masked(1, named.as_bytes()))?;
        }
        let (mut answered, deadline) = (0, now_ns() + PATIENCE_NS);
        while answered < self.sockets {
            self.client.pump(Some(Duration::from_secs(1)), |came, _| {
                answered += usize::from(matches!(came, Came::Text { .. }));
            })?;
            if now_ns() > deadline {
                return Err(format!("{answered} of {} sockets were answered", self.sockets).into());
            }
        }
        Ok(format!("{{\"answered\": {answered}}}"))
    }

    fn extend(&mut self, duration: u64, lock: &str, extend: &str) -> Result<String> {
        let named = |text: &str, socket: usize| masked(1, text.replace("{room}", &socket.to_string()).as_bytes());
        let extends: Vec<_> = (0..self.sockets).map(|socket| named(extend, socket)).collect();
        for socket in 0..self.sockets {
            self.client.say(socket, &named(lock, socket))?;
        }
        let (begin, mut answers, mut counted) = (now_ns(), 0_u64, None);
        let mut answered = Vec::new();
        loop {
            let now = now_ns();
            // The first second is not counted: it has the locks, too.
            if counted.is_none() && now > begin + SECOND_NS {
                counted = Some((now, answers));
            }
            if let Some((since, before)) = counted
                && now > since + duration * SECOND_NS
            {
                #[expect(clippy::cast_precision_loss, reason = "some thousands a second")]
                let rate = (answers - before) as f64 / seconds(now - since);
                // Waits for what is still on its way, so that it does not arrive in the next run.
                self.client.pump(Some(Duration::from_millis(200)), |_, _| ())?;
                return Ok(format!("{{\"rate\": {rate}}}"));
            }
            self.client.pump(Some(Duration::from_secs(1)), |came, _| {
                if let Came::Text { socket } = came {
                    answered.push(socket);
                }
            })?;
            answers += answered.len() as u64;
            for socket in answered.drain(..) {
                self.client.say(socket, &extends[socket])?;
            }
        }
    }

    fn call(&mut self, request: &str) -> Result {
        let caller = self.client.free_caller().ok_or("no free connection")?;
        self.client.call(caller, &http::request(request, &self.token))
    }
}

/// Wakes the client for every request that is due: its own timeouts are of whole milliseconds.
fn tick(waker: Arc<Waker>, begin: u64, rate: u64, count: u64) {
    std::thread::spawn(move || {
        for number in 0..count {
            let due = begin + number * SECOND_NS / rate;
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
            let _ = waker.wake();
        }
    });
}

#[derive(Clone, Copy)]
enum Call {
    Event(usize),
    Noop(u64),
}

struct Seen {
    rooms: usize,
    sent: usize,
    sent_ns: Vec<u64>,
    answered_ns: Vec<u64>,
    answers: usize,
    calls: Vec<Call>,
    noops: Vec<u64>,
    /// Which event was received, and when.
    receipts: Vec<(usize, u64)>,
    /// How long notices took that say when they were written.
    written: Vec<u64>,
    failures: usize,
}

impl Seen {
    fn new(events: usize, receipts: usize) -> Self {
        Self {
            rooms: 1,
            sent: 0,
            sent_ns: vec![0; events],
            answered_ns: vec![0; events],
            answers: 0,
            calls: vec![Call::Noop(0); CALLERS],
            noops: Vec::new(),
            receipts: Vec::with_capacity(receipts),
            written: Vec::new(),
            failures: 0,
        }
    }

    fn came(&mut self, came: &Came, now: u64) {
        match *came {
            Came::Notice { socket, written_ns, .. } => {
                // A room has one event at a time, so a notice is of the room's last one.
                let room = socket % self.rooms;
                let last = (self.sent - 1 - room) / self.rooms * self.rooms + room;
                self.receipts.push((last, now));
                self.written.extend(written_ns.map(|written| now.saturating_sub(written)));
            }
            Came::Answer { caller, status } => {
                self.failures += usize::from(status != 200);
                match self.calls[caller] {
                    Call::Event(event) => {
                        self.answered_ns[event] = now;
                        self.answers += 1;
                    }
                    Call::Noop(sent) => self.noops.push(now - sent),
                }
            }
            Came::Text { .. } | Came::Woken => {}
        }
    }

    fn told(self, took: u64) -> String {
        let since_request = self.receipts.iter().map(|(event, at)| at - self.sent_ns[*event]).collect();
        let answers = self.sent_ns.iter().zip(&self.answered_ns).map(|(sent, answered)| answered - sent).collect();
        format!(
            "{{\"seconds\": {}, \"written_us\": {}, \"receipt_us\": {}, \"answer_us\": {}, \"noop_us\": {}}}",
            seconds(took),
            median(self.written) / 1000,
            median(since_request) / 1000,
            median(answers) / 1000,
            median(self.noops) / 1000,
        )
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "some seconds")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
