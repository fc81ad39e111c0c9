//! Inputs of `numaio validate` and `numaio predict`: models and measured I/O of one device.

mod mixes;

pub use mixes::{measure_mixes, MixRequest};

use crate::commands::tape_documents;
use crate::documents;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::format_nodes;
use numaio_machine::topology::{Identity, Topology};
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Document, IoDevice, IoEngine, IoRecord, Model, StreamRecord, Warning};
use std::path::PathBuf;

/// Maximum saved documents that are read per kind, newest first.
const MAX_SAVED: usize = 100;

/// Documents of one machine, newest first.
#[derive(Debug, Default)]
pub struct KnownDocuments {
    /// Topology of the machine, discovered or from a document; `None` if it is unknown.
    pub topology: Option<Topology>,
    /// Identity of the machine.
    pub machine: Identity,
    /// Copy models.
    pub models: Vec<Model>,
    /// STREAM measurements.
    pub streams: Vec<StreamRecord>,
    /// I/O measurements without load.
    pub records: Vec<IoRecord>,
    /// I/O measurements under load, which describe another state of the machine.
    pub loaded: Vec<IoRecord>,
}

impl KnownDocuments {
    /// Reads documents from the files `from`; if there are none, from the tape or the saved
    /// documents of the machine.
    ///
    /// # Errors
    /// If a document cannot be read, or the documents are from several machines.
    pub fn read(common: &Common, machine: &Machine, from: &[PathBuf]) -> Result<Self, Failure> {
        let discovered = discover(machine);
        let documents = match (from.is_empty(), machine) {
            (true, Machine::Recorded(_)) => {
                let quiet = Common { quiet: true, ..common.clone() };
                tape_documents::measure(&quiet, machine, &discovered)?
            }
            (true, _) => {
                let saved = |kind| documents::saved(common, kind, &discovered.identity).take(MAX_SAVED);
                let idle = [Kind::Model, Kind::Stream, Kind::Io].into_iter().flat_map(saved);
                let loaded = documents::saved_under_load(Kind::Io, &discovered.identity).take(MAX_SAVED);
                read(&idle.chain(loaded).collect::<Vec<_>>())?
            }
            (false, _) => read(from)?,
        };
        let fingerprint = documents.first().map(|document| document.origin().fingerprint.to_owned());
        let mut known = Self::default();
        documents.into_iter().for_each(|document| known.add(document));
        known.models.sort_by_key(|model| std::cmp::Reverse(model.record.provenance.measured_at));
        known.streams.sort_by_key(|record| std::cmp::Reverse(record.provenance.measured_at));
        for records in [&mut known.records, &mut known.loaded] {
            records.sort_by_key(|record| std::cmp::Reverse(record.provenance.measured_at));
        }
        let is_selected = common.machine.is_some() || common.sysroot.is_some();
        let is_same = fingerprint.is_none_or(|it| it == discovered.identity.fingerprint);
        if is_same || (is_selected && known.topology.is_none()) {
            known.topology = Some(discovered);
        }
        known.machine = known.identity();
        Ok(known)
    }

    fn add(&mut self, document: Document) {
        let is_loaded = document.origin().provenance.is_some_and(|provenance| !provenance.load.is_empty());
        match document {
            Document::Io(record) if is_loaded => self.loaded.push(*record),
            _ if is_loaded => {}
            Document::Topology(document) => self.topology = Some(document.topology),
            Document::Model(model) => self.models.push(*model),
            Document::Stream(record) => self.streams.push(*record),
            // The null engine does not use a device.
            Document::Io(record) if record.method.engine != IoEngine::Null => self.records.push(*record),
            _ => {}
        }
    }

    fn identity(&self) -> Identity {
        let from_topology = self.topology.as_ref().map(|topology| &topology.identity);
        let from_record = self.records.first().map(|record| &record.provenance.machine);
        let from_model = self.models.first().map(|model| &model.record.provenance.machine);
        from_topology.or(from_record).or(from_model).cloned().unwrap_or_default()
    }

