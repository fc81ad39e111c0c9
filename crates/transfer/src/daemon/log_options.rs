//! Format and level of the log of a daemon.

use std::fmt;
use std::str::FromStr;

/// Format and level of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// The format.
    pub format: LogFormat,
    /// The least important level that is logged.
    pub level: LogLevel,
}

/// Format of the lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text.
    #[default]
    Text,
    /// A JSON object for each line.
    Json,
    /// Text after the priority of the service manager (sd-daemon(3)).
    Journal,
}

/// Importance of a line, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// The daemon does not work as configured.
    Error,
    /// A session or a connection failed.
    Warning,
    /// Sessions, and changes of the daemon's state.
    #[default]
    Info,
    /// Details for a search for errors.
    Debug,
}

impl LogFormat {
    /// All formats, default first.
    pub const ALL: [Self; 3] = [Self::Text, Self::Json, Self::Journal];

    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Journal => "journal",
        }
    }
}

impl LogLevel {
    /// All levels, most important first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Info, Self::Debug];

    /// Returns the name in the configuration and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns the priority of syslog(3).
    pub fn priority(self) -> u8 {
        match self {
            Self::Error => 3,
            Self::Warning => 4,
            Self::Info => 6,
            Self::Debug => 7,
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, text)
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, text)
    }
}

/// Returns the value with a name, or an error that lists all names.
fn by_name<T: Copy>(all: &[T], name: fn(T) -> &'static str, text: &str) -> Result<T, String> {
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|value| format!("{:?}", name(*value))).collect();
        format!("expected one of {}, got {text:?}", names.join(", "))
    })
}
