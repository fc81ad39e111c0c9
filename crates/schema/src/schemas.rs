//! Schemas and versions of all documents.

/// Schema and version of [`BalanceEvent`](crate::BalanceEvent).
pub const BALANCE_EVENT_SCHEMA: &str = "numaio/balance-event/1";

/// Schema and version of [`BaselineComparison`](crate::BaselineComparison).
pub const BASELINE_SCHEMA: &str = "numaio/baseline/1";

/// Schema and version of [`CounterRecord`](crate::CounterRecord).
pub const COUNTERS_SCHEMA: &str = "numaio/counters/1";

/// Schema and version of [`DaemonState`](crate::DaemonState).
pub const DAEMON_STATE_SCHEMA: &str = "numaio/daemon-state/1";

/// Schema and version of [`DevicesDocument`](crate::DevicesDocument).
pub const DEVICES_SCHEMA: &str = "numaio/devices/1";

/// Schema and version of [`Diagnosis`](crate::Diagnosis).
pub const DIAGNOSIS_SCHEMA: &str = "numaio/diagnosis/1";

/// Schema and version of [`FleetCheck`](crate::FleetCheck).
pub const FLEET_CHECK_SCHEMA: &str = "numaio/fleet-check/1";

/// Schema and version of [`FleetHostSummary`](crate::FleetHostSummary).
pub const FLEET_HOST_SCHEMA: &str = "numaio/fleet-host/1";

/// Schema and version of [`FleetSummary`](crate::FleetSummary).
pub const FLEET_SUMMARY_SCHEMA: &str = "numaio/fleet-summary/1";

/// Schema and version of [`FleetRun`](crate::FleetRun).
pub const FLEET_RUN_SCHEMA: &str = "numaio/fleet-run/1";

/// Schema and version of [`FleetStatus`](crate::FleetStatus).
pub const FLEET_STATUS_SCHEMA: &str = "numaio/fleet-status/1";

/// Schema and version of [`GuestBench`](crate::GuestBench).
pub const GUEST_BENCH_SCHEMA: &str = "numaio/guest-bench/1";

/// Schema and version of [`GuestPlan`](crate::GuestPlan).
pub const GUEST_PLAN_SCHEMA: &str = "numaio/guest-plan/1";

/// Schema and version of [`GuestsDocument`](crate::GuestsDocument).
pub const GUESTS_SCHEMA: &str = "numaio/guests/1";

/// Schema and version of [`HostReport`](crate::HostReport).
pub const HOST_REPORT_SCHEMA: &str = "numaio/host-report/1";

/// Schema and version of [`InterleaveWeights`](crate::InterleaveWeights).
pub const INTERLEAVE_SCHEMA: &str = "numaio/interleave/1";

/// Schema and version of [`IoRecord`](crate::IoRecord).
pub const IO_SCHEMA: &str = "numaio/io/1";

/// Schema and version of [`IrqDocument`](crate::IrqDocument).
pub const IRQ_SCHEMA: &str = "numaio/irq/1";

/// Schema and version of [`Job`](crate::Job).
pub const JOB_SCHEMA: &str = "numaio/job/1";

/// Schema and version of [`AggregateRecord`](crate::AggregateRecord).
pub const AGGREGATE_SCHEMA: &str = "numaio/io-aggregate/1";

/// Schema and version of [`LatencyRecord`](crate::LatencyRecord).
pub const LATENCY_SCHEMA: &str = "numaio/latency/1";

/// Schema and version of [`MmioRecord`](crate::MmioRecord).
pub const MMIO_SCHEMA: &str = "numaio/mmio/1";

/// Schema and version of [`Model`](crate::Model).
pub const MODEL_SCHEMA: &str = "numaio/model/1";

/// Schema and version of [`NearDocument`](crate::NearDocument).
pub const NEAR_SCHEMA: &str = "numaio/near/1";

/// Schema and version of [`PingRecord`](crate::PingRecord).
pub const PING_SCHEMA: &str = "numaio/ping/1";

/// Schema and version of [`PlacementPlan`](crate::PlacementPlan).
pub const PLACEMENT_SCHEMA: &str = "numaio/placement/1";

/// Schema and version of [`PlanProblem`](crate::PlanProblem).
pub const PLAN_PROBLEM_SCHEMA: &str = "numaio/plan-problem/1";

/// Schema and version of [`Plan`](crate::Plan).
pub const PLAN_SCHEMA: &str = "numaio/plan/1";

/// Schema and version of [`IoPrediction`](crate::IoPrediction).
pub const PREDICTION_SCHEMA: &str = "numaio/prediction/1";

/// Schema and version of [`Receipt`](crate::Receipt).
pub const RECEIPT_SCHEMA: &str = "numaio/receipt/1";

/// Schema and version of [`Record`](crate::Record).
pub const RECORD_SCHEMA: &str = "numaio/record/1";

/// Schema and version of [`ProgramCost`](crate::ProgramCost).
pub const COST_SCHEMA: &str = "numaio/cost/1";

/// Schema and version of [`Status`](crate::Status).
pub const STATUS_SCHEMA: &str = "numaio/status/1";

/// Schema and version of [`StreamRecord`](crate::StreamRecord).
pub const STREAM_SCHEMA: &str = "numaio/stream/1";

/// Schema and version of [`SweepRecord`](crate::SweepRecord).
pub const SWEEP_SCHEMA: &str = "numaio/sweep/1";

/// Schema and version of [`TopologyDocument`](crate::TopologyDocument).
pub const TOPOLOGY_SCHEMA: &str = "numaio/topology/1";

/// Schema and version of [`TopSnapshot`](crate::TopSnapshot).
pub const TOP_SCHEMA: &str = "numaio/top/1";

/// Schema and version of [`TransferRecord`](crate::TransferRecord).
pub const TRANSFER_RECORD_SCHEMA: &str = "numaio/transfer-record/1";

/// Schema and version of [`TransferTotals`](crate::TransferTotals).
pub const TRANSFER_TOTALS_SCHEMA: &str = "numaio/transfer-totals/1";

/// Schema and version of [`Validation`](crate::Validation).
pub const VALIDATION_SCHEMA: &str = "numaio/validation/1";

/// Schema and version of [`Verification`](crate::Verification).
pub const VERIFICATION_SCHEMA: &str = "numaio/verification/1";

/// Version of [`View`](crate::View) as a document of its own.
pub const VIEW_SCHEMA: &str = "numaio/view/1";

/// Schema and version of [`Comparison`](crate::Comparison).
pub const COMPARISON_SCHEMA: &str = "numaio/comparison/1";

/// The schemas that [`Document`](crate::Document) reads.
pub(crate) const SCHEMAS: [&str; 18] = [
    TOPOLOGY_SCHEMA,
    RECORD_SCHEMA,
    MODEL_SCHEMA,
    STREAM_SCHEMA,
    SWEEP_SCHEMA,
    LATENCY_SCHEMA,
    IO_SCHEMA,
    AGGREGATE_SCHEMA,
    PING_SCHEMA,
    VIEW_SCHEMA,
    COMPARISON_SCHEMA,
    VALIDATION_SCHEMA,
    PREDICTION_SCHEMA,
    PLACEMENT_SCHEMA,
    RECEIPT_SCHEMA,
    PLAN_PROBLEM_SCHEMA,
    PLAN_SCHEMA,
    FLEET_CHECK_SCHEMA,
];
