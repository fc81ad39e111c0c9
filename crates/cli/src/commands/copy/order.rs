//! What one side of a transfer is told to do: the same for the side in this process and the one on another host.

mod there;

use super::ends::End;
use super::filters::{filter, Rule};
use super::how::{Compress, Fsync, Hash, Io, Placement};
use super::lists::{self, Listed};
use super::place::Site;
use super::planned::{self, Planned};
use super::{path_of, CopyArgs, ShownArgs};
use crate::args::Common;
use crate::failure::Failure;
use numaio_linux::files::{Base, Roots};
use numaio_linux::port::net::MAX_STREAMS;
use numaio_linux::{accounts, process, Root};
use numaio_mover::accounts::{Account, AccountLookup};
use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::filter::SourcePath;
use numaio_mover::sink::{PreserveOptions, ProtectedPaths, RequestedEntries, SinkOptions, SyncMode, WriterIdentity};
use numaio_mover::source::{self, SourceOptions};
use numaio_mover::wire::{Side, TransferId};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
pub use there::Takes;
use there::{ago, epoch, reached, Destination};

/// Most threads that another user may ask a daemon for.
const MOST_THREADS: u32 = 64;

/// How long nothing was written to a partial file that `--delete` removes: it may be another transfer's that is under way.
const SPARED: Duration = Duration::from_secs(600);

/// Version of an order; it goes with that of the protocol.
pub const VERSION: u32 = 1;

/// Set for a numaio on another host that is not the first one to try.
pub const AGAIN: &str = "NUMAIO_AGAIN";

/// A transfer, as both sides are told of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// [`VERSION`].
    pub numaio_copy: u32,
    /// Paths of the sources, on their host.
    pub from: Vec<Vec<u8>>,
    /// Path of the destination, on its host.
    pub to: Vec<u8>,
    listed: Option<Listed>,
    recursive: bool,
    archive: bool,
    rules: Vec<Rule>,
    sizes: (u64, u64),
    checksum: bool,
    manifest: bool,
    numeric_ids: bool,
    update: bool,
    ignore_times: bool,
    delete: bool,
    in_place: bool,
    rehearse: bool,
    /// Whether a user hears of everything that is done.
    told: bool,
    hash: u8,
    fsync: u8,
    limit: Option<u64>,
    /// An older numaio does not say it, and does not hear it.
    #[serde(default)]
    pub compress: Compress,
    pub placement: Placement,
    pub threads: Option<u32>,
    /// An older numaio has threads alone.
    #[serde(default)]
    pub io: Io,
    /// Connections for data; an older numaio does not say how many here, and may have as many as there can be.
    #[serde(default = "most_streams")]
    pub streams: u16,
    /// Whether the source uses fewer of them where that is better; an older numaio uses all.
    #[serde(default)]
    pub sparing: bool,
    /// What the sink takes.
    #[serde(flatten)]
    pub takes: Takes,
    transfer: [u8; 16],
    /// Whether a try was lost before this one; an older numaio does not say it.
    #[serde(default)]
    again: bool,
    /// What the other side is not told; none there.
    #[serde(skip)]
    pub here: Option<Here>,
    /// Where the paths of this side begin.
    #[serde(skip)]
    base: Base,
    /// Whether it is for a user of a daemon, who gets no set-ID bits.
    #[serde(skip)]
    for_others: bool,
}

/// What counts for the side in this process alone.
#[derive(Debug, Clone)]
pub struct Here {
    pub common: Common,
    pub shown: ShownArgs,
    pub plans: Vec<Planned>,
}

fn most_streams() -> u16 {
    MAX_STREAMS as u16
}

impl Order {
    /// What was typed.
    pub fn new(common: &Common, args: &CopyArgs, from: &[End], to: &End) -> Result<Self, Failure> {
        let rules = lists::rules(&args.filters.rules, args.from0)?;
        filter(&rules)?;
        let list = |path: &PathBuf| Listed::read(path, args.from0);
        Ok(Self {
            numaio_copy: VERSION,
            from: from.iter().map(|end| end.path.clone()).collect(),
            to: to.path.clone(),
            listed: args.files_from.as_ref().map(list).transpose()?,
            recursive: args.recursive || args.archive && args.files_from.is_none(),
            archive: args.archive,
            rules,
            sizes: (args.min_size.unwrap_or(0), args.max_size.unwrap_or(u64::MAX)),
            checksum: args.checksum,
            manifest: args.manifest.is_some(),
            numeric_ids: args.numeric_ids,
            update: args.update,
            ignore_times: args.ignore_times,
            delete: args.delete,
            in_place: args.inplace,
            rehearse: args.dry_run,
            told: args.dry_run || args.shown.json || args.shown.verbose,
            hash: args.how.hash as u8,
            fsync: args.how.fsync as u8,
            limit: args.how.bwlimit.filter(|most| *most > 0),
            compress: args.how.compress(),
            placement: args.how.placement,
            io: args.how.io,
            threads: args.how.threads,
            streams: args.net.streams(),
            sparing: args.net.is_sparing(),
            takes: Takes { holes: true, acls: true, changed: true, ..Takes::default() },
            transfer: there::random_bytes()?,
            again: args.attached && std::env::var_os(AGAIN).is_some(),
            here: Some(Here {
                common: common.clone(),
                shown: args.shown,
                plans: planned::read(common, &args.how.plan)?,
            }),
            base: Base::Host,
            for_others: false,
        })
    }

