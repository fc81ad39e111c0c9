//! Documents of one report, grouped by machine.

use numaio_machine::topology::{Identity, Topology};
use numaio_schema::{
    AggregateRecord, Comparison, Document, DocumentKind, IoRecord, LatencyRecord, MachineExpectation,
    MmioRecord, Model, PingRecord, Provenance, StreamRecord, StreamScope, SweepRecord, SweepScope,
    TopologyDocument, View,
};
use std::collections::BTreeSet;

/// The documents of one report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bundle {
    /// Machines, in the order of their first document.
    pub machines: Vec<MachineDocuments>,
}

/// The documents of one machine; measurements are sorted newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineDocuments {
    /// The machine's fingerprint; machines with the same hardware share it.
    pub fingerprint: String,
    /// The host name, which distinguishes machines with equal fingerprints; empty if no document
    /// has it.
    pub hostname: String,
    /// The newest topology; among topologies without a time, the last one added.
    pub topology: Option<Topology>,
    /// The time of `topology`, in seconds since 1970, if known.
    pub observed_at: Option<u64>,
    /// Copy models with their bandwidth classes.
    pub models: Vec<Model>,
    /// STREAM records.
    pub streams: Vec<StreamRecord>,
    /// Figures of programs.
    pub sweeps: Vec<SweepRecord>,
    /// Latency records.
    pub latencies: Vec<LatencyRecord>,
    /// Records of measured device I/O.
    pub ios: Vec<IoRecord>,
    /// Records of measured I/O of several devices.
    pub aggregates: Vec<AggregateRecord>,
    /// Records of measured network latency.
    pub pings: Vec<PingRecord>,
    /// Records of measured reads of registers.
    pub mmios: Vec<MmioRecord>,
    /// Comparisons of views.
    pub comparisons: Vec<Comparison>,
    /// What the devices can transfer with buffers on each node, by these documents; the caller
    /// fills it before the report.
    pub expected: MachineExpectation,
    /// Views outside comparisons; those without a time are in reverse order of addition.
    pub views: Vec<View>,
}

/// The reason why a document cannot be added to a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A document that is not about a machine or a measurement.
    #[error("a report cannot contain a document of kind '{}' ({})", .0.schema(), .0.title())]
    NotReported(DocumentKind),
    /// A result of other documents.
    #[error("validations and predictions cannot be reported; report the documents that they derive from")]
    Derived,
    /// A copy record without classes.
    #[error("the record has no classes; create a model from it first ('numaio model')")]
    Record,
    /// Counted events.
    #[error("counted events cannot be reported; numaio counters prints them")]
    Counters,
    /// A part of the document belongs to another machine.
    #[error("field '{field}': expected machine '{expected}', got '{actual}'")]
    OtherMachine {
        /// The path of the field.
        field: String,
        /// The fingerprint in that field.
        actual: String,
        /// The fingerprint of the document's machine.
        expected: String,
    },
}

impl Bundle {
    /// Adds a document to its machine.
    ///
    /// # Errors
    /// Returns [`BundleError`] and adds nothing if the document cannot be reported.
    pub fn add(&mut self, document: Document) -> Result<(), BundleError> {
        self.insert(document, None)
    }

    /// Adds a document to `machine` if their fingerprints match, whatever its host name.
    ///
    /// Use it for documents from before the host was renamed.
    ///
    /// # Errors
    /// Returns [`BundleError`] and adds nothing if the document cannot be reported.
    pub fn add_as(&mut self, document: Document, machine: &Identity) -> Result<(), BundleError> {
        self.insert(document, Some(machine))
    }

