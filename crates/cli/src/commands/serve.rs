//! `numaio serve`: a daemon that clients copy to and from without ssh.

use super::copy::ModelPlacer;
use super::device_discovery::DiscoveredDevices;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use clap::Args as ClapArgs;
use numaio_machine::inventory::interface_names;
use numaio_machine::printable::printable;
use numaio_schema::{DeviceBandwidth, DeviceDescription, Sourced, ValueSource};
use numaio_transfer::daemon::{self, count, Config, DeviceCapacity, DirectionCapacity, LoadedConfig, Log};
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// How long the daemon waits for the devices of its roots at the start.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Run a daemon that serves directories without ssh
///
/// The configuration file names the directories (roots) and the users with read or write access.
/// Users and the daemon prove their keys (numaio keygen) by TLS 1.3. Clients cannot reach anything
/// outside of the roots, whatever names or links they send. Users copy by numaio copy SRC
/// numaio://HOST/ROOT/PATH, or in reverse.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct ServeArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/numaio/serve.toml")]
    pub config: PathBuf,
    /// Check the configuration file, print all errors in it, or the devices that it uses, and exit
    #[arg(long)]
    pub check: bool,
    /// Run a session; only the daemon uses this
    #[arg(long, hide = true, conflicts_with_all = ["config", "check"])]
    pub session: bool,
}

const AFTER_HELP: &str = "\
A file that lets alice read and write, and bob only read:
  # made by: numaio keygen /etc/numaio/key
  key = \"/etc/numaio/key\"
  [root.data]
  path = \"/srv/data\"
  # every user below
  read = \"*\"
  write = \"alice\"
  [user.alice]
  # what numaio keygen printed for alice
  keys = \"ed25519:...\"
  [user.bob]
  keys = \"ed25519:...\"

SIGHUP reloads the file for new sessions. If the file has errors other than unusable roots, the
previous configuration stays.
SIGTERM stops accepting sessions and waits for the running ones. docs/copy/daemon.md describes the file and
has a unit for systemd.

Exit status: 0 stopped by a signal, or no errors found; 1 failed, or errors found; 2 wrong usage.";

/// Runs `numaio serve`.
pub fn run(common: &Common, args: &ServeArgs) -> Result<ExitCode, Failure> {
    let log = Log::new(output::stderr_sink(), common.quiet);
    if args.session {
        let is_done = daemon::session::run(&log, &ModelPlacer)?;
        return Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("a daemon serves this machine, not a recorded one"));
    }
    let read = if args.check { LoadedConfig::read_to_check } else { LoadedConfig::read };
    let loaded = read(&args.config).inspect_err(|error| log.errors_of(error))?;
    output::detail(format_args!("read {}", args.config.display()));
    if args.check {
        return check(common, &log, &args.config, &loaded.config);
    }
    let devices = device_capacities(common, &log, &args.config, &loaded.config)?;
    daemon::run(&log, &args.config, loaded, devices)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the capacities of this machine's devices.
fn device_capacities(
    common: &Common,
    log: &Log,
    path: &Path,
    config: &Config,
) -> Result<Vec<DeviceCapacity>, Failure> {
    let (sender, receiver) = sync_channel(1);
    let (machine, common, path, config) =
        (Machine::pick(common)?, common.clone(), path.to_owned(), config.clone());
    // A root on a file server that does not respond must not delay the other roots.
    thread::spawn(move || {
        let discovered = DiscoveredDevices::read(&common, &machine, Some((&path, &config)));
        // Fails if nothing waits any more.
        let _ = sender.send(capacities_of(&discovered, &machine, &config));
    });
    Ok(receiver.recv_timeout(DISCOVERY_TIMEOUT).unwrap_or_else(|_| {
        log.warning(
            "cannot find the devices of the roots: a file system does not respond; transfers do not share devices",
        );
        Vec::new()
    }))
}

fn capacities_of(discovered: &DiscoveredDevices, machine: &Machine, config: &Config) -> Vec<DeviceCapacity> {
    let roots = config.roots.iter().map(|(name, root)| {
        let path = root.path.value.display().to_string();
        (name.clone(), discovered.devices_of_path(machine, &path).unwrap_or_default())
    });
    let roots: Vec<(String, Vec<String>)> = roots.collect();
    let interfaces = interface_names(machine).into_iter().map(|name| {
        let devices = discovered.devices_of_interface(machine, &name).unwrap_or_default();
        (name, devices)
    });
    let interfaces: Vec<(String, Vec<String>)> = interfaces.collect();
    let capacity = |device: &DeviceDescription| {
        let with = |all: &[(String, Vec<String>)]| {
            let on_it = all.iter().filter(|(_, devices)| devices.contains(&device.name));
            on_it.map(|(name, _)| name.clone()).collect()
        };
        DeviceCapacity {
            name: device.name.clone(),
            read: direction_capacity(&device.read, &device.read_threads),
            write: direction_capacity(&device.write, &device.write_threads),
            transfers: transfer_limit(device),
            roots: with(&roots),
            file_systems: device
                .mounts
                .iter()
                .filter_map(|mount| Some(metadata(mount).ok()?.dev()))
                .collect(),
            interfaces: with(&interfaces),
        }
    };
    discovered.described.devices.iter().map(capacity).collect()
}

fn direction_capacity(bandwidth: &DeviceBandwidth, threads: &Sourced<u32>) -> DirectionCapacity {
    let is_configured =
        matches!(bandwidth, DeviceBandwidth::Known { source: ValueSource::Configuration { .. }, .. });
    DirectionCapacity {
        bandwidth: bandwidth.bytes_per_s().map(|rate| rate as u64),
        is_configured,
        threads: threads.value,
    }
}

/// Returns how many transfers a device serves at once: a rotational disk only as many as it has
/// threads, and so does any device whose threads are configured.
fn transfer_limit(device: &DeviceDescription) -> Option<u32> {
    device.has_fixed_threads().then(|| device.read_threads.value.max(device.write_threads.value))
}

/// Checks the tables of devices, and shows the devices that the daemon uses.
fn check(common: &Common, log: &Log, path: &Path, config: &Config) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let discovered = DiscoveredDevices::read(common, &machine, Some((path, config)));
    discovered.check(path).inspect_err(|error| log.errors_of(error))?;
    let Config { roots, users, .. } = config;
    let (roots, users) = (count(roots.len(), "root"), count(users.len(), "user"));
    output::print(&format!("{}: no faults; {roots}, {users}\n", path.display()))?;
    let (used, lines) = uses(&discovered, &machine, config);
    let table = numaio_report::devices_text(&used, &[], &output::style(common));
    output::print(&format!("\n{}\n{table}", lines.concat()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the devices of the roots and addresses, and a line for each root and address.
fn uses(
    discovered: &DiscoveredDevices,
    machine: &Machine,
    config: &Config,
) -> (Vec<DeviceDescription>, Vec<String>) {
    let mut names: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    let mut add = |what: String, found: Result<Vec<String>, String>| match found {
        Ok(found) => {
            lines.push(format!("{what}: {}\n", found.join(", ")));
            names.extend(found);
        }
        Err(why) => lines.push(format!("{what}: no device: {why}\n")),
    };
    for (name, root) in &config.roots {
        let path = root.path.value.display().to_string();
        let found = discovered.devices_of_path(machine, &path);
        add(printable(&format!("root {name}, {path}")), found);
    }
    for address in &config.listen {
        let found = discovered.devices_of_address(machine, address.value.ip());
        add(format!("listen {}", address.value), found);
    }
    let all = discovered.described.devices.iter();
    (all.filter(|device| names.contains(&device.name)).cloned().collect(), lines)
}
