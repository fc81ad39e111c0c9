//! From bytes as they come to frames.

use super::bytes::Reader;
use super::frame::{check_preamble, max_payload, HEADER_LENGTH, PREAMBLE};
use super::{Frame, StreamHeader, WireError, MAX_PAYLOAD};

/// Bytes of a frame before its payload: the kind, and the length as a number of at most this many bytes.
const MAX_HEADER: usize = 1 + 10;
/// Most bytes that a decoder keeps.
const CAPACITY: usize = MAX_HEADER + MAX_PAYLOAD;

/// Takes the bytes of one direction of a stream in any pieces, and gives the frames that they make.
///
/// It keeps at most one full frame (512 KiB) of bytes. A frame that was decoded is larger in memory than its
/// bytes: at most about 20 MiB, for a batch that is full of the shortest extended attributes.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were used.
    used: usize,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum State {
    #[default]
    Header,
    Frames,
    /// So many bytes of a chunk are still to come.
    Data(u64),
    Ended,
    Failed(WireError),
}

/// What a stream gives.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamItem<'a> {
    /// Comes once, first.
    Header(StreamHeader),
    /// A frame.
    Frame(Frame),
    /// Some of the bytes that a chunk header announced, at least one; more follow until all are there.
    Data(&'a [u8]),
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes, as many as there is room for, and says how many. There is room for some whenever
    /// [`Decoder::pull`] has just said that it needs more.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        if self.buffer.len() + bytes.len() > CAPACITY || self.used == self.buffer.len() {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        let taken = bytes.len().min(CAPACITY - self.buffer.len());
        let needed = self.buffer.len() + taken;
        if needed > self.buffer.capacity() {
            let roomy = (2 * needed).min(CAPACITY);
            self.buffer.reserve_exact(roomy - self.buffer.len());
        }
        self.buffer.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// The next thing that the bytes make, or none if it needs more of them.
    ///
    /// # Errors
    /// What is wrong with the stream; from then on always the same.
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

    /// Bytes of data that are still to come, and are not in the decoder: who receives them elsewhere, into
    /// the buffer from which they are written, tells so with [`Decoder::skip`]. None while some are in it.
    pub fn due(&self) -> u64 {
        match self.state {
            State::Data(due) if self.unread().is_empty() => due,
            _ => 0,
        }
    }

    /// Bytes of data were received elsewhere. Says how many of them belong to the chunk.
    pub fn skip(&mut self, received: u64) -> u64 {
        let taken = received.min(self.due());
        self.consume_data(taken);
        taken
    }

    /// The other side closed the stream.
    ///
    /// # Errors
    /// [`WireError::UnexpectedEnd`] unless [`Frame::End`] was the last thing; an earlier error.
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

/// Kind and length of a frame's payload, and the bytes that say so; none if more bytes are needed.
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
    /// Bytes of memory that the buffer takes.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }
}
