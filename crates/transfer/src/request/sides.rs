//! The sides of a requested transfer: their directories, options and threads.

use super::capabilities::Capabilities;
use super::destination::{boot_epoch, require_proc, seconds_ago, Destination};
use super::transfer_request::TransferRequest;
use crate::filters::build_filter;
use crate::options::{Compress, CopyOptions, Fsync};
use crate::paths::path_of;
use crate::placement::{Placer, SideOptions, SideSetup};
use crate::TransferError;
use numaio_linux::{process, Root};
use numaio_mover::accounts::{Account, AccountLookup};
use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::filter::SourcePath;
use numaio_mover::sink::{
    PreserveOptions, ProtectedPaths, RequestedEntries, SinkOptions, SyncMode, WriterIdentity,
};
use numaio_mover::source::{self, SourceOptions};
use numaio_mover::wire::{Side, TransferId};
use numaio_mover_linux::accounts;
use numaio_mover_linux::files::Roots;
use std::path::PathBuf;
use std::time::Duration;

/// Minimum age of partial files that `--delete` removes: younger ones may belong to another
/// transfer.
const PARTIAL_FILE_AGE: Duration = Duration::from_secs(600);

impl TransferRequest {
    /// Returns the lookup of owners, if they are kept by name.
    fn accounts(&self) -> Option<AccountLookup> {
        let lookup = AccountLookup {
            name: |account, id| match account {
                Account::User => accounts::user_name(id),
                Account::Group => accounts::group_name(id),
            },
            id: |account, name| match account {
                Account::User => accounts::user_id(name),
                Account::Group => accounts::group_id(name),
            },
        };
        (self.options.archive && !self.options.numeric_ids).then_some(lookup)
    }

    fn sync(&self, to: &Roots) -> SyncMode {
        match self.options.fsync {
            Fsync::None => SyncMode::None,
            Fsync::End if to.supports_syncfs() => SyncMode::End,
            Fsync::File | Fsync::End => SyncMode::File,
        }
    }

    /// Returns the options of the threads of a side.
    fn side_options<'a>(&'a self, side: Side, placer: &'a dyn Placer) -> SideOptions<'a> {
        let CopyOptions { placement, threads, io, streams, may_use_fewer_streams, .. } = self.options;
        let plan = self.plans.iter().flatten().find(|plan| plan.side() == side);
        SideOptions { side, placement, threads, io, streams, may_use_fewer_streams, plan, placer }
    }

    /// Returns the directories to open, and where reading begins in them.
    fn origins(&self) -> Result<(Vec<PathBuf>, Vec<source::Origin>), TransferError> {
        if let (Some(file_list), [path]) = (&self.options.file_list, &self.from[..]) {
            return Ok((vec![path_of(path)], file_list.origins(0)));
        }
        let mut roots = Vec::new();
        let mut origins = Vec::new();
        for path in &self.from {
            let origin = SourcePath::parse(path);
            let origin = origin.ok_or_else(|| TransferError::NoName { path: path_of(path) })?;
            let root = roots.len() as u32;
            origins.push(source::Origin { root, only: origin.only, enter: true, with_parents: false });
            roots.push(path_of(&origin.root));
        }
        Ok((roots, origins))
    }

