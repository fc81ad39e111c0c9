//! `numaio topology`: shows a machine.

use super::{placement, tape_io};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::output::json;
use clap::Args as ClapArgs;
use numaio_machine::devices::name_by_pci_ids;
use numaio_machine::devices::DeviceMatrix;
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_report::Detail;
use numaio_schema::{MachineExpectation, TopologyDocument};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `numaio topology`.
#[derive(Debug, ClapArgs)]
pub struct TopologyArgs {
    /// Print the verdict and a line for each finding
    #[arg(long, conflicts_with_all = ["svg", "json"])]
    pub brief: bool,
    /// Print each device, and each finding with its evidence and remedy, also if that is long
    #[arg(long, conflicts_with_all = ["svg", "json", "brief", "matrix"])]
    pub all: bool,
    /// Print what each two GPUs, NICs and drives share: a switch, root port, node or package
    #[arg(long, conflicts_with_all = ["svg", "brief"])]
    pub matrix: bool,
    /// Print JSON; with --matrix, the matrix is added to the document
    #[arg(long, conflicts_with = "svg")]
    pub json: bool,
    /// Draw the machine as SVG to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Runs `numaio topology`.
pub fn run(common: &Common, args: &TopologyArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let mut topology = discover(&machine);
    if let Some(kernel) = machine.kernel() {
        name_by_pci_ids(kernel, &mut topology.devices);
    }
    match &args.svg {
        Some(path) => {
            if output::write(path, &numaio_report::topology_svg(&topology))? {
                output::remark(common, &format!("wrote the drawing to '{}'", path.display()));
            }
        }
        None if args.json => {
            let device_matrix = args.matrix.then(|| DeviceMatrix::new(&topology)).flatten();
            let expected = Some(expectation(common, &machine, &topology)?);
            let document = TopologyDocument::with_time(topology, machine.observed_at());
            output::print(&json(&TopologyDocument { device_matrix, expected, ..document })?)?
        }
        None if args.matrix => {
            let matrix = DeviceMatrix::new(&topology).ok_or_else(|| {
                Failure::new("no device matrix: expected 2 to 256 GPUs, network interfaces and drives on PCI")
                    .hint("numaio topology lists all devices")
            })?;
            output::print(&numaio_report::device_matrix_text(&matrix, &output::whole_style(common)))?
        }
        None => {
            let expected = expectation(common, &machine, &topology)?;
            let detail = match (args.brief, args.all) {
                (true, _) => Detail::Brief,
                (_, true) => Detail::Complete,
                _ => Detail::Screen,
            };
            output::print(&numaio_report::topology_text(
                &topology,
                &expected,
                detail,
                &output::style(common),
            ))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what the devices can transfer, by the models and the measured I/O of the machine.
fn expectation(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
) -> Result<MachineExpectation, Failure> {
    let models = placement::models(common, machine, topology, None)?;
    let io = tape_io::measured(common, machine, topology)?;
    Ok(placement::expectation(topology, &models, &io))
}
