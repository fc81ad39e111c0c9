//! Families of cores whose raw events numaio knows.

/// A family of cores with common event codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreFamily {
    /// Intel Sandy Bridge EP.
    SandyBridgeEp,
    /// Intel Ivy Bridge EP and EX.
    IvyBridgeEp,
    /// Intel Haswell and Broadwell servers.
    HaswellEp,
    /// Intel Skylake, Cascade Lake and Cooper Lake servers.
    SkylakeSp,
    /// Intel Ice Lake servers.
    IceLakeSp,
    /// Intel Sapphire Rapids, Emerald Rapids and Granite Rapids.
    SapphireRapids,
    /// AMD Zen 1.
    Zen1,
    /// AMD Zen 2.
    Zen2,
    /// AMD Zen 3.
    Zen3,
    /// AMD Zen 4 and 5.
    Zen4,
    /// Arm Neoverse N1, N2, N3, V1, V2 and V3.
    Neoverse,
    /// Any other core.
    Other,
}

impl CoreFamily {
    /// Finds the family of the first processor in the text of /proc/cpuinfo.
    ///
    /// Intel models are those of perfmon's `mapfile.csv`, AMD families and models those of the
    /// PPRs, and Arm parts those of the `MIDR_EL1` register.
    pub fn parse(cpuinfo: &str) -> Self {
        let value = |wanted: &str| {
            let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(key, _)| key.trim() == wanted).map_or("", |(_, value)| value.trim())
        };
        let number = |key: &str| value(key).parse::<u32>().unwrap_or(0);
        match (value("vendor_id"), number("cpu family")) {
            ("GenuineIntel", 6) => intel(number("model")),
            ("AuthenticAMD" | "HygonGenuine", family) => amd(family, number("model")),
            _ if value("CPU implementer") == "0x41" => arm(value("CPU part")),
            _ => Self::Other,
        }
    }
}

fn intel(model: u32) -> CoreFamily {
    match model {
        0x2d => CoreFamily::SandyBridgeEp,
        0x3e => CoreFamily::IvyBridgeEp,
        0x3f | 0x4f | 0x56 => CoreFamily::HaswellEp,
        0x55 => CoreFamily::SkylakeSp,
        0x6a | 0x6c => CoreFamily::IceLakeSp,
        0x8f | 0xcf | 0xad | 0xae => CoreFamily::SapphireRapids,
        _ => CoreFamily::Other,
    }
}

fn amd(family: u32, model: u32) -> CoreFamily {
    match (family, model) {
        (0x17, 0..=0x2f) | (0x18, _) => CoreFamily::Zen1,
        (0x17, _) => CoreFamily::Zen2,
        (0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) | (0x1a, 0..=0x4f | 0x60..=0x7f) => CoreFamily::Zen4,
        (0x19, _) => CoreFamily::Zen3,
        _ => CoreFamily::Other,
    }
}

fn arm(part: &str) -> CoreFamily {
    match part {
        "0xd0c" | "0xd49" | "0xd8e" | "0xd40" | "0xd4f" | "0xd84" => CoreFamily::Neoverse,
        _ => CoreFamily::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_servers() {
        let x86 = |vendor: &str, family, model| {
            let text = format!(
                "vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: X\n"
            );
            CoreFamily::parse(&text)
        };
        assert_eq!(x86("GenuineIntel", 6, 0x2d), CoreFamily::SandyBridgeEp);
        assert_eq!(x86("GenuineIntel", 6, 0x8f), CoreFamily::SapphireRapids);
        assert_eq!(x86("GenuineIntel", 6, 0x2a), CoreFamily::Other, "a desktop without remote memory");
        assert_eq!(x86("AuthenticAMD", 25, 17), CoreFamily::Zen4);
        assert_eq!(x86("AuthenticAMD", 25, 1), CoreFamily::Zen3);
        assert_eq!(x86("AuthenticAMD", 23, 0x31), CoreFamily::Zen2);
        assert_eq!(x86("AuthenticAMD", 16, 9), CoreFamily::Other);
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(CoreFamily::parse(arm), CoreFamily::Neoverse);
        assert_eq!(CoreFamily::parse(""), CoreFamily::Other);
    }
}
