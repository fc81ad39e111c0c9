//! Options that select what is copied.

use super::delete_args::DELETE_OPTIONS;
use clap::Args;

/// Options that select what is copied.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Do not copy the contents of other file systems below SRC: their mount points become empty
    /// directories
    ///
    /// With --delete, such a directory keeps its contents at the destination.
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
    /// Copy the files and directories to which symbolic links lead, instead of the links
    ///
    /// A link that leads nowhere, or to a directory that contains it, fails. A daemon follows links
    /// within its root only.
    #[arg(long, short = 'L')]
    pub copy_links: bool,
    /// Copy symbolic links in SRC as links, as always with --recursive, --archive and --files-from;
    /// otherwise their targets are copied
    #[arg(long, short = 'l')]
    pub links: bool,
    /// Remove each file at the source when its copy is complete and verified; directories stay
    ///
    /// A file that changed meanwhile stays, too. Add --fsync file to keep copies in a power
    /// failure. A daemon does not remove files that it sends.
    #[arg(long, conflicts_with_all = DELETE_OPTIONS)]
    pub remove_source_files: bool,
    /// Skip entries that do not exist at the destination, directories included
    #[arg(long, alias = "ignore-non-existing")]
    pub existing: bool,
    /// Skip entries that exist at the destination, except directories
    #[arg(long)]
    pub ignore_existing: bool,
}
