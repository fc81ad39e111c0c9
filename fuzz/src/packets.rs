//! Packets of a stream, as the real machine reads and writes them.

use numaio_mover::port::{Event, Packet, BLOCK, MAX_FRAME_BYTES};
use numaio_mover_linux::port::{read_packet, write_packet, LinkError, Pool};
use std::io::{self, Read};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock};

/// A pool with so few slabs that a leaked one stops the target.
static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Pool::new(2));

/// A stream whose reads return `most` bytes at most.
struct Pieces<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.most);
        self.rest.read(&mut buffer[..most])
    }
}

/// Reads packets in pieces; the first byte is their length. Asserts that writing them restores the
/// bytes.
pub fn packets(input: &[u8]) {
    let Some((&most, bytes)) = input.split_first() else { return };
    let mut from = Pieces { rest: bytes, most: usize::from(most).max(1) };
    let (events, sent) = channel();
    let mut written = Vec::new();
    loop {
        let before = written.len();
        match read_packet(&mut from, &POOL, LinkError::Closed) {
            Ok(packet) => {
                let length = packet.data.as_ref().map(|(_, length)| *length);
                assert!(
                    packet.frames.len() <= MAX_FRAME_BYTES
                        && length.is_none_or(|length| (1..=BLOCK).contains(&length))
                );
                write_packet(&mut written, &[], packet, &events).expect("a write to memory");
                let lengths = sent.try_iter().map(|event| match event {
                    Event::Sent(length) => length,
                    other => panic!("unexpected event {other:?}"),
                });
                assert!(lengths.eq(length), "sent data is reported exactly once");
                assert_eq!(bytes.len() - from.rest.len(), written.len(), "bytes after the packet were read");
            }
            Err(LinkError::Closed) => break assert!(from.rest.is_empty() && written.len() == bytes.len()),
            Err(LinkError::Truncated) => break assert!(from.rest.is_empty() && written.len() < bytes.len()),
            Err(LinkError::TooLong { frames, data }) => {
                assert!(frames as usize > MAX_FRAME_BYTES || data as usize > BLOCK);
                assert_eq!(bytes.len() - from.rest.len(), before + 8, "bytes after the header were read");
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(bytes.starts_with(&written), "written bytes differ from those read");
}

/// Returns packets with and without data.
fn examples() -> Vec<Packet<Vec<u8>>> {
    let packet = |frames: &[u8], data: Option<&[u8]>| Packet {
        frames: frames.to_vec(),
        data: data.map(|data| (data.to_vec(), data.len())),
    };
    vec![packet(b"frames", Some(b"data of a file")), packet(b"x", None), packet(b"", Some(b"y"))]
}

/// Encodes packets as on a stream, each after its number if it has one.
pub fn stream_of(numbers: impl IntoIterator<Item = Option<u64>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, packet) in numbers.into_iter().zip(examples().iter().cycle()) {
        let data = packet.data.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        bytes.extend(number.into_iter().flat_map(u64::to_be_bytes));
        bytes.extend((packet.frames.len() as u32).to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend([&packet.frames, data].concat());
    }
    bytes
}

/// Returns the seeds of the target `packets`.
pub fn seeds() -> Vec<Vec<u8>> {
    let long = [&[9][..], &stream_of([None]), &u32::MAX.to_be_bytes(), &[0; 4]].concat();
    vec![[&[200][..], &stream_of([None; 4])].concat(), long]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_packets_are_decoded() {
        let mut from = &stream_of([None; 4])[..];
        for _ in 0..4 {
            read_packet(&mut from, &POOL, LinkError::Closed).expect("a packet");
        }
        assert!(matches!(read_packet(&mut from, &POOL, LinkError::Closed), Err(LinkError::Closed)));
    }
}
