//! Runs a transfer: within this host, with another host, or between two other hosts.

use crate::capacity::{borrow, Borrowed};
use crate::deletion_pass::DeletionPass;
use crate::endpoint::{Endpoint, Host};
use crate::local;
use crate::options::{CopyOptions, DeletionLimits};
use crate::placement::Placer;
use crate::remote::{host_to_host, RemoteTransfer};
use crate::reporter::{Observer, Reporter, TransferEnd};
use crate::request::TransferRequest;
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
        let is_host_to_host =
            self.destination.host.is_some() && self.sources.iter().any(|from| from.host.is_some());
        // The first of two other hosts runs both passes.
        if !self.options.delete || !self.options.deletion.before || is_host_to_host {
            return self.run_pass(self.options.clone(), observer, placer);
        }
        let mut passes = DeletionPass::new(observer);
        let deletion = DeletionLimits { only: true, ..self.options.deletion };
        let ended = self.run_pass(CopyOptions { deletion, ..self.options.clone() }, &mut passes, placer)?;
        if ended.given_up.is_some() {
            passes.end_without_copy();
            return Ok(ended);
        }
        passes.begin_copy();
        self.run_pass(CopyOptions { delete: false, ..self.options.clone() }, &mut passes, placer)
            .map(|copied| TransferEnd { problems: copied.problems.plus(passes.problems()), ..copied })
    }

    fn run_pass(
        &self,
        options: CopyOptions,
        observer: &mut dyn Observer,
        placer: &dyn Placer,
    ) -> Result<TransferEnd, TransferError> {
        let ends = (&self.sources[..], &self.destination);
        let request = TransferRequest::new(ends, options, self.plans.clone(), self.is_retry)?;
        let mut reporter = Reporter::new(observer, self.options.dry_run);
        reporter.sends = self.destination.host.is_some();
        reporter.max_errors = self.max_errors;
        let capacity = borrow(self, &mut reporter)?;
        let remote = |host, is_source| RemoteTransfer {
            transfer: self,
            request: &request,
            host,
            is_source,
            placer,
            capacity: capacity.as_ref(),
        };
        match (Endpoint::common_host(&self.sources)?, &self.destination.host) {
            (None, None) => local::run(&request, reporter, placer, capacity.as_ref().map(Borrowed::current)),
            (Some(host), None) => remote(&host, false).run(reporter),
            (None, Some(host)) => remote(host, true).run(reporter),
            (Some(Host::Ssh(host)), Some(_)) => host_to_host::run(self, &request, &host, reporter),
            (Some(Host::Daemon(_)), Some(_)) => Err(TransferError::FromDaemonToHost),
        }
    }
}
