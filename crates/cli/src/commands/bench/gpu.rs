//! `numaio bench gpu`: measures copies between memory on each node and a GPU.

use super::shared::{self, BenchRecords, BoundsArgs, PlacementArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{count, Common};
use crate::output;
use clap::{Args, ValueEnum};
use numaio_linux::cuda::{self, CudaUnavailable};
use numaio_machine::devices::PciAddress;
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_machine::units::parse_size;
use numaio_machine::workload::IoPath;
use numaio_measure::engine::nvbandwidth::{self, ListedGpu};
use numaio_measure::engine::{Cuda, Engine, Nvbandwidth, Several};
use numaio_measure::io::Matrix;
use numaio_measure::IoOptions;
use numaio_report::gpu_text;
use numaio_schema::{IoDevice, IoEngine, IoRecord};

/// Maximum bytes of a copy.
const MAX_BYTES: u64 = 16 << 30;
/// Maximum number of sizes.
const MAX_SIZES: usize = 64;

/// Options of `numaio bench gpu`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("streams", |streams| streams.default_value("1")))]
pub struct GpuArgs {
    /// GPU, by number such as cuda:0 or by PCI address; default: cuda:0
    ///
    /// Repeat it to measure several GPUs: each alone, all at the same time, and the sum.
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// Copy sizes: a list such as 64K,64M, or a range such as 1K..512M (as SHOC) of powers of two
    #[arg(long, value_name = "SIZE,...", default_value = "64M", value_parser = sizes)]
    pub sizes: Sizes,
    /// Copies in flight per stream; 1 waits for each, as SHOC does
    #[arg(long, value_name = "N", default_value = "2", value_parser = count)]
    pub depth: u32,
    /// Engine that moves the data; default: cuda, or nvbandwidth if numaio is linked statically
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,
    #[command(flatten)]
    pub placement: PlacementArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// Engines that move the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// numaio's own engine, by the CUDA driver
    Cuda,
    /// nvbandwidth; it uses one stream and sizes in MiB, and chooses the number in flight
    Nvbandwidth,
    /// Both, to compare them
    All,
}

/// Sizes of copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(Vec<u64>);

/// Runs `numaio bench gpu`.
pub fn run(common: &Common, machine: &Machine, args: &GpuArgs) -> Result<BenchRecords, Failure> {
    let topology = discover(machine);
    match args.device.len() {
        0 | 1 => run_one(common, machine, &topology, args).map(BenchRecords::Io),
        _ => run_several(common, machine, &topology, args),
    }
}

fn run_one(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &GpuArgs,
) -> Result<Vec<IoRecord>, Failure> {
    let (gpus, engine) = match machine.is_live() {
        true => discover_gpus(common, machine, args.engine)?,
        false => (gpu_on_tape(args)?, args.engine.unwrap_or(EngineArg::Cuda)),
    };
    let gpu = choose(common, topology, &gpus, args.device.first().map(String::as_str))?;
    let device = device(topology, gpu);
    let matrix = args.placement.matrix(common, topology, &device, &args.bounds.load);
    let options = IoOptions {
        block_bytes: args.sizes.0.clone(),
        depth: args.depth,
        ..args.bounds.options(matrix, machine.time())
    };
    let engines = engines(engine, gpu.index);
    let show = |records: &[IoRecord]| shared::pages(common, records, gpu_text);
    let campaign = (engines.as_slice(), &device, &options);
    shared::bench(common, machine, topology, &args.bounds, campaign, show)
}

/// Measures several GPUs, each alone and all at the same time.
fn run_several(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &GpuArgs,
) -> Result<BenchRecords, Failure> {
    if !machine.is_live() {
        return shared::show_aggregate_on_tape(common, machine, &args.bounds, &args.device);
    }
    let (gpus, engine) = discover_gpus(common, machine, args.engine)?;
    if engine != EngineArg::Cuda {
        return Err(Failure::usage("several GPUs are measured by the engine cuda only")
            .hint("use a numaio that is not linked statically, or specify one --device"));
    }
    let chosen = args.device.iter().map(|name| choose(common, topology, &gpus, Some(name)));
    let chosen: Vec<&ListedGpu> = chosen.collect::<Result<_, Failure>>()?;
    let paths = chosen.iter().map(|gpu| IoPath::Gpu { device: gpu.index });
    let engine = Several { engine: IoEngine::Cuda, paths: paths.collect() };
    let io = IoOptions {
        block_bytes: args.sizes.0.clone(),
        depth: args.depth,
        ..args.bounds.options(Matrix::default(), machine.time())
    };
    let devices = chosen.iter().map(|gpu| device(topology, gpu)).collect();
    let campaign = (&engine, devices, &args.placement.of_several(io)?);
    shared::bench_several(common, (machine, topology), &args.bounds, campaign, |_| ())
}

/// Returns the GPUs of this machine, and the engine that can reach them.
fn discover_gpus(
    common: &Common,
    machine: &Machine,
    engine: Option<EngineArg>,
) -> Result<(Vec<ListedGpu>, EngineArg), Failure> {
    let unavailable = match cuda::gpus() {
        Ok(gpus) => return Ok((gpus.iter().map(to_listed).collect(), engine.unwrap_or(EngineArg::Cuda))),
        Err(unavailable) => unavailable,
    };
    // A static binary cannot load the driver, but nvbandwidth can.
    if unavailable != CudaUnavailable::Static || engine == Some(EngineArg::Cuda) {
        return Err(unavailable.into());
    }
    let gpus = nvbandwidth::gpus(machine).map_err(|error| match error {
        numaio_machine::probe::ProbeError::Unsupported { .. } => unavailable.clone().into(),
        error => Failure::new(error),
    })?;
    output::remark(common, &format!("{unavailable}; using nvbandwidth"));
    Ok((gpus, EngineArg::Nvbandwidth))
}

fn to_listed(gpu: &cuda::Gpu) -> ListedGpu {
    ListedGpu { index: gpu.index, name: gpu.name.clone(), pci: gpu.pci.parse().ok() }
}

/// Returns the requested GPU of a tape, by name only.
fn gpu_on_tape(args: &GpuArgs) -> Result<Vec<ListedGpu>, Failure> {
    let name = args.device.first().map_or("cuda:0", String::as_str);
    let index = index(name).ok_or_else(|| {
        Failure::usage(format!("invalid GPU '{name}' of a recorded machine"))
            .hint("expected a name such as cuda:0")
    })?;
    Ok(vec![ListedGpu { index, name: String::new(), pci: None }])
}

/// Parses the index of a name such as `cuda:0`.
fn index(name: &str) -> Option<u32> {
    name.strip_prefix("cuda:")?.parse().ok()
}

/// Finds the requested GPU.
fn choose<'a>(
    common: &Common,
    topology: &Topology,
    gpus: &'a [ListedGpu],
    requested: Option<&str>,
) -> Result<&'a ListedGpu, Failure> {
    let names = || gpus.iter().map(|gpu| format!("cuda:{}", gpu.index)).collect::<Vec<String>>().join(", ");
    let Some(name) = requested else {
        if gpus.len() > 1 {
            output::remark(common, &format!("found {}; using the first, --device selects another", names()));
        }
        return gpus.first().ok_or_else(|| Failure::new("nvbandwidth found no GPU"));
    };
    let address = || topology.devices.iter().find(|device| device.has_name(name)).and_then(|found| found.pci);
    let pci: Option<PciAddress> = name.parse().ok().or_else(address);
    let matches = |gpu: &&ListedGpu| index(name) == Some(gpu.index) || (pci.is_some() && gpu.pci == pci);
    gpus.iter().find(matches).ok_or_else(|| {
        Failure::usage(format!("the CUDA driver found no GPU '{name}'; available: {}", names()))
    })
}

