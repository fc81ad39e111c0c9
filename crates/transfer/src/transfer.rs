//! A transfer as the user requested it, and which way it runs.

use super::endpoint::{Endpoint, Host};
use super::network_options::NetworkOptions;
use super::options::CopyOptions;
use super::placement::{Placer, SidePlan};
use super::remote::RemoteTransfer;
use super::reporter::{Observer, Reporter, TransferEnd};
use super::request::{TransferRequest, RETRY_VARIABLE};
use super::{host_to_host, local};
use crate::failure::Failure;
use std::ffi::OsString;

/// A transfer as the user requested it.
#[derive(Debug)]
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
    /// Whether another numaio reads the events.
    pub attached: bool,
    /// Whether messages of other hosts are held back while the events describe all failures.
    pub quiet: bool,
}

/// How numaio runs on other hosts.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// The path of numaio there.
    pub numaio: String,
    /// Whether this program is copied to a host without numaio.
    pub bootstrap: bool,
    /// Whether the local ssh agent may be used there.
    pub forward_agent: bool,
    /// The typed options, for a transfer between two other hosts.
    pub options: Vec<OsString>,
    /// Those of them that name a local file.
    pub local_files: Vec<String>,
}

impl Transfer {
    /// Runs the transfer, and reports it to the observer.
    ///
    /// # Errors
    /// The transfer did not begin, or its end is unknown. A transfer that began and failed ends
    /// with the reason.
    pub fn run(&self, observer: &mut dyn Observer, placer: &dyn Placer) -> Result<TransferEnd, Failure> {
        let is_retry = self.attached && std::env::var_os(RETRY_VARIABLE).is_some();
        let ends = (&self.sources[..], &self.destination);
        let request = TransferRequest::new(ends, self.options.clone(), self.plans.clone(), is_retry)?;
        let reporter = Reporter::new(observer, self.options.dry_run);
        let remote =
            |host, is_source| RemoteTransfer { transfer: self, request: &request, host, is_source, placer };
        match (Endpoint::common_host(&self.sources)?, &self.destination.host) {
            (None, None) => local::run(&request, reporter, placer),
            (Some(host), None) => remote(&host, false).run(reporter),
            (None, Some(host)) => remote(host, true).run(reporter),
            (Some(Host::Ssh(host)), Some(_)) => host_to_host::run(self, &request, &host, reporter),
            (Some(Host::Daemon(_)), Some(_)) => {
                Err(Failure::usage("a daemon cannot send to another remote host")
                    .hint("run numaio copy on one of the two hosts, or copy to this host first"))
            }
        }
    }
}
