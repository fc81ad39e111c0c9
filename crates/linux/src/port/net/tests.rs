use super::*;
use crate::port::backpressure::Backpressure;
use crate::port::stream_set::{StreamSet, StreamSetLink};
use crate::port::{Pool, Slab};
use numaio_machine::port::{Event, Packet, BLOCK, MOST_FRAMES};
use std::mem::size_of_val;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(20);

/// Of who calls, and of who is called.
type CredentialPair = (Arc<Credentials>, Credentials);

fn tls() -> CredentialPair {
    let (one, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let (of_one, of_other) = (one.public().to_vec(), other.public().to_vec());
    let credentials = |own, peer| Credentials::Tls { own, peer, by_kernel: true };
    (Arc::new(credentials(one, of_other)), credentials(other, of_one))
}

fn plain() -> CredentialPair {
    let secret = Secret::generate().expect("a secret");
    let other = Secret::from_bytes(secret.bytes());
    (Arc::new(Credentials::Plain(secret)), Credentials::Plain(other))
}

fn address(listener: &DataListener) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, listener.port().expect("a port").expect("one of its own")).into()
}

/// From now on this end gets nothing of what comes, and answers nothing, as if its host had lost its power: a filter that lets
/// no byte through (socket(7), `SO_ATTACH_FILTER`).
pub(super) fn vanish(socket: &TcpStream) {
    let mut nothing = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    // SAFETY: the kernel copies the one instruction, which lives until then.
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

/// Connections that were opened, at the side that called and at the other one.
fn open((client, server): CredentialPair, count: usize) -> StreamPair {
    let listener = DataListener::bind(server, None, count).expect("a door");
    let called = connect(&client, (address(&listener), &[]), count, LIMIT).expect("let in");
    (called, listener.into_streams(LIMIT).expect("all are in"))
}

#[test]
fn what_is_written_arrives_and_an_end_in_order_is_told_from_a_cut() {
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

/// How many connections the kernel ever made records for, and opened those of.
fn taken_over() -> [u64; 2] {
    let counts = std::fs::read_to_string("/proc/net/tls_stat").expect("the kernel's counts");
    ["TlsTxSw", "TlsRxSw"].map(|name| {
        let count = counts.lines().find_map(|line| line.strip_prefix(name)).expect("a count");
        count.trim().parse().expect("a number")
    })
}

/// Also what was sent before the kernel of the other side takes over.
#[test]
fn the_kernel_takes_connections_over() {
    if !has_kernel_tls() {
        crate::test_support::print_skipped("skipped: the_kernel_takes_connections_over: this kernel has no TLS");
        return;
    }
    let before = taken_over();
    for (outs, ins) in [(true, true), (true, false), (false, true)] {
        let (called, answered) = open(tls(), 2);
        for (index, (one, other)) in called.into_iter().zip(answered).enumerate() {
            let (one, mut other) = if index == 0 { (one, other) } else { (other, one) };
            let sent: Vec<u8> = (0..300_000 + index).map(|at| (at * 7 + at / 251) as u8).collect();
            let got = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut one = if outs {
                        one.into_one_way(StreamDirection::Outgoing).expect("taken over")
                    } else {
                        one
                    };
                    one.write_all(&sent).expect("sent");
                    one.close().expect("closed");
                });
                let mut got = vec![0; 1000];
                other.read_exact(&mut got).expect("the beginning");
                let mut other = if ins {
                    other.into_one_way(StreamDirection::Incoming).expect("taken over")
                } else {
                    other
                };
                other.read_to_end(&mut got).expect("the rest");
                got
            });
            assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
        }
    }
    // Other tests beside this one may have some too.
    assert!(taken_over().iter().zip(before).all(|(now, before)| *now >= before + 4), "{:?}", taken_over());
}

