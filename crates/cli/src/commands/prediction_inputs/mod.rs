//! What `numaio validate` and `numaio predict` share: saved models and measured I/O of one device.

mod mixes;

pub use mixes::{measure_mixes, MixRequest};

use crate::args::Common;
use crate::commands::tape_documents;
use crate::documents;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::store::Kind;
use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::{Identity, Topology};
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Document, IoDevice, IoEngine, IoRecord, Model, StreamRecord, Warning};
use std::path::PathBuf;

/// Saved documents of each kind that are looked at, the newest first.
const MOST_SAVED: usize = 100;

/// Documents of one machine, the newest first.
#[derive(Debug, Default)]
pub struct KnownDocuments {
    /// The machine as it is seen, or as a document holds it; none if they are of another one.
    pub topology: Option<Topology>,
    /// The machine.
    pub machine: Identity,
    pub models: Vec<Model>,
    pub streams: Vec<StreamRecord>,
    pub records: Vec<IoRecord>,
}

impl KnownDocuments {
    /// Documents from files, those that are on a tape, or those that are saved of this machine.
    pub fn read(common: &Common, machine: &Machine, from: &[PathBuf]) -> Result<Self, Failure> {
        let seen = discover(machine);
        let documents = match (from.is_empty(), machine) {
            (true, Machine::Recorded(_)) => {
                let quiet = Common { quiet: true, ..common.clone() };
                tape_documents::measure(&quiet, machine, &seen)?
            }
            (true, _) => {
                let saved = |kind| documents::saved(common, kind, &seen.identity).take(MOST_SAVED);
                read(&[Kind::Model, Kind::Stream, Kind::Io].into_iter().flat_map(saved).collect::<Vec<_>>())?
            }
            (false, _) => read(from)?,
        };
        let of = documents.first().map(documents::machine_of);
        let mut known = Self::default();
        documents.into_iter().for_each(|document| known.add(document));
        known.models.sort_by_key(|model| std::cmp::Reverse(model.record.provenance.measured_at));
        known.streams.sort_by_key(|record| std::cmp::Reverse(record.provenance.measured_at));
        known.records.sort_by_key(|record| std::cmp::Reverse(record.provenance.measured_at));
        let named = common.machine.is_some() || common.sysroot.is_some();
        let is_it = of.is_none_or(|its| its == seen.identity.fingerprint);
        if is_it || (named && known.topology.is_none()) {
            known.topology = Some(seen);
        }
        known.machine = known.identity();
        Ok(known)
    }

    fn add(&mut self, document: Document) {
        match document {
            Document::Topology(document) => self.topology = Some(document.topology),
            Document::Model(model) => self.models.push(*model),
            Document::Stream(record) => self.streams.push(*record),
            // What moves nothing tells nothing of a device.
            Document::Io(record) if record.method.engine != IoEngine::Null => self.records.push(*record),
            _ => {}
        }
    }

    fn identity(&self) -> Identity {
        let of_records = self.records.first().map(|record| &record.provenance.machine);
        let of_models = self.models.first().map(|model| &model.record.provenance.machine);
        let seen = self.topology.as_ref().map(|topology| &topology.identity);
        seen.or(of_records).or(of_models).cloned().unwrap_or_default()
    }

    /// The device of a name, as a measurement or the machine tells it.
    ///
    /// # Errors
    /// If there is no such device, or none was measured.
    pub fn device(&self, name: &str) -> Result<IoDevice, Failure> {
        let seen = self.find_device(name);
        let answers = |device: &IoDevice| {
            device.name == name
                || device.pci.as_deref().is_some_and(|pci| pci.eq_ignore_ascii_case(name))
                || seen.is_some_and(|seen| seen.name() == device.name)
        };
        let of_records = self.records.iter().map(|record| &record.device).find(|device| answers(device));
        let of_machine = || seen.map(|seen| numaio_measure::io::device(seen, None));
        of_records.cloned().or_else(of_machine).ok_or_else(|| {
            let names: Vec<&str> = self.records.iter().map(|record| record.device.name.as_str()).collect();
            let hint = match names.is_empty() {
                true => "numaio topology lists devices".to_owned(),
                false => format!("measured are {}", unique(&names).join(", ")),
            };
            Failure::usage(format!("there is no device {name:?}")).hint(hint)
        })
    }

