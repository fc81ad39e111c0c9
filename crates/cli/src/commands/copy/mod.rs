//! `numaio copy`: verified transfers of files within and between hosts.

mod args;
mod attached_args;
mod attribute_args;
mod change_report;
mod delete_args;
mod failure_lines;
mod filter_args;
mod forwarded_options;
mod input_files;
mod log_file;
mod manifest;
mod net_options;
mod omitted_attribute_args;
mod output;
mod placer;
mod plans;
mod report_args;
mod restrict_args;
mod rsync_noop;
mod rsync_unsupported;
mod scp_options;
mod selection_args;
mod shard_args;
mod snapshot_args;
mod transfer_options;
mod work_sharing;

pub use args::CopyArgs;

use crate::failure::transfer::job_outcome;
use crate::failure::Failure;
use crate::input;
use crate::options::Common;
use crate::output as command_output;
use log_file::LogFile;
use numaio_transfer::capacity::local_broker;
use numaio_transfer::endpoint::Endpoint;
use numaio_transfer::entry_options::EntryOptions;
use numaio_transfer::filters::build_filter;
use numaio_transfer::options::{CopyOptions, Reflink};
use numaio_transfer::remote::host_to_host::stop_with_stdin;
use numaio_transfer::transfer::{RemoteOptions, Transfer};
use numaio_transfer::TransferError;
use output::CopyOutput;
pub use placer::ModelPlacer;
pub use rsync_unsupported::{remove_unsupported_suggestion, with_unsupported_options};
pub use scp_options::tip as scp_tip;
use std::path::PathBuf;
use std::process::ExitCode;
use transfer_options::WorkSharing;

/// Hint after a failed transfer from a remote source with wildcards.
const WILDCARD_HINT: &str = "wildcards in remote names are not expanded; for HOST:DIR/*.csv use -r \
                             --include='*.csv' --exclude='*' HOST:DIR/";

impl CopyArgs {
    /// Checks what clap cannot express.
    fn check(&self) -> Result<(), Failure> {
        let words = std::env::args_os().collect::<Vec<_>>();
        scp_options::check(&words, &self.paths)?;
        self.shards.check(&words, (self.deletion, &self.selection), self.manifest.as_ref())?;
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
        self.deletion.check()?;
        if self.deletion.deletes() && !(self.recursive || self.archive) {
            return Err(Failure::usage("--delete needs directories").hint("add --recursive or --archive"));
        }
        Ok(())
    }

    /// Returns the value of `--bwlimit` if it was typed without a unit, as for rsync.
    fn bwlimit_without_unit(&self) -> Option<u64> {
        let typed = self.forwarded.options.iter().filter_map(|option| option.to_str());
        let number = typed.filter_map(|option| option.strip_prefix("--bwlimit=")).next_back()?;
        number.parse().ok().filter(|number| *number > 0)
    }

    /// Returns the transfer that the options describe. Reads the files that they name.
    fn transfer(&self, common: &Common) -> Result<Transfer, Failure> {
        let Some((destination, sources)) = self.paths.split_last() else {
            return Err(Failure::usage("the destination is missing"));
        };
        let sources = sources.iter().map(|path| Endpoint::parse(path)).collect::<Result<Vec<_>, _>>();
        let sources = sources.map_err(TransferError::from)?;
        Ok(Transfer {
            sources,
            destination: Endpoint::parse(destination).map_err(TransferError::from)?,
            options: self.options(common)?,
            network: self.net.options(),
            plans: plans::read(common, &self.transfer.plan)?,
            remote: RemoteOptions {
                numaio: self.remote_numaio.clone(),
                bootstrap: self.bootstrap,
                forward_agent: self.forward_agent,
                options: self.forwarded.options.clone(),
                local_files: self.forwarded.files.clone(),
                stderr: command_output::stderr_sink(),
            },
            max_errors: self.max_errors.map(u64::from),
            attached: self.attached,
            is_retry: self.attached_options.is_retry,
            broker: local_broker::socket().filter(|_| !self.no_broker && !self.dry_run),
            quiet: common.quiet,
        })
    }