#[test]
fn whoever_has_another_key_is_no_peer() {
    let ((client, server), (unauthorized, other_server)) = (tls(), tls());
    let listener = DataListener::bind(server, None, 1).expect("a door");
    let refused = connect(&unauthorized, (address(&listener), &[]), 1, LIMIT).expect_err("no peer");
    assert!(matches!(refused, NetError::WrongKey), "{refused}");
    assert!(matches!(
        listener.into_streams(Duration::from_millis(50)),
        Err(NetError::MissingConnections(0, 1))
    ));
    // A man in the middle has another key than the one that came through ssh.
    let listener = DataListener::bind(other_server, None, 1).expect("a door");
    let refused = connect(&client, (address(&listener), &[]), 1, LIMIT).expect_err("no door of the peer");
    assert!(matches!(refused, NetError::WrongKey), "{refused}");
    // One who has the door's key, and not the caller's.
    let (_, server) = tls();
    let Credentials::Tls { own, .. } = &server else { panic!("a lock of TLS") };
    let unauthorized = Credentials::Tls {
        own: KeyPair::generate().expect("a key"),
        peer: own.public().to_vec(),
        by_kernel: false,
    };
    let listener = DataListener::bind(server, None, 1).expect("a door");
    let mut streams =
        connect(&Arc::new(unauthorized), (address(&listener), &[]), 1, LIMIT).expect("the right door");
    assert!(!matches!(streams[0].read(&mut [0]), Ok(1..)), "it is not let in");
    assert!(matches!(
        listener.into_streams(Duration::from_millis(50)),
        Err(NetError::MissingConnections(0, 1))
    ));
    // The same with secrets.
    let ((client, _), (_, other_server)) = (plain(), plain());
    let listener = DataListener::bind(other_server, None, 1).expect("a door");
    let refused = connect(&client, (address(&listener), &[]), 1, LIMIT).expect_err("no peer");
    assert!(matches!(refused, NetError::WrongKey), "{refused}");
}

#[test]
fn connections_are_taken_over_from_another_process() {
    for (client, server) in [tls(), plain()] {
        let source = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let connections = OutgoingConnections::start(source.local_addr().expect("an address"), &[], 3, LIMIT);
        let came: Vec<_> = (0..3).map(|_| source.accept().expect("a connection").0).collect();
        // They are there before anybody knows what lets them in.
        let (process, ours) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let listener = DataListener::from_process(server, ours, 2).expect("a door");
        let ticket = Ticket::generate().expect("a ticket");
        connections.open(client, Some(ticket), LIMIT);
        for socket in came {
            assert_eq!(Ticket::of(&socket, LIMIT).expect("told"), Some(ticket));
            hand_over(&process, &socket).expect("handed over");
        }
        // Of three, two were wanted.
        let mut called = connections.into_streams(2, LIMIT).expect("let in");
        let mut streams = listener.into_streams(LIMIT).expect("all are in");
        assert_eq!((called.len(), streams.len()), (2, 2));
        called[1].write_all(b"x").expect("sent");
        streams[1].read_exact(&mut [0]).expect("came");
        assert!(hand_over(&process, streams[0].socket()).is_err(), "the door is closed");
    }
}

#[test]
fn connections_take_the_addresses_of_a_host_in_turn() {
    let (client, server) = plain();
    let listener = DataListener::bind(server, None, 5).expect("a door");
    let (first, port) = (address(&listener), address(&listener).port());
    // At the third one nobody listens.
    let unused = TcpListener::bind("127.0.0.3:0").expect("a port").local_addr().expect("an address");
    let others = [SocketAddr::from(([127, 0, 0, 2], port)), unused];
    let called = connect(&client, (first, &others), 5, LIMIT).expect("let in");
    let last = |socket: &TcpStream| match socket.peer_addr().expect("an address").ip() {
        IpAddr::V4(four) => four.octets()[3],
        IpAddr::V6(_) => 0,
    };
    assert_eq!(called.iter().map(|stream| last(stream.socket())).collect::<Vec<_>>(), [1, 2, 1, 1, 2]);
    assert_eq!(listener.into_streams(LIMIT).expect("all are in").len(), 5);
}

#[test]
fn calls_that_nobody_wants_are_no_burden() {
    let source = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let connections = OutgoingConnections::start(source.local_addr().expect("an address"), &[], 1, LIMIT);
    let (mut came, _) = source.accept().expect("a connection");
    drop(connections);
    assert_eq!(came.read(&mut [0]).expect("closed"), 0);
}

#[test]
fn answers_of_a_door_cannot_be_sent_back_to_it() {
    let (client, server) = plain();
    let listener = DataListener::bind(server, None, 1).expect("a door");
    // It asks the door its own challenge, and takes the answer for its own.
    let mut first = TcpStream::connect(address(&listener)).expect("connected");
    first.write_all(&[0; 34]).expect("sent");
    let mut reply = [0; 64];
    first.read_exact(&mut reply).expect("challenge and proof");
    first.write_all(&reply[32..]).expect("sent");
    assert_eq!(first.read(&mut reply).expect("closed"), 0);
    assert!(connect(&client, (address(&listener), &[]), 1, LIMIT).is_ok());
    // The number of a connection that nobody waits for.
    let late =
        client.authenticate_outgoing(TcpStream::connect(address(&listener)).expect("connected"), 7, LIMIT);
    assert!(!matches!(late.expect("the right door").read(&mut [0]), Ok(1..)), "it is not let in");
}

