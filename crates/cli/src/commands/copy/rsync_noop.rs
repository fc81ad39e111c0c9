//! Options of rsync that have no effect, because numaio always does what they request.

use clap::{ArgAction, Args};

/// Options of rsync that are accepted without effect.
#[derive(Debug, Args)]
pub struct RsyncNoopArgs {
    /// --recursive and --archive always keep times, links, hard links and holes
    #[arg(
        long = "hard-links",
        short = 'H',
        aliases = ["times", "sparse"],
        short_aliases = ['t', 'S'],
        action = ArgAction::Count,
        hide = true
    )]
    pub rsync_noop: u8,
    /// --archive always keeps ACLs and extended attributes
    #[arg(
        long = "acls",
        short = 'A',
        alias = "xattrs",
        short_alias = 'X',
        action = ArgAction::Count,
        hide = true,
        requires = "archive"
    )]
    pub rsync_noop_with_archive: u8,
}
