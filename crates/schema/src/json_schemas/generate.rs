//! Derives the definitions of all documents from their types.

use crate::aggregate::AggregateRecord;
use crate::balance::BalanceEvent;
use crate::baseline::BaselineComparison;
use crate::cost::ProgramCost;
use crate::counters::CounterRecord;
use crate::devices::DevicesDocument;
use crate::diagnosis::Diagnosis;
use crate::fleet_check::FleetCheck;
use crate::fleet_report::HostReport;
use crate::fleet_run::{FleetRun, FleetStatus};
use crate::fleet_summary::{FleetHostSummary, FleetSummary};
use crate::guest_bench::GuestBench;
use crate::guest_plan::GuestPlan;
use crate::guests::GuestsDocument;
use crate::interleave::InterleaveWeights;
use crate::io::IoRecord;
use crate::irq::IrqDocument;
use crate::job::Job;
use crate::latency::LatencyRecord;
use crate::mmio::MmioRecord;
use crate::model::Model;
use crate::near::NearDocument;
use crate::ping::PingRecord;
use crate::placement::PlacementPlan;
use crate::plan::{Plan, PlanProblem};
use crate::prediction::IoPrediction;
use crate::receipt::Receipt;
use crate::record::Record;
use crate::schemas::*;
use crate::status::Status;
use crate::stream::StreamRecord;
use crate::sweep::SweepRecord;
use crate::top::TopSnapshot;
use crate::topology::TopologyDocument;
use crate::transfer_record::{DaemonState, TransferRecord, TransferTotals};
use crate::validation::Validation;
use crate::verification::Verification;
use crate::view::{Comparison, View};
use numaio_machine::tape::{json_schema_of_entry, TapeHeader, TAPE_SCHEMA};
use schemars::generate::SchemaSettings;
use schemars::SchemaGenerator;
use serde_json::{json, Map, Value};

/// Returns the definitions of all types by name (`$defs`), and the type of each document
/// (`documents`).
pub fn generate_definitions() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut documents = Map::new();
    let mut add = |id: &str, reference: schemars::Schema| {
        let name = reference.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next());
        documents.insert(id.to_owned(), name.unwrap_or_default().into());
    };
    macro_rules! add_documents {
        ($($id:ident: $document:ty,)*) => {
            $(add($id, generator.subschema_for::<$document>());)*
        };
    }
    add_documents! {
        BALANCE_EVENT_SCHEMA: BalanceEvent,
        BASELINE_SCHEMA: BaselineComparison,
        COMPARISON_SCHEMA: Comparison,
        COUNTERS_SCHEMA: CounterRecord,
        DAEMON_STATE_SCHEMA: DaemonState,
        DEVICES_SCHEMA: DevicesDocument,
        DIAGNOSIS_SCHEMA: Diagnosis,
        FLEET_CHECK_SCHEMA: FleetCheck,
        FLEET_HOST_SCHEMA: FleetHostSummary,
        FLEET_RUN_SCHEMA: FleetRun,
        FLEET_STATUS_SCHEMA: FleetStatus,
        FLEET_SUMMARY_SCHEMA: FleetSummary,
        HOST_REPORT_SCHEMA: HostReport,
        INTERLEAVE_SCHEMA: InterleaveWeights,
        IO_SCHEMA: IoRecord,
        IRQ_SCHEMA: IrqDocument,
        JOB_SCHEMA: Job,
        LATENCY_SCHEMA: LatencyRecord,
        MMIO_SCHEMA: MmioRecord,
        MODEL_SCHEMA: Model,
        NEAR_SCHEMA: NearDocument,
        AGGREGATE_SCHEMA: AggregateRecord,
        PING_SCHEMA: PingRecord,
        PLACEMENT_SCHEMA: PlacementPlan,
        PLAN_PROBLEM_SCHEMA: PlanProblem,
        PLAN_SCHEMA: Plan,
        PREDICTION_SCHEMA: IoPrediction,
        RECEIPT_SCHEMA: Receipt,
        RECORD_SCHEMA: Record,
        COST_SCHEMA: ProgramCost,
        GUEST_BENCH_SCHEMA: GuestBench,
        GUEST_PLAN_SCHEMA: GuestPlan,
        GUESTS_SCHEMA: GuestsDocument,
        TOP_SCHEMA: TopSnapshot,
        STATUS_SCHEMA: Status,
        STREAM_SCHEMA: StreamRecord,
        SWEEP_SCHEMA: SweepRecord,
        TOPOLOGY_SCHEMA: TopologyDocument,
        TRANSFER_RECORD_SCHEMA: TransferRecord,
        TRANSFER_TOTALS_SCHEMA: TransferTotals,
        VALIDATION_SCHEMA: Validation,
        VERIFICATION_SCHEMA: Verification,
        VIEW_SCHEMA: View,
    }
    documents.insert(TAPE_SCHEMA.to_owned(), "TapeLine".into());
    let line = tape_line(&mut generator);
    let mut types = generator.take_definitions(true);
    types.insert("TapeLine".to_owned(), line);
    let mut types = Value::Object(types);
    clean_descriptions(&mut types);
    json!({ "documents": documents, "$defs": types })
}

/// Returns the schema of any line of a tape.
fn tape_line(generator: &mut SchemaGenerator) -> Value {
    let lines = [generator.subschema_for::<TapeHeader>(), json_schema_of_entry(generator)];
    json!({ "description": "A line of a tape: the header first, then entries.", "anyOf": lines })
}

/// Rewrites all descriptions for readers of other languages: no links and values of Rust, and one
/// line for each paragraph.
fn clean_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = clean(text);
            }
            fields.values_mut().for_each(clean_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(clean_descriptions),
        _ => {}
    }
}

fn clean(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = without_links(&paragraphs.collect::<Vec<_>>().join("\n\n"));
    match text.strip_prefix('`').and_then(|text| text.strip_suffix("_SCHEMA`.")) {
        Some(name) if name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') => {
            "Kind and version of the document.".to_owned()
        }
        _ => text.replace("`None`", "`null`"),
    }
}

/// Replaces links such as `` [`Device`](crate::Device) `` by their text.
fn without_links(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((label, after)) = link.split_once("`]") else { break };
        cleaned.extend([before, "`", label, "`"]);
        rest = match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    cleaned + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_rustdoc_links_and_line_breaks() {
        let text = "As [`Model`](crate::Model)\nof [`View`], `a[0]`; `None` else.\n\nMore [`open";
        assert_eq!(clean(text), "As `Model` of `View`, `a[0]`; `null` else.\n\nMore [`open");
        assert_eq!(clean("[`FLEET_RUN_SCHEMA`]."), "Kind and version of the document.");
    }
}
