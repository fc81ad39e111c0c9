//! Packets that come over several connections, numbered as whoever sends them likes.

use crate::link::stream_of;
use numaio_linux::files::Roots;
use numaio_linux::port::net::{DataStream, StreamDirection};
use numaio_linux::port::{FilePort, LinkError, Pool, Setting, StreamSet, WorkerGroup};
use numaio_machine::port::{Event, Port, BLOCK, MAX_FRAME_BYTES};
use std::io::{self, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Most connections.
const MOST: usize = 4;
/// How long a link may take to tell all that came: it reads from memory.
const LIMIT: Duration = Duration::from_secs(20);

/// What stands for the socket of every connection; nothing goes over it.
static SOCKET: LazyLock<TcpStream> = LazyLock::new(|| {
    let door = TcpListener::bind("127.0.0.1:0").expect("a port");
    TcpStream::connect(door.local_addr().expect("an address")).expect("a connection")
});

/// A connection of which all has come.
struct Came {
    bytes: Cursor<Vec<u8>>,
    socket: TcpStream,
}

impl Came {
    fn lane(bytes: Vec<u8>) -> Box<dyn DataStream> {
        Box::new(Self { bytes: Cursor::new(bytes), socket: SOCKET.try_clone().expect("a socket") })
    }
}

impl Read for Came {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

impl Write for Came {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DataStream for Came {
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn into_one_way(self: Box<Self>, _: StreamDirection) -> io::Result<Box<dyn DataStream>> {
        Ok(self)
    }
}

/// A packet: its number, frames and data.
type Numbered = (u64, Vec<u8>, Vec<u8>);

/// A packet as it is handed over: frames and data.
type Handed = (Vec<u8>, Vec<u8>);

/// Packets of a connection, and whether it ends in order.
fn packets(mut bytes: &[u8]) -> (Vec<Numbered>, bool) {
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

/// What comes over each connection: a byte tells how many there are; then come parts, in front of each its connection and
/// its length in two bytes.
fn split(input: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (&count, mut rest) = input.split_first()?;
    let mut lanes = vec![Vec::new(); usize::from(count) % MOST + 1];
    while let Some(([lane, high, low], bytes)) = rest.split_first_chunk::<3>() {
        let (part, after) = bytes.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(bytes.len()));
        let lane = usize::from(*lane) % lanes.len();
        lanes[lane].extend(part);
        rest = after;
    }
    Some(lanes)
}

/// Packets are handed over in the order of their numbers, each as it came and once, and then the link ends, once; it ends in order
/// only if all came.
pub fn lanes(input: &[u8]) {
    let Some(came) = split(input) else { return };
    let (packets, ends): (Vec<Vec<Numbered>>, Vec<bool>) = came.iter().map(|bytes| packets(bytes)).unzip();
    let (handed, why) = hand_over(came);
    for (number, (frames, data)) in handed.iter().enumerate() {
        let is_it = |(came, ..): &&Numbered| *came == number as u64;
        let mut all = packets.iter().flatten().filter(is_it);
        assert!(all.any(|(_, one, other)| one == frames && other == data), "packet {number}: {why}");
    }
    let mut numbers: Vec<u64> = packets.iter().flatten().map(|(number, ..)| *number).collect();
    numbers.sort_unstable();
    let are_all = numbers.iter().copied().eq(0..numbers.len() as u64) && ends.iter().all(|ends| *ends);
    if why == LinkError::Closed.to_string() {
        assert!(are_all && handed.len() == numbers.len(), "{} of {numbers:?}", handed.len());
    } else {
        let ascend = packets.iter().all(|lane| lane.is_sorted_by_key(|(number, ..)| number));
        assert!(!(are_all && ascend), "all came in order, and it was lost: {why}");
    }
}

/// What a port hands over of connections, and why its link ends.
fn hand_over(came: Vec<Vec<u8>>) -> (Vec<Handed>, String) {
    // A port closes its pool.
    let pool = Pool::new(32);
    let crew = WorkerGroup { threads: 1, cpus: None, pool: pool.clone() };
    let setting = Setting {
        roots: Roots::open(&[]).expect("nothing to open"),
        worker_groups: vec![crew],
        pool,
        most_threads: 1,
        rings: false,
        share: |_, _| None,
        sparing: true,
        may_pause: true,
        network: Vec::new(),
    };
    let lanes =
        StreamSet { from: came.into_iter().map(Came::lane).collect(), to: vec![Came::lane(Vec::new())] };
    let mut port = FilePort::over_streams(setting, lanes).expect("threads");
    let (mut handed, mut closed, mut events) = (Vec::new(), None, Vec::new());
    let began = Instant::now();
    while closed.is_none() {
        assert!(began.elapsed() < LIMIT, "the link neither goes on nor ends");
        port.wait(Duration::from_millis(100), &mut events);
        for event in events.drain(..) {
            assert!(closed.is_none(), "nothing comes after the end: {event:?}");
            match event {
                Event::Received(packet) => {
                    let data =
                        packet.data.map_or_else(Vec::new, |(slab, length)| slab.as_ref()[..length].to_vec());
                    handed.push((packet.frames, data));
                }
                Event::Closed(why) => closed = Some(why),
                other => panic!("nothing was asked for: {other:?}"),
            }
        }
    }
    port.wait(Duration::ZERO, &mut events);
    assert!(events.is_empty(), "nothing comes after the end: {events:?}");
    (handed, closed.unwrap_or_default())
}

/// Parts as an input holds them.
fn input_of(count: u8, parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut input = vec![count - 1];
    for (lane, bytes) in parts {
        input.push(*lane);
        input.extend((bytes.len() as u16).to_be_bytes());
        input.extend(bytes);
    }
    input
}

/// What the target begins with: all in order, a number twice, one that does not come, and one connection that is cut.
pub fn seeds() -> Vec<Vec<u8>> {
    let numbered = |numbers: &[u64]| stream_of(numbers.iter().copied().map(Some));
    let cut = |mut bytes: Vec<u8>| {
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
        input_of(1, &[(0, cut(numbered(&[1, 0, 2])))]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_ends_as_it_must() {
        let ends: Vec<_> = seeds().iter().map(|seed| hand_over(split(seed).expect("connections"))).collect();
        let whys: Vec<_> = ends.iter().map(|(handed, why)| (handed.len(), why.clone())).collect();
        assert_eq!(whys[0], (7, LinkError::Closed.to_string()));
        assert_eq!(whys[1].1, LinkError::OutOfOrder(1).to_string());
        assert_eq!(whys[2], (1, LinkError::OutOfOrder(1).to_string()));
        assert_eq!(whys[3], (2, LinkError::Truncated.to_string()));
    }
}
