//! Options of a copy that another numaio has started by ssh.

use clap::Args;

/// Options of a copy that another numaio has started.
#[derive(Debug, Args)]
pub struct AttachedArgs {
    /// Continue an attempt that was lost
    #[arg(long = "retry-attempt", hide = true, requires = "attached")]
    pub is_retry: bool,
}
