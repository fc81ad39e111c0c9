//! Formats documents as text, SVG, HTML, LaTeX, Markdown, CSV, hwloc XML and OpenMetrics.
//!
//! All functions are pure: they read no clock, terminal or file. Names come from firmware, drivers
//! and recorded tapes, so they are untrusted: the module `style` replaces control characters,
//! escape sequences and marks that change the direction of writing before a name is written.

mod aggregate_text;
mod balance_text;
mod baseline_text;
mod bundle;
mod comparison_text;
mod confirmation_text;
mod cost_text;
mod counters_text;
mod csv;
mod device_matrix;
mod devices_text;
mod doctor_text;
mod expectation_text;
mod fleet;
mod fleet_run_text;
mod gpu_text;
mod guests;
mod html;
mod hwloc;
mod interleave_text;
mod io_loads_text;
mod io_text;
mod irq_nodes_text;
mod irq_text;
mod jobs_text;
mod latency_text;
mod latex;
mod listing;
mod markdown;
mod matrix_text;
mod metrics;
mod mmio_text;
mod model_text;
mod near_text;
mod net_text;
mod number_format;
mod overview_text;
mod phrases;
mod ping_text;
mod placement;
mod plan_text;
mod prediction_text;
mod record_header;
mod sheet_text;
mod sheets;
mod statistics_text;
mod stream_text;
mod style;
mod subjects;
mod svg;
mod sweep_text;
mod table;
mod text_page;
pub mod top;
mod topology_text;
mod transfer_text;
mod validation_text;
mod verdict;

pub use aggregate_text::aggregate_text;
pub use balance_text::{balance_event_text, balance_reason_text, moved_text};
pub use baseline_text::baseline_text;
pub use bundle::{Bundle, BundleError, MachineDocuments};
pub use comparison_text::comparison_text;
pub use confirmation_text::{confirmation_text, ConfirmedDirection};
pub use cost_text::cost_text;
pub use counters_text::counters_text;
pub use csv::{csv, fleet_csv};
pub use device_matrix::device_matrix_text;
pub use devices_text::devices_text;
pub use doctor_text::doctor_text;
pub use expectation_text::expectation_text;
pub use fleet::{
    balloons, fleet_check_text, fleet_host_text, fleet_html, fleet_summary_text, node_features,
    slurm_actions, FleetPage, GroupTopology,
};
pub use fleet_run_text::fleet_status_text;
pub use gpu_text::gpu_text;
pub use guests::{
    guest_bench_text, guest_domain, guest_domain_from, guest_kubevirt, guest_openstack, guest_plan_text,
    guest_proxmox, guest_qemu, guest_text, guests_text,
};
pub use html::html;
pub use hwloc::{hwloc_annotate, hwloc_xml, MeasurementSet};
pub use interleave_text::interleave_text;
pub use io_loads_text::io_loads_text;
pub use io_text::{io_agreement, io_text};
pub use irq_nodes_text::irq_nodes_text;
pub use irq_text::{irq_text, irqbalance_ban, receipts_text};
pub use jobs_text::{job_text, jobs_text, queue_text};
pub use latency_text::latency_text;
pub use latex::{fleet_latex, latex};
pub use listing::model_listing;
pub use markdown::{fleet_markdown, markdown};
pub use metrics::{
    balance_metrics_text, metrics_text, BalanceTotals, DaemonStatus, MetricSources, MetricsFormat,
};
pub use mmio_text::mmio_text;
pub use model_text::model_text;
pub use near_text::near_text;
pub use net_text::net_text;
pub use overview_text::overview_text;
pub use phrases::machine_name;
pub use ping_text::ping_text;
pub use placement::{forms, placement_text, status_text, verification_text};
pub use plan_text::plan_text;
pub use prediction_text::{prediction_text, streams_text};
pub use statistics_text::{statistics_text, KindCounts, TransferStatistics};
pub use stream_text::stream_text;
pub use style::{to_ascii, wrap_hanging, Detail, TextStyle};
pub use svg::{plan_svg, topology_svg};
pub use sweep_text::sweep_text;
pub use topology_text::topology_text;
pub use transfer_text::{progress_text, transfer_text};
pub use validation_text::validation_text;
pub use verdict::verdict;
