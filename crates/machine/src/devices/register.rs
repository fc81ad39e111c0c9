//! A register of a PCI function that can be read without side effects.

use super::bar::{parse_bars, Bar, BarRegion};
use super::pci::{card, power, FUNCTIONS};
use super::pci_address::PciAddress;
use crate::ids::NodeId;
use crate::sysfs::{ReadError, ReadErrorKind, Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Class code of an NVMe controller (PCI Code and ID Assignment Specification).
const NVME: u32 = 0x01_0802;
/// BAR and offset of the register VS, the version, which is read-only (NVM Express Base
/// Specification, "Controller Properties").
const NVME_VERSION: (u8, u64) = (0, 8);
/// Offset of the command register in the configuration space, and its bit that enables the decoding
/// of memory (`PCI_COMMAND_MEMORY` in `include/uapi/linux/pci_regs.h`).
const COMMAND: usize = 4;
const COMMAND_MEMORY: u8 = 2;
/// Size of a read in bytes.
const READ_BYTES: u64 = 4;

/// A register of a PCI function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MmioRegister {
    /// The function.
    pub pci: PciAddress,
    /// Number of the base address register.
    pub bar: u8,
    /// Offset in its region in bytes, a multiple of 4.
    pub offset: u64,
}

/// Reason why a register was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RegisterChoice {
    /// The version register of an NVMe controller, which is read-only.
    NvmeVersion,
    /// The first prefetchable memory, whose reads have no side effects.
    Prefetchable,
    /// The user named it.
    Requested,
}

/// A requested register; what is missing is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegisterRequest {
    /// Number of the base address register.
    pub bar: Option<u8>,
    /// Offset in bytes.
    pub offset: Option<u64>,
}

/// Reason why no register can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// There is no such function.
    #[error("there is no PCI function {pci}")]
    NoFunction {
        /// The address.
        pci: PciAddress,
    },
    /// A file of the function cannot be read.
    #[error("cannot read {0}")]
    Unreadable(#[from] ReadError),
    /// No register is known to be safe.
    #[error(
        "{pci} has no register that is known to be free of side effects: it is neither an NVMe controller, nor \
         has it prefetchable memory ({})", list(.bars)
    )]
    NoneSafe {
        /// The function.
        pci: PciAddress,
        /// Its base address registers.
        bars: Vec<Bar>,
    },
    /// The function lacks the base address register.
    #[error("{pci} has no BAR {bar} ({})", list(.bars))]
    NoBar {
        /// The function.
        pci: PciAddress,
        /// The requested number.
        bar: u8,
        /// Its base address registers.
        bars: Vec<Bar>,
    },
    /// The base address register decodes I/O ports.
    #[error("BAR {bar} of {pci} is a range of I/O ports, not memory")]
    IoPorts {
        /// The function.
        pci: PciAddress,
        /// The requested number.
        bar: u8,
    },
    /// The offset is not a multiple of the size of a read.
    #[error("offset {offset:#x} is not a multiple of {READ_BYTES}, the size of a read")]
    Unaligned {
        /// The requested offset.
        offset: u64,
    },
    /// The offset is beyond the region.
    #[error("offset {offset:#x} is beyond BAR {bar} of {pci}, which has {bytes:#x} bytes")]
    OutOfRange {
        /// The function.
        pci: PciAddress,
        /// The base address register.
        bar: u8,
        /// The requested offset.
        offset: u64,
        /// Size of the region.
        bytes: u64,
    },
    /// The function does not decode accesses to its memory.
    #[error("{pci} does not respond to memory accesses: bit 1 of its PCI command register is off")]
    NotDecoding {
        /// The function.
        pci: PciAddress,
    },
    /// The function sleeps.
    #[error("{pci} is not powered: its state is {state}")]
    NotPowered {
        /// The function.
        pci: PciAddress,
        /// State of PCI power management and of the kernel's runtime power management.
        state: String,
    },
}

