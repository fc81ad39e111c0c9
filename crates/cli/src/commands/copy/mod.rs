//! `numaio copy`: files from one place to another, checked on the way.

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
mod network_placement;
pub mod peer;
mod peer_process;
mod remote;
mod request;
mod retry;
mod rsync_noop;
mod rsync_unsupported;
mod side_placement;
mod side_plan;
mod ssh_hostname;
mod transfer_options;
mod transfer_output;
mod work_sharing;

use crate::args::Common;
use crate::failure::Failure;
use crate::jobs::JobRecorder;
use crate::output;
use clap::{ArgAction, Args as ClapArgs};
pub use daemon_address::DEFAULT_PORT as DAEMON_PORT;
pub use data_connections::DataPath;
use endpoint::{Endpoint, Host};
use filters::FilterArgs;
use forwarded_options::ForwardedOptions;
use net_options::NetArgs;
use numaio_machine::units::parse_size;
use remote::RemoteTransfer;
use request::TransferRequest;
use rsync_noop::RsyncNoopArgs;
pub use rsync_unsupported::{remove_unsupported_suggestion, with_unsupported_options};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use transfer_options::TransferArgs;

/// Exit status if some files could not be moved, and the others were.
pub const SOME_FAILED: u8 = 3;

/// Move files, near their devices, checked by hashes; also to and from other hosts.
///
/// SRC/ with a slash at its end means what is in it, SRC without one the thing itself, as for rsync: -r a to makes to/a, -r a/ to
/// fills to. Of DST the last directory is made if it is not there.
///
/// Either side may be HOST:PATH or USER@HOST:PATH; the other host is reached by ssh, and has numaio too (or see --bootstrap). Or it is
/// numaio://HOST/ROOT/PATH, where numaio serve runs. What has a colon before its first slash is such a one: write ./a:b for a file.
///
/// A file whose size and time are the same at both ends is not moved. Every file is written beside its name, checked by a hash of
/// each part, and gets its name when it is whole. A run that was cut is continued by the same command.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP, args_override_self = true, disable_help_flag = true)]
pub struct CopyArgs {
    /// It comes first: what follows takes its options away
    #[command(flatten)]
    pub forwarded: ForwardedOptions,
    /// From where, and last to where: PATH, HOST:PATH by ssh, or numaio://HOST/ROOT/PATH at a daemon; SRC/ is what is in SRC
    #[arg(value_name = "PATH", required = true, num_args = 1..)]
    pub paths: Vec<OsString>,
    /// Directories with all that they hold
    #[arg(long, short)]
    pub recursive: bool,
    /// As --recursive, and modes, groups, extended attributes and ACLs; as root also users and devices
    #[arg(long, short)]
    pub archive: bool,
    #[command(flatten)]
    pub rsync_noop: RsyncNoopArgs,
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Names to move, one a line, relative to SRC, which is a directory; - for standard input
    ///
    /// The directories on their way are made too. What a listed directory holds is moved with --recursive alone, also
    /// if --archive is given.
    #[arg(long, value_name = "FILE", conflicts_with = "delete")]
    pub files_from: Option<PathBuf>,
    /// A zero byte ends each line of --files-from, --include-from and --exclude-from
    #[arg(long, short = '0')]
    pub from0: bool,
    /// Leave files alone that are larger: 10M, 1GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// Leave files alone that are smaller
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub min_size: Option<u64>,
    /// Leave files alone that are newer at the destination
    #[arg(long, short)]
    pub update: bool,
    /// Compare files of the same size by hashes of all that they hold, not by time; both sides read them
    #[arg(long, short, conflicts_with = "ignore_times")]
    pub checksum: bool,
    /// Write the BLAKE3 hash of every file that is at the destination in the end, as b3sum does
    ///
    /// Files are read again for it there, those that were not moved too. Names are relative to DST: b3sum -c FILE
    /// checks them there.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub manifest: Option<PathBuf>,
    /// Owners by number; without it those whose names are known on both sides are found by name
    #[arg(long)]
    pub numeric_ids: bool,
    /// Keep what is there of a file when a run is cut, so that the next one goes on: it always is
    ///
    /// It is not visible under the file's name, but beside it as .numaio-part-NUMBER, until the same command is given
    /// again. -P is the same, and --progress.
    #[arg(long)]
    pub partial: bool,
    /// Move data also of files whose size and time are the same
    #[arg(long, short = 'I')]
    pub ignore_times: bool,
    /// Remove at the destination what the source does not have, within directories that are moved
    #[arg(long)]
    pub delete: bool,
    /// Write to the files themselves, not beside them; they are emptied first
    ///
    /// A file with further names is written beside its name all the same: it would change under those, too. One that is
    /// cut is newer than the source's, so it would be left as it is by --update.
    #[arg(long, conflicts_with = "update")]
    pub inplace: bool,
    /// Change nothing, and say what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    #[command(flatten)]
    pub transfer: TransferArgs,
    #[command(flatten)]
    pub net: NetArgs,
    #[command(flatten)]
    pub display: DisplayArgs,
    /// Where numaio is on the other host, if it is not on the PATH of an ssh session; a path, not a command
    #[arg(long, value_name = "PATH", default_value = "numaio", value_parser = crate::ssh::remote_path)]
    pub remote_numaio: String,
    /// Where the other host has no numaio, copy this one to ~/.cache/numaio there
    #[arg(long)]
    pub bootstrap: bool,
    /// Between two other hosts: let the first one use your ssh agent to get to the second one
    #[arg(long)]
    pub forward_agent: bool,
    /// End in order when standard input does; another numaio listens
    #[arg(long, hide = true)]
    pub attached: bool,
    /// Do not note this transfer among the jobs of numaio jobs
    #[arg(long)]
    pub no_job: bool,
    /// Print help; -h alone does too
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// What rsync means by -h: figures are readable
    #[arg(long, short = 'h', hide = true)]
    human_readable: bool,
    /// Where this transfer notes itself
    #[arg(skip)]
    pub recorder: JobRecorder,
}

