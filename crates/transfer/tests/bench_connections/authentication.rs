//! Peers without the token or the key of a run, and servers that are not numaio.

use crate::hostile_clients::RawClient;
use crate::support::{TestServer, LIMIT};
use numaio_linux::io::tcp::PeerError;
use numaio_mover_linux::port::net::{Credentials, NetError, Secret};
use numaio_transfer::bench_connections::{connect, connect_started, PendingSession};
use numaio_transfer::ssh::stderr_relay::LineSink;
use numaio_transfer::ssh::ManagedProcess;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn secret() -> Secret {
    Secret::generate().expect("a secret")
}

#[test]
fn wrong_token_is_rejected_with_a_clear_error() {
    let server = TestServer::start();
    let error = connect("127.0.0.1", server.address.port(), &secret()).expect_err("a wrong token");
    assert!(matches!(error, PeerError::Refused { .. }), "{error:?}");
    let wanted =
        format!("{} rejected the session: the token is not the one that this server printed", server.name());
    assert_eq!(error.to_string(), wanted);
    drop(server.connect());
    assert_eq!(server.finish(), Ok(()));
}

#[test]
fn unauthenticated_peers_do_not_block_a_session() {
    let server = TestServer::start();
    let endless = vec![b'x'; 1 << 20];
    let garbage: [&[u8]; 5] = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", &[0; 66], &endless];
    let written: Vec<TcpStream> = garbage
        .map(|bytes| {
            let mut socket = server.raw();
            // The server closes the connection after the first bytes.
            drop(socket.write_all(bytes));
            socket
        })
        .into();
    let silent: Vec<TcpStream> = (0..100).map(|_| server.raw()).collect();
    drop(server.connect());
    for mut socket in written.into_iter().chain(silent) {
        let mut reply = Vec::new();
        // A reset also closes it.
        drop(socket.read_to_end(&mut reply));
        // A peer that sends 34 bytes receives a challenge and a proof.
        assert!(reply.is_empty() || reply.len() == 64, "{} bytes", reply.len());
    }
    assert_eq!(server.finish(), Ok(()));
}

#[test]
fn token_is_valid_for_one_session() {
    let server = TestServer::start();
    let (address, token) = (server.address, server.token.clone());
    let peer = server.connect();
    let second = connect("127.0.0.1", address.port(), &token).expect_err("the port is closed");
    assert!(matches!(second, PeerError::Unreachable { .. }), "{second}");
    drop(peer);
    assert_eq!(server.finish(), Ok(()));
    let next = PendingSession::bind(address).expect("the same port");
    assert_ne!(next.token(), token.text());
    let stale = connect("127.0.0.1", address.port(), &token).expect_err("the token of the last session");
    assert!(matches!(stale, PeerError::Refused { .. }), "{stale}");
}

#[test]
fn streams_need_the_key_of_their_run() {
    let server = TestServer::start();
    let mut client = RawClient::authenticated(&server);
    let endpoint = client.receive_endpoint();
    for other in [secret(), server.token.clone()] {
        let credentials = Arc::new(Credentials::Plain(other));
        let at = SocketAddr::from(([127, 0, 0, 1], endpoint.port));
        let error = numaio_mover_linux::port::net::connect(&credentials, (at, &[]), 1, LIMIT);
        assert!(matches!(error, Err(NetError::WrongKey)), "{error:?}");
    }
    let _stream = client.open_stream(&endpoint);
    assert_eq!(client.receive()["kind"], "welcome");
    client.send(
        r#"{"kind":"run","groups":[{"streams":1,"direction":"write"}],"block_bytes":4096,
        "depth":1,"slice_ns":1000000,"slices":2}"#
            .replace('\n', "")
            .as_str(),
    );
    assert!(client.receive_endpoint() != endpoint, "each run has a new key");
}

#[test]
fn pending_session_ends_on_stop() {
    let pending = PendingSession::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = pending.address();
    assert!(pending.accept(&|| true).expect("no error").is_none());
    assert!(TcpStream::connect(address).is_err(), "the port is closed");
}

#[test]
fn unreachable_and_foreign_servers_are_reported() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    for host in ["127.0.0.1", "no such host"] {
        let error = connect(host, free, &secret()).expect_err("no server");
        assert!(matches!(error, PeerError::Unreachable { .. }), "{error}");
    }
    let answers: [&[u8]; 3] = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"{}\n"];
    for answer in answers {
        let error = connect("127.0.0.1", foreign_server(answer), &secret()).expect_err("not numaio");
        assert!(matches!(error, PeerError::NotNumaio { .. }), "{error}");
    }
    // As long as a challenge and a proof.
    let error = connect("127.0.0.1", foreign_server(&[b'x'; 100]), &secret()).expect_err("not numaio");
    assert!(matches!(error, PeerError::Refused { .. }), "{error}");
}

/// Starts a server that sends the same answer to each connection, and returns its port.
fn foreign_server(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.expect("a client");
            // Closing with unread bytes would discard the answer.
            drop(socket.read_exact(&mut [0; 34]));
            drop(socket.write_all(answer));
        }
    });
    port
}

fn sink() -> LineSink {
    Arc::new(|_| {})
}

/// Opens a session with a shell script in place of a server.
fn connect_to_script(script: &str, limit: Duration) -> PeerError {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let mut server = ManagedProcess::start(command, Duration::ZERO, sink()).expect("a shell");
    connect_started("127.0.0.1", &mut server, limit).expect_err("not a server")
}

#[test]
fn started_process_that_is_not_a_server_is_reported() {
    for script in ["echo welcome", "printf '\\377\\n'", "exit 3", "echo {}", "echo '{\"numaio_net\":1}'"] {
        let error = connect_to_script(script, LIMIT);
        assert!(matches!(error, PeerError::NotNumaio { .. }), "{script}: {error}");
    }
    let other = connect_to_script(r#"echo '{"numaio_net":7,"port":7,"token":"x"}'; cat"#, LIMIT);
    assert_eq!(
        other.to_string(),
        "numaio on 127.0.0.1 has protocol version 7, this numaio 1: install one version on both hosts"
    );
    let refused = r#"echo '{"numaio_net":1}'; echo '{"kind":"refused","reason":"no"}'; cat"#;
    let error = connect_to_script(refused, LIMIT);
    assert_eq!(error.to_string(), "127.0.0.1 rejected the session: no");
}

#[test]
fn silent_process_is_reported_after_the_limit() {
    let error = connect_to_script("exec sleep 60", Duration::from_millis(50));
    assert!(matches!(error, PeerError::Silent { .. }), "{error}");
}

#[test]
fn blocked_port_of_a_started_server_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let key = serde_json::Value::from(vec![7; 32]);
    let script =
        format!(r#"echo '{{"numaio_net":1}}'; echo '{{"kind":"ready","port":{free},"key":{key}}}'; cat"#);
    let error = connect_to_script(&script, LIMIT);
    assert!(matches!(error, PeerError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{free}")), "{error}");
}