#[test]
fn strangers_do_not_hold_the_door_shut() {
    for (client, server) in [tls(), plain()] {
        let listener = DataListener::bind(server, None, 3).expect("a door");
        let mut unauthenticated: Vec<TcpStream> =
            (0..100).map(|_| TcpStream::connect(address(&listener)).expect("connected")).collect();
        unauthenticated
            .iter_mut()
            .step_by(2)
            .for_each(|unauthorized| drop(unauthorized.write_all(b"GET / HTTP/1.1\r\n\r\n")));
        let called = connect(&client, (address(&listener), &[]), 3, LIMIT).expect("let in");
        let streams = listener.into_streams(LIMIT).expect("all are in");
        assert_eq!((called.len(), streams.len()), (3, 3));
    }
}

#[test]
fn a_door_that_is_no_door_is_told_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let limit = Duration::from_millis(200);
    for (client, _) in [tls(), plain()] {
        let late = connect(&client, (at, &[]), 2, limit).expect_err("nobody answers");
        assert!(matches!(late, NetError::TimedOut), "{late}");
    }
    drop(listener);
    let refused = connect(&tls().0, (at, &[]), 1, LIMIT).expect_err("nobody listens");
    assert!(matches!(refused, NetError::Unreachable(..)), "{refused}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let garbage = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a guest");
        drop(socket.write_all(&[b'x'; 1000]));
        drop(socket.read_to_end(&mut Vec::new()));
    });
    let refused = connect(&tls().0, (at, &[]), 1, LIMIT).expect_err("no TLS");
    assert!(matches!(refused, NetError::Protocol(_)), "{refused}");
    garbage.join().expect("ended");
}

/// Two links over connections, and what is heard of each.
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
            StreamSetLink::new(streams, (sparing, &[]), events, &pool, &Arc::default()).expect("a link"),
            received,
            pool,
        )
    })
}

