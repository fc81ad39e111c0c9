//! The interface between a side of a transfer and its port, and the state that both sides share.

use crate::port::{Event, Operation, Packet, Port, Ticket};
use crate::report::{EntryCounts, Report, Totals, TransferOutcome};
use crate::wire::{
    Decoder, DisplayText, Frame, Problem, ProblemSubject, Reason, Side, StreamHeader, StreamItem, TransferId,
    WireError,
};
use std::collections::VecDeque;
use std::time::Duration;

/// A request of a core to its port.
#[derive(Debug)]
pub enum PortCommand<B> {
    /// Start an operation.
    Submit(Ticket, Operation<B>),
    /// Send a packet.
    Send(Packet<B>),
}

/// A side of a transfer: consumes events and returns commands, without a clock and without
/// blocking.
pub trait TransferCore<B: AsRef<[u8]>> {
    /// Processes an event.
    fn handle(&mut self, event: Event<B>);

    /// Returns the next command, or `None` to wait for events. `now` is the time since the start.
    fn poll(&mut self, now: Duration) -> Option<PortCommand<B>>;

    /// Returns the time at which `poll` must be called even without an event.
    fn wake(&self) -> Option<Duration>;

    /// Aborts the transfer cleanly: operations in flight finish, and durable data is recorded.
    fn stop(&mut self, reason: Reason, text: &str);

    /// Returns the outcome once the transfer is over.
    fn outcome(&self) -> Option<&TransferOutcome>;

    /// Returns the reports since the last call.
    fn reports(&mut self) -> Vec<Report>;

    /// Returns the totals so far.
    fn totals(&self) -> Totals;

    /// Returns the numbers of entries of the source so far.
    fn entry_counts(&self) -> EntryCounts;

    /// Returns how much the sink has by now, in bytes plus entries, as far as this side knows. A
    /// retry that reaches a higher value has made progress.
    fn progress(&self) -> u64;
}

/// Maximum time between two calls of the caller's hook.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Runs a side until its outcome is known. `clock` returns the time since the start; `each` is
/// called at least every 100 ms, to show progress and to stop the transfer, and whenever messages
/// were received, before the operations that follow from them are submitted.
pub fn drive<P: Port, C: TransferCore<P::Buffer>>(
    core: &mut C,
    port: &mut P,
    mut clock: impl FnMut() -> Duration,
    mut each: impl FnMut(&mut C),
) {
    let mut events = Vec::new();
    loop {
        each(core);
        let now = clock();
        while let Some(command) = core.poll(now) {
            match command {
                PortCommand::Submit(ticket, operation) => port.submit(ticket, operation),
                PortCommand::Send(packet) => port.send(packet),
            }
        }
        if core.outcome().is_some() {
            return each(core);
        }
        let wake = core.wake().map_or(MAX_WAIT, |wake| wake.saturating_sub(now));
        port.wait(wake.min(MAX_WAIT), &mut events);
        events.drain(..).for_each(|event| core.handle(event));
    }
}

/// Protocol state that source and sink share: encoder, decoder, pending commands, totals and
/// outcome.
#[derive(Debug)]
pub(crate) struct PeerState<B> {
    pub side: Side,
    decoder: Decoder,
    pub received_header: bool,
    pub commands: VecDeque<PortCommand<B>>,
    pub reports: Vec<Report>,
    pub totals: Totals,
    pub entry_counts: EntryCounts,
    pub outcome: Option<TransferOutcome>,
    next_ticket: Ticket,
}

impl<B: AsRef<[u8]>> PeerState<B> {
    /// Creates the state and queues the stream header.
    pub fn new(side: Side, transfer: TransferId) -> Self {
        let mut frames = Vec::new();
        StreamHeader { side, transfer }.encode(&mut frames);
        Self {
            side,
            decoder: Decoder::new(),
            received_header: false,
            commands: VecDeque::from([PortCommand::Send(Packet { frames, data: None })]),
            reports: Vec::new(),
            totals: Totals::default(),
            entry_counts: EntryCounts::default(),
            outcome: None,
            next_ticket: 0,
        }
    }

    /// Queues an operation; returns its ticket.
    pub fn submit(&mut self, operation: Operation<B>) -> Ticket {
        self.next_ticket += 1;
        self.commands.push_back(PortCommand::Submit(self.next_ticket, operation));
        self.next_ticket
    }

    /// Queues a frame.
    pub fn send(&mut self, frame: &Frame) {
        let mut frames = Vec::new();
        frame.encode(&mut frames);
        self.send_bytes(frames);
    }

    /// Queues encoded frames.
    pub fn send_bytes(&mut self, frames: Vec<u8>) {
        self.commands.push_back(PortCommand::Send(Packet { frames, data: None }));
    }

    /// Queues a chunk frame with the first `length` bytes of a buffer as its data.
    pub fn send_data(&mut self, frame: &Frame, buffer: B, length: usize) {
        let mut frames = Vec::new();
        frame.encode(&mut frames);
        self.commands.push_back(PortCommand::Send(Packet { frames, data: Some((buffer, length)) }));
    }

    /// Decodes the next frame of `rest`, or returns `None` at its end. Frames are decoded one at a
    /// time because each may take much more memory than its bytes.
    ///
    /// # Errors
    /// The protocol violation of the peer.
    pub fn next_frame(&mut self, rest: &mut &[u8]) -> Result<Option<Frame>, WireError> {
        loop {
            match self.decoder.pull()? {
                Some(StreamItem::Header(hello)) if hello.side == self.side => {
                    return Err(WireError::InvalidValue("a stream header of the same side"));
                }
                Some(StreamItem::Header(_)) => self.received_header = true,
                Some(StreamItem::Frame(frame)) => return Ok(Some(frame)),
                Some(StreamItem::Data(_)) => return Err(WireError::InvalidValue("data among frames")),
                None if rest.is_empty() => return Ok(None),
                None => {
                    let taken = self.decoder.push(rest);
                    *rest = &rest[taken..];
                }
            }
        }
    }

    /// Checks the end of a packet: `data` is its number of data bytes, which belong to its last
    /// frame.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] unless the last frame is a chunk of this length.
    pub fn end_packet(&mut self, data: Option<usize>) -> Result<(), WireError> {
        let due = self.decoder.due();
        if due != data.unwrap_or(0) as u64 {
            return Err(WireError::InvalidValue("the data length of a packet"));
        }
        self.decoder.skip(due);
        Ok(())
    }

    /// Records a problem and sends it to the peer.
    pub fn report_problem(&mut self, about: ProblemSubject, reason: Reason, text: &str) {
        let problem = Problem { about, side: self.side, reason, text: DisplayText::new(text) };
        self.send(&Frame::Problem(problem.clone()));
        self.record_problem(problem);
    }

    /// Records a problem of either side.
    pub fn record_problem(&mut self, problem: Problem) {
        self.totals.failed += u64::from(!problem.reason.is_about_attributes());
        self.reports.push(Report::Problem(problem));
    }
}
