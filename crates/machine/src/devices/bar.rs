//! Base address registers of a PCI function: the regions of memory or I/O ports that it decodes
//! (`resource` in `Documentation/PCI/sysfs-pci.rst`; flags of `include/linux/ioport.h`).

use super::pci::FUNCTIONS;
use super::pci_address::{hex, PciAddress};
use crate::units::format_size;
use std::fmt;

/// Number of base address registers of a function; the next line of `resource` is its ROM.
const BARS: usize = 6;

/// `IORESOURCE_IO`: I/O ports.
const IO: u64 = 0x100;
/// `IORESOURCE_MEM`: memory.
const MEMORY: u64 = 0x200;
/// `IORESOURCE_PREFETCH`: reads have no side effects.
const PREFETCH: u64 = 0x2000;
/// `IORESOURCE_DISABLED` and `IORESOURCE_UNSET`: the region has no address.
const NO_ADDRESS: u64 = 0x1000_0000 | 0x2000_0000;

/// A base address register that has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Number, from 0 to 5. A 64-bit register takes two numbers, and has the first.
    pub number: u8,
    /// Size of its region in bytes.
    pub bytes: u64,
    /// Kind of its region.
    pub region: BarRegion,
}

/// Kind of the region of a base address register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarRegion {
    /// Memory whose reads have no side effects.
    Prefetchable,
    /// Other memory.
    Memory,
    /// I/O ports.
    IoPorts,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = match self.region {
            BarRegion::Prefetchable => "prefetchable memory",
            BarRegion::Memory => "memory",
            BarRegion::IoPorts => "I/O ports",
        };
        write!(f, "BAR {}: {} of {region}", self.number, format_size(self.bytes))
    }
}

/// Parses `resource`: a line for each register with start, end and flags, zeros without one.
///
/// Lines of another form count as registers without an address.
pub(super) fn parse_bars(text: &str) -> Vec<Bar> {
    let lines = (0..).zip(text.lines().take(BARS));
    lines.filter_map(|(number, line)| parse_bar(number, line)).collect()
}

fn parse_bar(number: u8, line: &str) -> Option<Bar> {
    let mut fields = line.split_whitespace().map(number_of);
    let (Some(start), Some(end), Some(flags), None) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next())
    else {
        return None;
    };
    let region = match flags {
        flags if flags & NO_ADDRESS != 0 => return None,
        flags if flags & MEMORY != 0 && flags & PREFETCH != 0 => BarRegion::Prefetchable,
        flags if flags & MEMORY != 0 => BarRegion::Memory,
        flags if flags & IO != 0 => BarRegion::IoPorts,
        _ => return None,
    };
    let bytes = end.checked_sub(start)?.checked_add(1)?;
    Some(Bar { number, bytes, region })
}

/// Parses `0x` and hexadecimal digits of up to 64 bits.
fn number_of(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let (high, low) = digits.split_at_checked(digits.len().saturating_sub(8))?;
    let high = if high.is_empty() { 0 } else { u64::from(hex(high)?) };
    Some(high << 32 | u64::from(hex(low)?))
}

/// Returns the path of the file that maps a base address register, without write combining.
pub fn bar_file(pci: PciAddress, number: u8) -> String {
    format!("{FUNCTIONS}/{pci}/resource{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An e1000e adapter: memory, memory, I/O ports, and memory.
    const ADAPTER: &str = "\
0x00000000fe840000 0x00000000fe85ffff 0x0000000000040200
0x00000000fe860000 0x00000000fe87ffff 0x0000000000040200
0x000000000000c040 0x000000000000c05f 0x0000000000040101
0x00000000fe880000 0x00000000fe883fff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000fe800000 0x00000000fe83ffff 0x0000000000046200
";

    #[test]
    fn bars_have_numbers_sizes_and_regions_but_not_the_rom() {
        let bars: Vec<String> = parse_bars(ADAPTER).iter().map(Bar::to_string).collect();
        let expected = [
            "BAR 0: 128 KiB of memory",
            "BAR 1: 128 KiB of memory",
            "BAR 2: 32 B of I/O ports",
            "BAR 3: 16 KiB of memory",
        ];
        assert_eq!(bars, expected);
        let wide = "0x0000380000000000 0x0000380001ffffff 0x000000000014220c\n0x0 0x0 0x0\n";
        let bar = Bar { number: 0, bytes: 32 << 20, region: BarRegion::Prefetchable };
        assert_eq!(parse_bars(wide), [bar]);
    }

    #[test]
    fn malformed_lines_are_registers_without_an_address() {
        let hostile = [
            "",
            "\n\n\n",
            "0x1 0x0 0x200",
            "0x0 0xffffffffffffffff 0x200",
            "0x0 0x10000000000000000 0x200",
            "0x0 0xfff",
            "0x0 0xfff 0x200 0x0",
            "0x0 0x+ff 0x200",
            "0x 0xfff 0x200",
            "0 4095 512",
            "0x0 0xfff 0x0",
            "0x0 0xfff 0x20000200",
            "0x0 0xfff 0x10000200",
            "0x\u{e9}\u{e9}\u{e9}\u{e9}\u{e9} 0xfff 0x200",
        ];
        for text in hostile {
            assert!(parse_bars(text).is_empty(), "{text:?}");
        }
        let second = format!("{}\n0x1000 0x1fff 0x200\n", hostile[4]);
        assert_eq!(parse_bars(&second).first().map(|bar| bar.number), Some(1));
        let many = "0x1000 0x1fff 0x200\n".repeat(300);
        assert_eq!(parse_bars(&many).len(), BARS);
    }
}
