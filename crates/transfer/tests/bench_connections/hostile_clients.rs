//! Authenticated clients that violate the protocol must not make the server panic or hang.

use crate::support::{TestServer, LIMIT};
use numaio_linux::io::tcp::StreamEndpoint;
use numaio_mover_linux::port::net::{connect, Credentials, Secret};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

const RUN: &str = concat!(
    r#"{"kind":"run","groups":[{"streams":2,"direction":"write"}],"block_bytes":4096,"#,
    r#""depth":1,"slice_ns":1000000,"slices":2}"#
);

/// A client that can send arbitrary lines.
pub struct RawClient {
    socket: TcpStream,
    lines: BufReader<TcpStream>,
}

impl RawClient {
    /// Authenticates and receives the first line.
    pub fn authenticated(server: &TestServer) -> Self {
        let socket = open_stream(server.address, &server.token);
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        socket.set_write_timeout(Some(LIMIT)).expect("a limit");
        let lines = BufReader::new(socket.try_clone().expect("a socket"));
        let mut client = Self { socket, lines };
        assert_eq!(client.receive()["numaio_net"], 1);
        client
    }

    /// Opens a session.
    fn welcome(server: &TestServer) -> Self {
        let mut client = Self::authenticated(server);
        let endpoint = client.receive_endpoint();
        let _stream = client.open_stream(&endpoint);
        assert_eq!(client.receive()["kind"], "welcome");
        client
    }

    /// Opens a session and requests a run.
    fn ready(server: &TestServer) -> (Self, StreamEndpoint) {
        let mut client = Self::welcome(server);
        assert!(client.send(RUN));
        let endpoint = client.receive_endpoint();
        (client, endpoint)
    }

    /// Sends a line; returns false if the connection is closed.
    pub fn send(&mut self, line: &str) -> bool {
        self.socket.write_all(format!("{line}\n").as_bytes()).is_ok()
    }

    /// Receives a line; null at the end.
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(1..) => serde_json::from_str(&line).expect("JSON"),
            _ => Value::Null,
        }
    }

    pub fn receive_endpoint(&mut self) -> StreamEndpoint {
        let answer = self.receive();
        assert_eq!(answer["kind"], "ready", "{answer}");
        serde_json::from_value(answer).expect("an endpoint")
    }

    pub fn open_stream(&self, endpoint: &StreamEndpoint) -> TcpStream {
        let at = SocketAddr::from(([127, 0, 0, 1], endpoint.port));
        open_stream(at, &Secret::from_bytes(endpoint.key))
    }
}

/// Opens stream 0 with a secret.
fn open_stream(at: SocketAddr, secret: &Secret) -> TcpStream {
    let credentials = Arc::new(Credentials::Plain(secret.clone()));
    let streams = connect(&credentials, (at, &[]), 1, LIMIT).expect("authenticated");
    streams[0].socket().try_clone().expect("a socket")
}

#[test]
fn hostile_client_only_ends_its_own_session() {
    let too_early = |server: &TestServer| {
        let mut client = RawClient::authenticated(server);
        client.send(RUN);
        client.receive_endpoint();
        assert_eq!(client.receive(), Value::Null, "the server disconnects");
    };
    let garbage = |server: &TestServer| {
        RawClient::welcome(server).send("\"garbage\"");
    };
    let binary = |server: &TestServer| {
        let mut client = RawClient::welcome(server);
        client.socket.write_all(b"\x00\xff\xfe{\n").expect("sent");
        assert_eq!(client.receive(), Value::Null, "the server disconnects");
    };
    let flood = |server: &TestServer| {
        let mut client = RawClient::welcome(server);
        while client.send(r#"{"kind":"go"}"#) && client.send("\"flood\"") {}
    };
    let long = |server: &TestServer| {
        RawClient::welcome(server).send(&"x".repeat(10 << 20));
    };
    let early = |server: &TestServer| drop(RawClient::ready(server));
    let twice = |server: &TestServer| {
        // The second replaces the first, so one stream is missing.
        let (mut client, endpoint) = RawClient::ready(server);
        let _streams = [client.open_stream(&endpoint), client.open_stream(&endpoint)];
        assert!(client.send(r#"{"kind":"stop"}"#));
        assert_eq!(client.receive()["kind"], "refused");
    };
    let out_of_place = |server: &TestServer| {
        let (mut client, _) = RawClient::ready(server);
        client.send(RUN);
        assert_eq!(client.receive(), Value::Null, "the server disconnects");
    };
    type Hostile<'a> = &'a dyn Fn(&TestServer);
    let hostile: [(&str, Hostile); 8] = [
        ("run before the session is open", &too_early),
        ("garbage", &garbage),
        ("binary garbage", &binary),
        ("flood", &flood),
        ("oversized line", &long),
        ("disconnect before the streams", &early),
        ("duplicate stream", &twice),
        ("run within a run", &out_of_place),
    ];
    for (what, client) in hostile {
        let server = TestServer::start();
        client(&server);
        let ended = server.finish();
        assert!(ended.is_err() || what == "duplicate stream", "{what}: {ended:?}");
    }
}

#[test]
fn client_that_disconnects_ends_its_session_in_order() {
    let server = TestServer::start();
    drop(RawClient::welcome(&server));
    assert_eq!(server.finish(), Ok(()));
}
