//! The documents of one report, by machine.

use numaio_machine::topology::{Identity, Topology};
use numaio_schema::{
    Comparison, Document, IoRecord, LatencyRecord, Model, Provenance, StreamRecord, StreamScope,
    TopologyDocument, View,
};
use std::collections::BTreeSet;

/// Documents that are reported together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bundle {
    /// Machines, in the order in which they were first met.
    pub machines: Vec<MachineDocuments>,
}

/// What is known of one machine. Measurements stand newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineDocuments {
    /// The machine's fingerprint, which machines of one model share.
    pub fingerprint: String,
    /// Its name as a host, which tells them apart; empty if no document tells it.
    pub hostname: String,
    /// How it was seen; of several the newest, and the last one added of those that tell no time.
    pub topology: Option<Topology>,
    /// Seconds since 1970 at which it was seen so, if that is told.
    pub seen_at: Option<u64>,
    /// Bandwidth classes.
    pub models: Vec<Model>,
    /// STREAM.
    pub streams: Vec<StreamRecord>,
    /// Latency.
    pub latencies: Vec<LatencyRecord>,
    /// I/O of devices.
    pub ios: Vec<IoRecord>,
    /// Views beside each other.
    pub comparisons: Vec<Comparison>,
    /// Views alone; of those that tell no time the last one added first.
    pub views: Vec<View>,
}

/// Why a document has no place in a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Changes that were applied.
    #[error("it is a receipt of changes, and no report tells of them")]
    Receipt,
    /// Places for tasks.
    #[error("it is a plan of places, and no report tells of them")]
    Placement,
    /// A validation or a prediction.
    #[error("it is made of other documents; report those")]
    Derived,
    /// Copies without classes.
    #[error("it is a record without classes; make a model of it first")]
    Record,
    /// A plan, or what is asked of one.
    #[error("it is a plan, and no report tells of plans")]
    Plan,
    /// A part of the document is of another machine than the document.
    #[error("field `{field}`: it is of machine {found:?}, and the document of machine {wanted:?}")]
    OtherMachine {
        /// The field.
        field: String,
        /// Fingerprint that stands there.
        found: String,
        /// Fingerprint of the document.
        wanted: String,
    },
}

impl Bundle {
    /// Adds a document to those of its machine.
    ///
    /// # Errors
    /// [`BundleError`]; nothing was added then.
    pub fn add(&mut self, document: Document) -> Result<(), BundleError> {
        self.put(document, None)
    }

    /// Adds a document to those of a machine that it is taken for, as one from before its host was renamed.
    ///
    /// # Errors
    /// [`BundleError`]; nothing was added then.
    pub fn add_as(&mut self, document: Document, machine: &Identity) -> Result<(), BundleError> {
        self.put(document, Some(machine))
    }

    fn put(&mut self, document: Document, taken_for: Option<&Identity>) -> Result<(), BundleError> {
        let whose = |told: &Identity| {
            let alike = taken_for.filter(|machine| machine.fingerprint == told.fingerprint);
            alike.unwrap_or(told).clone()
        };
        match document {
            Document::Topology(it) => {
                let machine = self.of(&whose(&it.topology.identity));
                if machine.topology.is_none() || it.seen_at >= machine.seen_at {
                    (machine.topology, machine.seen_at) = (Some(it.topology), it.seen_at);
                }
            }
            Document::Model(it) => self.of(&whose(&it.record.provenance.machine)).models.push(*it),
            Document::Stream(it) => self.of(&whose(&it.provenance.machine)).streams.push(*it),
            Document::Latency(it) => self.of(&whose(&it.provenance.machine)).latencies.push(*it),
            Document::Io(it) => self.of(&whose(&it.provenance.machine)).ios.push(*it),
            Document::Comparison(it) => {
                of_one_machine(&it)?;
                self.of(&whose(&it.machine)).comparisons.push(*it);
            }
            Document::View(it) => {
                let machine = Identity { fingerprint: it.machine.clone(), ..Identity::default() };
                self.of(&whose(&machine)).views.insert(0, *it);
            }
            Document::Validation(_) | Document::Prediction(_) => return Err(BundleError::Derived),
            Document::Placement(_) => return Err(BundleError::Placement),
            Document::Receipt(_) => return Err(BundleError::Receipt),
            Document::Record(_) => return Err(BundleError::Record),
            Document::PlanProblem(_) | Document::Plan(_) => return Err(BundleError::Plan),
        }
        for machine in &mut self.machines {
            machine.sort();
        }
        Ok(())
    }