    /// What a daemon leaves of it for one of its users: paths are below a root, data is sent no faster, and nothing gets set-ID bits
    /// unless it may.
    pub fn confine(&mut self, base: Base, bytes_per_second: Option<u64>, set_id: bool) {
        self.base = base;
        self.for_others = !set_id;
        self.limit = [self.limit, bytes_per_second].into_iter().flatten().min();
        self.threads = self.threads.map(|threads| threads.clamp(1, MOST_THREADS));
    }

    fn hash(&self) -> Hash {
        [Hash::Xxh3, Hash::Blake3].into_iter().find(|hash| *hash as u8 == self.hash).unwrap_or(Hash::None)
    }

    /// How owners are looked up, if they are kept by name.
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

    /// Where the sources are: the directories to open, and what to take of them.
    fn origins(&self) -> Result<(Vec<PathBuf>, Vec<source::Origin>), Failure> {
        if let (Some(listed), [path]) = (&self.listed, &self.from[..]) {
            return Ok((vec![path_of(path)], listed.origins(0)));
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

    /// The side with the files.
    pub fn source(&self) -> Result<(Site<'_>, SourceOptions), Failure> {
        reached(self.archive)?;
        let (roots, origins) = self.origins()?;
        let site = Site::new(&roots, Side::Source, self, &self.base)?;
        let options = SourceOptions {
            origins,
            recursive: self.recursive,
            listed: self.listed.is_some(),
            xattrs: self.archive,
            devices: self.archive && site.roots.is_super_user(),
            filter: filter(&self.rules)?,
            skip_directory: None,
            hash: self.hash().kind(),
            policy: ChunkPolicy::for_port(),
            reads: site.most_threads().max(2 * site.threads),
            by_address: Root::live().is_ok_and(|root| site.roots.is_rotational(&root)),
            limit: self.limit,
            compress: self.compress.kind(),
            eager: self.takes.unasked,
            holes: self.takes.holes,
            links: self.takes.links,
            acls: self.takes.acls,
            changed: self.takes.changed,
            accounts: self.accounts(),
            transfer: TransferId(self.transfer),
        };
        Ok((site, options))
    }

    /// What a source may send, if it is known here what the user typed: on another host the one who sends is who says it.
    fn asked(&self, one_file: bool) -> Result<Option<RequestedEntries>, Failure> {
        let asked = |(_, origins): (_, Vec<source::Origin>)| {
            RequestedEntries::new(&origins, self.recursive && !one_file, self.listed.is_some())
        };
        self.here.as_ref().map(|_| self.origins().map(asked)).transpose()
    }

    /// The side where they go. `one_file` tells that the source is a single file.
    pub fn sink(&self, one_file: bool) -> Result<(Site<'_>, SinkOptions), Failure> {
        reached(true)?;
        let Destination { root, alias, made } = self.destination(one_file)?;
        let site = Site::new(root.as_slice(), Side::Sink, self, &self.base)?;
        let root = site.roots.is_super_user();
        let mut transfer = self.transfer;
        transfer[..8].copy_from_slice(&epoch(&site.roots));
        let options = SinkOptions {
            preserve: PreserveOptions {
                modes: self.archive && site.roots.has_modes(),
                users: self.archive && root,
                groups: self.archive,
                xattrs: self.archive,
            },
            writer: WriterIdentity { user: process::user(), groups: process::groups(), for_others: self.for_others },
            devices: self.archive && root,
            update: self.update,
            ignore_times: self.ignore_times,
            checksum: self.checksum,
            manifest: self.manifest,
            accounts: self.accounts(),
            sizes: self.sizes.0..=self.sizes.1,
            delete: self.delete,
            filter: filter(&self.rules)?,
            requested: self.asked(one_file)?,
            dry_run: self.rehearse,
            // Who is asked here hears of it here.
            report_changes: self.told && self.here.is_none(),
            keep_partials_since: ago(SPARED),
            names: site.roots.names(!self.rehearse),
            protected: ProtectedPaths::default(),
            destination_created: made,
            alias,
            in_place: self.in_place,
            sync: self.sync(&site.roots),
            hash: self.hash().kind(),
            accept_compressed: self.compress != Compress::None,
            acls: self.takes.acls,
            eager: self.takes.unasked,
            is_retry: self.again,
            transfer: TransferId(transfer),
        };
        Ok((site, options))
    }
}
