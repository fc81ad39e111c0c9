//! The options of `numaio copy`.

use super::attached_args::AttachedArgs;
use super::attribute_args::AttributeArgs;
use super::delete_args::{DeleteArgs, DELETE_OPTIONS};
use super::filter_args::FilterArgs;
use super::forwarded_options::ForwardedOptions;
use super::net_options::NetArgs;
use super::omitted_attribute_args::OmittedAttributeArgs;
use super::report_args::ReportArgs;
use super::restrict_args::RestrictArgs;
use super::rsync_noop::RsyncNoopArgs;
use super::selection_args::SelectionArgs;
use super::shard_args::ShardArgs;
use super::snapshot_args::SnapshotArgs;
use super::transfer_options::TransferArgs;
use crate::options::{choice, integer};
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use numaio_machine::units::parse_size;
use numaio_transfer::jobs::JobRecorder;
use numaio_transfer::options::{ActiveFiles, Reflink};
use std::ffi::OsString;
use std::path::PathBuf;

/// Copy files NUMA-aware and verified, also to and from other hosts
///
/// As for rsync, SRC/ with a slash means the contents of SRC: -r a to creates to/a, -r a/ to fills
/// to. The last directory of DST is created if necessary, its parents with --mkpath.
///
/// Either side may be HOST:PATH or USER@HOST:PATH, reached by ssh; the host needs numaio, too (or
/// see --bootstrap). Or it is numaio://HOST/ROOT/PATH, where numaio serve runs. A colon before the
/// first slash means a host: write ./a:b for a file.
///
/// Files with the same size and time at both ends are skipped. Every file is written under a
/// temporary name, verified by a hash of each part, and renamed when it is complete. Run the same
/// command again to resume an interrupted run.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_override_self = true, disable_help_flag = true)]
pub struct CopyArgs {
    /// Parsed first, because the following fields consume their options
    #[command(flatten)]
    pub forwarded: ForwardedOptions,
    /// Sources and last the destination: PATH, HOST:PATH by ssh, or numaio://HOST/ROOT/PATH; SRC/
    /// means its contents
    #[arg(value_name = "PATH", required_unless_present = "restrict", num_args = 1..)]
    pub paths: Vec<OsString>,
    /// Copy directories with their contents
    #[arg(long, short)]
    pub recursive: bool,
    /// Like --recursive, with modes, groups, extended attributes and ACLs; as root also with users
    /// and devices
    #[arg(long, short)]
    pub archive: bool,
    #[command(flatten)]
    pub omitted_attributes: OmittedAttributeArgs,
    #[command(flatten)]
    pub rsync_noop: RsyncNoopArgs,
    #[command(flatten)]
    pub filters: FilterArgs,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub attributes: AttributeArgs,
    #[command(flatten)]
    pub snapshots: SnapshotArgs,
    /// Transfer only the names in a file, one per line, relative to the directory SRC; - for
    /// standard input
    ///
    /// Their parent directories are created, too. The contents of a listed directory need
    /// --recursive, even with --archive.
    #[arg(long, value_name = "FILE", conflicts_with_all = DELETE_OPTIONS)]
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
    #[command(flatten)]
    pub deletion: DeleteArgs,
    /// End the copy when this number of files has failed; default no limit
    ///
    /// Complete files are kept, the exit status is 1, and the same command continues. Attributes
    /// do not count.
    #[arg(long, value_name = "N", value_parser = integer(1..=u32::MAX))]
    pub max_errors: Option<u32>,
    /// Create missing parent directories of DST, as mkdir -p does
    #[arg(long)]
    pub mkpath: bool,
    /// Overwrite files in place, without a temporary name; they are truncated first
    ///
    /// A file with several hard links still gets a temporary name, to keep its other links
    /// unchanged. A partial file is newer than the source, so that --update would skip it.
    #[arg(long, conflicts_with = "update")]
    pub inplace: bool,
    /// Files that change while they are read: fail, or copy what was read
    ///
    /// For logs and other files that are always written to. They are reported and lead to status 4;
    /// the next run copies them again.
    #[arg(long, value_name = "HOW", default_value = "fail", value_parser = choice::<ActiveFiles>())]
    pub active_files: ActiveFiles,
    /// Within this machine, let copies share the data of their files where the file system can
    /// (btrfs, XFS)
    ///
    /// A clone takes no time and no space until one of the files is changed. With always, files
    /// that cannot be cloned fail.
    #[arg(long, value_name = "WHEN", default_value = "never", default_missing_value = "always",
          num_args = 0..=1, require_equals = true, value_parser = choice::<Reflink>(), conflicts_with = "inplace")]
    pub reflink: Reflink,
    /// Change nothing, and print what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    #[command(flatten)]
    pub shards: ShardArgs,
    #[command(flatten)]
    pub transfer: TransferArgs,
    #[command(flatten)]
    pub net: NetArgs,
    #[command(flatten)]
    pub display: DisplayArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub restrict: RestrictArgs,
    /// Path of numaio on the other host, if it is not on the PATH of ssh sessions; or a command
    /// that starts it, with words separated by blanks: 'sudo numaio'
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "numaio",
        value_parser = numaio_transfer::ssh::remote_command
    )]
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
    #[command(flatten)]
    pub attached_options: AttachedArgs,
    /// Do not record this transfer as a job of numaio jobs
    #[arg(long)]
    pub no_job: bool,
    /// Do not ask this host's daemon for capacity
    ///
    /// Where numaio serve runs with a [local] section, transfers of this host wait for their turn
    /// and share the devices with those of others. NUMAIO_BROKER names another socket than
    /// /run/numaio/broker.
    #[arg(long)]
    pub no_broker: bool,
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

/// Options of the output.
#[derive(Debug, Clone, Copy, Args)]
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
others were transferred; 4 the same, and all of these vanished or changed while they were read; 5 only
attributes that -a requests could not be set; 130 interrupted: run the same command again to resume.

Environment: NUMAIO_SSH names another program than ssh, with its options: NUMAIO_SSH='ssh -p 2222'.";

/// Options are forwarded with the names that [`CopyArgs`] gives them.
impl FromArgMatches for ForwardedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::of(&CopyArgs::augment_args(Command::new("copy")), matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::options::Common;

    /// Returns the command with its own and the common options.
    pub fn copy_command() -> Command {
        Common::augment_args(CopyArgs::augment_args(Command::new("copy")))
    }
}
