//! PCI addresses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A PCI address, `0000:3b:00.0`; the domain can have 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 5 bits.
    pub device: u8,
    /// Function, 3 bits.
    pub function: u8,
}

impl PciAddress {
    /// Returns the address that a user's text is: as displayed, or without the domain 0000.
    pub(super) fn named(text: &str) -> Option<Self> {
        let is_of = |address: &Self| address.to_string().eq_ignore_ascii_case(text);
        let complete = text.parse().ok().filter(is_of);
        let is_short = |address: &Self| address.to_string().strip_prefix("0000:") == Some(text);
        complete.or_else(|| format!("0000:{text}").parse().ok().filter(is_short))
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl FromStr for PciAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let byte = |text: &str| hex(text).and_then(|number| u8::try_from(number).ok());
            let device = byte(device).filter(|device| *device < 32)?;
            let function = byte(function).filter(|function| *function < 8)?;
            Some(Self { domain: hex(domain)?, bus: byte(bus)?, device, function })
        };
        parse().ok_or_else(|| format!("invalid PCI address {text:?}: expected a form such as 0000:3b:00.0"))
    }
}

impl Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Parses an address exactly as in sysfs, to exclude similar SCSI addresses and port services.
pub(super) fn address(text: &str) -> Option<PciAddress> {
    let looks_right =
        text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
    if looks_right {
        text.parse().ok()
    } else {
        None
    }
}

/// Parses hexadecimal digits only: `from_str_radix` also accepts a sign.
pub(super) fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_signs_in_pci_addresses() {
        let address = PciAddress { domain: 0x10000, bus: 0x3b, device: 0x1f, function: 7 };
        assert_eq!("10000:3b:1f.7".parse(), Ok(address));
        for text in
            ["+000:3b:00.0", "0000:+b:00.0", "0000:3b:+0.0", "0000:3b:00.+0", "0000:3b:20.0", "0000:3b:00.8"]
        {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_an_address_as_displayed_or_without_domain() {
        let name = |text: &str| PciAddress::named(text).map(|address| address.to_string());
        for (text, address) in [
            ("0000:3b:00.0", "0000:3b:00.0"),
            ("10000:3B:00.0", "10000:3b:00.0"),
            ("3b:00.1", "0000:3b:00.1"),
        ] {
            assert_eq!(name(text).as_deref(), Some(address), "{text}");
        }
        for text in ["", "3B:00.0", "0:3b:00.0", "000000:3b:00.0", "0000:3b:0.0", "cuda:0", "eth0", "é:00.0"]
        {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn rejects_text_that_resembles_pci_addresses() {
        assert_eq!(address("10000:e1:00.7").map(|address| address.domain), Some(0x10000));
        for text in
            ["0:0:0:0", "0000:00:01.0:pcie01", "pci0000:00", "0000:00:20.0", "+000:00:01.0", "1-1:1.0"]
        {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
