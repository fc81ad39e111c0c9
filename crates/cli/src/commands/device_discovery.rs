//! The devices of a machine that carry transfers, for `numaio devices` and `numaio serve --check`.

use super::tape_documents;
use crate::documents;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::store::Kind;
use numaio_linux::io::tcp::interface_by_address;
use numaio_machine::discover::discover;
use numaio_machine::inventory::Inventory;
use numaio_machine::locate::LocateExt;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::topology::Topology;
use numaio_model::{describe_devices, DescribedDevices, DeviceEvidence, NamedDocument};
use numaio_schema::{DeviceDescription, DevicePurpose, Document, IoRecord, Model, StreamRecord};
use numaio_transfer::daemon::config::ConfigError;
use numaio_transfer::daemon::{Config, DaemonError};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::path::Path;

/// Maximum saved documents that are read per kind, newest first.
const MAX_SAVED: usize = 100;

/// A machine and its described devices.
pub struct DiscoveredDevices {
    /// The machine.
    pub topology: Topology,
    /// Its disks, file systems and interfaces.
    pub inventory: Inventory,
    /// The descriptions.
    pub described: DescribedDevices,
}

impl DiscoveredDevices {
    /// Describes the devices of a machine by its saved documents, or those of a tape, and by a
    /// configuration.
    pub fn read(common: &Common, machine: &Machine, config: Option<(&Path, &Config)>) -> Self {
        let topology = discover(machine);
        let known = StoredMeasurements::read(common, machine, &topology);
        Self::describe(machine, topology, &known, config)
    }

    fn describe(
        machine: &Machine,
        topology: Topology,
        known: &StoredMeasurements,
        config: Option<(&Path, &Config)>,
    ) -> Self {
        let context = ResolveContext { root: machine, locate: machine, topology: &topology };
        let inventory = Inventory::read(context);
        let evidence = DeviceEvidence {
            topology: &topology,
            inventory: &inventory,
            records: &known.records,
            models: &known.models,
            streams: &known.streams,
        };
        let file = config.map(|(path, _)| path.display().to_string()).unwrap_or_default();
        let overrides = config.map(|(_, config)| config.devices.as_slice()).unwrap_or_default();
        let described = describe_devices(&evidence, &file, overrides);
        Self { topology, inventory, described }
    }

    /// Checks that the configured devices exist on this machine.
    ///
    /// # Errors
    /// All tables that do not fit the machine.
    pub fn check(&self, path: &Path) -> Result<(), DaemonError> {
        let errors = &self.described.errors;
        if errors.is_empty() {
            return Ok(());
        }
        let mut errors: Vec<ConfigError> =
            errors.iter().map(|error| ConfigError::new(error.line, &error.text)).collect();
        errors.sort();
        Err(DaemonError::InvalidConfig { path: path.to_owned(), errors })
    }

    /// Returns the names of the devices of a path, or why there are none.
    pub fn devices_of_path(&self, machine: &Machine, path: &str) -> Result<Vec<String>, String> {
        let facts = machine.path(path).map_err(|error| error.to_string())?;
        let found = self.inventory.file_system_of(&facts);
        let found = found.ok_or_else(|| "its file system is not among the known mounts".to_owned())?;
        let is_on = |mounts: &[String]| found.mounts.iter().any(|mount| mounts.contains(mount));
        let devices = self.described.devices.iter().filter(|device| is_on(&device.mounts));
        let names: Vec<String> = devices.map(|device| device.name.clone()).collect();
        if names.is_empty() {
            return Err(format!("the kernel does not report one for {} on {}", found.kind, found.source));
        }
        Ok(names)
    }

    /// Returns the devices that send and receive.
    fn network_devices(&self) -> impl Iterator<Item = &DeviceDescription> {
        self.described.devices.iter().filter(|device| device.purpose.value == DevicePurpose::Network)
    }

    /// Returns the names of the devices of an address to listen on, or why there are none.
    pub fn devices_of_address(&self, machine: &Machine, address: IpAddr) -> Result<Vec<String>, String> {
        let names: Vec<String> = self.network_devices().map(|device| device.name.clone()).collect();
        if address.is_unspecified() {
            return if names.is_empty() { Err("no NIC has a link".to_owned()) } else { Ok(names) };
        }
        if address.is_loopback() {
            return Err("it is a loopback address".to_owned());
        }
        let interface = interface_by_address(address);
        let interface = interface.ok_or_else(|| "no interface of this machine has the address".to_owned())?;
        self.devices_of_interface(machine, &interface)
    }

    /// Returns the names of the devices that carry the data of an interface, or why there are none.
    pub fn devices_of_interface(&self, machine: &Machine, interface: &str) -> Result<Vec<String>, String> {
        if self.described.devices.iter().any(|device| device.has_name(interface)) {
            return Ok(vec![interface.to_owned()]);
        }
        // A VLAN or a bridge leads to the devices below it.
        let context = ResolveContext { root: machine, locate: machine, topology: &self.topology };
        let below = resolve(context, &Handle::Name(interface.to_owned())).devices;
        let is_described = |name: &String| self.network_devices().any(|device| device.name == *name);
        let below: Vec<String> = below.into_iter().map(|device| device.name).filter(is_described).collect();
        if below.is_empty() {
            return Err(format!("the interface {interface} has none"));
        }
        Ok(below)
    }
}

/// Measurements of a machine, each kind newest first.
#[derive(Debug, Default)]
struct StoredMeasurements {
    records: Vec<NamedDocument<IoRecord>>,
    models: Vec<NamedDocument<Model>>,
    streams: Vec<NamedDocument<StreamRecord>>,
}

impl StoredMeasurements {
    /// Reads the documents of a tape, or the saved documents of a machine.
    ///
    /// An unreadable document is reported and skipped: the other values are still valid.
    fn read(common: &Common, machine: &Machine, topology: &Topology) -> Self {
        let mut known = Self::default();
        if let Machine::Recorded(replay) = machine {
            let quiet = Common { quiet: true, ..common.clone() };
            let name = format!("tape {}", replay.tape().header.name);
            match tape_documents::measure(&quiet, machine, topology) {
                Ok(all) => all.into_iter().for_each(|document| known.add(name.clone(), document)),
                Err(failure) => output::remark(common, &format!("{name}: {}", failure.message)),
            }
        } else {
            for kind in [Kind::Model, Kind::Stream, Kind::Io] {
                let saved = documents::saved(common, kind, &topology.identity);
                for path in saved.take(MAX_SAVED).collect::<Vec<_>>() {
                    match documents::read(&path) {
                        Ok(document) => known.add(path.display().to_string(), document),
                        Err(failure) => output::remark(common, &failure.message),
                    }
                }
            }
        }
        known.records.sort_by_key(|it| Reverse(it.document.provenance.measured_at));
        known.models.sort_by_key(|it| Reverse(it.document.record.provenance.measured_at));
        known.streams.sort_by_key(|it| Reverse(it.document.provenance.measured_at));
        known
    }

    fn add(&mut self, name: String, document: Document) {
        match document {
            Document::Io(document) => self.records.push(NamedDocument { name, document: *document }),
            Document::Model(document) => self.models.push(NamedDocument { name, document: *document }),
            Document::Stream(document) => self.streams.push(NamedDocument { name, document: *document }),
            _ => {}
        }
    }
}
