//! Parser for /proc/cpuinfo, whose format depends on the architecture.
//!
//! The kernel sources define the formats (`arch/x86/kernel/cpu/proc.c`,
//! `arch/arm64/kernel/cpuinfo.c` and other files in `arch/*/kernel`); no document describes them.

use crate::ids::{CpuId, PackageId, MAX_ID};
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;

/// Contents of /proc/cpuinfo.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CpuInfo {
    /// Online processors in the order of the file.
    pub processors: Vec<Processor>,
    /// Model name; empty if absent.
    pub model: String,
    /// Features of the first processor, sorted, without duplicates.
    pub features: Vec<String>,
    /// Architecture implied by the format; empty if unknown.
    pub architecture: &'static str,
    /// Microcode revision of the first processor, on x86; empty if absent.
    pub microcode: String,
    /// Whether there are processors, all of the same kind as far as the file distinguishes kinds.
    pub alike: bool,
}

/// Keys that distinguish processor kinds on x86, Arm, POWER and RISC-V.
const OF_KIND: [&str; 8] =
    ["cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant", "cpu", "uarch"];

/// A processor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Processor {
    /// Its id.
    pub id: CpuId,
    /// Its package, if reported.
    pub package: Option<PackageId>,
    /// Its core, if reported.
    pub core: Option<u32>,
    /// Its current frequency in MHz, if reported.
    pub mhz: Option<f64>,
}

/// Fields that identify the model; the first occurrence of each key counts.
#[derive(Default)]
struct Model<'a> {
    name: Option<&'a str>,
    vendor: Option<&'a str>,
    features: Option<&'a str>,
    implementer: Option<&'a str>,
    part: Option<&'a str>,
    arm_version: Option<&'a str>,
    itanium: bool,
    riscv: Option<&'a str>,
    microcode: Option<&'a str>,
}

/// Reads /proc/cpuinfo; empty if it is absent.
pub(crate) fn read(root: &dyn Sysfs) -> CpuInfo {
    parse(&root.optional("/proc/cpuinfo").unwrap_or_default())
}

/// Parses /proc/cpuinfo of any architecture, skipping unknown lines.
pub(crate) fn parse(text: &str) -> CpuInfo {
    let mut processors: Vec<Processor> = Vec::new();
    let mut model = Model::default();
    let mut of_kind = BTreeMap::new();
    let (mut alike, mut is_possible) = (true, true);
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        // s390 writes `processor 0: version = 00, ...`.
        let s390 = key.strip_prefix("processor ").and_then(|id| id.parse().ok());
        match s390.or_else(|| value.parse().ok().filter(|_| key == "processor")) {
            Some(id) => {
                is_possible = id <= MAX_ID;
                let processor = Processor { id: CpuId(id), package: None, core: None, mhz: None };
                processors.extend(is_possible.then_some(processor));
            }
            None if is_possible => processors.last_mut().into_iter().for_each(|last| last.note(key, value)),
            // An id that no kernel assigns.
            None => {}
        }
        model.note(key, value);
        if OF_KIND.contains(&key) {
            alike &= *of_kind.entry(key).or_insert(value) == value;
        }
    }
    CpuInfo {
        alike: alike && !processors.is_empty(),
        processors,
        model: model.name(),
        features: model.features(),
        architecture: model.architecture(),
        microcode: model.microcode.unwrap_or_default().to_owned(),
    }
}

impl Processor {
    fn note(&mut self, key: &str, value: &str) {
        match key {
            "physical id" => self.package = value.parse().ok().map(PackageId),
            "core id" => self.core = value.parse().ok(),
            "cpu MHz" | "clock" => self.mhz = value.trim_end_matches("MHz").parse().ok(),
            _ => {}
        }
    }
}

impl<'a> Model<'a> {
    fn note(&mut self, key: &str, value: &'a str) {
        let slot = match key {
            "model name" | "cpu" | "Processor" => &mut self.name,
            "vendor_id" => &mut self.vendor,
            "flags" | "Features" | "features" => &mut self.features,
            "CPU implementer" => &mut self.implementer,
            "CPU part" => &mut self.part,
            "CPU architecture" => &mut self.arm_version,
            "isa" => &mut self.riscv,
            "microcode" => &mut self.microcode,
            "arch" => return self.itanium |= value == "IA-64",
            _ => return,
        };
        slot.get_or_insert(value);
    }

