//! `numaio devices`: what each device can carry, and the source of each value.

use super::device_discovery::DiscoveredDevices;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::output::json;
use clap::Args as ClapArgs;
use numaio_model::DescribedDevices;
use numaio_schema::{DeviceDescription, DevicesDocument, DEVICES_SCHEMA};
use numaio_transfer::daemon::{LoadedConfig, Log};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what each disk, file system and NIC can carry, and the source of each value
///
/// The bandwidth of a device is configured, measured (numaio bench), or at most that of its link or
/// of the copy model of its node. Otherwise it is unknown, and the output names the command that
/// measures it. NICs without a link are omitted.
#[derive(Debug, ClapArgs)]
pub struct DevicesArgs {
    /// Devices to show: names, mount points, or HOST:/EXPORT [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Apply the tables [device.NAME] of a daemon's configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `numaio devices`.
pub fn run(common: &Common, args: &DevicesArgs) -> Result<ExitCode, Failure> {
    let log = Log::new(output::stderr_sink(), common.quiet);
    let read = |path: &PathBuf| LoadedConfig::read_text(path).inspect_err(|error| log.errors_of(error));
    let loaded = args.config.as_ref().map(read).transpose()?;
    let machine = Machine::pick(common)?;
    let config = args.config.as_deref().zip(loaded.as_ref().map(|loaded| &loaded.config));
    let DiscoveredDevices { topology, described, .. } = {
        let discovered = DiscoveredDevices::read(common, &machine, config);
        if let Some((path, _)) = config {
            discovered.check(path).inspect_err(|error| log.errors_of(error))?;
        }
        discovered
    };
    let devices = select(&described, &args.names)?;
    let omitted = if args.names.is_empty() { described.omitted } else { Vec::new() };
    let text = match args.json {
        true => json(&DevicesDocument {
            schema: DEVICES_SCHEMA.to_owned(),
            numaio: env!("CARGO_PKG_VERSION").to_owned(),
            machine: topology.identity,
            devices,
            omitted,
        })?,
        false => numaio_report::devices_text(&devices, &omitted, &output::style(common)),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the devices with these names, or all.
fn select(described: &DescribedDevices, names: &[String]) -> Result<Vec<DeviceDescription>, Failure> {
    let all = &described.devices;
    for name in names {
        if all.iter().any(|device| device.has_name(name)) {
            continue;
        }
        if let Some(omitted) = described.omitted.iter().find(|omitted| omitted.name == *name) {
            return Err(Failure::new(format!("cannot describe '{name}': {}", omitted.reason)));
        }
        let known: Vec<&str> = all.iter().map(|device| device.name.as_str()).collect();
        return Err(Failure::usage(format!("there is no device '{}'", name.escape_debug()))
            .hint(format!("devices: {}; numaio near PATH resolves a path", known.join(", "))));
    }
    let is_selected =
        |device: &&DeviceDescription| names.is_empty() || names.iter().any(|name| device.has_name(name));
    Ok(all.iter().filter(is_selected).cloned().collect())
}
