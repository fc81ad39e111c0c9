//! A client's part of the conversation.

use super::protocol::{Answer, Ended, Request, Run, Slice};
use super::wire::{Lost, Wire};
use numaio_machine::probe::ProbeError;
use std::time::{Duration, Instant};

/// How long the peer may take for an answer; it may have to fill buffers before.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The session's connection, and what was said about the run that it serves now.
#[derive(Debug)]
pub struct Talk {
    peer: String,
    wire: Wire,
    /// Why the connection is of no more use, once it is not.
    lost: Option<Lost>,
    /// Whether the peer still has to tell the end of a run.
    open: bool,
    slices: Vec<Slice>,
    ended: Option<Ended>,
    /// Stop was said of the run.
    stopped: bool,
}

impl Talk {
    /// After the welcome.
    pub fn new(peer: String, wire: Wire) -> Self {
        Self { peer, wire, lost: None, open: false, slices: Vec::new(), ended: None, stopped: false }
    }

    /// What the peer received in each slice of the run until now.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Says something.
    ///
    /// # Errors
    /// If the peer is gone, now or before.
    pub fn say(&mut self, request: &Request) -> Result<(), ProbeError> {
        let said = self.lost.clone().map_or_else(|| self.wire.say(request), Err);
        said.map_err(|lost| self.gone(lost))
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// If the peer is gone, or says nothing for [`ANSWER_LIMIT`]: it is of no more use then.
    pub fn answer(&mut self) -> Result<Answer, ProbeError> {
        let silent = || Lost(format!("it says nothing for {} s", ANSWER_LIMIT.as_secs()));
        let said = self.wire.next(ANSWER_LIMIT).and_then(|answer| answer.ok_or_else(silent));
        said.map_err(|lost| self.gone(lost))
    }

    /// An answer that has no place where it came: from there on nothing can be understood.
    pub fn confused(&mut self) -> ProbeError {
        self.gone(Lost("it says what has no place here".to_owned()))
    }

    fn gone(&mut self, lost: Lost) -> ProbeError {
        self.open = false;
        let why = self.lost.get_or_insert(lost).0.clone();
        ProbeError::Refused { what: format!("talk with {}", self.peer), why }
    }

    /// Asks for streams; gives the key with which they open.
    ///
    /// # Errors
    /// If the peer does not want them, or is gone.
    pub fn begin(&mut self, run: &Run) -> Result<String, ProbeError> {
        self.slices.clear();
        self.ended = None;
        self.stopped = false;
        self.say(&Request::Run(run.clone()))?;
        self.open = true;
        match self.answer()? {
            Answer::Ready { key } => Ok(key),
            other => Err(self.unwanted(other)),
        }
    }

    /// Waits until the peer has its buffers, and all streams.
    ///
    /// # Errors
    /// If it cannot have them, or is gone.
    pub fn expect_prepared(&mut self) -> Result<(), ProbeError> {
        match self.answer()? {
            Answer::Prepared => Ok(()),
            other => Err(self.unwanted(other)),
        }
    }

    fn unwanted(&mut self, answer: Answer) -> ProbeError {
        match answer {
            Answer::Refused { why } => {
                self.open = false;
                ProbeError::Refused { what: format!("streams at {}", self.peer), why }
            }
            _ => self.confused(),
        }
    }

    /// Takes in what the peer said of the run meanwhile; why it is over for the peer, if it is.
    pub fn listen(&mut self) -> Option<String> {
        while self.open {
            match self.wire.next(Duration::ZERO) {
                Ok(None) => return None,
                Ok(Some(answer)) => self.hear(answer),
                Err(lost) => drop(self.gone(lost)),
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
            self.stopped = self.say(&Request::Stop).is_ok();
        }
    }

    /// Has the peer end the run, and hears the rest; what it told of its part, if it did.
    pub fn conclude(&mut self) -> Option<Ended> {
        self.stop();
        if self.stopped {
            let deadline = Instant::now() + ANSWER_LIMIT;
            while self.open && Instant::now() < deadline {
                if let Ok(answer) = self.answer() {
                    self.hear(answer);
                }
            }
        }
        self.ended.take()
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Slice(slice) => self.slices.push(slice),
            Answer::Ended(ended) => {
                self.open = false;
                self.ended = Some(ended);
            }
            Answer::Refused { .. } => self.open = false,
            // It was about to say so when we stopped.
            Answer::Prepared | Answer::Ready { .. } => {}
            _ => drop(self.confused()),
        }
    }
}
