//! `numaio copy`: verified transfers of files within and between hosts.

mod bootstrap;
mod daemon_address;
mod daemon_client;
pub mod daemon_hello;
mod daemon_limits;
mod data_connections;
pub mod decode;
mod endpoint;
mod event;
mod file_lists;
mod filters;
mod first_reply;
mod forwarded_options;
mod host_to_host;
mod local;
mod manifest;
mod net_options;
mod network_options;
pub mod options;
mod output;
pub mod peer;
mod peer_process;
mod placement;
mod placer;
mod plans;
mod remote;
mod reporter;
mod request;
mod retry;
mod rsync_noop;
mod rsync_unsupported;
mod ssh_hostname;
mod transfer;
mod transfer_options;
mod work_sharing;

use crate::failure::transfer::job_outcome;
use crate::failure::Failure;
use crate::options::Common;
use crate::output as command_output;
use clap::{ArgAction, Args as ClapArgs};
pub use daemon_address::DEFAULT_PORT as DAEMON_PORT;
pub use data_connections::DataPath;
use endpoint::Endpoint;
use file_lists::FileList;
use filters::{build_filter, FilterArgs};
use forwarded_options::ForwardedOptions;
use net_options::NetArgs;
use numaio_machine::units::parse_size;
use numaio_transfer::jobs::JobRecorder;
use options::CopyOptions;
use output::CopyOutput;
pub use placer::ModelPlacer;
use rsync_noop::RsyncNoopArgs;
pub use rsync_unsupported::{remove_unsupported_suggestion, with_unsupported_options};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use transfer::{RemoteOptions, Transfer};
use transfer_options::TransferArgs;

/// Exit status if some files failed, and all others were transferred.
pub const SOME_FAILED: u8 = 3;
/// Hint after an interrupted transfer.
const RESUME_HINT: &str = "run the same command again to resume";

