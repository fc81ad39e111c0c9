//! Files with the guests of a plan, in TOML.

use crate::failure::{toml_fault, Failure};
use crate::input;
use numaio_machine::near::Handle;
use numaio_machine::units::parse_size;
use serde::Deserialize;
use std::path::Path;

/// The guests of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestFile {
    /// The guests.
    #[serde(default)]
    pub guest: Vec<GuestEntry>,
}

/// A guest of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GuestEntry {
    /// Its name.
    pub name: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory.
    #[serde(deserialize_with = "size")]
    pub memory: u64,
    /// I/O threads.
    #[serde(default)]
    pub io_threads: u32,
    /// Size of huge pages.
    #[serde(default, deserialize_with = "optional_size")]
    pub huge_pages: Option<u64>,
    /// Devices that it uses.
    #[serde(default)]
    pub device: Vec<DeviceEntry>,
}

/// A device of a guest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceEntry {
    /// A handle of the device.
    #[serde(deserialize_with = "handle")]
    pub near: Handle,
    /// Wanted bytes per second.
    #[serde(default, deserialize_with = "optional_size")]
    pub bandwidth: Option<u64>,
}

fn size<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_size(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn optional_size<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

fn handle<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Handle, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Reads the guests of a file.
pub fn read(path: &Path) -> Result<GuestFile, Failure> {
    let text = input::read_text(path)?;
    parse(&text).map_err(|fault| Failure::file(path, fault).hint("docs/guide/vm.md shows a file of guests"))
}

/// Parses a file of guests.
///
/// # Errors
/// A message with the line.
pub fn parse(text: &str) -> Result<GuestFile, String> {
    toml::from_str(text).map_err(|error| toml_fault(text, &error))
}
