//! A client's part of the conversation.

use super::line_connection::{ConnectionError, LineConnection};
use super::protocol::{Answer, ReceivedSlice, Request, RunRequest, RunResult};
use numaio_machine::probe::ProbeError;
use std::time::{Duration, Instant};

/// How long the peer may take for an answer; it may have to fill buffers before.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The session's connection, and what was said about the run that it serves now.
#[derive(Debug)]
pub struct ControlChannel {
    peer: String,
    connection: LineConnection,
    /// Why the connection is of no more use, once it is not.
    lost: Option<ConnectionError>,
    /// Whether the peer still has to tell the end of a run.
    open: bool,
    slices: Vec<ReceivedSlice>,
    ended: Option<RunResult>,
    /// Stop was said of the run.
    stopped: bool,
}

impl ControlChannel {
    /// After the welcome.
    pub fn new(peer: String, connection: LineConnection) -> Self {
        Self { peer, connection, lost: None, open: false, slices: Vec::new(), ended: None, stopped: false }
    }

    /// What the peer received in each slice of the run until now.
    pub fn slices(&self) -> &[ReceivedSlice] {
        &self.slices
    }

    /// Says something.
    ///
    /// # Errors
    /// If the peer is gone, now or before.
    pub fn send(&mut self, request: &Request) -> Result<(), ProbeError> {
        let result = self.lost.clone().map_or_else(|| self.connection.send(request), Err);
        result.map_err(|lost| self.disconnected(lost))
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// If the peer is gone, or says nothing for [`ANSWER_LIMIT`]: it is of no more use then.
    pub fn receive_answer(&mut self) -> Result<Answer, ProbeError> {
        let silent = || ConnectionError(format!("it says nothing for {} s", ANSWER_LIMIT.as_secs()));
        let result = self.connection.receive(ANSWER_LIMIT).and_then(|answer| answer.ok_or_else(silent));
        result.map_err(|lost| self.disconnected(lost))
    }

    /// An answer that has no place where it came: from there on nothing can be understood.
    pub fn unexpected_answer(&mut self) -> ProbeError {
        self.disconnected(ConnectionError("it says what has no place here".to_owned()))
    }

    fn disconnected(&mut self, lost: ConnectionError) -> ProbeError {
        self.open = false;
        let why = self.lost.get_or_insert(lost).0.clone();
        ProbeError::Refused { what: format!("talk with {}", self.peer), why }
    }

    /// Asks for streams; gives the key with which they open.
    ///
    /// # Errors
    /// If the peer does not want them, or is gone.
    pub fn start_run(&mut self, run: &RunRequest) -> Result<String, ProbeError> {
        self.slices.clear();
        self.ended = None;
        self.stopped = false;
        self.send(&Request::Run(run.clone()))?;
        self.open = true;
        match self.receive_answer()? {
            Answer::Ready { key } => Ok(key),
            other => Err(self.rejected(other)),
        }
    }

    /// Waits until the peer has its buffers, and all streams.
    ///
    /// # Errors
    /// If it cannot have them, or is gone.
    pub fn expect_prepared(&mut self) -> Result<(), ProbeError> {
        match self.receive_answer()? {
            Answer::Prepared => Ok(()),
            other => Err(self.rejected(other)),
        }
    }

    fn rejected(&mut self, answer: Answer) -> ProbeError {
        match answer {
            Answer::Refused { why } => {
                self.open = false;
                ProbeError::Refused { what: format!("streams at {}", self.peer), why }
            }
            _ => self.unexpected_answer(),
        }
    }

    /// Takes in what the peer said of the run meanwhile; why it is over for the peer, if it is.
    pub fn poll_run(&mut self) -> Option<String> {
        while self.open {
            match self.connection.receive(Duration::ZERO) {
                Ok(None) => return None,
                Ok(Some(answer)) => self.record(answer),
                Err(lost) => drop(self.disconnected(lost)),
            }
        }
        let cut = self.ended.as_ref().and_then(|ended| ended.cut.clone());
        let why = self.lost.as_ref().map(|lost| lost.0.clone()).or(cut);
        Some(format!("{}: {}", self.peer, why.as_deref().unwrap_or("it ended the streams")))
    }

    /// Has the peer end the run, if it has not. Before the streams close: else it would take them for broken.
    pub fn stop(&mut self) {
        if self.open && !self.stopped {
            // A peer that is gone has nothing more to tell; what it told before counts.
            self.stopped = self.send(&Request::Stop).is_ok();
        }
    }

    /// Has the peer end the run, and hears the rest; what it told of its part, if it did.
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
            // It was about to say so when we stopped.
            Answer::Prepared | Answer::Ready { .. } => {}
            _ => drop(self.unexpected_answer()),
        }
    }
}