    /// Returns the options that both sides receive.
    fn options(&self, common: &Common) -> Result<CopyOptions, Failure> {
        let rules = input_files::load_rules(&self.filters.rules, self.from0)?;
        build_filter(&rules)?;
        let list = |path: &PathBuf| input_files::read_file_list(path, self.from0);
        let network = self.net.options();
        Ok(CopyOptions {
            file_list: self.files_from.as_ref().map(list).transpose()?,
            recursive: self.recursive || self.archive && self.files_from.is_none(),
            archive: self.archive,
            omitted: self.omitted_attributes.omitted(),
            rules,
            size_range: (self.min_size.unwrap_or(0), self.max_size.unwrap_or(u64::MAX)),
            checksum: self.checksum,
            manifest: self.manifest.is_some(),
            numeric_ids: self.numeric_ids,
            update: self.update,
            ignore_times: self.ignore_times,
            delete: self.deletion.deletes(),
            deletion: self.deletion.limits(),
            active_files: self.active_files,
            reflink: self.reflink,
            in_place: self.inplace,
            dry_run: self.dry_run,
            reports_changes: self.dry_run || self.display.json || common.verbose || self.report.itemizes(),
            hash: self.transfer.hash,
            fsync: self.transfer.fsync,
            bytes_per_second: self.transfer.bwlimit.filter(|most| *most > 0),
            compress: self.transfer.compress(),
            placement: self.transfer.placement,
            threads: self.transfer.threads,
            io: self.transfer.io,
            work_sharing: self.transfer.work_sharing == WorkSharing::On,
            direct: self.transfer.direct,
            order: self.transfer.order,
            mode: self.transfer.mode,
            block: self.transfer.block,
            streams: network.streams(),
            may_use_fewer_streams: network.may_use_fewer_streams(),
            entries: self.entries()?,
        })
    }

    /// Returns the options that select entries, and change what is copied.
    fn entries(&self) -> Result<EntryOptions, Failure> {
        Ok(EntryOptions {
            one_file_system: self.selection.one_file_system,
            copy_links: self.selection.copy_links,
            follow_named: !self.recursive
                && !self.archive
                && self.files_from.is_none()
                && !self.selection.links,
            chmod: self.attributes.chmod(),
            chown: self.attributes.chown.clone(),
            itemize: self.report.itemizes(),
            remove_source_files: self.selection.remove_source_files,
            link_dest: self.snapshots.link_dest(),
            backup: self.snapshots.backup(),
            existing: self.selection.existing,
            ignore_existing: self.selection.ignore_existing,
            shard: self.shards.shard()?,
            finish: self.shards.finish,
            make_parents: self.mkpath,
            remote_plan: self.transfer.remote_plan.as_deref().map(input::read_text).transpose()?,
        })
    }
}

/// Runs `numaio copy`.
pub fn run(common: &Common, args: &CopyArgs) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("`copy` cannot be combined with --machine or --sysroot"));
    }
    if let Some(directory) = &args.restrict.restrict {
        return args.restrict.serve(directory);
    }
    args.check()?;
    if let Some(number) = args.bwlimit_without_unit().filter(|_| !args.attached) {
        let text = format!(
            "--bwlimit {number} is {number} bytes per second; rsync's unit is KiB: write --bwlimit {number}K for that"
        );
        command_output::remark(common, &text);
    }
    let transfer = args.transfer(common)?;
    let has_daemon = transfer.sources.iter().chain([&transfer.destination]).any(Endpoint::is_at_daemon);
    if args.net.data_port.is_some() && has_daemon {
        return Err(Failure::usage("a daemon accepts data connections at its own port only")
            .hint("omit --data-port, or use --tunnel for a single connection"));
    }
    let log = args.report.log_file.as_deref().map(LogFile::open).transpose()?;
    let is_local = transfer.sources.iter().chain([&transfer.destination]).all(|end| end.host.is_none());
    if args.transfer.remote_plan.is_some() && is_local {
        return Err(Failure::usage("--remote-plan needs another host")
            .hint("use --plan for the sides on this machine"));
    }
    if args.reflink == Reflink::Always && !is_local {
        return Err(Failure::usage("--reflink=always works within one machine")
            .hint("use --reflink=auto, or omit it"));
    }
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    if args.attached {
        stop_with_stdin();
    }
    if !args.no_job && !args.dry_run {
        let command = args.shards.resolve_in(std::env::args_os().skip(1));
        if let Err(error) = args.recorder.begin(command, args.source_inodes()) {
            let why = format!("cannot record this transfer as a job: {error}; --no-job skips it");
            command_output::remark(common, &why);
        }
    }
    let mut output = CopyOutput::new(common, args, transfer.options.entries.shard, log);
    // A sign of life, for the host that started this copy.
    output.alive();
    let ended =
        transfer.run(&mut output, &ModelPlacer).map_err(Failure::from).and_then(|end| output.finish(&end));
    args.recorder.end(job_outcome(&ended));
    let is_success = matches!(&ended, Ok(code) if *code == ExitCode::SUCCESS);
    if !is_success && transfer.sources.iter().any(Endpoint::has_remote_wildcards) {
        command_output::remark(common, WILDCARD_HINT);
    }
    ended
}
