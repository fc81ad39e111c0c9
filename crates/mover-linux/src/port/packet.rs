//! Format of packets on a stream: two big-endian 4-byte lengths (frames, then data), followed by
//! the frames and the data.

use super::pool::{Pool, Slab};
use numaio_mover::port::{Event, Packet, MAX_FRAME_BYTES};
use std::io::{self, Read, Write};
use std::sync::mpsc::Sender;
use std::sync::Arc;

/// Error in data received from the link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The stream ended.
    #[error("connection closed by the peer")]
    Closed,
    /// The stream ended within a packet.
    #[error("connection lost within a packet")]
    Truncated,
    /// A packet exceeds the size limit.
    #[error("packet too large: {frames} bytes of frames and {data} bytes of data")]
    TooLong {
        /// Bytes of frames.
        frames: u32,
        /// Bytes of data.
        data: u32,
    },
    /// A packet number was received twice or is missing.
    #[error("packet {0} received twice or missing")]
    OutOfOrder(u64),
    /// I/O error.
    #[error("{0}")]
    Failed(io::Error),
}

/// Writes a packet after a `prefix`, and reports when its data is written. Returns the number of
/// bytes.
///
/// # Errors
/// I/O errors of the stream.
pub fn write_packet<W: Write + ?Sized>(
    to: &mut W,
    prefix: &[u8],
    packet: Packet<Slab>,
    events: &Sender<Event<Slab>>,
) -> io::Result<usize> {
    let data = packet.data.as_ref().map_or(&[][..], |(slab, length)| &slab.as_ref()[..*length]);
    let (frames, lengths) = (&packet.frames[..], [packet.frames.len(), data.len()]);
    let [frames_length, data_length] = lengths.map(|length| (length as u32).to_be_bytes());
    let head = [prefix, &frames_length, &data_length, frames].concat();
    let length = head.len() + data.len();
    to.write_all(&head)?;
    to.write_all(data)?;
    to.flush()?;
    if let Some((slab, length)) = packet.data {
        // Dropped first, so that the receiver of the event finds the buffer free.
        drop(slab);
        drop(events.send(Event::Sent(length)));
    }
    Ok(length)
}

/// Reads a packet; an end of file before its first byte is the error `on_eof`.
///
/// # Errors
/// [`LinkError`]: an I/O error, a truncated packet, or lengths beyond the limits.
pub fn read_packet<R: Read + ?Sized>(
    from: &mut R,
    pool: &Arc<Pool>,
    on_eof: LinkError,
) -> Result<Packet<Slab>, LinkError> {
    let mut head = [0; 8];
    read_exact_or(from, &mut head, on_eof)?;
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let (frames, data) = (number(&head[..4]), number(&head[4..]));
    if frames as usize > MAX_FRAME_BYTES || data as usize > pool.block().bytes() {
        return Err(LinkError::TooLong { frames, data });
    }
    let mut bytes = vec![0; frames as usize];
    read_exact_or(from, &mut bytes, LinkError::Truncated)?;
    let data = match data {
        0 => None,
        length => {
            // No buffer if the port is closed, where the error is not reported.
            let mut slab = pool.take().ok_or(LinkError::Closed)?;
            read_exact_or(from, &mut slab.as_mut()[..length as usize], LinkError::Truncated)?;
            Some((slab, length as usize))
        }
    };
    Ok(Packet { frames: bytes, data })
}

/// Fills a buffer; an end of file before its first byte is the error `on_eof`.
pub fn read_exact_or<R: Read + ?Sized>(
    from: &mut R,
    buffer: &mut [u8],
    on_eof: LinkError,
) -> Result<(), LinkError> {
    let mut used = 0;
    while used < buffer.len() {
        match from.read(&mut buffer[used..]) {
            Ok(0) if used == 0 => return Err(on_eof),
            Ok(0) => return Err(LinkError::Truncated),
            Ok(count) => used += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LinkError::from_io(error)),
        }
    }
    Ok(())
}

impl LinkError {
    /// Converts an I/O error of a stream.
    pub fn from_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Failed(error),
        }
    }
}
