//! What rsync has options for and numaio keeps anyway: they are taken, and say nothing.

use clap::{ArgAction, Args};

#[derive(Debug, Args)]
pub struct RsyncNoopArgs {
    /// Times, links, further names and holes are kept by --recursive and --archive
    #[arg(
        long = "hard-links",
        short = 'H',
        aliases = ["times", "links", "sparse"],
        short_aliases = ['t', 'l', 'S'],
        action = ArgAction::Count,
        hide = true
    )]
    pub rsync_noop: u8,
    /// ACLs and extended attributes are kept by --archive
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
