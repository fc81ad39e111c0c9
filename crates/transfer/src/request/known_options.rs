//! Options that an older numaio does not know. Both sides negotiate them, so that a peer never
//! ignores one.

use crate::options::{ActiveFiles, CopyOptions, OmittedAttributes};
use crate::TransferError;
use numaio_mover::wire::Side;
use serde::{Deserialize, Serialize};

/// Whether options use a negotiated option at a side.
type IsUsed = fn(&CopyOptions, Side) -> bool;

/// The negotiated options. Their positions are sent to the peer, so new ones are appended.
const OPTIONS: &[(&str, IsUsed)] = &[
    // A sink must not delete below directories that the source did not enter.
    ("--one-file-system", |options, side| {
        options.negotiated.one_file_system && (side == Side::Source || options.delete)
    }),
    ("--existing", |options, side| options.negotiated.existing && side == Side::Sink),
    ("--ignore-existing", |options, side| options.negotiated.ignore_existing && side == Side::Sink),
    ("--copy-links", |options, side| options.negotiated.copy_links && side == Side::Source),
    ("--chmod", |options, side| options.negotiated.chmod.is_some() && side == Side::Source),
    ("--chown", |options, side| options.negotiated.chown.is_some() && side == Side::Sink),
    ("--itemize-changes", |options, _| options.negotiated.itemize),
    ("--remove-source-files", |options, _| options.negotiated.remove_source_files),
    ("--max-delete", |options, side| options.deletion.max.is_some() && side == Side::Sink),
    ("--delete-before", |options, side| options.deletion.before && side == Side::Sink),
    ("--no-perms, --no-owner, --no-group, --no-times or -O", |options, side| {
        let omitted = OmittedAttributes { hard_links: false, ..options.omitted };
        omitted != OmittedAttributes::default() && side == Side::Sink
    }),
    ("--active-files", |options, side| options.active_files == ActiveFiles::Copy && side == Side::Source),
    ("--link-dest", |options, side| !options.negotiated.link_dest.is_empty() && side == Side::Sink),
    ("--backup", |options, side| options.negotiated.backup.is_some() && side == Side::Sink),
    ("--shard", |options, _| options.negotiated.shard.is_some()),
    ("--finish", |options, side| options.negotiated.finish && side == Side::Sink),
    ("--remote-plan", |options, _| options.negotiated.remote_plan.is_some()),
    ("--delete-excluded", |options, side| options.delete && options.deletion.excluded && side == Side::Sink),
    ("--mkpath", |options, side| options.negotiated.make_parents && side == Side::Sink),
];

/// A set of negotiated options, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KnownOptions(u64);

impl KnownOptions {
    /// Returns all options that this numaio knows.
    pub fn all() -> Self {
        Self((1 << OPTIONS.len()) - 1)
    }

    /// Returns the options that are in both sets.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Checks that a peer which knows these options can apply those of a transfer at its side.
    ///
    /// # Errors
    /// [`TransferError::UnknownOption`] with the first option that the peer would ignore.
    pub fn check(self, options: &CopyOptions, side: Side, host: &str) -> Result<(), TransferError> {
        let is_known = |bit: usize| self.0 & 1 << bit != 0;
        let mut used = OPTIONS.iter().enumerate().filter(|(_, (_, is_used))| is_used(options, side));
        match used.find(|(bit, _)| !is_known(*bit)) {
            None => Ok(()),
            Some((_, (option, _))) => Err(TransferError::UnknownOption { option, host: host.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_options_that_only_the_other_side_knows() {
        let newer: KnownOptions = serde_json::from_str(&u64::MAX.to_string()).expect("a number");
        assert_eq!(newer.intersection(KnownOptions::all()), KnownOptions::all());
        assert_eq!(newer.intersection(KnownOptions::default()), KnownOptions::default());
    }
}