    fn insert(&mut self, document: Document, alias: Option<&Identity>) -> Result<(), BundleError> {
        let owner = |stated: &Identity| {
            let matching = alias.filter(|machine| machine.fingerprint == stated.fingerprint);
            matching.unwrap_or(stated).clone()
        };
        match document {
            Document::Topology(it) => {
                let machine = self.machine_mut(&owner(&it.topology.identity));
                if machine.topology.is_none() || it.observed_at >= machine.observed_at {
                    (machine.topology, machine.observed_at) = (Some(it.topology), it.observed_at);
                }
            }
            Document::Model(it) => self.machine_mut(&owner(&it.record.provenance.machine)).models.push(*it),
            Document::Stream(it) => self.machine_mut(&owner(&it.provenance.machine)).streams.push(*it),
            Document::Sweep(it) => self.machine_mut(&owner(&it.provenance.machine)).sweeps.push(*it),
            // Their factors are a view of comparisons.
            Document::Counters(_) => return Err(BundleError::Counters),
            Document::Latency(it) => self.machine_mut(&owner(&it.provenance.machine)).latencies.push(*it),
            Document::Io(it) => self.machine_mut(&owner(&it.provenance.machine)).ios.push(*it),
            Document::Aggregate(it) => self.machine_mut(&owner(&it.provenance.machine)).aggregates.push(*it),
            Document::Ping(it) => self.machine_mut(&owner(&it.provenance.machine)).pings.push(*it),
            Document::Mmio(it) => self.machine_mut(&owner(&it.provenance.machine)).mmios.push(*it),
            Document::Comparison(it) => {
                require_one_machine(&it)?;
                self.machine_mut(&owner(&it.machine)).comparisons.push(*it);
            }
            Document::View(it) => {
                let machine = Identity { fingerprint: it.machine.clone(), ..Identity::default() };
                self.machine_mut(&owner(&machine)).views.insert(0, *it);
            }
            Document::Validation(_) | Document::Prediction(_) => return Err(BundleError::Derived),
            Document::Record(_) => return Err(BundleError::Record),
            Document::Diagnosis(_)
            | Document::HostReport(_)
            | Document::Baseline(_)
            | Document::Near(_)
            | Document::Devices(_)
            | Document::Interleave(_)
            | Document::Irq(_)
            | Document::Cost(_)
            | Document::Status(_)
            | Document::Top(_)
            | Document::Verification(_)
            | Document::BalanceEvent(_)
            | Document::Guests(_)
            | Document::GuestPlan(_)
            | Document::GuestBench(_)
            | Document::Placement(_)
            | Document::Receipt(_)
            | Document::PlanProblem(_)
            | Document::Plan(_)
            | Document::Job(_)
            | Document::TransferRecord(_)
            | Document::TransferTotals(_)
            | Document::DaemonState(_)
            | Document::FleetCheck(_)
            | Document::FleetHost(_)
            | Document::FleetRun(_)
            | Document::FleetStatus(_)
            | Document::FleetSummary(_) => return Err(BundleError::NotReported(document.kind())),
        }
        for machine in &mut self.machines {
            machine.sort();
        }
        Ok(())
    }

