//! Options of `--delete`.

use crate::failure::Failure;
use crate::options::integer;
use clap::Args;
use numaio_transfer::options::DeletionLimits;

/// The options that remove entries, for options that cannot be combined with them.
pub const DELETE_OPTIONS: [&str; 3] = ["delete", "delete_before", "delete_excluded"];

/// Handling of files that only the destination has.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Deletion")]
pub struct DeleteArgs {
    /// Remove files at the destination that the source does not have, within the copied directories
    ///
    /// Nothing is removed if the source cannot be listed completely, or if a named source directory
    /// is empty. Files that fail for other reasons do not matter.
    #[arg(long, aliases = ["delete-after", "delete-delay"])]
    pub delete: bool,
    /// Remove files before any file is copied, to free their space first; needs a second scan of
    /// the source
    #[arg(long, aliases = ["delete-during", "del"])]
    pub delete_before: bool,
    /// Remove also what --exclude leaves out, which --delete alone keeps
    #[arg(long)]
    pub delete_excluded: bool,
    /// Remove at most this number of entries
    #[arg(long, value_name = "N", value_parser = integer(0..=u32::MAX))]
    pub max_delete: Option<u32>,
    /// Remove entries even if the source could not be listed completely
    #[arg(long)]
    pub ignore_errors: bool,
    /// Empty the destination of a source directory that is empty
    ///
    /// Otherwise nothing is removed there: the file system of the source may not be mounted.
    #[arg(long)]
    pub allow_empty_source: bool,
}

impl DeleteArgs {
    /// Returns whether anything may be removed.
    pub fn deletes(self) -> bool {
        self.delete || self.delete_before || self.delete_excluded
    }

    /// Checks what clap cannot express: the other options need `--delete` or `--delete-before`.
    pub fn check(self) -> Result<(), Failure> {
        let Self { max_delete, ignore_errors, allow_empty_source, .. } = self;
        let options = [
            ("--max-delete", max_delete.is_some()),
            ("--ignore-errors", ignore_errors),
            ("--allow-empty-source", allow_empty_source),
        ];
        match options.iter().find(|(_, is_given)| *is_given && !self.deletes()) {
            Some((option, _)) => Err(Failure::usage(format!("{option} needs --delete")).hint("add --delete")),
            None => Ok(()),
        }
    }

    /// Returns the limits that both sides receive.
    pub fn limits(self) -> DeletionLimits {
        let Self { delete_before, delete_excluded, max_delete, ignore_errors, allow_empty_source, .. } = self;
        DeletionLimits {
            before: delete_before,
            only: false,
            max: max_delete.map(u64::from),
            ignore_errors,
            allow_empty_source,
            excluded: delete_excluded,
        }
    }
}
