//! Options of what is reported about changes.

use clap::Args;
use std::path::PathBuf;

/// Options of what is reported about changes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct ReportArgs {
    /// Print each change as 11 letters and a name, as rsync does: >f.st...... name
    #[arg(long, short = 'i')]
    pub itemize_changes: bool,
    /// Print numbers of files and bytes at the end
    #[arg(long)]
    pub stats: bool,
    /// Append each change, each failure and the summary to a file, with the time and the process ID
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub log_file: Option<PathBuf>,
}

impl ReportArgs {
    /// Returns whether any of these needs the changed attributes.
    pub fn itemizes(&self) -> bool {
        self.itemize_changes || self.stats || self.log_file.is_some()
    }
}