    fn machine_mut(&mut self, machine: &Identity) -> &mut MachineDocuments {
        let index = self.find(machine).unwrap_or_else(|| {
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

    /// Returns the index of a machine.
    ///
    /// A document without a host name joins the only machine with its fingerprint; if there are
    /// several, it is kept separate.
    fn find(&self, machine: &Identity) -> Option<usize> {
        let all = self.machines.iter().enumerate();
        let alike: Vec<_> = all.filter(|(_, known)| known.fingerprint == machine.fingerprint).collect();
        let exact = alike.iter().find(|(_, known)| known.hostname == machine.hostname);
        let only = match alike.as_slice() {
            [only] if machine.hostname.is_empty() || only.1.hostname.is_empty() => Some(only),
            _ => None,
        };
        exact.or(only).map(|(index, _)| *index)
    }

    /// Removes all but the newest measurement of each target and direction, matrix cell, curve and
    /// comparison. Measurements beside different loads are kept: they are of different things.
    pub fn keep_newest(&mut self) {
        for machine in &mut self.machines {
            machine.keep_newest();
        }
    }

    /// Returns the stored documents as JSON, in a list for each machine.
    ///
    /// # Errors
    /// Returns an error if a figure cannot be written as JSON.
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

fn require_one_machine(comparison: &Comparison) -> Result<(), BundleError> {
    let expected = &comparison.machine.fingerprint;
    match comparison.views.iter().position(|view| view.machine != *expected) {
        None => Ok(()),
        Some(index) => Err(BundleError::OtherMachine {
            field: format!("views[{index}].machine"),
            actual: comparison.views[index].machine.clone(),
            expected: expected.clone(),
        }),
    }
}

impl MachineDocuments {
    /// Returns the machine's identity, preferably from a document with a host name.
    ///
    /// Returns `None` if there are only views, which have no more than a fingerprint.
    pub fn identity(&self) -> Option<&Identity> {
        let topology = self.topology.iter().map(|topology| &topology.identity);
        let measured = self.provenances().into_iter().map(|provenance| &provenance.machine);
        let mut identities = topology.chain(measured).chain(self.comparisons.iter().map(|it| &it.machine));
        let first = identities.next()?;
        match first.hostname.is_empty() {
            true => identities.find(|identity| !identity.hostname.is_empty()).or(Some(first)),
            false => Some(first),
        }
    }

    /// Returns the host name of a measurement if it differs from the machine's (see
    /// [`Bundle::add_as`]).
    pub fn other_host<'a>(&self, provenance: &'a Provenance) -> Option<&'a str> {
        let host = provenance.machine.hostname.as_str();
        Some(host).filter(|host| !host.is_empty() && *host != self.hostname)
    }

    /// Returns the provenance of all measurements.
    pub fn provenances(&self) -> Vec<&Provenance> {
        let models = self.models.iter().map(|it| &it.record.provenance);
        let streams = self.streams.iter().map(|it| &it.provenance);
        let sweeps = self.sweeps.iter().map(|it| &it.provenance);
        let latencies = self.latencies.iter().map(|it| &it.provenance);
        models
            .chain(streams)
            .chain(sweeps)
            .chain(latencies)
            .chain(self.ios.iter().map(|it| &it.provenance))
            .chain(self.aggregates.iter().map(|it| &it.provenance))
            .chain(self.pings.iter().map(|it| &it.provenance))
            .chain(self.mmios.iter().map(|it| &it.provenance))
            .collect()
    }

    /// Returns whether a requested figure is missing or unsettled.
    pub fn is_incomplete(&self) -> bool {
        let views = self.comparisons.iter().flat_map(|it| &it.views).chain(&self.views);
        self.provenances().iter().any(|it| !it.complete) || views.into_iter().any(|view| view.incomplete)
    }

    fn documents(&self) -> serde_json::Result<Vec<serde_json::Value>> {
        let topology = self.topology.iter().map(|it| TopologyDocument {
            expected: Some(self.expected.clone()),
            ..TopologyDocument::with_time(it.clone(), self.observed_at)
        });
        let mut documents: Vec<serde_json::Value> =
            topology.map(serde_json::to_value).collect::<Result<_, _>>()?;
        for model in &self.models {
            documents.push(serde_json::to_value(model)?);
        }
        for stream in &self.streams {
            documents.push(serde_json::to_value(stream)?);
        }
        for sweep in &self.sweeps {
            documents.push(serde_json::to_value(sweep)?);
        }
        for latency in &self.latencies {
            documents.push(serde_json::to_value(latency)?);
        }
        for io in &self.ios {
            documents.push(serde_json::to_value(io)?);
        }
        for aggregate in &self.aggregates {
            documents.push(serde_json::to_value(aggregate)?);
        }
        for ping in &self.pings {
            documents.push(serde_json::to_value(ping)?);
        }
        for mmio in &self.mmios {
            documents.push(serde_json::to_value(mmio)?);
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
        self.sweeps.sort_by_key(|it| newest(it.provenance.measured_at));
        self.latencies.sort_by_key(|it| newest(it.provenance.measured_at));
        self.ios.sort_by_key(|it| newest(it.provenance.measured_at));
        self.aggregates.sort_by_key(|it| newest(it.provenance.measured_at));
        self.pings.sort_by_key(|it| newest(it.provenance.measured_at));
        self.mmios.sort_by_key(|it| newest(it.provenance.measured_at));
        self.comparisons.sort_by_key(|it| newest(it.measured_at));
        self.views.sort_by_key(|it| std::cmp::Reverse(it.measured_at));
    }

    fn keep_newest(&mut self) {
        let mut known = BTreeSet::new();
        for model in &mut self.models {
            let load = model.record.provenance.load_label();
            for target in &mut model.targets {
                let (load, target_node) = (&load, target.target);
                target.directions.retain(|model| known.insert((load.clone(), target_node, model.direction)));
            }
            model.targets.retain(|target| !target.directions.is_empty());
        }
        self.models.retain(|model| !model.targets.is_empty());
        self.keep_newest_streams();
        self.keep_newest_sweeps();
        self.keep_newest_latencies();
        self.keep_newest_ios();
        self.keep_newest_aggregates();
        self.keep_newest_pings();
        self.keep_newest_mmios();
        let mut known = BTreeSet::new();
        self.comparisons.retain(|it| known.insert(it.target));
        let mut known = BTreeSet::new();
        self.views.retain(|it| known.insert((it.target, it.name.clone())));
    }

    fn keep_newest_streams(&mut self) {
        let mut known = BTreeSet::new();
        for stream in &mut self.streams {
            let by_core = stream.method.scope == StreamScope::Core;
            let load = stream.provenance.load_label();
            stream.cells.retain(|cell| {
                let cores = by_core.then(|| cell.placement.clone());
                known.insert((load.clone(), cell.op, cell.cpu_node, cell.memory_node, cores))
            });
        }
        self.streams.retain(|stream| !stream.cells.is_empty());
    }

    /// Keeps records as a whole: their classes are of all cells.
    fn keep_newest_sweeps(&mut self) {
        let mut known = BTreeSet::new();
        self.sweeps.retain(|sweep| {
            let by_core = sweep.method.scope == SweepScope::Cores;
            let load = sweep.provenance.load_label();
            let cells = sweep.cells.iter().map(|cell| {
                let cores = by_core.then(|| cell.placement.clone());
                (load.clone(), sweep.method.name.clone(), cell.cpu_node, cell.memory_node, cores)
            });
            // Not `any`, which would skip the insertions after the first one.
            cells.filter(|key| known.insert(key.clone())).count() > 0
        });
    }

    fn keep_newest_latencies(&mut self) {
        let (mut known, mut loaded) = (BTreeSet::new(), BTreeSet::new());
        for latency in &mut self.latencies {
            let load = latency.provenance.load_label();
            latency
                .cells
                .retain(|cell| known.insert((load.clone(), cell.cpu_node, cell.cpu, cell.memory_node)));
            latency.curves.retain(|curve| loaded.insert((load.clone(), curve.cpu_node, curve.memory_node)));
        }
        self.latencies.retain(|latency| !latency.cells.is_empty() || !latency.curves.is_empty());
    }

    fn keep_newest_ios(&mut self) {
        let mut known = BTreeSet::new();
        for io in &mut self.ios {
            let series = (io.provenance.load_label(), io.device.name.clone(), io.method.engine);
            io.cells.retain(|cell| {
                let key = (cell.groups.clone(), cell.block_bytes, cell.operation.clone());
                known.insert((series.clone(), key))
            });
        }
        self.ios.retain(|io| !io.cells.is_empty());
    }

    /// Keeps records as a whole: devices at the same time are compared with each alone.
    fn keep_newest_aggregates(&mut self) {
        let mut known = BTreeSet::new();
        self.aggregates.retain(|record| {
            let devices: Vec<String> = record.devices.iter().map(|device| device.name.clone()).collect();
            let series = (record.provenance.load_label(), devices);
            let cells =
                record.aggregates().map(|cell| (series.clone(), cell.groups.clone(), cell.block_bytes));
            cells.filter(|key| known.insert(key.clone())).count() > 0
        });
    }

    fn keep_newest_mmios(&mut self) {
        let mut known = BTreeSet::new();
        for mmio in &mut self.mmios {
            let register = (mmio.provenance.load_label(), mmio.device.name.clone(), mmio.bar, mmio.offset);
            mmio.cells.retain(|cell| known.insert((register.clone(), cell.cpu_node)));
        }
        self.mmios.retain(|mmio| !mmio.cells.is_empty());
    }

    /// Keeps records as a whole: the stripings of one are compared with its rails alone.
    fn keep_newest_pings(&mut self) {
        let mut known = BTreeSet::new();
        self.pings.retain(|ping| {
            let rails: Vec<_> = ping.rails.iter().map(|rail| rail.rail).collect();
            let series = (ping.provenance.load_label(), ping.device.name.clone(), rails);
            let cells = ping.cells.iter().map(|cell| {
                let (there, operation) = (cell.remote.cpu_nodes.to_string(), cell.operation.clone());
                let place = (cell.cpu_node, cell.memory_node, there, cell.remote.memory);
                (series.clone(), place, cell.message_bytes, operation, cell.striping)
            });
            // Not `any`, which would skip the insertions after the first one.
            cells.filter(|key| known.insert(key.clone())).count() > 0
        });
    }
}
