use super::*;
use crate::port::backpressure::Backpressure;
use crate::port::link_activity::LinkActivity;
use crate::port::stream_set::{StreamSet, StreamSetLink};
use crate::port::{Pool, Slab};
use numaio_mover::port::{Event, Packet, BLOCK, MAX_FRAME_BYTES};
use std::io::{self, Read, Write};
use std::mem::size_of_val;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// Credentials of client and server.
type CredentialPair = (Arc<Credentials>, Credentials);

fn tls() -> CredentialPair {
    let (one, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let (of_one, of_other) = (one.public().to_vec(), other.public().to_vec());
    let credentials = |own, peer| Credentials::Tls { own, peer };
    (Arc::new(credentials(one, of_other)), credentials(other, of_one))
}

fn plain() -> CredentialPair {
    let secret = Secret::generate().expect("a secret");
    let other = Secret::from_bytes(secret.bytes());
    (Arc::new(Credentials::Plain(secret)), Credentials::Plain(other))
}

fn address(listener: &DataListener) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, listener.port().expect("a port").expect("its own port")).into()
}

/// Drops all packets that arrive at this end, as if its host had lost power, by a filter that
/// accepts none (socket(7), `SO_ATTACH_FILTER`).
pub(super) fn vanish(socket: &TcpStream) {
    let mut nothing = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    // SAFETY: the kernel copies the one instruction, which lives through the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

type StreamPair = (Vec<Box<dyn DataStream>>, Vec<Box<dyn DataStream>>);

/// Opens connections, and returns the client's and the server's ends.
fn open((client, server): CredentialPair, count: usize) -> StreamPair {
    let listener = DataListener::bind(server, None, count).expect("a listener");
    let called = connect(&client, (address(&listener), &[]), count, LIMIT).expect("authenticated");
    (called, listener.into_streams(LIMIT).expect("all connections"))
}

#[test]
fn data_arrives_and_tls_distinguishes_close_from_loss() {
    for (credential_pairs, is_tls) in [(tls(), true), (plain(), false)] {
        let (called, answered) = open(credential_pairs, 4);
        for (index, (mut one, mut other)) in called.into_iter().zip(answered).enumerate() {
            if index % 2 == 1 {
                std::mem::swap(&mut one, &mut other);
            }
            let sent: Vec<u8> = (0..300_000 + index).map(|at| (at * 7 + at / 251) as u8).collect();
            let got = std::thread::scope(|scope| {
                scope.spawn(|| {
                    one.write_all(&sent).expect("sent");
                    match index < 2 {
                        true => one.close().expect("closed"),
                        false => one.socket().shutdown(Shutdown::Write).expect("cut"),
                    }
                });
                let mut got = Vec::new();
                let end = other.read_to_end(&mut got);
                assert_eq!(end.is_ok(), index < 2 || !is_tls, "connection {index}: {end:?}");
                got
            });
            assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
        }
    }
}

#[test]
fn rejects_peers_with_another_key() {
    let ((client, server), (unauthorized, other_server)) = (tls(), tls());
    let listener = DataListener::bind(server, None, 1).expect("a listener");
    let refused = connect(&unauthorized, (address(&listener), &[]), 1, LIMIT).expect_err("wrong key");
    assert!(matches!(refused, NetError::WrongKey), "{refused}");
    assert!(matches!(
        listener.into_streams(Duration::from_millis(50)),
        Err(NetError::MissingConnections(0, 1))
    ));
    // An attacker in between has another key than the one received through ssh.
    let listener = DataListener::bind(other_server, None, 1).expect("a listener");
    let refused =
        connect(&client, (address(&listener), &[]), 1, LIMIT).expect_err("not the listener of the peer");
    assert!(matches!(refused, NetError::WrongKey), "{refused}");
    // A client with the listener's public key, but not the expected private one.
    let (_, server) = tls();
    let Credentials::Tls { own, .. } = &server else { panic!("TLS credentials") };
    let unauthorized =
        Credentials::Tls { own: KeyPair::generate().expect("a key"), peer: own.public().to_vec() };
    let listener = DataListener::bind(server, None, 1).expect("a listener");
    let mut streams =
        connect(&Arc::new(unauthorized), (address(&listener), &[]), 1, LIMIT).expect("the right listener");
    assert!(!matches!(streams[0].read(&mut [0]), Ok(1..)), "authentication fails");
    assert!(matches!(
        listener.into_streams(Duration::from_millis(50)),
        Err(NetError::MissingConnections(0, 1))
    ));
    // The same with secrets.
    let ((client, _), (_, other_server)) = (plain(), plain());
    let listener = DataListener::bind(other_server, None, 1).expect("a listener");
    let refused = connect(&client, (address(&listener), &[]), 1, LIMIT).expect_err("wrong key");
    assert!(matches!(refused, NetError::WrongKey), "{refused}");
}

#[test]
fn takes_connections_over_from_another_process() {
    for (client, server) in [tls(), plain()] {
        let source = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let connections = OutgoingConnections::start(source.local_addr().expect("an address"), &[], 3, LIMIT);
        let accepted: Vec<_> = (0..3).map(|_| source.accept().expect("a connection").0).collect();
        // Connections arrive before credentials are known.
        let (process, ours) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let listener = DataListener::from_process(server, ours, 2).expect("a listener");
        let ticket = Ticket::generate().expect("a ticket");
        connections.open(client, Some(ticket), LIMIT);
        for socket in accepted {
            assert_eq!(Ticket::of(&socket, LIMIT).expect("a ticket"), Some(ticket));
            hand_over(&process, &socket).expect("handed over");
        }
        // Two of the three are needed.
        let mut called = connections.into_streams(2, LIMIT).expect("authenticated");
        let mut streams = listener.into_streams(LIMIT).expect("all connections");
        assert_eq!((called.len(), streams.len()), (2, 2));
        called[1].write_all(b"x").expect("sent");
        streams[1].read_exact(&mut [0]).expect("received");
        assert!(hand_over(&process, streams[0].socket()).is_err(), "the listener is closed");
    }
}

#[test]
fn connections_alternate_between_addresses_of_a_host() {
    let (client, server) = plain();
    let listener = DataListener::bind(server, None, 5).expect("a listener");
    let (first, port) = (address(&listener), address(&listener).port());
    // Nothing listens on the third address.
    let unused = TcpListener::bind("127.0.0.3:0").expect("a port").local_addr().expect("an address");
    let others = [SocketAddr::from(([127, 0, 0, 2], port)), unused];
    let called = connect(&client, (first, &others), 5, LIMIT).expect("authenticated");
    let last = |socket: &TcpStream| match socket.peer_addr().expect("an address").ip() {
        IpAddr::V4(four) => four.octets()[3],
        IpAddr::V6(_) => 0,
    };
    assert_eq!(called.iter().map(|stream| last(stream.socket())).collect::<Vec<_>>(), [1, 2, 1, 1, 2]);
    assert_eq!(listener.into_streams(LIMIT).expect("all connections").len(), 5);
}

/// Far more connections than a listener keeps unauthenticated, twice on the same port.
#[test]
fn opens_many_connections_on_a_port_that_was_used_before() {
    let mut at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    for _ in 0..2 {
        let (client, server) = plain();
        let listener = DataListener::bind_to(server, at, 200).expect("a listener");
        at = address(&listener);
        assert!(!listener.wait(Duration::ZERO), "no connection is established yet");
        let called = connect(&client, (at, &[]), 200, LIMIT).expect("authenticated");
        assert!(listener.wait(LIMIT));
        let streams = listener.into_streams(Duration::ZERO).expect("all connections");
        for (one, other) in called.iter().zip(&streams) {
            let [near, far] = [one.socket().local_addr(), other.socket().peer_addr()];
            assert_eq!(near.expect("an address"), far.expect("an address"), "in the order of numbers");
        }
        restore_congestion_control(called[0].socket());
        assert!(TcpStream::connect(at).is_err(), "the port is closed");
    }
}

#[test]
fn dropped_connections_are_closed() {
    let source = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let connections = OutgoingConnections::start(source.local_addr().expect("an address"), &[], 1, LIMIT);
    let (mut accepted, _) = source.accept().expect("a connection");
    drop(connections);
    assert_eq!(accepted.read(&mut [0]).expect("closed"), 0);
}

#[test]
fn rejects_reflected_proofs() {
    let (client, server) = plain();
    let listener = DataListener::bind(server, None, 1).expect("a listener");
    // The attacker sends the listener's challenge back and reflects its proof.
    let mut first = TcpStream::connect(address(&listener)).expect("connected");
    first.write_all(&[0; 34]).expect("sent");
    let mut reply = [0; 64];
    first.read_exact(&mut reply).expect("challenge and proof");
    first.write_all(&reply[32..]).expect("sent");
    assert_eq!(first.read(&mut reply).expect("closed"), 0);
    assert!(connect(&client, (address(&listener), &[]), 1, LIMIT).is_ok());
    // A connection number beyond the expected ones.
    let late =
        client.authenticate_outgoing(TcpStream::connect(address(&listener)).expect("connected"), 7, LIMIT);
    assert!(!matches!(late.expect("the right listener").read(&mut [0]), Ok(1..)), "authentication fails");
}

#[test]
fn unauthenticated_connections_do_not_block_the_listener() {
    for (client, server) in [tls(), plain()] {
        let listener = DataListener::bind(server, None, 3).expect("a listener");
        let mut unauthenticated: Vec<TcpStream> =
            (0..100).map(|_| TcpStream::connect(address(&listener)).expect("connected")).collect();
        unauthenticated
            .iter_mut()
            .step_by(2)
            .for_each(|unauthorized| drop(unauthorized.write_all(b"GET / HTTP/1.1\r\n\r\n")));
        let called = connect(&client, (address(&listener), &[]), 3, LIMIT).expect("authenticated");
        let streams = listener.into_streams(LIMIT).expect("all connections");
        assert_eq!((called.len(), streams.len()), (3, 3));
    }
}

#[test]
fn silent_or_foreign_listeners_are_reported_within_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let limit = Duration::from_millis(200);
    for (client, _) in [tls(), plain()] {
        let late = connect(&client, (at, &[]), 2, limit).expect_err("no answer");
        assert!(matches!(late, NetError::TimedOut), "{late}");
    }
    drop(listener);
    let refused = connect(&tls().0, (at, &[]), 1, LIMIT).expect_err("nothing listens");
    assert!(matches!(refused, NetError::Unreachable(..)), "{refused}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let garbage = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        drop(socket.write_all(&[b'x'; 1000]));
        drop(socket.read_to_end(&mut Vec::new()));
    });
    let refused = connect(&tls().0, (at, &[]), 1, LIMIT).expect_err("not TLS");
    assert!(matches!(refused, NetError::Protocol(_)), "{refused}");
    garbage.join().expect("finished");
}