/// Copy files NUMA-aware and verified, also to and from other hosts
///
/// As for rsync, SRC/ with a slash means the contents of SRC: -r a to creates to/a, -r a/ to fills
/// to. The last directory of DST is created if necessary.
///
/// Either side may be HOST:PATH or USER@HOST:PATH, reached by ssh; the host needs numaio, too (or
/// see --bootstrap). Or it is numaio://HOST/ROOT/PATH, where numaio serve runs. A colon before the
/// first slash means a host: write ./a:b for a file.
///
/// Files with the same size and time at both ends are skipped. Every file is written under a
/// temporary name, verified by a hash of each part, and renamed when it is complete. Run the same
/// command again to resume an interrupted run.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP, args_override_self = true, disable_help_flag = true)]
pub struct CopyArgs {
    /// Parsed first, because the following fields consume their options
    #[command(flatten)]
    pub forwarded: ForwardedOptions,
    /// Sources and last the destination: PATH, HOST:PATH by ssh, or numaio://HOST/ROOT/PATH; SRC/
    /// means its contents
    #[arg(value_name = "PATH", required = true, num_args = 1..)]
    pub paths: Vec<OsString>,
    /// Copy directories with their contents
    #[arg(long, short)]
    pub recursive: bool,
    /// Like --recursive, with modes, groups, extended attributes and ACLs; as root also with users
    /// and devices
    #[arg(long, short)]
    pub archive: bool,
    #[command(flatten)]
    pub rsync_noop: RsyncNoopArgs,
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Transfer only the names in a file, one per line, relative to the directory SRC; - for
    /// standard input
    ///
    /// Their parent directories are created, too. The contents of a listed directory need
    /// --recursive, even with --archive.
    #[arg(long, value_name = "FILE", conflicts_with = "delete")]
    pub files_from: Option<PathBuf>,
    /// Lines of --files-from, --include-from and --exclude-from end with a zero byte
    #[arg(long, short = '0')]
    pub from0: bool,
    /// Skip files larger than this: 10M, 1GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// Skip files smaller than this
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub min_size: Option<u64>,
    /// Skip files that are newer at the destination
    #[arg(long, short)]
    pub update: bool,
    /// Compare files of the same size by a hash of their contents instead of their times; both
    /// sides read them
    #[arg(long, short, conflicts_with = "ignore_times")]
    pub checksum: bool,
    /// Write the BLAKE3 hashes of all files at the destination after the transfer, in the format of
    /// b3sum
    ///
    /// All files are read again there, including those that were skipped. Names are relative to
    /// DST: check them there with b3sum -c FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub manifest: Option<PathBuf>,
    /// Keep numeric owners instead of mapping names that both sides know
    #[arg(long)]
    pub numeric_ids: bool,
    /// Keep partial files of an interrupted run for the next one: always on
    ///
    /// A partial file has the name .numaio-part-NUMBER beside its final one until the same command
    /// completes it. -P also means --progress.
    #[arg(long)]
    pub partial: bool,
    /// Transfer files even if size and time are the same
    #[arg(long, short = 'I')]
    pub ignore_times: bool,
    /// Remove files at the destination that the source does not have, within the copied directories
    #[arg(long)]
    pub delete: bool,
    /// Overwrite files in place, without a temporary name; they are truncated first
    ///
    /// A file with several hard links still gets a temporary name, to keep its other links
    /// unchanged. A partial file is newer than the source, so that --update would skip it.
    #[arg(long, conflicts_with = "update")]
    pub inplace: bool,
    /// Change nothing, and print what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    #[command(flatten)]
    pub transfer: TransferArgs,
    #[command(flatten)]
    pub net: NetArgs,
    #[command(flatten)]
    pub display: DisplayArgs,
    /// Path of numaio on the other host, if it is not on the PATH of ssh sessions; not a command
    /// line
    #[arg(long, value_name = "PATH", default_value = "numaio", value_parser = numaio_transfer::ssh::remote_path)]
    pub remote_numaio: String,
    /// Copy this numaio to ~/.cache/numaio on a host without numaio
    #[arg(long)]
    pub bootstrap: bool,
    /// Between two other hosts: allow the first one to use the local ssh agent to connect to the
    /// second one
    #[arg(long)]
    pub forward_agent: bool,
    /// Stop cleanly when stdin closes; another numaio reads the events
    #[arg(long, hide = true)]
    pub attached: bool,
    /// Do not record this transfer as a job of numaio jobs
    #[arg(long)]
    pub no_job: bool,
    /// Print help, as -h alone does
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// rsync's meaning of -h: human-readable numbers, which are the default
    #[arg(long, short = 'h', hide = true)]
    human_readable: bool,
    /// Records this transfer as a job
    #[arg(skip)]
    pub recorder: JobRecorder,
}

impl CopyArgs {
    /// Checks what clap cannot express.
    fn check(&self) -> Result<(), Failure> {
        if let [only] = &self.paths[..] {
            let words = format!("expected SRC and DST, got only '{}'", only.display());
            return Err(Failure::usage(words).hint("numaio copy SRC... DST"));
        }
        if self.stdin_count() > 1 {
            return Err(Failure::usage("standard input can be read once").hint("pass - to one option only"));
        }
        if let Some(path) = &self.manifest {
            manifest::Manifest::check(path, self.display.json)?;
        }
        if self.files_from.is_some() && self.paths.len() != 2 {
            return Err(Failure::usage("--files-from needs exactly one source and one destination")
                .hint("pass one SRC and one DST"));
        }
        if self.delete && !(self.recursive || self.archive) {
            return Err(Failure::usage("--delete needs directories").hint("add --recursive or --archive"));
        }
        Ok(())
    }

