//! Arguments of `numaio vm place` and `plan`.

use crate::options::integer;
use clap::{Args, ValueEnum};
use numaio_machine::near::Handle;
use numaio_machine::units::parse_size;
use std::path::PathBuf;

/// Arguments of `numaio vm place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Running guests by name or process ID, or files of libvirt domains; default: a new guest
    #[arg(value_name = "GUEST")]
    pub guests: Vec<String>,
    /// Place the guests near this device, path or host; may be repeated
    #[arg(long, value_name = "HANDLE", required = true)]
    pub near: Vec<Handle>,
    /// Number of vCPUs of each guest; default: as it has
    #[arg(long, value_name = "N", value_parser = integer(1..=4096))]
    pub vcpus: Option<u32>,
    /// Memory of each guest, for example 16G; default: as it has
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Number of I/O threads of each guest; default: as it has
    #[arg(long, value_name = "N", value_parser = integer(0..=256))]
    pub io_threads: Option<u32>,
    /// Back memory with reserved huge pages of this size, for example 2M or 1G
    #[arg(long, value_name = "SIZE", value_parser = huge_page)]
    pub huge_pages: Option<u64>,
    /// Name of a new guest
    #[arg(long, value_name = "NAME", default_value = "guest")]
    pub name: String,
    /// Virtual function of the device for each guest: auto takes a free one
    #[arg(long, value_name = "WHICH", default_value = "none")]
    pub vf: FunctionChoice,
    /// Enable N virtual functions of the device first, if it has none (needs root); numaio undo
    /// removes them
    #[arg(long, value_name = "N", value_parser = integer(1..=1024), requires = "vf")]
    pub create_vfs: Option<u32>,
    /// Use the model in FILE instead of the newest saved, complete model of this machine
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub output: PlanOutputArgs,
}

/// Arguments of `numaio vm plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Guests in TOML (docs/guide/vm.md); - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Virtual function of its first device for each guest: auto takes a free one
    #[arg(long, value_name = "WHICH", default_value = "none")]
    pub vf: FunctionChoice,
    /// Use the model in FILE instead of the newest saved, complete model of this machine
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub output: PlanOutputArgs,
}

/// Arguments of the output of a plan.
#[derive(Debug, Args)]
pub struct PlanOutputArgs {
    /// Pin vCPUs to hardware threads instead of cores
    #[arg(long)]
    pub hyper_threads: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: GuestForm,
    /// Print JSON: a plan for numaio vm apply --plan; same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Which virtual function a guest gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FunctionChoice {
    /// None
    None,
    /// A free one of the device
    Auto,
}

/// Output format of a plan of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuestForm {
    /// Readable text
    Text,
    /// Plan for numaio vm apply
    Json,
    /// Domain of libvirt for each guest; a domain from a file keeps everything else
    Libvirt,
    /// Command of QEMU for each guest
    Qemu,
    /// VirtualMachineInstance of KubeVirt for each guest
    Kubevirt,
    /// Flavor of OpenStack for each guest
    Openstack,
    /// Configuration of Proxmox VE for each guest
    Proxmox,
}

fn huge_page(text: &str) -> Result<u64, String> {
    let size = parse_size(text).ok().filter(|bytes| bytes.is_power_of_two() && *bytes > 4096);
    size.ok_or_else(|| "expected the size of a huge page, such as 2M or 1G".to_owned())
}