/// Returns the two ends of a link, with their events and pools.
fn links(
    credential_pairs: CredentialPair,
    there: usize,
    back: usize,
    slabs: usize,
    sparing: bool,
) -> [(StreamSetLink, Receiver<Event<Slab>>, Arc<Pool>); 2] {
    let (mut called, mut answered) = open(credential_pairs, there + back);
    let (to, from) = (called.split_off(back), called);
    let one = StreamSet { from, to };
    let (from, to) = (answered.split_off(back), answered);
    let other = StreamSet { from, to };
    [one, other].map(|streams| {
        let (events, received) = channel();
        let pool = Pool::new(slabs);
        (
            StreamSetLink::new(
                streams,
                (sparing, &[]),
                events,
                &pool,
                (&Arc::default(), &LinkActivity::new(0)),
            )
            .expect("a link"),
            received,
            pool,
        )
    })
}

#[test]
fn packets_arrive_in_order() {
    // Unused connections are closed with the others.
    for (credential_pairs, sparing) in [(tls(), false), (plain(), false), (tls(), true), (plain(), true)] {
        let [(one, _events, pool), (other, received, _)] = links(credential_pairs, 5, 1, 6, sparing);
        const COUNT: u32 = 300;
        let sender = std::thread::spawn(move || {
            for number in 0..COUNT {
                // Different lengths make connections overtake each other.
                let data = (number % 3 != 0).then(|| {
                    let mut slab = pool.take().expect("a buffer");
                    let length = if number % 7 == 1 { BLOCK } else { 1 + number as usize };
                    slab.as_mut()[..length].fill(number as u8);
                    (slab, length)
                });
                one.send(Packet { frames: number.to_be_bytes().to_vec(), data });
            }
        });
        for number in 0..COUNT {
            match received.recv_timeout(LIMIT) {
                Ok(Event::Received(Packet { frames, data })) => {
                    assert_eq!(frames, number.to_be_bytes());
                    assert_eq!(data.is_some(), number % 3 != 0);
                    let right = |(slab, length): (Slab, usize)| {
                        slab.as_ref()[..length].iter().all(|b| *b == number as u8)
                    };
                    assert!(data.is_none_or(right), "data of {number}");
                }
                event => panic!("{event:?} in place of {number}"),
            }
        }
        sender.join().expect("sent");
        // The sending end was dropped after everything was written.
        assert!(
            matches!(received.recv_timeout(LIMIT), Ok(Event::Closed(why)) if why.contains("closed by the peer"))
        );
        drop(other);
    }
}