    fn features(&self) -> Vec<String> {
        let mut features: Vec<String> =
            self.features.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        features.sort();
        features.dedup();
        features
    }

    /// Returns the model name, or a name derived from arm64's part numbers.
    fn name(&self) -> String {
        let part = self.implementer.zip(self.part);
        let by_part = part.and_then(|(implementer, part)| arm_name(implementer, part));
        match (self.name, by_part, part) {
            // The kernel names only the architecture of these: `ARMv7 Processor rev 4 (v7l)`.
            (Some(name), Some(by_part), _) if name.starts_with("ARMv") => by_part.to_owned(),
            (Some(name), ..) => name.split_whitespace().collect::<Vec<_>>().join(" "),
            (None, Some(name), _) => name.to_owned(),
            (None, None, Some((implementer, part))) => format!("Arm implementer {implementer} part {part}"),
            _ if self.itanium => "Itanium".to_owned(),
            _ => self.vendor.unwrap_or_default().to_owned(),
        }
    }

    fn has(&self, feature: &str) -> bool {
        self.features.is_some_and(|features| features.split_whitespace().any(|one| one == feature))
    }

    fn architecture(&self) -> &'static str {
        if self.itanium {
            "ia64"
        } else if self.vendor == Some("IBM/S390") {
            "s390x"
        } else if self.implementer.is_some() {
            if self.has("asimd") || matches!(self.arm_version, Some("8" | "AArch64")) {
                "aarch64"
            } else {
                "arm"
            }
        } else if self.vendor.is_some() && self.features.is_some() {
            // `lm`: long mode, that is, 64 bits.
            if self.has("lm") {
                "x86_64"
            } else {
                "i686"
            }
        } else if self.riscv.is_some_and(|isa| isa.starts_with("rv64")) {
            "riscv64"
        } else {
            ""
        }
    }
}

/// Names of Arm cores by implementer and part number of MIDR_EL1
/// (`arch/arm64/include/asm/cputype.h`).
const ARM_CORES: [(&str, &str, &str); 49] = [
    ("0x41", "0xc07", "Arm Cortex-A7"),
    ("0x41", "0xc08", "Arm Cortex-A8"),
    ("0x41", "0xc09", "Arm Cortex-A9"),
    ("0x41", "0xc0d", "Arm Cortex-A17"),
    ("0x41", "0xc0e", "Arm Cortex-A17"),
    ("0x41", "0xc0f", "Arm Cortex-A15"),
    ("0x41", "0xd03", "Arm Cortex-A53"),
    ("0x41", "0xd04", "Arm Cortex-A35"),
    ("0x41", "0xd05", "Arm Cortex-A55"),
    ("0x41", "0xd07", "Arm Cortex-A57"),
    ("0x41", "0xd08", "Arm Cortex-A72"),
    ("0x41", "0xd09", "Arm Cortex-A73"),
    ("0x41", "0xd0a", "Arm Cortex-A75"),
    ("0x41", "0xd0b", "Arm Cortex-A76"),
    ("0x41", "0xd0c", "Arm Neoverse N1"),
    ("0x41", "0xd0d", "Arm Cortex-A77"),
    ("0x41", "0xd0e", "Arm Cortex-A76AE"),
    ("0x41", "0xd40", "Arm Neoverse V1"),
    ("0x41", "0xd41", "Arm Cortex-A78"),
    ("0x41", "0xd42", "Arm Cortex-A78AE"),
    ("0x41", "0xd44", "Arm Cortex-X1"),
    ("0x41", "0xd47", "Arm Cortex-A710"),
    ("0x41", "0xd48", "Arm Cortex-X2"),
    ("0x41", "0xd49", "Arm Neoverse N2"),
    ("0x41", "0xd4a", "Arm Neoverse E1"),
    ("0x41", "0xd4b", "Arm Cortex-A78C"),
    ("0x41", "0xd4e", "Arm Cortex-X3"),
    ("0x41", "0xd4f", "Arm Neoverse V2"),
    ("0x41", "0xd81", "Arm Cortex-A720"),
    ("0x41", "0xd82", "Arm Cortex-X4"),
    ("0x41", "0xd84", "Arm Neoverse V3"),
    ("0x41", "0xd85", "Arm Cortex-X925"),
    ("0x41", "0xd8e", "Arm Neoverse N3"),
    ("0x42", "0x516", "Broadcom Vulcan"),
    ("0x43", "0x0a1", "Cavium ThunderX"),
    ("0x43", "0x0af", "Cavium ThunderX2"),
    ("0x46", "0x001", "Fujitsu A64FX"),
    ("0x48", "0xd01", "HiSilicon TSV110"),
    ("0x4e", "0x003", "NVIDIA Denver 2"),
    ("0x4e", "0x004", "NVIDIA Carmel"),
    ("0x4e", "0x010", "NVIDIA Olympus"),
    ("0x50", "0x000", "Applied Micro X-Gene"),
    ("0x51", "0xc00", "Qualcomm Falkor"),
    ("0x51", "0xc01", "Qualcomm Saphira"),
    ("0x6d", "0xd49", "Microsoft Azure Cobalt 100"),
    ("0x70", "0x662", "Phytium FTC662"),
    ("0x70", "0x663", "Phytium FTC663"),
    ("0xc0", "0xac3", "Ampere-1"),
    ("0xc0", "0xac4", "Ampere-1A"),
];

