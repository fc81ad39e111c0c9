//! Options of snapshots and backups.

use clap::Args;
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
}

impl SnapshotArgs {
    /// Returns the directories of earlier snapshots.
    pub fn link_dest(&self) -> Vec<Vec<u8>> {
        self.link_dest.iter().map(|path| path.as_bytes().to_vec()).collect()
    }
}