#[test]
fn lost_connection_closes_the_link_once() {
    for credential_pairs in [tls(), plain()] {
        let (mut called, mut answered) = open(credential_pairs, 3);
        let other = StreamSet { to: answered.split_off(2), from: answered };
        let (events, received) = channel();
        let link = StreamSetLink::new(
            other,
            (false, &[]),
            events,
            &Pool::new(8),
            (&Arc::default(), &LinkActivity::new(0)),
        )
        .expect("a link");
        // Within a packet.
        called[1].write_all(&[&[0; 11][..], &[9], &[0; 7]].concat()).expect("sent");
        called[1].socket().shutdown(Shutdown::Both).expect("cut");
        match received.recv_timeout(LIMIT) {
            Ok(Event::Closed(why)) => assert!(why.contains("lost"), "{why}"),
            event => panic!("{event:?}"),
        }
        // The other connections are closed, too, without another event.
        let mut rest = Vec::new();
        drop(called[2].read_to_end(&mut rest));
        drop(link);
        assert!(received.recv_timeout(LIMIT).is_err());
    }
}

#[test]
fn invalid_packet_numbers_close_the_link() {
    let packet = |number: u64| [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, b'x']].concat();
    // Packet numbers on each of two connections, delivered packets, and the error.
    let cases: [(&[u64], &[u64], usize, &str); 5] = [
        (&[0, 1, 1], &[], 2, "packet 1 received twice"),
        (&[0, 2], &[3], 1, "packet 1 received twice or missing"),
        (&[1], &[2], 0, "packet 0 received twice or missing"),
        (&[1, 1], &[], 0, "packet 1 received twice"),
        (&[0, 1], &[u64::MAX], 2, "packet 2 received twice or missing"),
    ];
    for (first, second, count, expected) in cases {
        let (mut called, mut answered) = open(plain(), 3);
        let streams = StreamSet { to: answered.split_off(2), from: answered };
        let (events, received) = channel();
        let _link = StreamSetLink::new(
            streams,
            (false, &[]),
            events,
            &Pool::new(8),
            (&Arc::default(), &LinkActivity::new(0)),
        )
        .expect("a link");
        for (stream, numbers) in called.iter_mut().zip([first, second]) {
            numbers.iter().for_each(|number| drop(stream.write_all(&packet(*number))));
        }
        // No further packets follow.
        called.iter_mut().take(2).for_each(|stream| drop(stream.close()));
        let mut count_received = 0;
        let event = loop {
            match received.recv_timeout(LIMIT) {
                Ok(Event::Received(_)) => count_received += 1,
                Ok(Event::Closed(why)) => break why,
                other => panic!("{other:?}"),
            }
        };
        assert!(event.contains(expected), "{event} in place of {expected}");
        assert_eq!(count_received, count, "{event}");
    }
}

