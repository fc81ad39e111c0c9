//! The registry of all documents: the one list of their types, schemas, titles and origins.

use crate::plan::PlanProblem;
use crate::provenance::Provenance;
use crate::read::{parse, read, schema_of, unexpected, DocumentError};
use numaio_machine::topology::Identity;
use serde::Serialize;

/// Subject of a kind of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentSubject {
    /// A host, measurements on it, or results that derive from them.
    Host,
    /// Programs, guests, transfers or settings of a host.
    HostUse,
    /// Many hosts.
    Fleet,
}

/// Machine and time of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DocumentOrigin<'a> {
    /// The machine; `None` if the document has no more than its fingerprint.
    pub machine: Option<&'a Identity>,
    /// Fingerprint of the machine; empty if the document is not about one machine.
    pub fingerprint: &'a str,
    /// Time of measurement, observation or creation, in seconds since 1970, if known.
    pub time: Option<u64>,
    /// Provenance of a measurement.
    pub provenance: Option<&'a Provenance>,
}

impl<'a> DocumentOrigin<'a> {
    fn measured(provenance: &'a Provenance) -> Self {
        let origin = Self::of(&provenance.machine, Some(provenance.measured_at));
        Self { provenance: Some(provenance), ..origin }
    }

    fn of(machine: &'a Identity, time: Option<u64>) -> Self {
        Self { machine: Some(machine), fingerprint: &machine.fingerprint, time, provenance: None }
    }

    fn of_fingerprint(fingerprint: &'a str, time: Option<u64>) -> Self {
        Self { fingerprint, ..Self::at(time) }
    }

    fn of_problem(problem: &'a PlanProblem) -> Self {
        problem.machine.as_ref().map_or_else(Self::default, |machine| Self::of(machine, None))
    }

    fn at(time: Option<u64>) -> Self {
        Self { time, ..Self::default() }
    }

    /// Returns the machine; unknown fields are empty.
    pub fn identity(&self) -> Identity {
        let fingerprint_only =
            || Identity { fingerprint: self.fingerprint.to_owned(), ..Identity::default() };
        self.machine.cloned().unwrap_or_else(fingerprint_only)
    }
}

/// Declares all kinds of documents. A row contains the kind and its type, the constant of its
/// schema and version, its title in messages, its subject, the folder in which it is saved with the
/// plural name of its documents, and its origin.
macro_rules! documents {
    ($(
        $kind:ident($document:ty), $constant:ident = $schema:literal, $title:literal,
        $subject:ident $(in $folder:literal of $plural:literal)?, $origin:expr;
    )*) => {
        $(
            #[doc = concat!("Schema and version of documents about: ", $title, ".")]
            pub const $constant: &str = $schema;

            impl $document {
                /// Schema and version.
                pub const SCHEMA: &'static str = $constant;

                /// Reads a document of this kind.
                ///
                /// # Errors
                /// [`DocumentError`]: the text is not such a document.
                pub fn from_json(text: &str) -> Result<Self, DocumentError> {
                    read(text, $constant)
                }
            }

            impl From<$document> for Document {
                fn from(document: $document) -> Self {
                    Self::$kind(Box::new(document))
                }
            }
        )*

        /// A kind of documents, in the order in which a report lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum DocumentKind {
            $(#[doc = concat!("Title: ", $title, ".")] $kind,)*
        }

        impl DocumentKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Returns schema and version, such as `numaio/model/1`.
            pub fn schema(self) -> &'static str {
                match self {
                    $(Self::$kind => $constant,)*
                }
            }

            /// Returns the name of the content for messages, such as `copy model`.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$kind => $title,)*
                }
            }

            /// Returns the subject.
            pub fn subject(self) -> DocumentSubject {
                match self {
                    $(Self::$kind => DocumentSubject::$subject,)*
                }
            }

            /// Returns the folder in which documents of this kind are saved.
            pub fn folder(self) -> Option<StoreFolder> {
                let folders: &[(Self, StoreFolder, &str)] =
                    &[$($((Self::$kind, StoreFolder::$kind, $folder),)?)*];
                folders.iter().find(|(kind, ..)| *kind == self).map(|(_, folder, _)| *folder)
            }

            fn parse(self, text: &str) -> Result<Document, DocumentError> {
                Ok(match self {
                    $(Self::$kind => Document::$kind(parse(text)?),)*
                })
            }

            #[cfg(feature = "json-schema")]
            pub(crate) fn json_schema(self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                match self {
                    $(Self::$kind => generator.subschema_for::<$document>(),)*
                }
            }
        }

        /// A folder of saved documents.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum StoreFolder {
            $($(#[doc = concat!("Saved ", $plural, ".")] $kind,)?)*
            /// I/O measurements with interrupts moved to other nodes.
            Interrupts,
        }

        impl StoreFolder {
            /// Returns the name of the folder in the state directory.
            pub fn folder(self) -> &'static str {
                match self {
                    $($(Self::$kind => $folder,)?)*
                    Self::Interrupts => "interrupts",
                }
            }

            /// Returns the plural name of the documents for messages.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Self::$kind => $plural,)?)*
                    Self::Interrupts => "measurements with moved interrupts",
                }
            }
        }

        /// A document of any kind.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Document {
            $(#[doc = concat!("Title: ", $title, ".")] $kind(Box<$document>),)*
        }

        impl Document {
            /// Returns the kind.
            pub fn kind(&self) -> DocumentKind {
                match self {
                    $(Self::$kind(_) => DocumentKind::$kind,)*
                }
            }

            /// Returns the machine and the time.
            pub fn origin(&self) -> DocumentOrigin<'_> {
                match self {
                    $(Self::$kind(document) => {
                        let origin: fn(&$document) -> DocumentOrigin<'_> = $origin;
                        origin(document)
                    })*
                }
            }
        }
    };
}

