//! Options for attributes that are left out.

use clap::Args;
use numaio_transfer::options::OmittedAttributes;

/// Attributes that are not preserved, although `--archive` and times include them.
#[derive(Debug, Clone, Copy, Args)]
pub struct OmittedAttributeArgs {
    /// Leave out modes of --archive: new files get the source's mode less the umask
    #[arg(long, alias = "no-p")]
    pub no_perms: bool,
    /// Leave out users of --archive
    #[arg(long, alias = "no-o")]
    pub no_owner: bool,
    /// Leave out groups of --archive
    #[arg(long, alias = "no-g")]
    pub no_group: bool,
    /// Leave out times; files of the same size are then compared by a hash of their contents
    #[arg(long, alias = "no-t")]
    pub no_times: bool,
    /// Leave out times of directories
    #[arg(long, short = 'O')]
    pub omit_dir_times: bool,
    /// Copy each name of a file with several hard links as a file of its own
    #[arg(long, alias = "no-H")]
    pub no_hard_links: bool,
}

impl OmittedAttributeArgs {
    /// Returns the attributes to leave out.
    pub fn omitted(self) -> OmittedAttributes {
        let Self { no_perms, no_owner, no_group, no_times, omit_dir_times, no_hard_links } = self;
        OmittedAttributes {
            modes: no_perms,
            users: no_owner,
            groups: no_group,
            times: no_times,
            directory_times: omit_dir_times,
            hard_links: no_hard_links,
        }
    }
}