#[test]
fn untaken_frames_are_limited() {
    let (mut called, mut answered) = open(plain(), 3);
    let streams = StreamSet { to: answered.split_off(2), from: answered };
    let ((events, received), backpressure) = (channel(), Arc::default());
    let link = StreamSetLink::new(
        streams,
        (false, &[]),
        events,
        &Pool::new(8),
        (&backpressure, &LinkActivity::new(0)),
    )
    .expect("a link");
    // Sends maximal packets on two connections in turn, until no more are accepted.
    let frames = vec![7; MAX_FRAME_BYTES];
    let head = [(MAX_FRAME_BYTES as u32).to_be_bytes(), [0; 4]].concat();
    let mut sender = called.drain(..2).collect::<Vec<_>>();
    let sent = std::thread::spawn(move || {
        for number in 0..40u64 {
            let packet = [&number.to_be_bytes()[..], &head, &frames].concat();
            if sender[number as usize % 2].write_all(&packet).is_err() {
                return number;
            }
        }
        40
    });
    let arrives = |limit_ms| received.recv_timeout(Duration::from_millis(limit_ms)).is_ok();
    // 64 MiB, the packet that exceeds it, and one of the other connection.
    (1..=16).for_each(|number| assert!(arrives(20_000), "packet {number} is missing"));
    let mut first = 16;
    while arrives(500) {
        first += 1;
    }
    assert!(first <= 18, "{first} packets");
    backpressure.mark_taken(first, first * MAX_FRAME_BYTES);
    assert!(arrives(20_000), "reading resumes");
    drop(link);
    assert!(sent.join().expect("finished") < 40, "a closed link blocks no sender");
}