/// Describes a GPU, with its node and interrupts by PCI address.
fn device(topology: &Topology, gpu: &ListedGpu) -> IoDevice {
    let found = topology.devices.iter().find(|device| gpu.pci.is_some() && device.pci == gpu.pci);
    let known = found.map(|found| numaio_measure::io::device(found, None));
    let (node, irqs) = known.map_or_else(Default::default, |known| (known.node, known.irqs));
    IoDevice {
        name: format!("cuda:{}", gpu.index),
        model: gpu.name.clone(),
        pci: gpu.pci.map(|pci| pci.to_string()),
        node,
        reached_via: None,
        irqs,
    }
}

fn engines(engine: EngineArg, device: u32) -> Vec<Box<dyn Engine>> {
    let cuda = || Box::new(Cuda { device }) as Box<dyn Engine>;
    let nvbandwidth = || Box::new(Nvbandwidth { device }) as Box<dyn Engine>;
    match engine {
        EngineArg::Cuda => vec![cuda()],
        EngineArg::Nvbandwidth => vec![nvbandwidth()],
        EngineArg::All => vec![cuda(), nvbandwidth()],
    }
}

/// Parses sizes and ranges `FIRST..LAST`, which stand for FIRST times all powers of two up to LAST.
fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (parse_size(first)?, parse_size(last)?);
        if first == 0 || last > MAX_BYTES || first > last {
            return Err(format!(
                "invalid size '{part}': expected sizes from 1 to 16G, the smaller one first"
            ));
        }
        let doubled = std::iter::successors(Some(first), |size| Some(size * 2));
        sizes.extend(doubled.take_while(|size| *size <= last));
    }
    match sizes.len() > MAX_SIZES {
        true => Err(format!("expected at most {MAX_SIZES} sizes, got {}", sizes.len())),
        false => Ok(Sizes(sizes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_and_ranges() {
        assert_eq!(sizes("1K..8K"), Ok(Sizes(vec![1024, 2048, 4096, 8192])));
        assert_eq!(sizes("1K..512M").map(|sizes| sizes.0.len()), Ok(20), "as SHOC's");
        assert_eq!(sizes("64M,3K..7K"), Ok(Sizes(vec![64 << 20, 3072, 6144])));
        for wrong in ["", "0", "1K..", "..1K", "2K..1K", "17G", "x", "1K,,2K", "-1", "1..8G,1..8G"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
