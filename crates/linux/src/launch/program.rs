//! A program to start.

use std::ffi::OsString;
use std::process::Command;

/// A program, its arguments and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name in PATH, or path.
    pub name: OsString,
    /// Arguments.
    pub args: Vec<OsString>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
}

impl Program {
    /// Returns the command that starts the program.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.name);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}
