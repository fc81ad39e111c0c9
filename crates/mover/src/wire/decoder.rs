//! The incremental stream decoder.

use super::bytes::Reader;
use super::error::{WireError, MAX_PAYLOAD};
use super::frame::{check_preamble, max_payload, Frame, StreamHeader, HEADER_LENGTH, PREAMBLE};

/// Bytes of a frame before its payload: the kind, and the length in at most 10 bytes.
const MAX_HEADER: usize = 1 + 10;
/// Maximum bytes that a decoder buffers.
const CAPACITY: usize = MAX_HEADER + MAX_PAYLOAD;

/// Decodes one direction of a stream, whose bytes arrive in pieces of any size, into frames.
///
/// The caller alternates [`Decoder::push`] with [`Decoder::pull`]: `push` buffers bytes, `pull`
/// returns the stream header, then frames, or `None` if it needs more bytes. After a chunk header,
/// its data is returned in pieces as [`StreamItem::Data`]; a caller that receives data directly
/// into I/O buffers reports it with [`Decoder::skip`] instead. The first error is permanent. At the
/// end of input, [`Decoder::close`] checks that the stream was complete.
///
/// The buffer holds at most one full frame (512 KiB). A decoded frame may be larger than its bytes:
/// at most about 20 MiB, for a batch full of minimal extended attributes.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Number of buffered bytes that are already decoded.
    used: usize,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum State {
    #[default]
    Header,
    Frames,
    /// The number of chunk data bytes still to come.
    Data(u64),
    Ended,
    Failed(WireError),
}

/// An item of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamItem<'a> {
    /// The stream header; once, first.
    Header(StreamHeader),
    /// A frame.
    Frame(Frame),
    /// A non-empty piece of the data that the last chunk header announced.
    Data(&'a [u8]),
}

impl Decoder {
    /// Creates a decoder for the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Buffers as many bytes as fit; returns how many. At least one fits after [`Decoder::pull`]
    /// has returned `None`.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        if self.buffer.len() + bytes.len() > CAPACITY || self.used == self.buffer.len() {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        let taken = bytes.len().min(CAPACITY - self.buffer.len());
        let needed = self.buffer.len() + taken;
        if needed > self.buffer.capacity() {
            let capacity = (2 * needed).min(CAPACITY);
            self.buffer.reserve_exact(capacity - self.buffer.len());
        }
        self.buffer.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Decodes the next item, or returns `None` if more bytes are needed.
    ///
    /// # Errors
    /// The protocol violation; the same for all later calls.
    pub fn pull(&mut self) -> Result<Option<StreamItem<'_>>, WireError> {
        if let State::Data(due) = self.state {
            return Ok(self.data(due));
        }
        let received = match &self.state {
            State::Header => self.header_item().map(|header_item| header_item.map(StreamItem::Header)),
            State::Failed(error) => Err(error.clone()),
            State::Ended if self.unread().is_empty() => Ok(None),
            State::Ended => Err(WireError::AfterEnd),
            _ => self.frame().map(|frame| frame.map(StreamItem::Frame)),
        };
        if let Err(error) = &received {
            self.state = State::Failed(error.clone());
            self.buffer = Vec::new();
            self.used = 0;
        }
        received
    }

    /// Returns the number of data bytes still to come that are not buffered: these may be received
    /// directly into another buffer and reported with [`Decoder::skip`]. 0 while data is buffered.
    pub fn due(&self) -> u64 {
        match self.state {
            State::Data(due) if self.unread().is_empty() => due,
            _ => 0,
        }
    }

    /// Skips data that was received elsewhere; returns how many bytes of it belong to the chunk.
    pub fn skip(&mut self, received: u64) -> u64 {
        let taken = received.min(self.due());
        self.consume_data(taken);
        taken
    }

    /// Checks that the peer closed the stream at its end.
    ///
    /// # Errors
    /// [`WireError::UnexpectedEnd`] unless [`Frame::End`] was the last frame, or an earlier error.
    pub fn close(&self) -> Result<(), WireError> {
        match &self.state {
            State::Ended if self.unread().is_empty() => Ok(()),
            State::Ended => Err(WireError::AfterEnd),
            State::Failed(error) => Err(error.clone()),
            _ => Err(WireError::UnexpectedEnd),
        }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    fn data(&mut self, due: u64) -> Option<StreamItem<'_>> {
        let start = self.used;
        let here = self.unread().len().min(usize::try_from(due).unwrap_or(usize::MAX));
        if here == 0 {
            return None;
        }
        self.used += here;
        self.consume_data(here as u64);
        Some(StreamItem::Data(&self.buffer[start..start + here]))
    }

    fn consume_data(&mut self, bytes: u64) {
        if let State::Data(due) = self.state {
            self.state = if due > bytes { State::Data(due - bytes) } else { State::Frames };
        }
    }

    fn header_item(&mut self) -> Result<Option<StreamHeader>, WireError> {
        let unread = self.unread();
        check_preamble(&unread[..unread.len().min(PREAMBLE)])?;
        if unread.len() < HEADER_LENGTH {
            return Ok(None);
        }
        let header_item = StreamHeader::read(&mut Reader::new(&unread[PREAMBLE..HEADER_LENGTH]))?;
        self.used += HEADER_LENGTH;
        self.state = State::Frames;
        Ok(Some(header_item))
    }

    fn frame(&mut self) -> Result<Option<Frame>, WireError> {
        let unread = self.unread();
        let Some((kind, length, header)) = header(unread)? else { return Ok(None) };
        let Some(payload) = unread.get(header..header + length) else { return Ok(None) };
        let frame = Frame::read(kind, payload)?;
        self.state = match &frame {
            Frame::Chunk(chunk) => State::Data(chunk.wire_length()),
            Frame::End(_) => State::Ended,
            _ => State::Frames,
        };
        self.used += header + length;
        Ok(Some(frame))
    }
}

/// Parses a frame header: kind, payload length and header length; `None` if it is incomplete.
fn header(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, WireError> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    let limit = max_payload(kind)? as u64;
    let mut reader = Reader::new(&bytes[1..]);
    let length = match reader.number("the length of a frame") {
        Err(WireError::Truncated(_)) => return Ok(None),
        other => other?,
    };
    if length > limit {
        return Err(WireError::TooLong { what: "a frame", length, limit });
    }
    Ok(Some((kind, length as usize, bytes.len() - reader.left())))
}

#[cfg(test)]
impl Decoder {
    /// Returns the memory of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }
}
