//! Runs a transfer: within this host, with another host, or between two other hosts.

use crate::endpoint::{Endpoint, Host};
use crate::local;
use crate::placement::Placer;
use crate::remote::{host_to_host, RemoteTransfer};
use crate::reporter::{Observer, Reporter, TransferEnd};
use crate::request::{TransferRequest, RETRY_VARIABLE};
use crate::transfer::Transfer;
use crate::TransferError;

impl Transfer {
    /// Runs the transfer, and reports it to the observer.
    ///
    /// # Errors
    /// The transfer did not begin, or its end is unknown. A transfer that began and failed ends
    /// with the reason.
    pub fn run(
        &self,
        observer: &mut dyn Observer,
        placer: &dyn Placer,
    ) -> Result<TransferEnd, TransferError> {
        let is_retry = self.is_retry || self.attached && std::env::var_os(RETRY_VARIABLE).is_some();
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
            (Some(Host::Daemon(_)), Some(_)) => Err(TransferError::FromDaemonToHost),
        }
    }
}