    /// Sets up the source, for a sink with the capabilities of the request.
    pub fn source<'a>(
        &'a self,
        placer: &'a dyn Placer,
    ) -> Result<(SideSetup<'a>, SourceOptions), TransferError> {
        let (site, origins) = self.source_site(placer)?;
        let options = self.source_options(&site, origins, self.capabilities)?;
        Ok((site, options))
    }

    /// Opens the directories of the source; returns where reading begins in them.
    pub fn source_site<'a>(
        &'a self,
        placer: &'a dyn Placer,
    ) -> Result<(SideSetup<'a>, Vec<source::Origin>), TransferError> {
        require_proc(self.options.archive)?;
        let (roots, origins) = self.origins()?;
        Ok((SideSetup::new(&roots, &self.base, self.side_options(Side::Source, placer))?, origins))
    }

    /// Returns the options of the source for a sink with these capabilities.
    pub fn source_options(
        &self,
        site: &SideSetup<'_>,
        origins: Vec<source::Origin>,
        sink: Capabilities,
    ) -> Result<SourceOptions, TransferError> {
        Ok(SourceOptions {
            origins,
            recursive: self.options.recursive,
            listed: self.options.file_list.is_some(),
            xattrs: self.options.archive,
            devices: self.options.archive && site.roots.is_super_user(),
            filter: build_filter(&self.options.rules)?,
            skip_directory: None,
            hash: self.options.hash.kind(),
            policy: ChunkPolicy::for_port(),
            reads: site.most_threads().max(2 * site.threads),
            by_address: Root::live().is_ok_and(|root| site.roots.is_rotational(&root)),
            limit: self.options.bytes_per_second,
            compress: self.options.compress.kind(),
            eager: sink.eager_data,
            holes: sink.holes,
            links: sink.hard_links,
            acls: sink.named_acls,
            changed: sink.change_times,
            accounts: self.accounts(),
            transfer: TransferId(self.transfer),
        })
    }

    /// Returns which entries a source may send, if this process has the command line: a remote
    /// source is not trusted.
    fn expected_entries(&self, one_file: bool) -> Result<Option<RequestedEntries>, TransferError> {
        let expected = |(_, origins): (_, Vec<source::Origin>)| {
            RequestedEntries::new(
                &origins,
                self.options.recursive && !one_file,
                self.options.file_list.is_some(),
            )
        };
        self.plans.as_ref().map(|_| self.origins().map(expected)).transpose()
    }

    /// Sets up the sink. `one_file` is whether the source is a single file.
    pub fn sink<'a>(
        &'a self,
        one_file: bool,
        placer: &'a dyn Placer,
    ) -> Result<(SideSetup<'a>, SinkOptions), TransferError> {
        require_proc(true)?;
        let Destination { root, alias, made } = self.destination(one_file)?;
        let site = SideSetup::new(root.as_slice(), &self.base, self.side_options(Side::Sink, placer))?;
        let root = site.roots.is_super_user();
        let mut transfer = self.transfer;
        transfer[..8].copy_from_slice(&boot_epoch(&site.roots));
        let options = SinkOptions {
            preserve: PreserveOptions {
                modes: self.options.archive && site.roots.has_modes(),
                users: self.options.archive && root,
                groups: self.options.archive,
                xattrs: self.options.archive,
            },
            writer: WriterIdentity {
                user: process::user(),
                groups: process::groups(),
                for_others: self.is_for_daemon_user,
            },
            devices: self.options.archive && root,
            update: self.options.update,
            ignore_times: self.options.ignore_times,
            checksum: self.options.checksum,
            manifest: self.options.manifest,
            accounts: self.accounts(),
            sizes: self.options.size_range.0..=self.options.size_range.1,
            delete: self.options.delete,
            filter: build_filter(&self.options.rules)?,
            requested: self.expected_entries(one_file)?,
            dry_run: self.options.dry_run,
            // The local side has its own reports.
            report_changes: self.options.reports_changes && self.plans.is_none(),
            keep_partials_since: seconds_ago(PARTIAL_FILE_AGE),
            names: site.roots.names(!self.options.dry_run),
            protected: ProtectedPaths::default(),
            destination_created: made,
            alias,
            in_place: self.options.in_place,
            sync: self.sync(&site.roots),
            hash: self.options.hash.kind(),
            accept_compressed: self.options.compress != Compress::None,
            acls: self.capabilities.named_acls,
            eager: self.capabilities.eager_data,
            is_retry: self.is_retry,
            transfer: TransferId(transfer),
        };
        Ok((site, options))
    }
}
