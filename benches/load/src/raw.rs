//! The raw loop: a ready frame, one `write()` for each socket of the room.
//!
//! `GET /ws/{room}` opens a socket, `POST /notices/{room}/{count}/{bytes}` writes so many notices of that size to each,
//! and is answered afterwards. Everything else is answered with nothing.

use std::{
    collections::HashMap,
    io::{ErrorKind, Read, Write},
};

use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};

use crate::{Result, frames::raw_notice, http, now_ns};

const LISTENER: Token = Token(0);
const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n\r\n";
const ANSWERED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[derive(Default)]
struct Server {
    connections: HashMap<Token, TcpStream>,
    rooms: HashMap<String, Vec<Token>>,
}

pub fn serve() -> Result {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    println!("raw listens on http://{}", listener.local_addr()?);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(1024));
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut server = Server::default();
    let mut next = 1;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() != LISTENER {
                server.read(event.token())?;
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true)?;
                poll.registry().register(&mut stream, Token(next), Interest::READABLE)?;
                server.connections.insert(Token(next), stream);
                next += 1;
            }
        }
    }
}

impl Server {
    fn read(&mut self, token: Token) -> Result {
        let mut buffer = [0; 4096];
        let Some(stream) = self.connections.get_mut(&token) else { return Ok(()) };
        let length = match stream.read(&mut buffer) {
            Ok(0) => {
                self.connections.remove(&token);
                return Ok(());
            }
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Requests come in one piece over loopback, one at a time.
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if http::answer(&buffer[..length]).is_none() && http::head(&buffer[..length]).is_none() {
            return Ok(());
        }
        let mut words = text.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (method, parts.as_slice()) {
            ("GET", ["ws", room]) => {
                self.rooms.entry((*room).to_owned()).or_default().push(token);
                write_all(stream, UPGRADED)
            }
            ("POST", ["notices", room, count, bytes]) => {
                self.notices(room, count.parse()?, bytes.parse()?)?;
                self.answer(token)
            }
            _ => self.answer(token),
        }
    }

    fn answer(&mut self, token: Token) -> Result {
        self.connections.get_mut(&token).map_or(Ok(()), |stream| write_all(stream, ANSWERED))
    }

    fn notices(&mut self, room: &str, count: usize, bytes: usize) -> Result {
        for _ in 0..count {
            let notice = raw_notice(bytes, now_ns());
            for token in self.rooms.get(room).into_iter().flatten() {
                if let Some(stream) = self.connections.get_mut(token) {
                    write_all(stream, &notice)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes everything, and yields while the connection is full: no reader here stays behind for long.
fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> Result {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
