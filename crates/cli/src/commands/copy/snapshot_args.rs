//! Options of snapshots and backups.

use super::delete_args::DELETE_OPTIONS;
use clap::Args;
use numaio_transfer::entry_options::Backup;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Options of snapshots and backups.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// Create hard links to unchanged files of an earlier snapshot, instead of copies; repeatable
    ///
    /// DIR is relative to DST, and on the same file system. Where hard links are refused, numaio
    /// clones the file if the file system can, and copies it otherwise. A missing DIR is reported.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["checksum", "ignore_times"])]
    link_dest: Vec<OsString>,
    /// Keep each replaced file under its name with a suffix
    ///
    /// The old file keeps its name until the new one is complete. Files of which only attributes
    /// change have no backup.
    #[arg(long, short, conflicts_with_all = DELETE_OPTIONS, conflicts_with = "inplace")]
    backup: bool,
    /// Keep replaced files in a directory, with their names below DST; implies --backup
    ///
    /// DIR is relative to DST, and on the same file system. Its last directory is created.
    #[arg(long, value_name = "DIR", conflicts_with_all = DELETE_OPTIONS, conflicts_with = "inplace")]
    backup_dir: Option<OsString>,
    /// Suffix of the names of backups; default ~, and none with --backup-dir
    #[arg(long, value_name = "SUFFIX", value_parser = suffix)]
    suffix: Option<String>,
}

impl SnapshotArgs {
    /// Returns the directories of earlier snapshots.
    pub fn link_dest(&self) -> Vec<Vec<u8>> {
        self.link_dest.iter().map(|path| path.as_bytes().to_vec()).collect()
    }

    /// Returns where replaced files are kept, if that is requested.
    pub fn backup(&self) -> Option<Backup> {
        let directory = self.backup_dir.as_ref().map(|path| path.as_bytes().to_vec());
        let default = if directory.is_some() { "" } else { "~" };
        let suffix = self.suffix.as_deref().unwrap_or(default).as_bytes().to_vec();
        (self.backup || directory.is_some()).then_some(Backup { directory, suffix })
    }
}

fn suffix(text: &str) -> Result<String, &'static str> {
    match text.is_empty() || text.contains('/') {
        true => Err("expected a suffix without slashes"),
        false => Ok(text.to_owned()),
    }
}