#[test]
fn reading_pauses_while_the_peer_reads_no_answers() {
    let (mut called, mut answered) = open(plain(), 3);
    let streams = StreamSet { to: answered.split_off(2), from: answered };
    let ((events, received), backpressure) = (channel(), Backpressure::new(true));
    let link = StreamSetLink::new(
        streams,
        (false, &[]),
        events,
        &Pool::new(8),
        (&backpressure, &LinkActivity::new(0)),
    )
    .expect("a link");
    // The limit, and what the connection itself buffers.
    let answer = || Packet { frames: vec![7; MAX_FRAME_BYTES], data: None };
    (0..32).for_each(|_| link.send(answer()));
    let mut back = called.pop().expect("a connection");
    let sent = std::thread::spawn(move || {
        for number in 0..40u64 {
            let packet = [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, b'x']].concat();
            called[number as usize % 2].write_all(&packet).expect("sent");
        }
        called
    });
    let has_event = || received.recv_timeout(Duration::from_millis(500)).is_ok();
    let mut first = 0;
    while has_event() {
        first += 1;
    }
    assert!(first <= 2, "{first} packets: one of each reader");
    let read = std::thread::spawn(move || drop(back.read_to_end(&mut Vec::new())));
    let resumes = || received.recv_timeout(Duration::from_secs(20)).is_ok();
    (first..40).for_each(|number| assert!(resumes(), "packet {number} is missing"));
    // A reader that pauses again stops with the link.
    (0..32).for_each(|_| link.send(answer()));
    drop(link);
    read.join().expect("finished");
    drop(sent.join().expect("sent"));
}

#[test]
fn link_needs_more_buffers_than_connections() {
    let (_called, mut answered) = open(plain(), 4);
    let streams = StreamSet { to: answered.split_off(3), from: answered };
    assert!(StreamSetLink::new(
        streams,
        (false, &[]),
        channel().0,
        &Pool::new(3),
        (&Arc::default(), &LinkActivity::new(0))
    )
    .is_err());
}

#[test]
fn slow_handshake_ends_at_the_deadline() {
    // A peer that sends single bytes cannot extend the limit.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let slow_peer = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        // A long handshake record, byte by byte, until the connection is closed.
        let head = [22, 3, 3, 0x3f, 0xff];
        let mut bytes = head.into_iter().chain(std::iter::repeat(2));
        while socket.write_all(&[bytes.next().unwrap_or(2)]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let began = Instant::now();
    let late = connect(&tls().0, (at, &[]), 1, Duration::from_millis(300)).expect_err("too slow");
    assert!(matches!(late, NetError::TimedOut), "{late} after {:?}", began.elapsed());
    slow_peer.join().expect("finished");
}
