//! The HTTP server: the application behind actix-http's own service, which hands a connection over when it is upgraded.
//! actix-web's `HttpServer` does not: an upgraded connection would keep the buffers of an HTTP connection until it
//! ends.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use actix_codec::{Encoder, Framed};
use actix_http::{
    BoxedPayloadStream, ConnectionType, HttpService, Payload, Request, Response,
    body::MessageBody,
    error::PayloadError,
    h1::{Codec, Message},
};
use actix_server::Server;
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, fn_service, map_config};
use actix_web::{
    HttpMessage,
    dev::{AppConfig, ServiceResponse},
    rt::net::TcpStream,
    web,
};
use bytes::BytesMut;
use futures_util::stream;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::AsyncWriteExt;

use super::{Api, Routes, cors};
use crate::{
    auth::Origins,
    live::upgrade::{Upgradable, Upgrade},
};

/// How long a client may leave what was sent to it unread.
const UNREAD_FOR: Duration = Duration::from_secs(30);
/// Connections that wait to be accepted: after a restart everyone comes back at once.
const BACKLOG: i32 = 2048;
/// The size of one segment, in bytes. On loopback, where a proxy may be, the kernel would send segments of 64 KB. That
/// is more than the window of a client that has paused: when it reads again, nothing is sent to it before a timer ends
/// whose time doubles up to minutes (docs/decisions/0013).
const SEGMENT: u32 = 16 * 1024;
const REQUEST_HEAD_WITHIN: Duration = Duration::from_secs(10);

pub struct Listening {
    pub address: SocketAddr,
    /// How many threads; one per core unless given.
    pub workers: Option<usize>,
    pub drain_for: Duration,
}

impl Listening {
    /// Returns the server, and where it listens. `more_routes` are those of other protocols that start as HTTP.
    pub fn start(
        &self,
        api: &web::Data<Api>,
        origins: &Origins,
        more_routes: Routes,
    ) -> io::Result<(Server, SocketAddr)> {
        let listener = listen(self.address)?;
        let address = listener.local_addr()?;
        let mut builder = Server::build().disable_signals().shutdown_timeout(self.drain_for.as_secs());
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        let stopping = builder.graceful_shutdown_signal();
        let (upgrades, api, origins) = (api.clone(), api.clone(), origins.clone());
        let application = move || {
            let application = super::app(api.clone(), cors::middleware(&origins), Arc::clone(&more_routes));
            map_config(application.into_factory(), |()| AppConfig::default())
        };
        let builder = builder.listen("doclock", listener, move || {
            let (application, stopping) = (application.clone(), stopping.clone());
            let (api, upgraded) = (upgrades.clone(), application.clone());
            HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                // A handler stops when its client is gone.
                .h1_allow_half_closed(false)
                .client_request_timeout(REQUEST_HEAD_WITHIN)
                .on_connect_ext(|connection: &TcpStream, _| limit_silence(connection))
                .upgrade(fn_factory(move || {
                    let (api, application) = (api.clone(), upgraded());
                    async move {
                        let application = Rc::new(application.new_service(()).await?);
                        Ok::<_, ()>(fn_service(move |(request, connection)| {
                            upgrade(api.clone(), Rc::clone(&application), request, connection)
                        }))
                    }
                }))
                .finish(application())
                .tcp()
        })?;
        Ok((builder.run(), address))
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it.
    socket.set_tcp_mss(SEGMENT)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Has the kernel drop a client that neither reads nor leaves. Otherwise what it has not read would be kept for as long
/// as the connection stands.
fn limit_silence(connection: &TcpStream) {
    if let Err(error) = SockRef::from(connection).set_tcp_user_timeout(Some(UNREAD_FOR)) {
        tracing::debug!(%error, "no limit on how long a client may leave its answers unread");
    }
}

/// Has the application answer a request that asks for an upgrade. If the handler has left an [`Upgrade`] in its answer,
/// the connection is handed over to it; if not, the connection ends with the answer.
async fn upgrade<S, B>(
    api: web::Data<Api>,
    application: Rc<S>,
    request: Request,
    connection: Framed<TcpStream, Codec>,
) -> Result<(), actix_web::Error>
where
    S: Service<Request, Response = ServiceResponse<B>, Error = actix_web::Error>,
    B: MessageBody,
{
    // What follows the head is not a body. A handler that reads one gets an error rather than an empty body.
    let payload: BoxedPayloadStream = Box::pin(stream::iter([Err(PayloadError::Incomplete(None))]));
    let (request, _) = request.replace_payload(Payload::Stream { payload });
    let client = api.proxies.client(request.peer_addr(), request.headers());
    request.extensions_mut().insert(Upgradable { client });
    let mut response = application.call(request).await?;
    let upgrade = response.response_mut().extensions_mut().remove::<Upgrade>();

    let (mut head, body) = Response::from(response).into_parts();
    let mut parts = connection.into_parts();
    if let Some(upgrade) = upgrade {
        parts.codec.encode(Message::Item((head, body.size())), &mut parts.write_buf)?;
        upgrade.start(parts.io, &parts.write_buf, &parts.read_buf);
        return Ok(());
    }
    head.head_mut().set_connection_type(ConnectionType::Close);
    head.head_mut().no_chunking(true);
    parts.codec.encode(Message::Item((head, body.size())), &mut parts.write_buf)?;
    finish(parts.io, parts.codec, parts.write_buf, body).await
}

/// Writes the answer and closes the connection, which is what ends a body without a length.
async fn finish(
    mut stream: TcpStream,
    mut codec: Codec,
    mut unwritten: BytesMut,
    body: impl MessageBody,
) -> Result<(), actix_web::Error> {
    let mut body = std::pin::pin!(body);
    stream.write_all_buf(&mut unwritten).await?;
    while let Some(chunk) = std::future::poll_fn(|context| body.as_mut().poll_next(context)).await {
        let chunk = chunk.map_err(|error| actix_web::error::ErrorInternalServerError(error.into()))?;
        codec.encode(Message::Chunk(Some(chunk)), &mut unwritten)?;
        stream.write_all_buf(&mut unwritten).await?;
    }
    Ok(stream.shutdown().await?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn segments_are_small_enough_for_the_window_of_a_client_that_reads_again() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (connection, _) = listener.accept().unwrap();
        assert!(SockRef::from(&connection).tcp_mss().unwrap() <= SEGMENT);
    }
}