    fn of(&mut self, machine: &Identity) -> &mut MachineDocuments {
        let index = self.known(machine).unwrap_or_else(|| {
            self.machines.push(MachineDocuments {
                fingerprint: machine.fingerprint.clone(),
                ..MachineDocuments::default()
            });
            self.machines.len() - 1
        });
        let known = &mut self.machines[index];
        if known.hostname.is_empty() {
            known.hostname.clone_from(&machine.hostname);
        }
        known
    }

    /// Where documents of a machine are. What tells no host joins the only machine that it may be of; of several
    /// alike nobody knows which, so that it stays apart.
    fn known(&self, machine: &Identity) -> Option<usize> {
        let all = self.machines.iter().enumerate();
        let alike: Vec<_> = all.filter(|(_, known)| known.fingerprint == machine.fingerprint).collect();
        let it = alike.iter().find(|(_, known)| known.hostname == machine.hostname);
        let only = match alike.as_slice() {
            [only] if machine.hostname.is_empty() || only.1.hostname.is_empty() => Some(only),
            _ => None,
        };
        it.or(only).map(|(index, _)| *index)
    }

    /// Keeps of everything that was measured more than once only the newest measurement: of each target and
    /// direction, each cell of a matrix, each curve, each comparison.
    pub fn keep_newest(&mut self) {
        for machine in &mut self.machines {
            machine.keep_newest();
        }
    }

    /// Each machine's documents in a list, as numaio stores them.
    ///
    /// # Errors
    /// If a figure cannot be written as JSON.
    pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
        let machines = self.machines.iter().map(|machine| {
            let documents = machine.documents()?;
            Ok(serde_json::json!({
                "machine": machine.fingerprint,
                "host": machine.hostname,
                "documents": documents,
            }))
        });
        let machines: serde_json::Result<Vec<_>> = machines.collect();
        Ok(serde_json::json!({ "machines": machines? }))
    }
}

fn of_one_machine(comparison: &Comparison) -> Result<(), BundleError> {
    let wanted = &comparison.machine.fingerprint;
    match comparison.views.iter().position(|view| view.machine != *wanted) {
        None => Ok(()),
        Some(index) => Err(BundleError::OtherMachine {
            field: format!("views[{index}].machine"),
            found: comparison.views[index].machine.clone(),
            wanted: wanted.clone(),
        }),
    }
}

impl MachineDocuments {
    /// Which machine it is, by a document that tells its host if one does; none if only views are known, which
    /// name no more than a fingerprint.
    pub fn identity(&self) -> Option<&Identity> {
        let topology = self.topology.iter().map(|topology| &topology.identity);
        let measured = self.provenances().into_iter().map(|provenance| &provenance.machine);
        let mut told = topology.chain(measured).chain(self.comparisons.iter().map(|it| &it.machine));
        let first = told.next()?;
        match first.hostname.is_empty() {
            true => told.find(|identity| !identity.hostname.is_empty()).or(Some(first)),
            false => Some(first),
        }
    }