    /// Returns the device with this name or PCI address, from a measurement or else the topology.
    ///
    /// # Errors
    /// If neither contains the device.
    pub fn device(&self, name: &str) -> Result<IoDevice, Failure> {
        let discovered = self.find_device(name);
        let matches = |device: &IoDevice| {
            device.name == name
                || device.pci.as_deref().is_some_and(|pci| pci.eq_ignore_ascii_case(name))
                || discovered.is_some_and(|it| it.name() == device.name)
        };
        let measured = self.records.iter().map(|record| &record.device).find(|device| matches(device));
        let from_topology = || discovered.map(|device| numaio_measure::io::device(device, None));
        measured.cloned().or_else(from_topology).ok_or_else(|| {
            let names: Vec<&str> = self.records.iter().map(|record| record.device.name.as_str()).collect();
            let hint = match names.is_empty() {
                true => "numaio topology lists devices".to_owned(),
                false => format!("measured devices: {}", unique(&names).join(", ")),
            };
            Failure::usage(format!("there is no device '{name}'")).hint(hint)
        })
    }

    /// Returns the device of the topology with this name.
    pub fn find_device(&self, name: &str) -> Option<&Device> {
        let topology = self.topology.as_ref()?;
        topology.devices.iter().find(|device| device.moves_data() && device.has_name(name))
    }

    /// Returns the measurements of a device by one engine, or by all.
    pub fn records_of(&self, device: &str, engine: Option<IoEngine>) -> Vec<&IoRecord> {
        let matches = |record: &&IoRecord| {
            record.device.name == device && engine.is_none_or(|engine| record.method.engine == engine)
        };
        self.records.iter().filter(matches).collect()
    }

    /// Returns the model of a target: the newest complete one, or else the newest.
    pub fn model_of(&self, target: NodeId) -> Option<&Model> {
        numaio_model::select_model(&self.models, target, &[Direction::Write, Direction::Read])
    }

    /// Creates an error for missing I/O measurements, with the command that measures them.
    pub fn nothing_measured(&self, device: Option<&str>, engine: Option<IoEngine>) -> Failure {
        let by = engine.map(|engine| format!(" by {}", engine.title())).unwrap_or_default();
        let of = device.map(|device| format!(" of {device}")).unwrap_or_default();
        let discovered = device.and_then(|device| self.find_device(device));
        let command = bench_command(device, discovered.map(|device| device.kind));
        Failure::new(format!("no I/O{of} was measured{by}")).hint(format!("run {command}"))
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let read = documents::read_of_one_machine(paths)?;
    Ok(read.into_iter().map(|(_, document)| document).collect())
}

/// Returns the command that measures a device.
fn bench_command(device: Option<&str>, kind: Option<DeviceKind>) -> String {
    use DeviceKind::{Accelerator, Gpu, Network, Rdma};
    let command = numaio_model::bench_command(device.unwrap_or("DEV"), kind);
    match kind {
        Some(Network | Rdma | Gpu | Accelerator) => command,
        _ => format!("{command}, or with --file PATH for both directions"),
    }
}

/// Removes duplicates, and keeps the order.
pub fn unique<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(name) {
            found.push(name);
        }
    }
    found
}

/// Returns warnings about nodes that a model lacks, with the command that measures them.
pub fn incomplete(model: &Model, target: NodeId) -> Vec<Warning> {
    let targets = model.targets.iter().filter(|it| it.target == target);
    let incomplete = targets.flat_map(|it| &it.directions).filter(|direction| !direction.missing.is_empty());
    let warning = |direction: &DirectionModel| {
        Warning {
        rule: "incomplete-model".to_owned(),
        message: format!(
            "the copy model is incomplete: it has no {}s for {}; numaio model --node {target} measures all nodes",
            direction.direction.name(),
            format_nodes(&direction.missing)
        ),
    }
    };
    incomplete.map(warning).collect()
}

/// Collects the warnings of labeled measurements, without duplicates.
pub fn warnings<'a>(
    measurements: impl Iterator<Item = (&'static str, &'a numaio_schema::Provenance)>,
) -> Vec<Warning> {
    let mut found: Vec<Warning> = Vec::new();
    for (label, provenance) in measurements {
        for warning in &provenance.warnings {
            let warning =
                Warning { rule: warning.rule.clone(), message: format!("{label}: {}", warning.message) };
            if !found.contains(&warning) {
                found.push(warning);
            }
        }
    }
    found
}

/// Parses the name of an engine.
///
/// # Errors
/// A message with the valid names.
pub fn engine(text: &str) -> Result<IoEngine, String> {
    use IoEngine::{Cuda, Disk, Fio, Iperf3, Nvbandwidth, Perftest, Tcp};
    let all = [Disk, Fio, Tcp, Iperf3, Perftest, Cuda, Nvbandwidth];
    let names: Vec<&str> = all.iter().map(|engine| engine.name()).collect();
    let found = all.into_iter().find(|engine| engine.name() == text);
    found.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}
