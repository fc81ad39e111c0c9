//! The request that describes a transfer to both sides, local and remote.

mod capabilities;
mod destination;

use super::endpoint::Endpoint;
use super::file_lists::{self, FileList};
use super::filters::{build_filter, FilterRule};
use super::side_placement::SideSetup;
use super::side_plan::{self, SidePlan};
use super::transfer_options::{Compress, Fsync, Hash, Io, Placement};
use super::{path_of, CopyArgs, DisplayArgs};
use crate::failure::Failure;
use crate::options::Common;
pub use capabilities::Capabilities;
use destination::{boot_epoch, require_proc, seconds_ago, Destination};
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
use numaio_mover_linux::files::{Base, Roots};
use numaio_mover_linux::port::net::MAX_STREAMS;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of threads that a daemon's user may request.
const MOST_THREADS: u32 = 64;

/// Minimum age of partial files that `--delete` removes: younger ones may belong to another
/// transfer.
const PARTIAL_FILE_AGE: Duration = Duration::from_secs(600);

/// Version of a request, which changes with that of the protocol.
pub const VERSION: u32 = 1;

/// Environment variable of a remote numaio that marks a retry.
pub const RETRY_VARIABLE: &str = "NUMAIO_AGAIN";

/// A transfer as requested.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransferRequest {
    /// [`VERSION`].
    pub numaio_copy: u32,
    /// Paths of the sources, on their host.
    pub from: Vec<Vec<u8>>,
    /// Path of the destination, on its host.
    pub to: Vec<u8>,
    #[serde(rename = "listed")]
    file_list: Option<FileList>,
    recursive: bool,
    archive: bool,
    rules: Vec<FilterRule>,
    #[serde(rename = "sizes")]
    size_range: (u64, u64),
    checksum: bool,
    manifest: bool,
    numeric_ids: bool,
    update: bool,
    ignore_times: bool,
    delete: bool,
    in_place: bool,
    #[serde(rename = "rehearse")]
    dry_run: bool,
    /// Whether the sink reports every change.
    #[serde(rename = "told")]
    reports_changes: bool,
    hash: u8,
    fsync: u8,
    #[serde(rename = "limit")]
    bytes_per_second: Option<u64>,
    /// Unknown to an older numaio.
    #[serde(default)]
    pub compress: Compress,
    pub placement: Placement,
    pub threads: Option<u32>,
    /// Unknown to an older numaio, which uses threads only.
    #[serde(default)]
    pub io: Io,
    /// Number of data connections to the sink; an older numaio omits it and may use the maximum.
    #[serde(default = "most_streams")]
    pub streams: u16,
    /// Whether the source may use fewer connections if that is better; an older numaio uses all.
    #[serde(default, rename = "sparing")]
    pub may_use_fewer_streams: bool,
    /// The sink's capabilities.
    #[serde(flatten)]
    pub capabilities: Capabilities,
    transfer: [u8; 16],
    /// Whether an earlier attempt was lost; unknown to an older numaio.
    #[serde(default, rename = "again")]
    is_retry: bool,
    /// Context of the local side, which the peer does not receive.
    #[serde(skip)]
    pub local: Option<LocalContext>,
    /// Root of this side's paths.
    #[serde(skip)]
    base: Base,
    /// Whether it comes from a user of a daemon, who cannot set set-ID bits.
    #[serde(skip)]
    is_for_daemon_user: bool,
}

/// Context of the side in this process.
#[derive(Debug, Clone)]
pub struct LocalContext {
    pub common: Common,
    pub display: DisplayArgs,
    pub plans: Vec<SidePlan>,
}

fn most_streams() -> u16 {
    MAX_STREAMS as u16
}

impl TransferRequest {
    /// Builds the request of the command line.
    pub fn new(common: &Common, args: &CopyArgs, from: &[Endpoint], to: &Endpoint) -> Result<Self, Failure> {
        let rules = file_lists::load_rules(&args.filters.rules, args.from0)?;
        build_filter(&rules)?;
        let list = |path: &PathBuf| FileList::read(path, args.from0);
        Ok(Self {
            numaio_copy: VERSION,
            from: from.iter().map(|end| end.path.clone()).collect(),
            to: to.path.clone(),
            file_list: args.files_from.as_ref().map(list).transpose()?,
            recursive: args.recursive || args.archive && args.files_from.is_none(),
            archive: args.archive,
            rules,
            size_range: (args.min_size.unwrap_or(0), args.max_size.unwrap_or(u64::MAX)),
            checksum: args.checksum,
            manifest: args.manifest.is_some(),
            numeric_ids: args.numeric_ids,
            update: args.update,
            ignore_times: args.ignore_times,
            delete: args.delete,
            in_place: args.inplace,
            dry_run: args.dry_run,
            reports_changes: args.dry_run || args.display.json || common.verbose,
            hash: args.transfer.hash as u8,
            fsync: args.transfer.fsync as u8,
            bytes_per_second: args.transfer.bwlimit.filter(|most| *most > 0),
            compress: args.transfer.compress(),
            placement: args.transfer.placement,
            io: args.transfer.io,
            threads: args.transfer.threads,
            streams: args.net.streams(),
            may_use_fewer_streams: args.net.may_use_fewer_streams(),
            capabilities: Capabilities {
                holes: true,
                named_acls: true,
                change_times: true,
                ..Capabilities::default()
            },
            transfer: destination::random_bytes()?,
            is_retry: args.attached && std::env::var_os(RETRY_VARIABLE).is_some(),
            local: Some(LocalContext {
                common: common.clone(),
                display: args.display,
                plans: side_plan::read(common, &args.transfer.plan)?,
            }),
            base: Base::Host,
            is_for_daemon_user: false,
        })
    }

