//! Arithmetic on measurements: bandwidth classes of nodes (Li et al., ICPP 2013), agreement of
//! views, placement, prediction and planning of transfers.
//!
//! Everything here is exact and deterministic: the same record yields the same model, bit for bit.

mod balance;
mod baseline;
mod classes;
mod compare;
mod cost;
mod device_bandwidth;
mod devices;
mod diagnose;
mod fit;
pub mod fleet;
mod fleet_summary;
mod guests;
mod interleave;
mod interrupt_costs;
mod io;
mod max_min;
mod model_selection;
mod pairs;
mod placement;
mod plan;
mod predict;
mod scheduling_factor;
mod sweep;
#[cfg(test)]
mod testing;
pub mod top;
mod validate;
mod views;

pub use balance::{
    device_rates, device_traffic, BalanceDevice, BalanceGroup, BalanceNode, BalanceOptions, BalanceProblem,
    Balancer, DeviceRates, GroupDecision, TrafficInputs,
};
pub use baseline::{document_changes, DocumentChanges};
pub use classes::{classify, Point};
pub use compare::{agreement, compare, ComparisonContext};
pub use cost::{placement_cost, CostEvidence, PlacementCost};
pub use device_bandwidth::{
    bench_command, device_limit, expect_bandwidth, expect_machine, first_difference, BandwidthEvidence,
    BandwidthSubject, TransferMethod,
};
pub use devices::{
    describe_devices, device_threads, DescribedDevices, DeviceEvidence, NamedDocument, OverrideError,
    MOST_DEVICE_THREADS,
};
pub use diagnose::{diagnose, filter_by_devices, MachineEvidence};
pub use fit::{fit, refit, ClassOptions};
pub use fleet_summary::{fleet_host_summary, fleet_summary, FleetNameError};
pub use guests::{
    extreme_nodes, guest_status, plan_guests, remote_symptoms, ExtremeNodes, GuestPlanError, GuestPlanInputs,
    GuestTarget, PlannedGuests,
};
pub use interleave::interleave_weights;
pub use interrupt_costs::{interrupt_loss, interrupt_notes, InterruptLoss};
pub use io::io_ranks;
pub use model_selection::select_model;
pub use pairs::pair_classes;
pub use placement::{
    best_nodes, choose_placement, PlacementChoice, PlacementError, RankingSources, TargetDevice,
};
pub use plan::{
    check_plan, evaluate, place_plan, plan, plan_problem, rebalance, Handover, Helper, InfeasiblePlan,
    PlanError, PlanOptions, PlanPlacementError, PlanProblemError, PlanRequest, Pool, THREAD_BYTES_PER_S,
};
pub use predict::{
    best_mix, capacities, find_measured_mix, find_mix_under_load, is_under, measured_mixes, predict,
    predict_under_load, suggest_mix, with_measurement, CapacityInputs, DeviceFit, LoadInputs, PredictError,
    MAX_DISTRIBUTED_STREAMS, MOST_STREAMS,
};
pub use scheduling_factor::scheduling_factors;
pub use sweep::sweep_classes;
pub use validate::{note_represented, validate};
pub use views::{
    check, completed, copy_views, counter_views, derived, document_views, hmat_views, io_views,
    latency_views, mmio_views, ping_views, slit_views, stream_views, sweep_views, DocumentViews,
    ViewMismatch, ViewSubject,
};
