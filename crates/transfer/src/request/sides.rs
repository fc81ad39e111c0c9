//! The sides of a requested transfer: their directories, options and threads.

use super::capabilities::Capabilities;
use super::destination::{boot_epoch, require_proc, seconds_ago, Destination};
use super::transfer_request::TransferRequest;
use crate::filters::build_filter;
use crate::options::{ActiveFiles, CopyOptions, DeletionLimits};
use crate::paths::path_of;
use crate::placement::{Placer, SideOptions, SideSetup};
use crate::TransferError;
use numaio_linux::process;
use numaio_mover::accounts::{Account, AccountLookup};
use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::compression::CompressMode;
use numaio_mover::filter::SourcePath;
use numaio_mover::port::KeptAttributes;
use numaio_mover::sink::{
    BackupNames, ExistingPolicy, FixedOwner, PreserveOptions, ProtectedPaths, RemovalLimits,
    RequestedEntries, SinkOptions, SyncMode, WriterIdentity,
};
use numaio_mover::source::{self, ReadMode, ReadOrder, SourceOptions};
use numaio_mover::wire::{Side, TransferId};
use numaio_mover_linux::accounts;
use numaio_mover_linux::files::{NewFiles, Roots, WriteAbilities};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
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
            SyncMode::End if !to.supports_syncfs() => SyncMode::File,
            requested => requested,
        }
    }

    /// Returns the options of the threads of a side.
    fn side_options<'a>(&'a self, side: Side, placer: &'a dyn Placer) -> SideOptions<'a> {
        let CopyOptions { placement, threads, io, streams, may_use_fewer_streams, work_sharing, .. } =
            self.options;
        let plans = self.plans.iter().flatten().chain(&self.remote_plan);
        let plan = plans.into_iter().find(|plan| plan.side() == side);
        SideOptions {
            side,
            placement,
            threads,
            io,
            streams,
            may_use_fewer_streams,
            work_sharing,
            plan,
            placer,
        }
    }

    /// Returns the directories to open, and where reading begins in them.
    pub(super) fn origins(&self) -> Result<(Vec<PathBuf>, Vec<source::Origin>), TransferError> {
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
        let (mut site, origins) = self.source_site(placer)?;
        let options = self.source_options(&mut site, origins, self.capabilities)?;
        Ok((site, options))
    }

    /// Opens the directories of the source; returns where reading begins in them.
    pub fn source_site<'a>(
        &'a self,
        placer: &'a dyn Placer,
    ) -> Result<(SideSetup<'a>, Vec<source::Origin>), TransferError> {
        require_proc(self.options.archive)?;
        let (roots, origins) = self.origins()?;
        let place = |(root, origin): (&PathBuf, &source::Origin)| match &origin.only {
            // The named directory may be a mount point.
            Some(name) if self.options.file_list.is_none() => root.join(path_of(name.as_bytes())),
            _ => root.clone(),
        };
        let places: Vec<PathBuf> = roots.iter().zip(&origins).map(place).collect();
        let options = self.side_options(Side::Source, placer);
        let mut site = SideSetup::new((&roots, &places), &self.base, options)?;
        site.roots.set_direct_io(self.options.direct);
        self.refuse_other_side(Side::Source, &mut site.roots);
        if self.options.order == ReadOrder::Listed {
            site.roots.keep_listing_order();
        }
        if self.options.entries.follows_links() {
            site.roots.follow_links(&self.base).map_err(TransferError::Io)?;
        }
        Ok((site, origins))
    }

    /// Returns the options of the source for a sink with these capabilities, whose block size the
    /// buffers get.
    pub fn source_options(
        &self,
        site: &mut SideSetup<'_>,
        origins: Vec<source::Origin>,
        sink: Capabilities,
    ) -> Result<SourceOptions, TransferError> {
        site.use_blocks(sink.block_size());
        Ok(SourceOptions {
            origins,
            recursive: self.options.recursive,
            listed: self.options.file_list.is_some(),
            one_file_system: self.options.entries.one_file_system,
            remove_stored: self.options.entries.remove_source_files && !self.options.dry_run,
            local_destination: None,
            follow_links: self.options.entries.follows_links(),
            mode_changes: self.mode_changes()?,
            announce_mount_points: self.options.entries.one_file_system && self.options.delete,
            xattrs: self.options.archive,
            devices: self.options.archive && site.roots.is_super_user(),
            shard: self.options.entries.shard,
            filter: build_filter(&self.options.rules)?,
            rejects_empty: self.options.delete && !self.options.deletion.allow_empty_source,
            skip_directory: None,
            hash: self.options.hash,
            active_files: self.options.active_files == ActiveFiles::Copy,
            policy: ChunkPolicy::for_port(sink.block_size()),
            storage: site.source_storage(self.options.order),
            mode: if sink.in_order { ReadMode::Pipeline } else { self.options.mode },
            limit: self.options.bytes_per_second,
            compress: self.options.compress,
            eager: sink.eager_data,
            links: sink.hard_links && !self.options.omitted.hard_links,
            acls: sink.named_acls,
            accounts: self.accounts(),
            transfer: TransferId(self.transfer),
        })
    }

    /// Returns the directories of earlier snapshots that can be used, and remarks about the others.
    fn snapshots(&self, root: Option<&Path>) -> (Vec<PathBuf>, Vec<String>) {
        // Without a destination, in a dry run, nothing is linked.
        let Some(root) = root else { return Default::default() };
        let paths = self.options.entries.link_dest.iter().map(|path| root.join(path_of(path)));
        let (mut found, mut remarks) = (Vec::new(), Vec::new());
        for path in paths {
            match self.base.roots(&[&path]) {
                Ok(_) => found.push(path),
                Err((path, error)) => {
                    let why = match error.kind() {
                        ErrorKind::NotFound => "does not exist".to_owned(),
                        _ => format!("cannot be used: {error}"),
                    };
                    remarks.push(format!("--link-dest: directory '{}' {why}", path.display()));
                }
            }
        }
        (found, remarks)
    }

    /// Returns where replaced objects are kept: with a directory, the root after the snapshots.
    fn backup_names(&self, has_directory: bool, snapshots: u32) -> Option<BackupNames> {
        let backup = self.options.entries.backup.as_ref()?;
        let root = if has_directory { 1 + snapshots } else { 0 };
        Some(BackupNames { root, suffix: backup.suffix.clone() })
    }

    /// Returns the directory of backups, which is created if necessary, unless they are beside the
    /// replaced objects.
    fn backup_directory(&self, root: Option<&Path>) -> Result<Option<PathBuf>, TransferError> {
        let backup = self.options.entries.backup.as_ref().filter(|_| !self.options.dry_run);
        let directory = backup.and_then(|backup| backup.directory.as_ref());
        let (Some(root), Some(directory)) = (root, directory) else { return Ok(None) };
        let path = root.join(path_of(directory));
        if !self.base.is_directory(&path) {
            let made = self.base.make_directory(&path);
            made.map_err(|error| TransferError::File { path: path.clone(), error })?;
        }
        Ok(Some(path))
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

    fn existing_policy(&self) -> ExistingPolicy {
        ExistingPolicy {
            only_existing: self.options.entries.existing,
            ignore_existing: self.options.entries.ignore_existing,
        }
    }

    fn removal_limits(&self) -> RemovalLimits {
        let DeletionLimits { only, max, ignore_errors, excluded, .. } = self.options.deletion;
        RemovalLimits { only, max, ignore_errors, excluded }
    }

    /// Returns the attributes to preserve; `root` is whether the sink runs as root.
    fn preserved_attributes(&self, root: bool, owner: &FixedOwner) -> PreserveOptions {
        let omitted = self.options.omitted;
        PreserveOptions {
            modes: self.options.archive && !omitted.modes,
            users: root && (self.options.archive && !omitted.users || owner.user.is_some()),
            groups: self.options.archive && !omitted.groups || owner.group.is_some(),
            xattrs: self.options.archive,
            times: !omitted.times,
            // Other shards write to the directories after this one has ended.
            directory_times: !omitted.directory_times && self.options.entries.shard.is_none(),
        }
    }

    /// Opens the directories of the sink.
    fn sink_site<'a>(
        &'a self,
        roots: &[PathBuf],
        remarks: Vec<String>,
        placer: &'a dyn Placer,
    ) -> Result<SideSetup<'a>, TransferError> {
        let mut site = SideSetup::new((roots, roots), &self.base, self.side_options(Side::Sink, placer))?;
        site.remarks = remarks;
        self.refuse_other_side(Side::Sink, &mut site.roots);
        site.use_blocks(self.capabilities.block_size());
        site.roots.set_direct_io(self.options.direct);
        Ok(site)
    }

    fn writer(&self) -> WriterIdentity {
        WriterIdentity {
            user: process::user(),
            groups: process::groups(),
            for_others: self.is_for_daemon_user,
        }
    }

    /// Adapts to what the file system accepts of writers, with a remark about each difference.
    fn examine(&self, site: &mut SideSetup<'_>, may_write: bool) -> WriteAbilities {
        let abilities = if may_write { site.roots.write_abilities() } else { WriteAbilities::default() };
        if !abilities.any_offset {
            site.roots.write_in_order();
            let text = "the file system of the destination accepts data in order only: each file is \
                written by one thread at a time, and an interrupted one starts again";
            site.remarks.push(text.to_owned());
        }
        if !abilities.renames && !self.options.in_place {
            site.roots.keep_existing();
            let text = "the file system of the destination does not rename files: each new one is written \
                under its final name, and an interrupted one is incomplete there";
            site.remarks.push(text.to_owned());
        }
        if !abilities.left.is_empty() {
            let marker = self.own_marker().into_iter();
            let names = abilities.left.iter().cloned().chain(marker).collect::<Vec<_>>().join("', '");
            let text = "the file system of the destination does not remove files, so that these stay";
            site.remarks.push(format!("{text}: '{names}'"));
        }
        abilities
    }

    /// Sets up the sink. `one_file` is whether the source is a single file.
    pub fn sink<'a>(
        &'a self,
        one_file: bool,
        placer: &'a dyn Placer,
    ) -> Result<(SideSetup<'a>, SinkOptions), TransferError> {
        require_proc(true)?;
        let Destination { root, alias, made } = self.destination(one_file)?;
        // Without a destination, nothing exists that could be changed.
        let dry_run = self.options.dry_run || root.is_none();
        let (snapshots, remarks) = self.snapshots(root.as_deref());
        let backups = self.backup_directory(root.as_deref())?;
        let roots: Vec<PathBuf> = root.iter().chain(&snapshots).chain(&backups).cloned().collect();
        let mut site = self.sink_site(&roots, remarks, placer)?;
        let may_write = !dry_run && !self.options.deletion.only;
        let abilities = self.examine(&mut site, may_write);
        let new_files = abilities.new_files();
        let root = site.roots.is_super_user();
        let owner = self.fixed_owner(root)?;
        let mut transfer = self.transfer;
        transfer[..8].copy_from_slice(&boot_epoch(&site.roots));
        let preserve = self.preserved_attributes(root, &owner);
        let options = SinkOptions {
            preserve,
            kept: kept_attributes(&site.roots, &preserve, may_write, new_files),
            writer: self.writer(),
            devices: self.options.archive && root,
            existing: self.existing_policy(),
            update: self.options.update,
            ignore_times: self.options.ignore_times,
            checksum: self.options.checksum,
            manifest: self.options.manifest,
            accounts: self.accounts(),
            owner,
            sizes: self.options.size_range.0..=self.options.size_range.1,
            delete: self.options.delete,
            removal_limits: self.removal_limits(),
            one_file_system: self.options.entries.one_file_system,
            filter: build_filter(&self.options.rules)?,
            requested: self.expected_entries(one_file)?,
            confirm_stored: self.options.entries.remove_source_files && !self.options.dry_run,
            dry_run,
            backup: self.backup_names(backups.is_some(), snapshots.len() as u32),
            snapshots: snapshots.len() as u32,
            clones: None,
            itemize: self.options.entries.itemize,
            // The local side has its own reports.
            report_changes: self.options.reports_changes && self.plans.is_none(),
            keep_partials_since: seconds_ago(PARTIAL_FILE_AGE),
            names: site.roots.names((!dry_run).then_some(new_files)),
            protected: ProtectedPaths::default(),
            destination_created: made,
            alias,
            in_place: self.options.in_place || !abilities.renames,
            in_order: !abilities.any_offset,
            resumes: abilities.any_offset && new_files == NewFiles::Removable,
            sync: self.sync(&site.roots),
            block: self.capabilities.block_size(),
            hash: self.options.hash,
            accept_compressed: self.options.compress != CompressMode::None,
            acls: self.capabilities.named_acls,
            eager: self.capabilities.eager_data,
            journal: self.journal_name().into(),
            is_shard: self.options.entries.shard.is_some(),
            abandoned_shards: self.abandoned_shards(&site.roots)?,
            is_retry: self.is_retry,
            transfer: TransferId(transfer),
        };
        Ok((site, options))
    }
}

/// Returns which attributes the file system keeps.
fn kept_attributes(
    roots: &Roots,
    preserve: &PreserveOptions,
    may_write: bool,
    new_files: NewFiles,
) -> KeptAttributes {
    let PreserveOptions { modes, users, xattrs, times, .. } = *preserve;
    match new_files {
        NewFiles::Removable => {
            roots.kept_attributes(KeptAttributes { modes, owners: users, times, xattrs }, may_write)
        }
        // A store of objects, which is not examined with more files that stay.
        NewFiles::Permanent => KeptAttributes::NONE,
    }
}
