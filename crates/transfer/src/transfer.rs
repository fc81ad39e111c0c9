//! A transfer as the user requested it.

use crate::endpoint::Endpoint;
use crate::network_options::NetworkOptions;
use crate::options::CopyOptions;
use crate::placement::SidePlan;
use crate::ssh::stderr_relay::LineSink;
use std::ffi::OsString;
use std::path::PathBuf;

/// A transfer as the user requested it.
pub struct Transfer {
    /// The sources, which are on one host.
    pub sources: Vec<Endpoint>,
    /// The destination.
    pub destination: Endpoint,
    /// Options that both sides receive.
    pub options: CopyOptions,
    /// Options of the network.
    pub network: NetworkOptions,
    /// Plans of local sides.
    pub plans: Vec<SidePlan>,
    /// Options of the numaio on another host.
    pub remote: RemoteOptions,
    /// End the transfer after this number of failed files; `None` for all.
    pub max_errors: Option<u64>,
    /// Whether another numaio reads the events.
    pub attached: bool,
    /// Whether it continues an attempt that was lost.
    pub is_retry: bool,
    /// Socket of this host's broker, which lends capacity; `None` to transfer without it.
    pub broker: Option<PathBuf>,
    /// Whether messages of other hosts are held back while the events describe all failures.
    pub quiet: bool,
}

/// How numaio runs on other hosts.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The command that starts numaio there, with words separated by blanks.
    pub numaio: String,
    /// Whether this program is copied to a host without numaio.
    pub bootstrap: bool,
    /// Whether the local ssh agent may be used there.
    pub forward_agent: bool,
    /// The typed options, for a transfer between two other hosts.
    pub options: Vec<OsString>,
    /// Those of them that name a local file.
    pub local_files: Vec<String>,
    /// Receives the stderr of processes on other hosts.
    pub stderr: LineSink,
}