/// Returns whether the machine has a PCI function.
pub fn function_exists(root: &dyn Sysfs, pci: PciAddress) -> bool {
    root.exists(&format!("{FUNCTIONS}/{pci}"))
}

/// Returns the node of a PCI function, if the kernel reports it; -1 is unknown.
pub fn function_node(root: &dyn Sysfs, pci: PciAddress) -> Option<NodeId> {
    root.value(&format!("{FUNCTIONS}/{pci}/numa_node")).ok().map(NodeId)
}

fn list(bars: &[Bar]) -> String {
    match bars {
        [] => "it has no BARs".to_owned(),
        bars => bars.iter().map(Bar::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl RegisterError {
    /// Returns how to fix it.
    pub fn remedy(&self) -> Option<String> {
        let file = |pci: &PciAddress, name: &str| format!("{FUNCTIONS}/{pci}/{name}");
        match self {
            Self::NoFunction { .. } => Some("numaio topology lists devices".to_owned()),
            Self::NoneSafe { bars, .. } if bars.iter().any(|bar| bar.region != BarRegion::IoPorts) => Some(
                "--bar N --offset BYTES reads another register; check in the device's manual that its reads have \
                 no side effects"
                    .to_owned(),
            ),
            Self::NotDecoding { pci } => Some(format!(
                "load a driver of the device, or as root: echo 1 > {}",
                file(pci, "enable")
            )),
            Self::NotPowered { pci, .. } => Some(format!(
                "keep the device active during the measurement, as root: echo on > {}",
                file(pci, "power/control")
            )),
            _ => None,
        }
    }
}

impl MmioRegister {
    /// Selects a register of a function, and checks that the function answers reads.
    ///
    /// Without a request, it is the version register of an NVMe controller, or the begin of the
    /// first prefetchable memory of another function. A requested offset alone is one of that BAR.
    ///
    /// # Errors
    /// [`RegisterError`] if there is no such register, or reads of it would fail.
    pub fn select(
        root: &dyn Sysfs,
        pci: PciAddress,
        request: RegisterRequest,
    ) -> Result<(Self, RegisterChoice), RegisterError> {
        let path = format!("{FUNCTIONS}/{pci}");
        let resource = root.text(&format!("{path}/resource")).map_err(|error| match error.why {
            ReadErrorKind::Absent if !function_exists(root, pci) => RegisterError::NoFunction { pci },
            _ => RegisterError::Unreadable(error),
        })?;
        let bars = parse_bars(&resource);
        let default = || default_register(card(root, &path).class, &bars);
        let (bar, offset, choice) = match (request.bar, request.offset) {
            (Some(bar), offset) => (bar, offset.unwrap_or(0), RegisterChoice::Requested),
            (None, offset) => {
                let Some((bar, at, choice)) = default() else {
                    return Err(RegisterError::NoneSafe { pci, bars });
                };
                offset.map_or((bar, at, choice), |offset| (bar, offset, RegisterChoice::Requested))
            }
        };
        let register = Self { pci, bar, offset };
        register.check(&bars)?;
        register.check_power(root, &path)?;
        register.check_decoding(root, &path)?;
        Ok((register, choice))
    }

    /// Checks that the register is in memory of the function.
    fn check(self, bars: &[Bar]) -> Result<(), RegisterError> {
        let Self { pci, bar, offset } = self;
        let Some(found) = bars.iter().find(|found| found.number == bar) else {
            return Err(RegisterError::NoBar { pci, bar, bars: bars.to_vec() });
        };
        match found.region {
            BarRegion::IoPorts => Err(RegisterError::IoPorts { pci, bar }),
            _ if !self.is_aligned() => Err(RegisterError::Unaligned { offset }),
            _ if offset.checked_add(READ_BYTES).is_none_or(|end| end > found.bytes) => {
                Err(RegisterError::OutOfRange { pci, bar, offset, bytes: found.bytes })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a read of the register is aligned.
    pub fn is_aligned(self) -> bool {
        self.offset.is_multiple_of(READ_BYTES)
    }

    /// Checks that the function is powered. Reads of a suspended one fail, and do not wake it.
    fn check_power(self, root: &dyn Sysfs, path: &str) -> Result<(), RegisterError> {
        let Some(state) = power(root, path) else { return Ok(()) };
        let is_awake = |state: &str| ["D0", "active", "resuming"].contains(&state);
        match state.split(", ").all(is_awake) {
            true => Ok(()),
            false => Err(RegisterError::NotPowered { pci: self.pci, state }),
        }
    }

    /// Checks that the function decodes memory accesses, if its configuration space is readable.
    fn check_decoding(self, root: &dyn Sysfs, path: &str) -> Result<(), RegisterError> {
        let config = root.read(&format!("{path}/config")).unwrap_or_default();
        match config.get(COMMAND) {
            Some(command) if command & COMMAND_MEMORY == 0 => {
                Err(RegisterError::NotDecoding { pci: self.pci })
            }
            _ => Ok(()),
        }
    }
}

/// Returns BAR and offset of a register whose reads have no side effects.
fn default_register(class: Option<u32>, bars: &[Bar]) -> Option<(u8, u64, RegisterChoice)> {
    if class == Some(NVME) {
        let (bar, offset) = NVME_VERSION;
        return Some((bar, offset, RegisterChoice::NvmeVersion));
    }
    let bar = bars.iter().find(|bar| bar.region == BarRegion::Prefetchable)?;
    Some((bar.number, 0, RegisterChoice::Prefetchable))
}

impl fmt::Display for MmioRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pci, bar, offset } = self;
        write!(f, "BAR {bar} of {pci} at {offset:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    const AT: &str = "/sys/bus/pci/devices/0000:03:00.0";
    const NVME_BARS: &str = "0x00000000fe800000 0x00000000fe803fff 0x0000000000140204\n";
    /// Memory of 512 KiB, I/O ports, and prefetchable memory of 16 KiB.
    const MIXED_BARS: &str = "\
0x00000000fd000000 0x00000000fd07ffff 0x0000000000040200
0x000000000000c000 0x000000000000c01f 0x0000000000040101
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000380000000000 0x0000380000003fff 0x000000000014220c
";

    fn pci() -> PciAddress {
        "0000:03:00.0".parse().expect("an address")
    }

    /// A powered function with enabled memory.
    fn function(class: &str, resource: &str) -> Tree {
        let mut tree = Tree::new();
        tree.file(&format!("{AT}/resource"), resource)
            .file(&format!("{AT}/class"), format!("{class}\n"))
            .file(&format!("{AT}/power_state"), "D0\n")
            .file(&format!("{AT}/power/runtime_status"), "active\n")
            .file(&format!("{AT}/config"), [0x36, 0x1b, 0x10, 0, 0x06, 0x04, 0x10, 0]);
        tree
    }

    fn select(
        tree: &Tree,
        bar: Option<u8>,
        offset: Option<u64>,
    ) -> Result<(u8, u64, RegisterChoice), RegisterError> {
        let (register, choice) = MmioRegister::select(tree, pci(), RegisterRequest { bar, offset })?;
        assert_eq!(register.pci, pci());
        Ok((register.bar, register.offset, choice))
    }

    #[test]
    fn default_is_the_nvme_version_or_the_first_prefetchable_memory() {
        let nvme = function("0x010802", NVME_BARS);
        assert_eq!(select(&nvme, None, None), Ok((0, 8, RegisterChoice::NvmeVersion)));
        let adapter = function("0x020000", MIXED_BARS);
        assert_eq!(select(&adapter, None, None), Ok((4, 0, RegisterChoice::Prefetchable)));
        // A virtio function counts like any other.
        let virtio = function("0x010000", MIXED_BARS);
        assert_eq!(select(&virtio, None, None), Ok((4, 0, RegisterChoice::Prefetchable)));
    }

    #[test]
    fn requested_registers_replace_the_default() {
        let adapter = function("0x020000", MIXED_BARS);
        assert_eq!(select(&adapter, Some(0), None), Ok((0, 0, RegisterChoice::Requested)));
        assert_eq!(select(&adapter, Some(0), Some(8)), Ok((0, 8, RegisterChoice::Requested)));
        assert_eq!(select(&adapter, None, Some(0x3ffc)), Ok((4, 0x3ffc, RegisterChoice::Requested)));
    }

    #[test]
    fn devices_without_a_safe_register_are_refused_with_their_bars() {
        let bars = MIXED_BARS.lines().take(2).collect::<Vec<_>>().join("\n");
        let error = select(&function("0x020000", &bars), None, None).expect_err("no safe register");
        let text = error.to_string();
        assert!(text.ends_with("(BAR 0: 512 KiB of memory, BAR 1: 32 B of I/O ports)"), "{text}");
        assert!(error.remedy().expect("a hint").starts_with("--bar N --offset BYTES"));
        let none = select(&function("0x060000", ""), None, None).expect_err("a bridge");
        assert!(none.to_string().ends_with("(it has no BARs)"), "{none}");
        assert_eq!(none.remedy(), None, "no other register could be named");
    }

    #[test]
    fn bars_and_offsets_that_cannot_be_read_are_refused() {
        let adapter = function("0x020000", MIXED_BARS);
        let text = |bar, offset| select(&adapter, Some(bar), Some(offset)).expect_err("refused").to_string();
        assert_eq!(text(1, 0), "BAR 1 of 0000:03:00.0 is a range of I/O ports, not memory");
        assert!(text(5, 0).starts_with("0000:03:00.0 has no BAR 5 (BAR 0: 512 KiB of memory, "));
        assert!(text(200, 0).starts_with("0000:03:00.0 has no BAR 200 "));
        assert_eq!(text(0, 6), "offset 0x6 is not a multiple of 4, the size of a read");
        let beyond = "offset 0x4000 is beyond BAR 4 of 0000:03:00.0, which has 0x4000 bytes";
        assert_eq!(text(4, 0x4000), beyond);
        assert!(text(4, u64::MAX - 3).contains("is beyond BAR 4"));
        assert!(select(&adapter, Some(4), Some(0x3ffc)).is_ok());
    }

    #[test]
    fn functions_that_do_not_answer_are_refused() {
        let mut tree = function("0x010802", NVME_BARS);
        tree.file(&format!("{AT}/config"), [0x36, 0x1b, 0x10, 0, 0x04, 0x04]);
        assert_eq!(select(&tree, None, None), Err(RegisterError::NotDecoding { pci: pci() }));
        let mut tree = function("0x010802", NVME_BARS);
        tree.file(&format!("{AT}/power_state"), "D3hot\n");
        let error = select(&tree, None, None).expect_err("asleep");
        assert_eq!(error.to_string(), "0000:03:00.0 is not powered: its state is D3hot, active");
        let mut tree = function("0x010802", NVME_BARS);
        tree.file(&format!("{AT}/power/runtime_status"), "suspended\n");
        assert!(matches!(select(&tree, None, None), Err(RegisterError::NotPowered { .. })));
        // Older kernels have neither file, and a copied tree may lack the configuration space.
        for name in ["power_state", "power/runtime_status", "config"] {
            tree.remove(&format!("{AT}/{name}"));
        }
        assert!(select(&tree, None, None).is_ok());
    }

    #[test]
    fn missing_functions_and_unreadable_files_are_reported() {
        let error = select(&Tree::new(), None, None).expect_err("nothing");
        assert_eq!(error.to_string(), "there is no PCI function 0000:03:00.0");
        let mut tree = function("0x010802", NVME_BARS);
        tree.remove(&format!("{AT}/resource"));
        let error = select(&tree, None, None).expect_err("no resource");
        assert_eq!(error.to_string(), format!("cannot read {AT}/resource: no such file or directory"));
    }
}