fn arm_name(implementer: &str, part: &str) -> Option<&'static str> {
    let core = ARM_CORES.iter().find(|core| (core.0, core.1) == (implementer, part));
    core.map(|(.., name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_x86_64_machine() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some  CPU @ 2.00GHz\nphysical id\t: 1\n\
            core id\t: 3\ncpu MHz\t\t: 1995.192\nflags\t\t: fpu lm avx2 avx2\n\nprocessor\t: 1\ncpu MHz\t: 900.5\n";
        let info = parse(text);
        assert_eq!((info.architecture, info.model.as_str()), ("x86_64", "Some CPU @ 2.00GHz"));
        assert_eq!(info.features, ["avx2", "fpu", "lm"]);
        let first =
            Processor { id: CpuId(0), package: Some(PackageId(1)), core: Some(3), mhz: Some(1995.192) };
        assert_eq!(info.processors[0], first);
        assert_eq!((info.processors[1].id, info.processors[1].mhz), (CpuId(1), Some(900.5)));
    }

    #[test]
    fn skips_processors_with_impossible_ids() {
        let info =
            parse("processor\t: 0\ncore id\t: 3\nprocessor\t: 4294967295\ncore id\t: 5\nprocessor\t: 1\n");
        let ids: Vec<_> = info.processors.iter().map(|it| (it.id.0, it.core)).collect();
        assert_eq!(ids, [(0, Some(3)), (1, None)]);
    }

    #[test]
    fn parses_formats_of_other_architectures() {
        let arm = parse("processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x48\nCPU part\t: 0xd01\n");
        assert_eq!((arm.architecture, arm.model.as_str()), ("aarch64", "HiSilicon TSV110"));
        let old =
            "Processor\t: ARMv7 Processor rev 4 (v7l)\nprocessor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: ";
        assert_eq!(parse(&format!("{old}0xc0f\n")).model, "Arm Cortex-A15");
        assert_eq!(parse(&format!("{old}0xfff\n")).model, "ARMv7 Processor rev 4 (v7l)");
        let s390 = parse(
            "vendor_id       : IBM/S390\nfeatures\t: esan3\nprocessor 7: version = 00,  machine = 2817\n",
        );
        assert_eq!((s390.architecture, s390.processors[0].id), ("s390x", CpuId(7)));
        let power = parse("processor\t: 5\ncpu\t\t: POWER9\nclock\t\t: 3864.000000MHz\n");
        assert_eq!((power.model.as_str(), power.processors[0].mhz), ("POWER9", Some(3864.0)));
        assert!(s390.alike && power.alike);
        assert!(!parse("processor: 0\nCPU part: 0xd05\nprocessor: 1\nCPU part: 0xd0b\n").alike);
        assert!(!parse("").alike);
        assert_eq!(parse("no colon\n:\nprocessor: x\n").processors, []);
    }
}