    /// The host that something was measured on, if it is told and is not this one: it was added as this machine's all the same.
    pub fn other_host<'a>(&self, provenance: &'a Provenance) -> Option<&'a str> {
        let host = provenance.machine.hostname.as_str();
        Some(host).filter(|host| !host.is_empty() && *host != self.hostname)
    }

    /// Where all measurements come from.
    pub fn provenances(&self) -> Vec<&Provenance> {
        let models = self.models.iter().map(|it| &it.record.provenance);
        let streams = self.streams.iter().map(|it| &it.provenance);
        let latencies = self.latencies.iter().map(|it| &it.provenance);
        models.chain(streams).chain(latencies).chain(self.ios.iter().map(|it| &it.provenance)).collect()
    }

    /// Whether something that was asked for is missing or not settled.
    pub fn is_incomplete(&self) -> bool {
        let views = self.comparisons.iter().flat_map(|it| &it.views).chain(&self.views);
        self.provenances().iter().any(|it| !it.complete) || views.into_iter().any(|view| view.incomplete)
    }

    fn documents(&self) -> serde_json::Result<Vec<serde_json::Value>> {
        let topology = self.topology.iter().map(|it| TopologyDocument::seen(it.clone(), self.seen_at));
        let mut documents: Vec<serde_json::Value> =
            topology.map(serde_json::to_value).collect::<Result<_, _>>()?;
        for model in &self.models {
            documents.push(serde_json::to_value(model)?);
        }
        for stream in &self.streams {
            documents.push(serde_json::to_value(stream)?);
        }
        for latency in &self.latencies {
            documents.push(serde_json::to_value(latency)?);
        }
        for io in &self.ios {
            documents.push(serde_json::to_value(io)?);
        }
        for comparison in &self.comparisons {
            documents.push(serde_json::to_value(comparison)?);
        }
        for view in &self.views {
            documents.push(serde_json::to_value(view)?);
        }
        Ok(documents)
    }

    fn sort(&mut self) {
        let newest = |seconds: u64| std::cmp::Reverse(seconds);
        self.models.sort_by_key(|it| newest(it.record.provenance.measured_at));
        self.streams.sort_by_key(|it| newest(it.provenance.measured_at));
        self.latencies.sort_by_key(|it| newest(it.provenance.measured_at));
        self.ios.sort_by_key(|it| newest(it.provenance.measured_at));
        self.comparisons.sort_by_key(|it| newest(it.measured_at));
        self.views.sort_by_key(|it| std::cmp::Reverse(it.measured_at));
    }

    fn keep_newest(&mut self) {
        let mut known = BTreeSet::new();
        for model in &mut self.models {
            for target in &mut model.targets {
                target.directions.retain(|model| known.insert((target.target, model.direction)));
            }
            model.targets.retain(|target| !target.directions.is_empty());
        }
        self.models.retain(|model| !model.targets.is_empty());
        self.keep_newest_streams();
        self.keep_newest_latencies();
        self.keep_newest_ios();
        let mut known = BTreeSet::new();
        self.comparisons.retain(|it| known.insert(it.target));
        let mut known = BTreeSet::new();
        self.views.retain(|it| known.insert((it.target, it.name.clone())));
    }

    fn keep_newest_streams(&mut self) {
        let mut known = BTreeSet::new();
        for stream in &mut self.streams {
            let alone = stream.method.scope == StreamScope::Core;
            stream.cells.retain(|cell| {
                let cores = alone.then(|| cell.placement.clone());
                known.insert((cell.op, cell.cpu_node, cell.memory_node, cores))
            });
        }
        self.streams.retain(|stream| !stream.cells.is_empty());
    }

    fn keep_newest_latencies(&mut self) {
        let (mut known, mut loaded) = (BTreeSet::new(), BTreeSet::new());
        for latency in &mut self.latencies {
            latency.cells.retain(|cell| known.insert((cell.cpu_node, cell.cpu, cell.memory_node)));
            latency.curves.retain(|curve| loaded.insert((curve.cpu_node, curve.memory_node)));
        }
        self.latencies.retain(|latency| !latency.cells.is_empty() || !latency.curves.is_empty());
    }
    fn keep_newest_ios(&mut self) {
        let mut known = BTreeSet::new();
        for io in &mut self.ios {
            let (device, engine) = (&io.device.name, io.method.engine);
            io.cells.retain(|cell| {
                let what = (cell.groups.clone(), cell.block_bytes, cell.operation.clone());
                known.insert((device.clone(), engine, what))
            });
        }
        self.ios.retain(|io| !io.cells.is_empty());
    }
}
