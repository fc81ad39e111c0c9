//! Control channel of a client, with the state of its run.

use super::connections::StreamEndpoint;
use super::line_connection::{ConnectionError, LineConnection};
use super::protocol::{Answer, ReceivedSlice, Request, RunResult};
use numaio_machine::probe::ProbeError;
use std::time::{Duration, Instant};

/// Time limit for an answer, which may include filling buffers.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The session's connection and the state of the current run.
#[derive(Debug)]
pub struct ControlChannel {
    peer: String,
    connection: LineConnection,
    /// First error of the connection, after which it is unusable.
    failure: Option<ConnectionError>,
    /// Whether the peer has yet to report the end of a run.
    open: bool,
    slices: Vec<ReceivedSlice>,
    ended: Option<RunResult>,
    /// Whether a stop request was sent for the run.
    stopped: bool,
}

impl ControlChannel {
    /// Creates the channel after the welcome message.
    pub fn new(peer: String, connection: LineConnection) -> Self {
        Self { peer, connection, failure: None, open: false, slices: Vec::new(), ended: None, stopped: false }
    }

    /// Returns the bytes that the peer received in each slice of the run so far.
    pub fn slices(&self) -> &[ReceivedSlice] {
        &self.slices
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The connection failed, now or before.
    pub fn send(&mut self, request: &Request) -> Result<(), ProbeError> {
        let result = self.failure.clone().map_or_else(|| self.connection.send(request), Err);
        result.map_err(|error| self.disconnected(error))
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// The connection failed, or no answer arrived within [`ANSWER_LIMIT`]; it is unusable
    /// afterwards.
    pub fn receive_answer(&mut self) -> Result<Answer, ProbeError> {
        let silent = || ConnectionError(format!("no answer within {} s", ANSWER_LIMIT.as_secs()));
        let result = self.connection.receive(ANSWER_LIMIT).and_then(|answer| answer.ok_or_else(silent));
        result.map_err(|error| self.disconnected(error))
    }

    /// Returns the error for an unexpected answer and marks the connection as unusable.
    pub fn unexpected_answer(&mut self) -> ProbeError {
        self.disconnected(ConnectionError("unexpected answer".to_owned()))
    }

    fn disconnected(&mut self, error: ConnectionError) -> ProbeError {
        self.open = false;
        let why = self.failure.get_or_insert(error).0.clone();
        ProbeError::Refused { call: format!("session with {}", self.peer), reason: why }
    }

    /// Requests streams or a ping-pong, and returns where the connections connect.
    ///
    /// # Errors
    /// The peer rejected the run, or the connection failed.
    pub fn start_run(&mut self, run: &Request) -> Result<StreamEndpoint, ProbeError> {
        self.slices.clear();
        self.ended = None;
        self.stopped = false;
        self.send(run)?;
        self.open = true;
        match self.receive_answer()? {
            Answer::Ready(endpoint) => Ok(endpoint),
            other => Err(self.rejected(other)),
        }
    }

    /// Waits until the peer has allocated its buffers and accepted all streams.
    ///
    /// # Errors
    /// The peer failed to prepare, or the connection failed.
    pub fn expect_prepared(&mut self) -> Result<(), ProbeError> {
        match self.receive_answer()? {
            Answer::Prepared => Ok(()),
            other => Err(self.rejected(other)),
        }
    }

    fn rejected(&mut self, answer: Answer) -> ProbeError {
        match answer {
            Answer::Refused { reason: why } => {
                self.open = false;
                ProbeError::Refused { call: format!("streams to {}", self.peer), reason: why }
            }
            _ => self.unexpected_answer(),
        }
    }

    /// Processes pending messages of the run; returns why the peer ended it, if it did.
    pub fn poll_run(&mut self) -> Option<String> {
        while self.open {
            match self.connection.receive(Duration::ZERO) {
                Ok(None) => return None,
                Ok(Some(answer)) => self.record(answer),
                Err(error) => drop(self.disconnected(error)),
            }
        }
        let cut = self.ended.as_ref().and_then(|ended| ended.interrupted.clone());
        let why = self.failure.as_ref().map(|error| error.0.clone()).or(cut);
        Some(format!("{}: {}", self.peer, why.as_deref().unwrap_or("the peer ended the streams")))
    }

    /// Requests the end of the run. Must precede closing the streams, which the peer reports as
    /// errors.
    pub fn stop(&mut self) {
        if self.open && !self.stopped {
            // If the connection failed, messages received before still count.
            self.stopped = self.send(&Request::Stop).is_ok();
        }
    }

    /// Ends the run, receives the remaining messages and returns the peer's result, if it sent any.
    pub fn finish_run(&mut self) -> Option<RunResult> {
        self.stop();
        if self.stopped {
            let deadline = Instant::now() + ANSWER_LIMIT;
            while self.open && Instant::now() < deadline {
                if let Ok(answer) = self.receive_answer() {
                    self.record(answer);
                }
            }
        }
        self.ended.take()
    }

    fn record(&mut self, answer: Answer) {
        match answer {
            Answer::Slice(slice) => self.slices.push(slice),
            Answer::Ended(ended) => {
                self.open = false;
                self.ended = Some(ended);
            }
            Answer::Refused { .. } => self.open = false,
            // The peer sent these before it received the stop request.
            Answer::Prepared | Answer::Ready(_) => {}
            _ => drop(self.unexpected_answer()),
        }
    }
}