documents! {
    Topology(crate::topology::TopologyDocument), TOPOLOGY_SCHEMA = "numaio/topology/1",
        "topology", Host in "topologies" of "topologies", |it| DocumentOrigin::of(&it.topology.identity, it.observed_at);
    Record(crate::record::Record), RECORD_SCHEMA = "numaio/record/1",
        "copy model", Host, |it| DocumentOrigin::measured(&it.provenance);
    Model(crate::model::Model), MODEL_SCHEMA = "numaio/model/1",
        "copy model", Host in "models" of "models", |it| DocumentOrigin::measured(&it.record.provenance);
    Stream(crate::stream::StreamRecord), STREAM_SCHEMA = "numaio/stream/1",
        "STREAM", Host in "streams" of "STREAM measurements", |it| DocumentOrigin::measured(&it.provenance);
    Sweep(crate::sweep::SweepRecord), SWEEP_SCHEMA = "numaio/sweep/1",
        "sweep", Host in "sweeps" of "sweeps", |it| DocumentOrigin::measured(&it.provenance);
    Counters(crate::counters::CounterRecord), COUNTERS_SCHEMA = "numaio/counters/1",
        "counters", Host in "counters" of "counted events", |it| DocumentOrigin::measured(&it.provenance);
    Latency(crate::latency::LatencyRecord), LATENCY_SCHEMA = "numaio/latency/1",
        "latency", Host in "latencies" of "latencies", |it| DocumentOrigin::measured(&it.provenance);
    Io(crate::io::IoRecord), IO_SCHEMA = "numaio/io/1",
        "I/O", Host in "io" of "I/O measurements", |it| DocumentOrigin::measured(&it.provenance);
    Aggregate(crate::aggregate::AggregateRecord), AGGREGATE_SCHEMA = "numaio/io-aggregate/1",
        "I/O of several devices", Host in "io-aggregates" of "I/O measurements of several devices",
        |it| DocumentOrigin::measured(&it.provenance);
    Ping(crate::ping::PingRecord), PING_SCHEMA = "numaio/ping/1",
        "network latency", Host in "pings" of "network latencies", |it| DocumentOrigin::measured(&it.provenance);
    Mmio(crate::mmio::MmioRecord), MMIO_SCHEMA = "numaio/mmio/1",
        "MMIO reads", Host in "mmio" of "MMIO reads", |it| DocumentOrigin::measured(&it.provenance);
    Comparison(crate::view::Comparison), COMPARISON_SCHEMA = "numaio/comparison/1",
        "comparison of views", Host in "comparisons" of "comparisons", |it| DocumentOrigin::of(&it.machine, Some(it.measured_at));
    View(crate::view::View), VIEW_SCHEMA = "numaio/view/1",
        "view", Host, |it| DocumentOrigin::of_fingerprint(&it.machine, it.measured_at);
    Validation(crate::validation::Validation), VALIDATION_SCHEMA = "numaio/validation/1",
        "validation of the copy model", Host, |it| DocumentOrigin::of(&it.machine, Some(it.measured_at));
    Prediction(crate::prediction::IoPrediction), PREDICTION_SCHEMA = "numaio/prediction/1",
        "predicted I/O", Host, |it| DocumentOrigin::of(&it.machine, Some(it.measured_at));
    Diagnosis(crate::diagnosis::Diagnosis), DIAGNOSIS_SCHEMA = "numaio/diagnosis/1",
        "diagnosis", Host, |it| DocumentOrigin::of(&it.machine, it.observed_at);
    HostReport(crate::fleet_report::HostReport), HOST_REPORT_SCHEMA = "numaio/host-report/1",
        "report of a host", Host, |it| DocumentOrigin::of(&it.topology.topology.identity, Some(it.started_at));
    Baseline(crate::baseline::BaselineComparison), BASELINE_SCHEMA = "numaio/baseline/1",
        "comparison with a baseline", HostUse, |it| DocumentOrigin::of(&it.machine, None);
    Near(crate::near::NearDocument), NEAR_SCHEMA = "numaio/near/1",
        "resolved handles", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, None);
    Devices(crate::devices::DevicesDocument), DEVICES_SCHEMA = "numaio/devices/1",
        "devices for transfers", HostUse, |it| DocumentOrigin::of(&it.machine, None);
    Interleave(crate::interleave::InterleaveWeights), INTERLEAVE_SCHEMA = "numaio/interleave/1",
        "interleave weights", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, None);
    Irq(crate::irq::IrqDocument), IRQ_SCHEMA = "numaio/irq/1",
        "interrupts", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, None);
    Cost(crate::cost::ProgramCost), COST_SCHEMA = "numaio/cost/1",
        "cost of a program", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, Some(it.observed_at));
    Status(crate::status::Status), STATUS_SCHEMA = "numaio/status/1",
        "status of programs", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, Some(it.observed_at));
    Top(crate::top::TopSnapshot), TOP_SCHEMA = "numaio/top/1",
        "snapshot of programs", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, Some(it.taken_at_ms / 1000));
    Verification(crate::verification::Verification), VERIFICATION_SCHEMA = "numaio/verification/1",
        "verified placement", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, None);
    BalanceEvent(crate::balance::BalanceEvent), BALANCE_EVENT_SCHEMA = "numaio/balance-event/1",
        "event of balancing", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, Some(it.at));
    Guests(crate::guests::GuestsDocument), GUESTS_SCHEMA = "numaio/guests/1",
        "guests", HostUse, |it| DocumentOrigin::of(&it.machine, it.observed_at);
    GuestPlan(crate::guest_plan::GuestPlan), GUEST_PLAN_SCHEMA = "numaio/guest-plan/1",
        "plan of guests", HostUse, |it| DocumentOrigin::of(&it.machine, Some(it.created_at));
    GuestBench(crate::guest_bench::GuestBench), GUEST_BENCH_SCHEMA = "numaio/guest-bench/1",
        "network bandwidth of a guest", HostUse, |it| DocumentOrigin::of(&it.machine, Some(it.measured_at));
    Placement(crate::placement::PlacementPlan), PLACEMENT_SCHEMA = "numaio/placement/1",
        "placement plan", HostUse, |it| DocumentOrigin::of(&it.machine, Some(it.created_at));
    Receipt(crate::receipt::Receipt), RECEIPT_SCHEMA = "numaio/receipt/1",
        "receipt of changes", HostUse, |it| DocumentOrigin::of_fingerprint(&it.machine, Some(it.created_at));
    PlanProblem(crate::plan::PlanProblem), PLAN_PROBLEM_SCHEMA = "numaio/plan-problem/1",
        "transfer problem", HostUse, |it| DocumentOrigin::of_problem(it);
    Plan(crate::plan::Plan), PLAN_SCHEMA = "numaio/plan/1",
        "transfer plan", HostUse, |it| DocumentOrigin::of_problem(&it.problem);
    Job(crate::job::Job), JOB_SCHEMA = "numaio/job/1",
        "transfer job", HostUse, |it| DocumentOrigin::at(Some(it.started_at));
    TransferRecord(crate::transfer_record::TransferRecord), TRANSFER_RECORD_SCHEMA = "numaio/transfer-record/1",
        "transfer", HostUse, |it| DocumentOrigin::at(Some(it.started_at));
    TransferTotals(crate::transfer_record::TransferTotals), TRANSFER_TOTALS_SCHEMA = "numaio/transfer-totals/1",
        "transfer totals", HostUse, |_| DocumentOrigin::default();
    DaemonState(crate::transfer_record::DaemonState), DAEMON_STATE_SCHEMA = "numaio/daemon-state/1",
        "state of a daemon", HostUse, |it| DocumentOrigin::at(Some(it.written_at));
    FleetCheck(crate::fleet_check::FleetCheck), FLEET_CHECK_SCHEMA = "numaio/fleet-check/1",
        "check of a fleet", Fleet, |it| DocumentOrigin::at(it.newest);
    FleetHost(crate::fleet_summary::FleetHostSummary), FLEET_HOST_SCHEMA = "numaio/fleet-host/1",
        "host of a fleet", Fleet, |it| DocumentOrigin::at(Some(it.observed_at));
    FleetRun(crate::fleet_run::FleetRun), FLEET_RUN_SCHEMA = "numaio/fleet-run/1",
        "run on a fleet", Fleet, |it| DocumentOrigin::at(Some(it.created_at));
    FleetStatus(crate::fleet_run::FleetStatus), FLEET_STATUS_SCHEMA = "numaio/fleet-status/1",
        "state of a fleet run", Fleet, |it| DocumentOrigin::at(Some(it.checked_at));
    FleetSummary(crate::fleet_summary::FleetSummary), FLEET_SUMMARY_SCHEMA = "numaio/fleet-summary/1",
        "summary of a fleet", Fleet, |_| DocumentOrigin::default();
}

impl Document {
    /// Reads a document of any kind.
    ///
    /// # Errors
    /// [`DocumentError`]: the text is not a known document; the error names the wrong field.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let schema = schema_of(text)?;
        match DocumentKind::ALL.iter().find(|kind| kind.schema() == schema) {
            Some(kind) => kind.parse(text),
            None => {
                let known = DocumentKind::ALL.iter().map(|kind| kind.schema());
                Err(unexpected(schema, known, "document of numaio"))
            }
        }
    }
}