    /// Restricts the request to a daemon's grants: paths below a root, a maximum rate, and set-ID
    /// bits if allowed.
    pub fn restrict(&mut self, base: Base, bytes_per_second: Option<u64>, set_id: bool) {
        self.base = base;
        self.is_for_daemon_user = !set_id;
        self.bytes_per_second = [self.bytes_per_second, bytes_per_second].into_iter().flatten().min();
        self.threads = self.threads.map(|threads| threads.clamp(1, MOST_THREADS));
    }

    fn hash(&self) -> Hash {
        [Hash::Xxh3, Hash::Blake3].into_iter().find(|hash| *hash as u8 == self.hash).unwrap_or(Hash::None)
    }

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
        (self.archive && !self.numeric_ids).then_some(lookup)
    }

    fn sync(&self, to: &Roots) -> SyncMode {
        match self.fsync {
            fsync if fsync == Fsync::None as u8 => SyncMode::None,
            fsync if fsync == Fsync::File as u8 || !to.supports_syncfs() => SyncMode::File,
            _ => SyncMode::End,
        }
    }

    /// Returns the directories to open, and where reading begins in them.
    fn origins(&self) -> Result<(Vec<PathBuf>, Vec<source::Origin>), Failure> {
        if let (Some(file_list), [path]) = (&self.file_list, &self.from[..]) {
            return Ok((vec![path_of(path)], file_list.origins(0)));
        }
        let mut roots = Vec::new();
        let mut origins = Vec::new();
        for path in &self.from {
            let origin = SourcePath::parse(path);
            let origin =
                origin.ok_or_else(|| Failure::usage(format!("{}: no name", path_of(path).display())))?;
            let root = roots.len() as u32;
            origins.push(source::Origin { root, only: origin.only, enter: true, with_parents: false });
            roots.push(path_of(&origin.root));
        }
        Ok((roots, origins))
    }

    /// Sets up the source.
    pub fn source(&self) -> Result<(SideSetup<'_>, SourceOptions), Failure> {
        require_proc(self.archive)?;
        let (roots, origins) = self.origins()?;
        let site = SideSetup::new(&roots, Side::Source, self, &self.base)?;
        let options = SourceOptions {
            origins,
            recursive: self.recursive,
            listed: self.file_list.is_some(),
            xattrs: self.archive,
            devices: self.archive && site.roots.is_super_user(),
            filter: build_filter(&self.rules)?,
            skip_directory: None,
            hash: self.hash().kind(),
            policy: ChunkPolicy::for_port(),
            reads: site.most_threads().max(2 * site.threads),
            by_address: Root::live().is_ok_and(|root| site.roots.is_rotational(&root)),
            limit: self.bytes_per_second,
            compress: self.compress.kind(),
            eager: self.capabilities.eager_data,
            holes: self.capabilities.holes,
            links: self.capabilities.hard_links,
            acls: self.capabilities.named_acls,
            changed: self.capabilities.change_times,
            accounts: self.accounts(),
            transfer: TransferId(self.transfer),
        };
        Ok((site, options))
    }

    /// Returns which entries a source may send, if this process has the command line: a remote
    /// source is not trusted.
    fn expected_entries(&self, one_file: bool) -> Result<Option<RequestedEntries>, Failure> {
        let expected = |(_, origins): (_, Vec<source::Origin>)| {
            RequestedEntries::new(&origins, self.recursive && !one_file, self.file_list.is_some())
        };
        self.local.as_ref().map(|_| self.origins().map(expected)).transpose()
    }

    /// Sets up the sink. `one_file` is whether the source is a single file.
    pub fn sink(&self, one_file: bool) -> Result<(SideSetup<'_>, SinkOptions), Failure> {
        require_proc(true)?;
        let Destination { root, alias, made } = self.destination(one_file)?;
        let site = SideSetup::new(root.as_slice(), Side::Sink, self, &self.base)?;
        let root = site.roots.is_super_user();
        let mut transfer = self.transfer;
        transfer[..8].copy_from_slice(&boot_epoch(&site.roots));
        let options = SinkOptions {
            preserve: PreserveOptions {
                modes: self.archive && site.roots.has_modes(),
                users: self.archive && root,
                groups: self.archive,
                xattrs: self.archive,
            },
            writer: WriterIdentity {
                user: process::user(),
                groups: process::groups(),
                for_others: self.is_for_daemon_user,
            },
            devices: self.archive && root,
            update: self.update,
            ignore_times: self.ignore_times,
            checksum: self.checksum,
            manifest: self.manifest,
            accounts: self.accounts(),
            sizes: self.size_range.0..=self.size_range.1,
            delete: self.delete,
            filter: build_filter(&self.rules)?,
            requested: self.expected_entries(one_file)?,
            dry_run: self.dry_run,
            // The local side has its own reports.
            report_changes: self.reports_changes && self.local.is_none(),
            keep_partials_since: seconds_ago(PARTIAL_FILE_AGE),
            names: site.roots.names(!self.dry_run),
            protected: ProtectedPaths::default(),
            destination_created: made,
            alias,
            in_place: self.in_place,
            sync: self.sync(&site.roots),
            hash: self.hash().kind(),
            accept_compressed: self.compress != Compress::None,
            acls: self.capabilities.named_acls,
            eager: self.capabilities.eager_data,
            is_retry: self.is_retry,
            transfer: TransferId(transfer),
        };
        Ok((site, options))
    }
}