impl CopyArgs {
    /// What clap cannot tell.
    fn check(&self) -> Result<(), Failure> {
        if let [only] = &self.paths[..] {
            let words = format!("{} is one path, and SRC and DST are required", only.display());
            return Err(Failure::usage(words).hint("numaio copy SRC... DST"));
        }
        if self.stdin_count() > 1 {
            return Err(Failure::usage("standard input can be read once").hint("give - to one option alone"));
        }
        if let Some(path) = &self.manifest {
            manifest::Manifest::check(path, self.display.json)?;
        }
        if self.files_from.is_some() && self.paths.len() != 2 {
            return Err(Failure::usage("--files-from is about names below one source")
                .hint("give one SRC and one DST"));
        }
        if self.delete && !(self.recursive || self.archive) {
            return Err(Failure::usage("--delete is about directories").hint("add --recursive or --archive"));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, ClapArgs)]
#[command(next_help_heading = "What is shown")]
pub struct DisplayArgs {
    /// Print what happens as lines of JSON
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Print the name of everything that is made or changed
    #[arg(long, short)]
    pub verbose: bool,
    /// Show how far it is, also where standard error is no terminal
    #[arg(long, visible_short_alias = 'P')]
    pub progress: bool,
}

const AFTER_HELP: &str = "\
Examples:
  numaio copy -a data/ /mnt/disk/data      what is in data, with all attributes
  numaio copy -r run1 run2 host:results/   two directories to another host
  numaio copy host:file .                  a file from there
  numaio copy -a one:data/ two:data        from one host to another; the data does not come by here
  numaio copy -r run1 numaio://host/in/    to the root named in of a daemon, without ssh

Exit status: 0 all is there; 1 the transfer was given up; 2 wrong usage; 3 some files failed, and
all others are there; 130 interrupted, to be continued by the same command.

Environment: NUMAIO_SSH names another program than ssh, with its options: NUMAIO_SSH='ssh -p 2222'.";

pub fn run(common: &Common, args: &CopyArgs) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("files are moved on this machine, not on a recorded one"));
    }
    let Some((to, from)) = args.paths.split_last() else {
        return Err(Failure::usage("there is no destination"));
    };
    args.check()?;
    let from = from.iter().map(|path| Endpoint::parse(path)).collect::<Result<Vec<_>, _>>()?;
    let to = Endpoint::parse(to)?;
    if args.net.data_port.is_some() && from.iter().chain([&to]).any(Endpoint::is_at_daemon) {
        return Err(Failure::usage("a daemon takes data connections at its own port")
            .hint("leave out --data-port; --tunnel sends all over one connection"));
    }
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    if args.attached {
        host_to_host::stop_with_stdin();
    }
    let request = TransferRequest::new(common, args, &from, &to)?;
    if !args.no_job && !args.dry_run {
        args.recorder.begin(common, args.source_inodes());
    }
    let ended = run_transfer(common, args, &request, (&from, &to));
    args.recorder.end(&ended);
    if !matches!(&ended, Ok(code) if *code == ExitCode::SUCCESS) {
        Endpoint::wildcard_hint(&from).into_iter().for_each(|words| output::remark(common, words));
    }
    ended
}

fn run_transfer(
    common: &Common,
    args: &CopyArgs,
    request: &TransferRequest,
    (from, to): (&[Endpoint], &Endpoint),
) -> Result<ExitCode, Failure> {
    match (Endpoint::common_host(from)?, &to.host) {
        (None, None) => local::run(common, args, request),
        (Some(host), None) => RemoteTransfer { common, args, request, host: &host, is_source: false }.run(),
        (None, Some(host)) => RemoteTransfer { common, args, request, host, is_source: true }.run(),
        (Some(Host::Ssh(host)), Some(_)) => host_to_host::run(common, args, request, (&host, to)),
        (Some(Host::Daemon(_)), Some(_)) => {
            Err(Failure::usage("a daemon sends nothing to another host by itself")
                .hint("run numaio copy on one of the two hosts, or copy to here first"))
        }
    }
}

/// Tells the end of a transfer, and what that says to the shell. Who interrupted it may not be there any more to read it.
fn finish(
    show: transfer_output::TransferOutput,
    totals: &numaio_mover::report::Totals,
) -> Result<ExitCode, Failure> {
    let was_given_up = show.given_up.is_some();
    match show.end(totals) {
        Err(_) if was_given_up && numaio_linux::interrupt::interrupted() => Ok(exit_code(0, true)),
        ended => ended.map(|(failed, given_up)| exit_code(failed, given_up)),
    }
}

/// What a finished transfer says to the shell.
fn exit_code(failed: u64, given_up: bool) -> ExitCode {
    match (given_up, numaio_linux::interrupt::interrupted(), failed) {
        (true, true, _) => ExitCode::from(crate::failure::INTERRUPTED),
        (true, false, _) => ExitCode::FAILURE,
        (false, _, 0) => ExitCode::SUCCESS,
        (false, _, _) => ExitCode::from(SOME_FAILED),
    }
}

/// A folder or file as the user named it.
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