    /// The device among those that the machine has.
    pub fn find_device(&self, name: &str) -> Option<&Device> {
        let topology = self.topology.as_ref()?;
        topology.devices.iter().find(|device| device.moves_data() && device.has_name(name))
    }

    /// Measurements of a device by one engine, or by all.
    pub fn records_of(&self, device: &str, engine: Option<IoEngine>) -> Vec<&IoRecord> {
        let wanted = |record: &&IoRecord| {
            record.device.name == device && engine.is_none_or(|engine| record.method.engine == engine)
        };
        self.records.iter().filter(wanted).collect()
    }

    /// The model that counts of a target: the newest one that is whole, or else the newest.
    pub fn model_of(&self, target: NodeId) -> Option<&Model> {
        numaio_model::select_model(&self.models, target, &[Direction::Write, Direction::Read])
    }

    /// That no I/O is known, and which command measures it.
    pub fn nothing_measured(&self, device: Option<&str>, engine: Option<IoEngine>) -> Failure {
        let by = engine.map(|engine| format!(" by {}", engine.title())).unwrap_or_default();
        let of = device.map(|device| format!(" of {device}")).unwrap_or_default();
        let seen = device.and_then(|device| self.find_device(device));
        let command = bench_command(device, seen.map(|device| device.kind));
        Failure::new(format!("no I/O{of} was measured{by}")).hint(format!("{command} measures it"))
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let read = documents::read_of_one_machine(paths)?;
    Ok(read.into_iter().map(|(_, document)| document).collect())
}

/// The command that measures a device.
fn bench_command(device: Option<&str>, kind: Option<DeviceKind>) -> String {
    let name = device.unwrap_or("DEV");
    match kind {
        Some(DeviceKind::Network) => "numaio bench net --peer HOST".to_owned(),
        Some(DeviceKind::Rdma) => format!("numaio bench rdma --peer HOST --device {name}"),
        Some(DeviceKind::Gpu | DeviceKind::Accelerator) => format!("numaio bench gpu --device {name}"),
        _ => format!(
            "numaio bench disk --device {name} --direction read, or --file PATH with both directions,"
        ),
    }
}

pub fn unique<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(name) {
            found.push(name);
        }
    }
    found
}

/// That a model lacks nodes of a target, and which command measures them.
pub fn incomplete(model: &Model, target: NodeId) -> Vec<Warning> {
    let of_target = model.targets.iter().filter(|of_target| of_target.target == target);
    let lacking = of_target.flat_map(|it| &it.directions).filter(|direction| !direction.missing.is_empty());
    let warning = |direction: &DirectionModel| {
        Warning {
        rule: "incomplete-model".to_owned(),
        what: format!(
            "the copy model is incomplete: for {}s it has no figure of {}; numaio model --node {target} measures all",
            direction.direction.name(),
            numaio_model::format_nodes(&direction.missing)
        ),
    }
    };
    lacking.map(warning).collect()
}

/// What is doubtful in measurements, each said once.
pub fn warnings<'a>(of: impl Iterator<Item = (&'static str, &'a numaio_schema::Provenance)>) -> Vec<Warning> {
    let mut found: Vec<Warning> = Vec::new();
    for (what, provenance) in of {
        for warning in &provenance.warnings {
            let warning = Warning { rule: warning.rule.clone(), what: format!("{what}: {}", warning.what) };
            if !found.contains(&warning) {
                found.push(warning);
            }
        }
    }
    found
}

/// An engine by its name.
pub fn engine(text: &str) -> Result<IoEngine, String> {
    use IoEngine::{Cuda, Disk, Fio, Iperf3, Nvbandwidth, Perftest, Tcp};
    let all = [Disk, Fio, Tcp, Iperf3, Perftest, Cuda, Nvbandwidth];
    let names: Vec<&str> = all.iter().map(|engine| engine.name()).collect();
    let found = all.into_iter().find(|engine| engine.name() == text);
    found.ok_or_else(|| format!("{text:?} is no engine; there are {}", names.join(", ")))
}
