//! `numaio bench mmio`: measures reads of a device's register from every node.

use super::shared::{measure_one, rule, KeptRecord};
use super::short;
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::{self, Failure};
use crate::load_args::LoadArgs;
use crate::machine::Machine;
use crate::options::{integer, node, percent, seconds, seed, Common};
use crate::store::Kind;
use clap::Args;
use numaio_machine::devices::{self, MmioRegister, PciAddress, RegisterError, RegisterRequest};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_measure::{io, MmioOptions};
use numaio_report::mmio_text;
use numaio_schema::{IoDevice, MmioRecord};
use std::path::PathBuf;

/// Options of `numaio bench mmio`.
#[derive(Debug, Clone, Args)]
pub struct MmioArgs {
    /// Device, for example eth0, nvme0n1, cuda:0 or 0000:3b:00.0
    #[arg(long, short, value_name = "DEV")]
    pub device: Handle,
    /// Base address register (BAR) to read; you are responsible for the effect of reads
    #[arg(long, value_name = "N", value_parser = integer(0..=5))]
    pub bar: Option<u32>,
    /// Offset of the register in bytes, such as 8 or 0x10, a multiple of 4; you are responsible for
    /// the effect of reads [default with --bar: 0]
    #[arg(long, value_name = "BYTES", value_parser = offset)]
    pub offset: Option<u64>,
    /// Nodes of the reading CPUs; default: every node with CPUs
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub cpu_nodes: Vec<NodeId>,
    #[command(flatten)]
    pub bounds: MmioBoundsArgs,
}

/// Options of limits and output.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring and output")]
pub struct MmioBoundsArgs {
    /// Number of reads of one visit
    #[arg(long, value_name = "N", default_value = "10000", value_parser = integer(10..=1_000_000))]
    pub reads: u32,
    /// Time limit in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub seconds: f64,
    /// Measure until the 95 % interval of each median is within this percentage
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    pub precision: f64,
    /// Seed of the order of visits; default: the time
    #[arg(long, value_name = "N", hide = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Print the saved document as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the measurement to FILE as JSON
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not save the measurement
    #[arg(long)]
    pub no_save: bool,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Runs `numaio bench mmio`.
pub fn run(common: &Common, machine: &Machine, args: &MmioArgs) -> Result<MmioRecord, Failure> {
    let topology = discover(machine);
    let context = ResolveContext { root: machine, locate: machine, topology: &topology };
    let (device, pci) = function(context, &args.device)?;
    let bar = args.bar.and_then(|bar| u8::try_from(bar).ok());
    let request = RegisterRequest { bar, offset: args.offset };
    let register = MmioRegister::select(machine, pci, request)
        .map_err(|error| unreadable(&error, machine.tape().is_some()))?;
    let bounds = &args.bounds;
    let options = MmioOptions {
        register,
        cpu_nodes: args.cpu_nodes.iter().copied().collect(),
        reads: bounds.reads,
        rule: rule(bounds.precision, bounds.seconds, bounds.seed.unwrap_or_else(|| machine.time())),
    };
    let MmioBoundsArgs { no_save, output, json, load, .. } = bounds;
    let keep = KeptRecord { no_save: *no_save, output: output.as_deref(), json: *json, load };
    let measure =
        |setting: MeasuredMachine| measuring::measure_mmio(common, setting, machine.time(), device, &options);
    let of = (machine, &topology, Kind::Mmio);
    measure_one(common, of, keep, measure, |record| &record.provenance, mmio_text)
}

/// Resolves a handle to one PCI function. A PCI address may be that of a function that moves no
/// data, which is not in the topology.
fn function(context: ResolveContext, handle: &Handle) -> Result<(IoDevice, PciAddress), Failure> {
    if let Handle::Pci(pci) = handle {
        let is_listed = context.topology.devices.iter().any(|device| device.pci == Some(*pci));
        if !is_listed && devices::function_exists(context.root, *pci) {
            return Ok((unlisted(context, *pci), *pci));
        }
    }
    let found = resolve(context, handle);
    let listed = |index: usize| context.topology.devices.get(index);
    let device = match found.devices.as_slice() {
        [] => return Err(failure::unresolved(&found)),
        [one] => listed(one.index).ok_or_else(|| failure::unresolved(&found))?,
        several => {
            let names: Vec<&str> = several.iter().map(|device| device.name.as_str()).collect();
            let message = format!("'{}' leads to several devices: {}", found.handle, names.join(", "));
            return Err(Failure::usage(message).hint("name one of them"));
        }
    };
    let reached_via = (!device.has_name(short(&found.handle))).then(|| found.handle.clone());
    match device.pci {
        Some(pci) => Ok((io::device(device, reached_via), pci)),
        None => Err(Failure::usage(format!("'{}' is not a PCI function, and has no BAR", device.name()))
            .hint("numaio topology lists devices with their PCI addresses")),
    }
}

/// Describes a function that is not in the topology.
fn unlisted(context: ResolveContext, pci: PciAddress) -> IoDevice {
    IoDevice {
        name: pci.to_string(),
        model: String::new(),
        pci: Some(pci.to_string()),
        node: devices::function_node(context.root, pci),
        reached_via: None,
        irqs: Vec::new(),
    }
}

/// Returns the failure of a register that cannot be read.
fn unreadable(error: &RegisterError, is_tape: bool) -> Failure {
    let remedy = match error {
        RegisterError::Unreadable(_) if is_tape => Some(
            "the tape does not contain this bench: numaio record --bench 'mmio --device DEV' records it"
                .to_owned(),
        ),
        error => error.remedy(),
    };
    let failure = match error {
        RegisterError::NotDecoding { .. }
        | RegisterError::NotPowered { .. }
        | RegisterError::Unreadable(_) => Failure::new(error),
        _ => Failure::usage(error),
    };
    match remedy {
        Some(remedy) => failure.hint(remedy),
        None => failure,
    }
}

/// Parses an offset, decimal or hexadecimal.
fn offset(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => text.parse().ok(),
    };
    number.ok_or_else(|| "expected a number of bytes, such as 8 or 0x10".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_offsets() {
        assert_eq!([offset("0"), offset("8"), offset("0x1c")], [Ok(0), Ok(8), Ok(28)]);
        for wrong in ["", "x", "0x", "0x+8", "-4", "4K", "0x10000000000000000"] {
            assert!(offset(wrong).is_err(), "{wrong}");
        }
    }
}