#[test]
fn packets_are_handed_over_in_the_order_in_which_they_were_sent() {
    // Connections that are spared are closed with the others.
    for (credential_pairs, sparing) in [(tls(), false), (plain(), false), (tls(), true), (plain(), true)] {
        let [(one, _heard, pool), (other, received, _)] = links(credential_pairs, 5, 1, 6, sparing);
        const COUNT: u32 = 300;
        let sender = std::thread::spawn(move || {
            for number in 0..COUNT {
                // Lengths differ, so that connections overtake each other.
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
        // The end that sent was dropped, when all was on its way.
        assert!(
            matches!(received.recv_timeout(LIMIT), Ok(Event::Closed(why)) if why.contains("closed by the other side"))
        );
        drop(other);
    }
}

#[test]
fn a_connection_that_is_cut_ends_the_link_once() {
    for credential_pairs in [tls(), plain()] {
        let (mut called, mut answered) = open(credential_pairs, 3);
        let other = StreamSet { to: answered.split_off(2), from: answered };
        let (events, received) = channel();
        let link =
            StreamSetLink::new(other, (false, &[]), events, &Pool::new(8), &Arc::default()).expect("a link");
        // In the midst of a packet.
        called[1].write_all(&[&[0; 11][..], &[9], &[0; 7]].concat()).expect("sent");
        called[1].socket().shutdown(Shutdown::Both).expect("cut");
        match received.recv_timeout(LIMIT) {
            Ok(Event::Closed(why)) => assert!(why.contains("cut"), "{why}"),
            event => panic!("{event:?}"),
        }
        // The other connections end too, and nothing more is told.
        let mut rest = Vec::new();
        drop(called[2].read_to_end(&mut rest));
        drop(link);
        assert!(received.recv_timeout(LIMIT).is_err());
    }
}

#[test]
fn numbers_that_are_wrong_end_the_link() {
    let packet = |number: u64| [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, b'x']].concat();
    // What is sent on each of two connections, how many packets are heard, and what is wrong.
    let cases: [(&[u64], &[u64], usize, &str); 5] = [
        (&[0, 1, 1], &[], 2, "packet 1 came twice"),
        (&[0, 2], &[3], 1, "packet 1 came twice, or not at all"),
        (&[1], &[2], 0, "packet 0 came twice, or not at all"),
        (&[1, 1], &[], 0, "packet 1 came twice"),
        (&[0, 1], &[u64::MAX], 2, "packet 2 came twice, or not at all"),
    ];
    for (first, second, count, expected) in cases {
        let (mut called, mut answered) = open(plain(), 3);
        let streams = StreamSet { to: answered.split_off(2), from: answered };
        let (events, received) = channel();
        let _link = StreamSetLink::new(streams, (false, &[]), events, &Pool::new(8), &Arc::default())
            .expect("a link");
        for (stream, numbers) in called.iter_mut().zip([first, second]) {
            numbers.iter().for_each(|number| drop(stream.write_all(&packet(*number))));
        }
        // What is missing comes no more.
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
fn frames_that_nobody_takes_do_not_pile_up() {
    let (mut called, mut answered) = open(plain(), 3);
    let streams = StreamSet { to: answered.split_off(2), from: answered };
    let ((events, received), backpressure) = (channel(), Arc::default());
    let link =
        StreamSetLink::new(streams, (false, &[]), events, &Pool::new(8), &backpressure).expect("a link");
    // Of two connections in turn, each packet as large as there may be one, until nothing is taken any more.
    let frames = vec![7; MOST_FRAMES];
    let head = [(MOST_FRAMES as u32).to_be_bytes(), [0; 4]].concat();
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
    let came = || received.recv_timeout(Duration::from_millis(500)).is_ok();
    std::thread::sleep(Duration::from_millis(500));
    let mut first = 0;
    while came() {
        first += 1;
    }
    // 64 MiB, the packet that goes beyond, and one of the other connection.
    assert!((16..=18).contains(&first), "{first} packets");
    backpressure.mark_taken(first, first * MOST_FRAMES);
    assert!(came(), "there is room again");
    drop(link);
    assert!(sent.join().expect("ended") < 40, "nobody waits for what comes no more");
}

#[test]
fn who_reads_no_answers_is_read_no_more() {
    let (mut called, mut answered) = open(plain(), 3);
    let streams = StreamSet { to: answered.split_off(2), from: answered };
    let ((events, received), backpressure) = (channel(), Backpressure::new(true));
    let link =
        StreamSetLink::new(streams, (false, &[]), events, &Pool::new(8), &backpressure).expect("a link");
    // As much as may wait, and what the connection takes up.
    let answer = || Packet { frames: vec![7; MOST_FRAMES], data: None };
    (0..32).for_each(|_| link.send(answer()));
    let mut back = called.pop().expect("a connection");
    let sent = std::thread::spawn(move || {
        for number in 0..40u64 {
            let packet = [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, b'x']].concat();
            called[number as usize % 2].write_all(&packet).expect("sent");
        }
        called
    });
    let came = || received.recv_timeout(Duration::from_millis(500)).is_ok();
    let mut first = 0;
    while came() {
        first += 1;
    }
    assert!(first <= 2, "{first} packets: one of each reader");
    let read = std::thread::spawn(move || drop(back.read_to_end(&mut Vec::new())));
    (first..40).for_each(|number| assert!(came(), "packet {number} does not come"));
    // Who waits again ends with the link.
    (0..32).for_each(|_| link.send(answer()));
    drop(link);
    read.join().expect("ended");
    drop(sent.join().expect("sent"));
}

#[test]
fn a_link_needs_more_buffers_than_connections() {
    let (_called, mut answered) = open(plain(), 4);
    let streams = StreamSet { to: answered.split_off(3), from: answered };
    assert!(StreamSetLink::new(streams, (false, &[]), channel().0, &Pool::new(3), &Arc::default()).is_err());
}

#[test]
fn words_of_a_late_door_come_before_its_time_is_over() {
    // A stranger who sends a byte now and then is not waited for beyond the limit.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let dripping = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a guest");
        // A record of a handshake that is long, byte by byte, until nobody listens.
        let head = [22, 3, 3, 0x3f, 0xff];
        let mut bytes = head.into_iter().chain(std::iter::repeat(2));
        while socket.write_all(&[bytes.next().unwrap_or(2)]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let began = Instant::now();
    let late = connect(&tls().0, (at, &[]), 1, Duration::from_millis(300)).expect_err("it drips");
    assert!(matches!(late, NetError::TimedOut), "{late} after {:?}", began.elapsed());
    dripping.join().expect("ended");
}
