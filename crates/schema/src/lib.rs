//! The documents that numaio stores, each with a schema version.
//!
//! The field `schema` of a stored document names its kind and version, such as `numaio/model/1`.
//! Within a version, fields are only added, and readers ignore unknown fields.

mod aggregate;
mod balance;
mod baseline;
mod capacity;
mod cost;
mod counters;
mod devices;
mod diagnosis;
mod document;
mod expectation;
mod field_path;
mod fleet;
mod fleet_check;
mod fleet_report;
mod fleet_run;
mod fleet_summary;
mod guest_bench;
mod guest_plan;
mod guests;
mod interleave;
mod io;
mod irq;
mod job;
mod json_schemas;
mod latency;
mod load;
mod mmio;
mod model;
mod near;
mod ping;
mod placement;
mod plan;
mod plan_pools;
mod prediction;
mod provenance;
mod read;
mod reading;
mod receipt;
mod record;
mod status;
mod stream;
mod summary;
mod sweep;
mod top;
mod topology;
mod traffic;
mod transfer_record;
mod validation;
mod verification;
mod view;

pub use aggregate::AggregateRecord;
pub use balance::{
    BalanceDecision, BalanceEvent, BalanceEventKind, BalanceMove, BalanceReason, BalanceRound, BalanceStart,
    HotMemory, MonitoredMemory,
};
pub use baseline::{BaselineComparison, ClassChange, ComparedDocuments, FigureChange};
pub use capacity::{CapacityState, LentCapacity, QueuedTransfer};
pub use cost::{
    AccessBasis, DeviceCost, MemoryCost, PairShare, ProgramCost, ProgramTraffic, Slowdown, UnknownPart,
};
pub use counters::{
    CountedSubject, CounterCell, CounterMethod, CounterRecord, CounterValue, FactorBasis, SchedulingFactor,
    SchedulingFactors, WidthSource,
};
pub use devices::{
    DeviceBandwidth, DeviceDescription, DeviceOverride, DevicePurpose, DevicesDocument, OmittedDevice,
    Sourced, TransferDeviceKind, ValueSource,
};
pub use diagnosis::{Cost, DiagnosedFinding, Diagnosis, Loss};
pub use document::{
    Document, DocumentKind, DocumentOrigin, DocumentSubject, StoreFolder, AGGREGATE_SCHEMA,
    BALANCE_EVENT_SCHEMA, BASELINE_SCHEMA, COMPARISON_SCHEMA, COST_SCHEMA, COUNTERS_SCHEMA,
    DAEMON_STATE_SCHEMA, DEVICES_SCHEMA, DIAGNOSIS_SCHEMA, FLEET_CHECK_SCHEMA, FLEET_HOST_SCHEMA,
    FLEET_RUN_SCHEMA, FLEET_STATUS_SCHEMA, FLEET_SUMMARY_SCHEMA, GUESTS_SCHEMA, GUEST_BENCH_SCHEMA,
    GUEST_PLAN_SCHEMA, HOST_REPORT_SCHEMA, INTERLEAVE_SCHEMA, IO_SCHEMA, IRQ_SCHEMA, JOB_SCHEMA,
    LATENCY_SCHEMA, MMIO_SCHEMA, MODEL_SCHEMA, NEAR_SCHEMA, PING_SCHEMA, PLACEMENT_SCHEMA,
    PLAN_PROBLEM_SCHEMA, PLAN_SCHEMA, PREDICTION_SCHEMA, RECEIPT_SCHEMA, RECORD_SCHEMA, STATUS_SCHEMA,
    STREAM_SCHEMA, SWEEP_SCHEMA, TOPOLOGY_SCHEMA, TOP_SCHEMA, TRANSFER_RECORD_SCHEMA, TRANSFER_TOTALS_SCHEMA,
    VALIDATION_SCHEMA, VERIFICATION_SCHEMA, VIEW_SCHEMA,
};
pub use expectation::{
    BandwidthDifference, DeviceExpectation, DifferenceAtOnce, ExpectationSource, ExpectedBandwidth,
    MachineExpectation, UnknownDifference, NEGLIGIBLE_LOSS,
};
pub use fleet::{DeviationMap, Fact, FactKind, FigureKey, FigureRow, FleetData, FleetHost, HostHistory};
pub use fleet_check::{
    CheckOptions, ComparedWith, Detectable, FactDeviation, FigureDeviation, FigureScope, FindingKind,
    FleetCheck, FleetGroup, GroupMove, HostCheck, SummaryDeviation,
};
pub use fleet_report::HostReport;
pub use fleet_run::{
    FleetHostState, FleetHostStatus, FleetLauncher, FleetRun, FleetRunHost, FleetStateCount, FleetStatus,
    ReportReturn, SlurmLaunch,
};
pub use fleet_summary::{
    FactDifference, FactVariant, FleetHostSummary, FleetSummary, GroupClasses, GroupFigure, GroupPairClass,
    GroupPairClasses, GroupSummary, HostFigure,
};
pub use guest_bench::{GuestBench, GuestBenchCell, GuestSituation};
pub use guest_plan::{
    GuestBaseline, GuestBaselineRule, GuestDemand, GuestHostNode, GuestPlacement, GuestPlan, GuestPlanDevice,
    GuestPlanProof, GuestPlanValue, GuestRequest, PinnedVcpu, PlacedCell, PlacedDemand, PlannedFunction,
    RequestedCell,
};
pub use guests::{GuestStatus, GuestsDocument};
pub use interleave::{InterleaveWeights, NodeWeight};
pub use io::{
    differing_settings, ClassRepresentative, IoCell, IoDevice, IoEngine, IoMethod, IoRecord, IoRemoteEnd,
    NetworkSettings,
};
pub use irq::{DeviceIrqs, IrqDocument, IrqPlan, QueueIrq};
pub use job::{CommandArg, Job, JobLine, JobProblem, JobProcess, JobState, JobTotals};
#[cfg(feature = "json-schema")]
pub use json_schemas::generate_definitions;
pub use json_schemas::{json_schemas, schemas_of, DocumentSchema};
pub use latency::{LatencyCell, LatencyMethod, LatencyRecord, LoadPoint, LoadedCurve};
pub use load::{Load, MeasuredLoad};
pub use mmio::{MmioCell, MmioMethod, MmioRecord};
pub use model::{Class, ClassRule, DirectionModel, Model, NodeBandwidth, TargetModel};
pub use near::NearDocument;
pub use ping::{PingCell, PingMethod, PingRail, PingRecord, Striping};
pub use placement::{
    Basis, CoreOrder, NodeLatency, PlacementHint, PlacementPlan, PlacementRequest, PlacementTarget,
    RankedNode, RejectedNode, TargetLatency, TaskPlacement,
};
pub use plan::{
    Objective, PathId, PathRates, Plan, PlanLimit, PlanNic, PlanNode, PlanProblem, PlanStorage, PlannedPath,
    Prediction, Proof, RateOrigin, RejectedPlan, SimpleRule, Stage, StageTime, Transfer,
};
pub use plan_pools::{PlannedPool, PlannedPools, PoolSide, SharedRate};
pub use prediction::{
    Capacities, Estimate, FlowPrediction, IoPrediction, LimitedBy, LoadBasis, LoadedPrediction,
    MixMeasurement, MixPrediction, ModelPrediction, NodeCapacity, NodeStreams, NodeUnderLoad, SharingFit,
    SharingModel, SharingParameter, StreamsCapacity, SuggestedMix,
};
pub use provenance::{MachineSource, Provenance, Warning, THROTTLED};
pub use read::DocumentError;
pub use reading::{Reading, ReadingVisit, Rounds};
pub use receipt::{AppliedChange, Receipt};
pub use record::{Cell, LoopTrial, Method, Record, Visit};
pub use status::{DeviceUse, Nearness, ProcessStatus, Status, UnreadableProcess};
pub use stream::{PairClass, PairClasses, StreamCell, StreamMethod, StreamRecord, StreamScope, StreamTrial};
pub use summary::{median, IntervalKind, Mode, PooledNoise, Summary};
pub use sweep::{
    BuildFigure, FigureSource, SweepCell, SweepClass, SweepClasses, SweepMethod, SweepRecord, SweepScope,
};
pub use top::{
    BalanceAdvice, NodeTraffic, RecordingError, RemoteFrom, RemoteShare, TopDevice, TopNode, TopProgram,
    TopRecording, TopSnapshot, TopTransfer, TransferSource, UnknownValue,
};
pub use topology::TopologyDocument;
pub use traffic::{DeviceTraffic, TrafficSource, UnknownTraffic};
pub use transfer_record::{
    ActiveSessions, DaemonState, TransferCounts, TransferDirection, TransferRecord, TransferResult,
    TransferTotal, TransferTotals,
};
pub use validation::{
    Column, Merge, Role, Split, Spread, ValidatedClass, ValidatedDirection, Validation, Verdict,
};
pub use verification::{DeviceObservation, TaskObservation, Verification};
pub use view::{Agreement, Comparison, Inversion, NodeValue, Quantity, View, ViewClass};