    /// Returns the transfer that the options describe. Reads the files that they name.
    fn transfer(&self, common: &Common) -> Result<Transfer, Failure> {
        let Some((destination, sources)) = self.paths.split_last() else {
            return Err(Failure::usage("the destination is missing"));
        };
        let sources = sources.iter().map(|path| Endpoint::parse(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Transfer {
            sources,
            destination: Endpoint::parse(destination)?,
            options: self.options(common)?,
            network: self.net.options(),
            plans: plans::read(common, &self.transfer.plan)?,
            remote: RemoteOptions {
                numaio: self.remote_numaio.clone(),
                bootstrap: self.bootstrap,
                forward_agent: self.forward_agent,
                options: self.forwarded.options.clone(),
                local_files: self.forwarded.files.clone(),
            },
            attached: self.attached,
            quiet: common.quiet,
        })
    }

    /// Returns the options that both sides receive.
    fn options(&self, common: &Common) -> Result<CopyOptions, Failure> {
        let rules = file_lists::load_rules(&self.filters.rules, self.from0)?;
        build_filter(&rules)?;
        let list = |path: &PathBuf| FileList::read(path, self.from0);
        let network = self.net.options();
        Ok(CopyOptions {
            file_list: self.files_from.as_ref().map(list).transpose()?,
            recursive: self.recursive || self.archive && self.files_from.is_none(),
            archive: self.archive,
            rules,
            size_range: (self.min_size.unwrap_or(0), self.max_size.unwrap_or(u64::MAX)),
            checksum: self.checksum,
            manifest: self.manifest.is_some(),
            numeric_ids: self.numeric_ids,
            update: self.update,
            ignore_times: self.ignore_times,
            delete: self.delete,
            in_place: self.inplace,
            dry_run: self.dry_run,
            reports_changes: self.dry_run || self.display.json || common.verbose,
            hash: self.transfer.hash,
            fsync: self.transfer.fsync,
            bytes_per_second: self.transfer.bwlimit.filter(|most| *most > 0),
            compress: self.transfer.compress(),
            placement: self.transfer.placement,
            threads: self.transfer.threads,
            io: self.transfer.io,
            streams: network.streams(),
            may_use_fewer_streams: network.may_use_fewer_streams(),
        })
    }
}

/// Options of the output.
#[derive(Debug, Clone, Copy, ClapArgs)]
#[command(next_help_heading = "Output")]
pub struct DisplayArgs {
    /// Print events as lines of JSON
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Show the progress, even if standard error is not a terminal
    #[arg(long, visible_short_alias = 'P')]
    pub progress: bool,
}

const AFTER_HELP: &str = "\
Examples:
  numaio copy -a data/ /mnt/disk/data      the contents of data, with all attributes
  numaio copy -r run1 run2 host:results/   two directories to another host
  numaio copy host:file .                  a file from another host
  numaio copy -a one:data/ two:data        between two other hosts, directly
  numaio copy -r run1 numaio://host/in/    to the root 'in' of a daemon, without ssh

Exit status: 0 all files transferred; 1 the transfer failed; 2 wrong usage; 3 some files failed, all
others were transferred; 130 interrupted: run the same command again to resume.

Environment: NUMAIO_SSH names another program than ssh, with its options: NUMAIO_SSH='ssh -p 2222'.";

/// Runs `numaio copy`.
pub fn run(common: &Common, args: &CopyArgs) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("`copy` cannot be combined with --machine or --sysroot"));
    }
    args.check()?;
    let transfer = args.transfer(common)?;
    let has_daemon = transfer.sources.iter().chain([&transfer.destination]).any(Endpoint::is_at_daemon);
    if args.net.data_port.is_some() && has_daemon {
        return Err(Failure::usage("a daemon accepts data connections at its own port only")
            .hint("omit --data-port, or use --tunnel for a single connection"));
    }
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    if args.attached {
        host_to_host::stop_with_stdin();
    }
    if !args.no_job && !args.dry_run {
        if let Err(error) = args.recorder.begin(args.source_inodes()) {
            let why = format!("cannot record this transfer as a job: {error}; --no-job skips it");
            command_output::remark(common, &why);
        }
    }
    let mut output = CopyOutput::new(common, args);
    let ended = transfer.run(&mut output, &ModelPlacer).and_then(|end| output.finish(&end));
    args.recorder.end(job_outcome(&ended));
    if !matches!(&ended, Ok(code) if *code == ExitCode::SUCCESS) {
        Endpoint::wildcard_hint(&transfer.sources)
            .into_iter()
            .for_each(|words| command_output::remark(common, words));
    }
    ended
}

/// Converts the bytes of a path.
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};

    /// Returns the command with its own and the common options.
    pub fn copy_command() -> Command {
        Common::augment_args(CopyArgs::augment_args(Command::new("copy")))
    }
}
