//! The end of a transfer.

/// The phases of finalization, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Create hard links.
    #[default]
    Linking,
    /// Remove entries that the source does not have.
    Removing,
    /// Close the journal.
    Closing,
    /// Set the attributes of directories.
    SettingAttributes,
    /// Make everything durable.
    Syncing,
    /// Wait until the source has removed stored entries.
    RemovingSources,
    /// Send the end frame.
    Ending,
}

/// The end of the source as far as known, and the phase of finalization.
///
/// Invariant: the phase leaves its first value only after the end frame of the source, and advances
/// in order.
#[derive(Debug, Default)]
pub(super) struct Ending {
    phase: Phase,
    source_ended: bool,
    is_incomplete: bool,
}

impl Ending {
    /// Records the end frame of the source.
    pub fn source_ended(&mut self) {
        self.source_ended = true;
    }

    /// Returns whether the source sent its end frame.
    pub fn has_source_ended(&self) -> bool {
        self.source_ended
    }

    /// Records that the source failed to read something: entries that seem extra may exist there.
    pub fn source_is_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Returns whether the source failed to read something.
    pub fn is_source_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Enters the next phase.
    pub fn advance(&mut self) {
        self.phase = match self.phase {
            Phase::Linking => Phase::Removing,
            Phase::Removing => Phase::Closing,
            Phase::Closing => Phase::SettingAttributes,
            Phase::SettingAttributes => Phase::Syncing,
            Phase::Syncing => Phase::RemovingSources,
            Phase::RemovingSources | Phase::Ending => Phase::Ending,
        };
    }
}
