//! What joins a side of a transfer to a port, and what both sides share.

use crate::report::{TransferOutcome, Report, Totals};
use crate::wire::{
    ProblemSubject, Decoder, Frame, StreamHeader, Problem, Reason, StreamItem, Side, DisplayText, TransferId, WireError,
};
use numaio_machine::port::{Event, Operation, Packet, Port, Ticket};
use std::collections::VecDeque;
use std::time::Duration;

/// What a side asks of its port.
#[derive(Debug)]
pub enum PortCommand<B> {
    /// Begin an operation.
    Submit(Ticket, Operation<B>),
    /// Send a packet.
    Send(Packet<B>),
}

/// A side of a transfer: takes events and gives commands; it has no clock and waits for nothing.
pub trait TransferCore<B: AsRef<[u8]>> {
    /// Something happened.
    fn handle(&mut self, event: Event<B>);

    /// What to ask of the port next. `now` is the time since the transfer began.
    fn poll(&mut self, now: Duration) -> Option<PortCommand<B>>;

    /// When to poll again though nothing happened, if there is such a time.
    fn wake(&self) -> Option<Duration>;

    /// Gives the transfer up, in order: what is under way ends, what is durable is noted.
    fn stop(&mut self, reason: Reason, text: &str);

    /// How it ended, once it has.
    fn outcome(&self) -> Option<&TransferOutcome>;

    /// What happened since it was asked last.
    fn reports(&mut self) -> Vec<Report>;

    /// How far it is.
    fn totals(&self) -> Totals;

    /// How much of all there is at the sink by now, as far as this side knows, in bytes and entries: what another transfer of the same
    /// goes beyond if it comes further.
    fn progress(&self) -> u64;
}

/// Longest time without a look at whether to stop.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Runs a side to its end. `clock` tells the time since the beginning; `each` is called often, with the side, to
/// show how far it is and to stop it.
pub fn drive<P: Port, C: TransferCore<P::Buffer>>(
    core: &mut C,
    port: &mut P,
    mut clock: impl FnMut() -> Duration,
    mut each: impl FnMut(&mut C),
) {
    let mut events = Vec::new();
    loop {
        let now = clock();
        while let Some(command) = core.poll(now) {
            match command {
                PortCommand::Submit(ticket, operation) => port.submit(ticket, operation),
                PortCommand::Send(packet) => port.send(packet),
            }
        }
        each(core);
        if core.outcome().is_some() {
            return;
        }
        let wake = core.wake().map_or(MAX_WAIT, |wake| wake.saturating_sub(now));
        port.wait(wake.min(MAX_WAIT), &mut events);
        events.drain(..).for_each(|event| core.handle(event));
    }
}

/// What both sides do alike: speak, listen, count and end.
#[derive(Debug)]
pub(crate) struct PeerState<B> {
    pub side: Side,
    decoder: Decoder,
    pub received_header: bool,
    pub commands: VecDeque<PortCommand<B>>,
    pub reports: Vec<Report>,
    pub totals: Totals,
    pub outcome: Option<TransferOutcome>,
    next_ticket: Ticket,
}

impl<B: AsRef<[u8]>> PeerState<B> {
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
            outcome: None,
            next_ticket: 0,
        }
    }

    pub fn submit(&mut self, operation: Operation<B>) -> Ticket {
        self.next_ticket += 1;
        self.commands.push_back(PortCommand::Submit(self.next_ticket, operation));
        self.next_ticket
    }

    pub fn send(&mut self, frame: &Frame) {
        let mut frames = Vec::new();
        frame.encode(&mut frames);
        self.send_bytes(frames);
    }

    pub fn send_bytes(&mut self, frames: Vec<u8>) {
        self.commands.push_back(PortCommand::Send(Packet { frames, data: None }));
    }

    pub fn send_data(&mut self, frame: &Frame, buffer: B, length: usize) {
        let mut frames = Vec::new();
        frame.encode(&mut frames);
        self.commands.push_back(PortCommand::Send(Packet { frames, data: Some((buffer, length)) }));
    }

    /// The next frame of what is left of a packet; none at its end. They come one by one, since each may be much longer in memory.
    ///
    /// # Errors
    /// What the other side did wrong.
    pub fn next_frame(&mut self, rest: &mut &[u8]) -> Result<Option<Frame>, WireError> {
        loop {
            match self.decoder.pull()? {
                Some(StreamItem::Header(hello)) if hello.side == self.side => {
                    return Err(WireError::InvalidValue("a hello of the same side"));
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

    /// The end of a packet with so many bytes of data, which belong to its last frame.
    ///
    /// # Errors
    /// That is no chunk of as many.
    pub fn end_packet(&mut self, data: Option<usize>) -> Result<(), WireError> {
        let due = self.decoder.due();
        if due != data.unwrap_or(0) as u64 {
            return Err(WireError::InvalidValue("the length of a packet's data"));
        }
        self.decoder.skip(due);
        Ok(())
    }

    /// Notes a problem, and tells the other side of it.
    pub fn report_problem(&mut self, about: ProblemSubject, reason: Reason, text: &str) {
        let problem = Problem { about, side: self.side, reason, text: DisplayText::new(text) };
        self.send(&Frame::Problem(problem.clone()));
        self.record_problem(problem);
    }

    /// Notes a problem of either side.
    pub fn record_problem(&mut self, problem: Problem) {
        self.totals.failed += 1;
        self.reports.push(Report::Problem(problem));
    }
}
