//! Packets over several data streams, with arbitrary numbers.

use crate::packets::stream_of;
use numaio_mover::port::{Event, Port, BLOCK, MAX_FRAME_BYTES};
use numaio_mover_linux::files::Roots;
use numaio_mover_linux::port::net::DataStream;
use numaio_mover_linux::port::{FilePort, LinkError, Pool, Setting, StreamSet};
use std::io::{self, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Most data streams of an input.
const MOST_STREAMS: usize = 4;
/// Time limit for a link to deliver all packets, which it reads from memory.
const LIMIT: Duration = Duration::from_secs(20);

/// The socket that stands in for that of every connection; it carries no data.
static SOCKET: LazyLock<TcpStream> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection")
});

/// A connection that has already received all its bytes.
struct ReceivedStream {
    bytes: Cursor<Vec<u8>>,
    socket: TcpStream,
}

impl ReceivedStream {
    fn boxed(bytes: Vec<u8>) -> Box<dyn DataStream> {
        Box::new(Self { bytes: Cursor::new(bytes), socket: SOCKET.try_clone().expect("a socket") })
    }
}

impl Read for ReceivedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

impl Write for ReceivedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DataStream for ReceivedStream {
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// A received packet: its number, frames and data.
type NumberedPacket = (u64, Vec<u8>, Vec<u8>);

/// A delivered packet: frames and data.
type DeliveredPacket = (Vec<u8>, Vec<u8>);

/// Decodes the packets of a connection; returns also whether it ends after a complete packet.
fn packets(mut bytes: &[u8]) -> (Vec<NumberedPacket>, bool) {
    let mut packets = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<16>() {
        let number =
            |at: usize| head[at..at + 4].iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        let (frames, data) = (number(8), number(12));
        if frames > MAX_FRAME_BYTES || data > BLOCK || frames + data > rest.len() {
            return (packets, false);
        }
        let count = (number(0) as u64) << 32 | number(4) as u64;
        packets.push((count, rest[..frames].to_vec(), rest[frames..frames + data].to_vec()));
        bytes = &rest[frames + data..];
    }
    (packets, bytes.is_empty())
}

/// Splits an input into the bytes of each connection.
///
/// The first byte is their number. Parts follow: the connection, the length in two bytes, the
/// bytes.
fn split(input: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (&count, mut rest) = input.split_first()?;
    let mut streams = vec![Vec::new(); usize::from(count) % MOST_STREAMS + 1];
    while let Some(([stream, high, low], bytes)) = rest.split_first_chunk::<3>() {
        let (part, after) = bytes.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(bytes.len()));
        let stream = usize::from(*stream) % streams.len();
        streams[stream].extend(part);
        rest = after;
    }
    Some(streams)
}

/// Asserts that packets are delivered in the order of their numbers, unchanged and once.
///
/// The link must then close once, and without an error only if every packet arrived.
pub fn data_streams(input: &[u8]) {
    let Some(received) = split(input) else { return };
    let (packets, complete): (Vec<Vec<NumberedPacket>>, Vec<bool>) =
        received.iter().map(|bytes| packets(bytes)).unzip();
    let (delivered, reason) = deliver(received);
    for (number, (frames, data)) in delivered.iter().enumerate() {
        let has_number = |(found, ..): &&NumberedPacket| *found == number as u64;
        let mut candidates = packets.iter().flatten().filter(has_number);
        let is_unchanged = candidates.any(|packet| packet.1 == *frames && packet.2 == *data);
        assert!(is_unchanged, "packet {number}: {reason}");
    }
    let mut numbers: Vec<u64> = packets.iter().flatten().map(|(number, ..)| *number).collect();
    numbers.sort_unstable();
    let all_arrived =
        numbers.iter().copied().eq(0..numbers.len() as u64) && complete.iter().all(|complete| *complete);
    if reason == LinkError::Closed.to_string() {
        assert!(all_arrived && delivered.len() == numbers.len(), "{} of {numbers:?}", delivered.len());
    } else {
        let ascending = packets.iter().all(|stream| stream.is_sorted_by_key(|(number, ..)| number));
        assert!(!(all_arrived && ascending), "the link failed though all packets arrived in order: {reason}");
    }
}

/// Returns the packets that a port delivers, and why its link closed.
fn deliver(received: Vec<Vec<u8>>) -> (Vec<DeliveredPacket>, String) {
    // Each port needs its own pool, because it closes the pool at its end.
    let roots = Roots::open(&[]).expect("no roots");
    let setting = Setting { sparing: true, ..Setting::new(roots, 1, Pool::new(32)) };
    let streams = StreamSet {
        from: received.into_iter().map(ReceivedStream::boxed).collect(),
        to: vec![ReceivedStream::boxed(Vec::new())],
    };
    let mut port = FilePort::over_streams(setting, streams).expect("threads");
    let (mut delivered, mut closed, mut events) = (Vec::new(), None, Vec::new());
    let start = Instant::now();
    while closed.is_none() {
        assert!(start.elapsed() < LIMIT, "the link makes no progress");
        port.wait(Duration::from_millis(100), &mut events);
        for event in events.drain(..) {
            assert!(closed.is_none(), "an event follows the end: {event:?}");
            match event {
                Event::Received(packet) => {
                    let data =
                        packet.data.map_or_else(Vec::new, |(slab, length)| slab.as_ref()[..length].to_vec());
                    delivered.push((packet.frames, data));
                }
                Event::Closed(reason) => closed = Some(reason),
                other => panic!("unexpected event {other:?}"),
            }
        }
    }
    port.wait(Duration::ZERO, &mut events);
    assert!(events.is_empty(), "an event follows the end: {events:?}");
    (delivered, closed.unwrap_or_default())
}

/// Encodes parts as an input of the target.
fn input_of(count: u8, parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut input = vec![count - 1];
    for (stream, bytes) in parts {
        input.push(*stream);
        input.extend((bytes.len() as u16).to_be_bytes());
        input.extend(bytes);
    }
    input
}

/// Returns the seeds of the target `data-streams`.
///
/// They hold packets in order, a repeated number, a missing number, and a truncated connection.
pub fn seeds() -> Vec<Vec<u8>> {
    let numbered = |numbers: &[u64]| stream_of(numbers.iter().copied().map(Some));
    let truncated = |mut bytes: Vec<u8>| {
        bytes.pop();
        bytes
    };
    vec![
        input_of(
            3,
            &[(0, numbered(&[0, 3, 4])), (1, numbered(&[1])), (2, numbered(&[2, 5])), (1, numbered(&[6]))],
        ),
        input_of(2, &[(0, numbered(&[0, 1])), (1, numbered(&[1, 2]))]),
        input_of(2, &[(0, numbered(&[0, 2])), (1, numbered(&[3, u64::MAX]))]),
        input_of(1, &[(0, truncated(numbered(&[1, 0, 2])))]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_closes_the_link_with_its_error() {
        let ends: Vec<_> = seeds().iter().map(|seed| deliver(split(seed).expect("connections"))).collect();
        let ends: Vec<_> = ends.iter().map(|(delivered, reason)| (delivered.len(), reason.clone())).collect();
        assert_eq!(ends[0], (7, LinkError::Closed.to_string()));
        assert_eq!(ends[1].1, LinkError::OutOfOrder(1).to_string());
        assert_eq!(ends[2], (1, LinkError::OutOfOrder(1).to_string()));
        assert_eq!(ends[3], (2, LinkError::Truncated.to_string()));
    }
}
