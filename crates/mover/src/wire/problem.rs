//! Sides of a transfer, and problems that they report.

use super::error::{WireError, MAX_TEXT};
use crate::entry::FileNumber;
use crate::name::{is_terminal_unsafe, Name};

/// A side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that reads files.
    Source,
    /// The side that writes files.
    Sink,
}

impl Side {
    /// Returns the opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}

/// A failure of one side: the object, the reason and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The object that the problem concerns.
    pub about: ProblemSubject,
    /// The side where it occurred.
    pub side: Side,
    /// The reason, for programs.
    pub reason: Reason,
    /// The reason, for people.
    pub text: DisplayText,
}

/// The object that a problem concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemSubject {
    /// The transfer, which ends.
    Transfer,
    /// A file, with its name for display; the transfer continues.
    File(FileNumber, Name),
    /// A name without a file number because it could not be examined.
    Name(Name),
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The reason of a problem. Variant names are part of the JSON events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All reasons, ordered by code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the code on the wire.
            pub(super) fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

reasons! {
    /// A reason without a code; see the text.
    Other = 1,
    /// The object does not exist, or no longer exists.
    NotFound = 2,
    /// Permission to read or write was denied.
    Permission = 3,
    /// The file system is full.
    NoSpace = 4,
    /// The user's quota is exhausted.
    Quota = 5,
    /// The file system is mounted read-only.
    ReadOnly = 6,
    /// The name is too long for the file system.
    NameTooLong = 7,
    /// A symbolic link is part of a loop or leaves the root.
    Link = 8,
    /// Another object has this name.
    Exists = 9,
    /// The file changed while it was read.
    Changed = 10,
    /// The hashes of source and sink differ.
    Mismatch = 11,
    /// The file system of the peer or the protocol does not support the object.
    Unsupported = 12,
    /// The device failed.
    Device = 13,
    /// The peer violated the protocol.
    Protocol = 14,
    /// A user or administrator cancelled the transfer.
    Cancelled = 15,
    /// A timeout expired.
    TimedOut = 16,
    /// The entry is complete, except for an attribute that cannot be set.
    Attribute = 17,
    /// The entry is complete, except for what the file system does not keep of any entry.
    NotKept = 18,
}

impl Reason {
    /// Returns whether the entry is complete except for attributes.
    pub fn is_about_attributes(self) -> bool {
        matches!(self, Self::Attribute | Self::NotKept)
    }
}

/// A one-line message for people, without characters that a terminal would interpret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DisplayText(Box<str>);

impl DisplayText {
    /// Creates a message: terminal controls are replaced, and it is truncated to [`MAX_TEXT`]
    /// bytes.
    pub fn new(words: &str) -> Self {
        let mut text = String::new();
        let harmless = words.chars().map(|char| if is_terminal_unsafe(char) { '\u{fffd}' } else { char });
        for char in harmless {
            if text.len() + char.len_utf8() > MAX_TEXT {
                break;
            }
            text.push(char);
        }
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn from_wire(bytes: &[u8]) -> Result<Self, WireError> {
        let text =
            std::str::from_utf8(bytes).map_err(|_| WireError::InvalidValue("a text that is not UTF-8"))?;
        if text.chars().any(is_terminal_unsafe) {
            return Err(WireError::InvalidValue("a text with control characters"));
        }
        Ok(Self(text.into()))
    }
}
