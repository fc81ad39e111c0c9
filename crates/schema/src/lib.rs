//! The documents that numaio stores, each with a schema version.
//!
//! The field `schema` of a stored document names its kind and version, such as `numaio/model/1`.
//! Within a version, fields are only added, and readers ignore unknown fields.

mod diagnosis;
mod document;
mod interleave;
mod io;
mod irq;
mod job;
mod latency;
mod model;
mod near;
mod placement;
mod plan;
mod plan_pools;
mod prediction;
mod reading;
mod receipt;
mod record;
mod status;
mod stream;
mod summary;
mod topology;
mod validation;
mod verification;
mod view;

pub use diagnosis::{Cost, DiagnosedFinding, Diagnosis, Loss, DIAGNOSIS_SCHEMA};
pub use document::{Document, DocumentError};
pub use interleave::{InterleaveWeights, NodeWeight, INTERLEAVE_SCHEMA};
pub use io::{ClassRepresentative, IoCell, IoDevice, IoEngine, IoMethod, IoRecord, IoRemoteEnd, IO_SCHEMA};
pub use irq::{DeviceIrqs, IrqDocument, IrqPlan, QueueIrq, IRQ_SCHEMA};
pub use job::{CommandArg, Job, JobLine, JobProblem, JobProcess, JobState, JobTotals, JOB_SCHEMA};
pub use latency::{LatencyCell, LatencyMethod, LatencyRecord, LoadPoint, LoadedCurve, LATENCY_SCHEMA};
pub use model::{Class, ClassRule, DirectionModel, Model, NodeBandwidth, TargetModel, MODEL_SCHEMA};
pub use near::{NearDocument, NEAR_SCHEMA};
pub use placement::{
    Basis, PlacementHint, PlacementPlan, PlacementRequest, PlacementTarget, RankedNode, RejectedNode,
    TaskPlacement, PLACEMENT_SCHEMA,
};
pub use plan::{
    Objective, PathId, PathRates, Plan, PlanLimit, PlanMethod, PlanNic, PlanNode, PlanProblem, PlanStorage,
    PlannedPath, Prediction, Proof, RateOrigin, RejectedPlan, SimpleRule, Stage, StageTime, Transfer,
    PLAN_PROBLEM_SCHEMA, PLAN_SCHEMA,
};
pub use plan_pools::{PlannedPool, PlannedPools, PoolSide, SharedRate};
pub use prediction::{
    CapSource, Capacities, Estimate, FlowPrediction, IoPrediction, LimitedBy, MixMeasurement, MixPrediction,
    NodeCapacity, NodeStreams, Sharing, StreamsCapacity, PREDICTION_SCHEMA,
};
pub use reading::{Provenance, Reading, ReadingVisit, Rounds};
pub use receipt::{AppliedChange, Receipt, RECEIPT_SCHEMA};
pub use record::{Cell, LoopTrial, MachineSource, Method, Record, Visit, Warning, RECORD_SCHEMA};
pub use status::{DeviceUse, Nearness, ProcessStatus, Status, UnreadableProcess, STATUS_SCHEMA};
pub use stream::{
    PairClass, PairClasses, StreamCell, StreamMethod, StreamRecord, StreamScope, StreamTrial, STREAM_SCHEMA,
};
pub use summary::{median, IntervalKind, Mode, PooledNoise, Summary};
pub use topology::{TopologyDocument, TOPOLOGY_SCHEMA};
pub use validation::{
    Column, Merge, Role, Split, Spread, ValidatedClass, ValidatedDirection, Validation, Verdict,
    VALIDATION_SCHEMA,
};
pub use verification::{DeviceObservation, TaskObservation, Verification, VERIFICATION_SCHEMA};
pub use view::{
    Agreement, Comparison, Inversion, NodeValue, Quantity, View, ViewClass, COMPARISON_SCHEMA, VIEW_SCHEMA,
};

pub(crate) use document::read;
