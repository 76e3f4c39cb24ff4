//! Many sockets and a few HTTP connections, on one thread.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use mio::{Events, Interest, Poll, Token, Waker, net::TcpStream};

use crate::{
    Result,
    frames::{Frame, Frames, masked},
    http, now_ns,
};

const WAKER: Token = Token(usize::MAX);
/// How many sockets are opened at once.
const WINDOW: usize = 64;
const PATIENCE_NS: u64 = 20_000_000_000;

/// What a connection has brought.
pub enum Came {
    Notice {
        socket: usize,
        bytes: usize,
        written_ns: Option<u64>,
    },
    /// Any other text.
    Text {
        socket: usize,
    },
    Answer {
        caller: usize,
        status: u16,
    },
    /// Another thread has used the waker.
    Woken,
}

struct Socket {
    stream: TcpStream,
    /// The answer to the handshake, until all of it has arrived.
    head: Option<Vec<u8>>,
    frames: Frames,
}

struct Caller {
    stream: TcpStream,
    received: Vec<u8>,
}

pub struct Client {
    poll: Poll,
    events: Events,
    sockets: Vec<Socket>,
    callers: Vec<Caller>,
    buffer: Vec<u8>,
    free: VecDeque<usize>,
}

pub struct Opening<'a> {
    pub address: SocketAddr,
    /// The path, with `{room}` in it.
    pub path: &'a str,
    pub sockets: usize,
    pub rooms: usize,
    /// How many text messages a socket gets before it is ready.
    pub texts: usize,
    pub token: &'a str,
}

impl Client {
    pub fn open(opening: &Opening) -> Result<Self> {
        let (poll, events) = (Poll::new()?, Events::with_capacity(4096));
        let (sockets, callers, free) = (Vec::with_capacity(opening.sockets), Vec::new(), VecDeque::new());
        let mut client = Self { poll, events, sockets, callers, buffer: vec![0; 256 * 1024], free };
        let mut texts = vec![0; opening.sockets];
        while client.sockets.len() < opening.sockets {
            for _ in 0..WINDOW.min(opening.sockets - client.sockets.len()) {
                client.connect(opening)?;
            }
            let deadline = now_ns() + PATIENCE_NS;
            while !client.sockets.iter().all(|socket| socket.head.is_none())
                || texts[..client.sockets.len()].iter().any(|texts| *texts < opening.texts)
            {
                client.pump(Some(Duration::from_secs(1)), |came, _| {
                    if let Came::Text { socket } = came {
                        texts[socket] += 1;
                    }
                })?;
                if now_ns() > deadline {
                    return Err("the sockets do not open".into());
                }
            }
        }
        Ok(client)
    }

    /// Opens connections for requests, in place of those before: servers close connections that are idle for a while.
    pub fn dial(&mut self, address: SocketAddr, callers: usize) -> Result {
        self.hang_up();
        for place in 0..callers {
            let mut stream = TcpStream::from_std(connected(address)?);
            self.poll.registry().register(&mut stream, Token(self.sockets.len() + place), Interest::READABLE)?;
            self.callers.push(Caller { stream, received: Vec::new() });
        }
        self.free = (0..callers).collect();
        Ok(())
    }

    pub fn hang_up(&mut self) {
        self.callers.clear();
        self.free.clear();
    }

    fn connect(&mut self, opening: &Opening) -> Result {
        let place = self.sockets.len();
        let mut stream = TcpStream::from_std(connected(opening.address)?);
        let path = opening.path.replace("{room}", &(place % opening.rooms).to_string());
        stream.write_all(&http::upgrade(&path, opening.token))?;
        self.poll.registry().register(&mut stream, Token(place), Interest::READABLE)?;
        self.sockets.push(Socket { stream, head: Some(Vec::new()), frames: Frames::default() });
        Ok(())
    }

    pub fn waker(&self) -> Result<Arc<Waker>> {
        Ok(Arc::new(Waker::new(self.poll.registry(), WAKER)?))
    }

    /// Returns a connection without an open request.
    pub fn free_caller(&mut self) -> Option<usize> {
        self.free.pop_front()
    }

    pub fn call(&mut self, caller: usize, request: &[u8]) -> Result {
        Ok(self.callers[caller].stream.write_all(request)?)
    }

    pub fn say(&mut self, socket: usize, message: &[u8]) -> Result {
        Ok(self.sockets[socket].stream.write_all(message)?)
    }

    /// Waits for one round of events or for the timeout, and reports what came, each with the moment it was read.
    pub fn pump(&mut self, timeout: Option<Duration>, mut each: impl FnMut(Came, u64)) -> Result {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        for event in &self.events {
            let Token(place) = event.token();
            if event.token() == WAKER {
                each(Came::Woken, now_ns());
            } else if let Some(socket) = self.sockets.get_mut(place) {
                socket.receive(place, &mut self.buffer, &mut each)?;
            } else {
                let place = place - self.sockets.len();
                let caller = &mut self.callers[place];
                if let Some(status) = caller.receive(&mut self.buffer)? {
                    self.free.push_back(place);
                    each(Came::Answer { caller: place, status }, now_ns());
                }
            }
        }
        Ok(())
    }
}

fn connected(address: SocketAddr) -> Result<std::net::TcpStream> {
    let stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

impl Socket {
    fn receive(&mut self, place: usize, buffer: &mut [u8], each: &mut impl FnMut(Came, u64)) -> Result {
        let mut ping = None;
        loop {
            let length = match self.stream.read(buffer) {
                Ok(0) => return Err(format!("socket {place} was closed").into()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            let now = now_ns();
            let mut bytes = &buffer[..length];
            let opened;
            if let Some(mut head) = self.head.take() {
                head.extend_from_slice(bytes);
                let Some(end) = http::head(&head) else {
                    self.head = Some(head);
                    continue;
                };
                if !head.starts_with(b"HTTP/1.1 101") {
                    return Err(format!("no upgrade: {}", String::from_utf8_lossy(&head)).into());
                }
                opened = head.split_off(end);
                bytes = &opened;
            }
            let mut is_closed = false;
            self.frames.feed(bytes, |frame| match frame {
                Frame::Notice { bytes, written_ns } => each(Came::Notice { socket: place, bytes, written_ns }, now),
                Frame::Other => each(Came::Text { socket: place }, now),
                Frame::Ping(payload) => ping = Some(payload),
                Frame::Close => is_closed = true,
            });
            if is_closed {
                return Err(format!("socket {place} was told to close").into());
            }
            // A short read has emptied the connection.
            if length < buffer.len() {
                break;
            }
        }
        if let Some(payload) = ping {
            self.stream.write_all(&masked(0xA, &payload))?;
        }
        Ok(())
    }
}

impl Caller {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<u16>> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err("an HTTP connection was closed".into()),
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let answer = http::answer(&self.received);
        Ok(answer.map(|(status, length)| {
            self.received.drain(..length);
            status
        }))
    }
}
