//! Documents of released versions remain readable. Fixtures never change; a new version adds a new
//! one.

use numaio_machine::control::Change;
use numaio_machine::counters::Counter;
use numaio_machine::devices::RegisterChoice;
use numaio_machine::ids::NodeId;
use numaio_schema::{
    BalanceEvent, BalanceEventKind, BalanceReason, BaselineComparison, CommandArg, Comparison, Cost,
    CounterRecord, DaemonState, DevicePurpose, DevicesDocument, Diagnosis, Document, DocumentError,
    FigureScope, FleetCheck, FleetHostState, FleetHostSummary, FleetLauncher, FleetRun, FleetStatus,
    FleetSummary, GuestPlan, GuestsDocument, HostReport, IoPrediction, Job, JobProblem, JobState, MmioRecord,
    Model, PingRecord, Plan, PlanProblem, PlannedPath, Quantity, Receipt, Record, SharingModel, Stage,
    Striping, SweepRecord, SweepScope, TopRecording, TopSnapshot, TopologyDocument, TransferDeviceKind,
    TransferDirection, TransferRecord, TransferResult, TransferTotals, ValueSource, View,
};

#[test]
fn reads_model_version_1() {
    let model = Model::from_json(include_str!("fixtures/model-1.json")).expect("a model");
    let classes: Vec<String> =
        model.targets[0].directions[0].classes.iter().map(|class| class.nodes.to_string()).collect();
    assert_eq!((model.targets[0].target, classes), (NodeId(0), vec!["0".into(), "1".into(), "2-3".into()]));
}

#[test]
fn reads_record_version_1() {
    let record = Record::from_json(include_str!("fixtures/record-1.json")).expect("a record");
    assert_eq!(record.cells.len(), 7);
    assert!(record.provenance.complete && record.cells.iter().all(|cell| cell.bytes_copied_per_s.is_some()));
}

#[test]
fn sweep_version_1_round_trips() {
    let text = include_str!("fixtures/sweep-1.json");
    let sweep = SweepRecord::from_json(text).expect("a sweep");
    let json = serde_json::to_string(&sweep).expect("JSON");
    assert_eq!(SweepRecord::from_json(&json).expect("the same sweep"), sweep);
    let Document::Sweep(document) = Document::from_json(text).expect("a document") else { panic!() };
    assert_eq!(*document, sweep);
    assert_eq!((sweep.method.scope, sweep.method.quantity), (SweepScope::Pairs, Quantity::BytesPerS));
    assert_eq!((sweep.cells[0].build, sweep.cells[0].other_builds[0].figure.median()), (1, Some(19.1e9)));
    let ranks: Vec<Option<u32>> = (0..4).map(|cell| sweep.rank(cell)).collect();
    assert_eq!(ranks, [Some(1), Some(2), None, Some(1)]);
}

#[test]
fn counters_version_1_round_trips() {
    let text = include_str!("fixtures/counters-1.json");
    let record = CounterRecord::from_json(text).expect("counts");
    let json = serde_json::to_string(&record).expect("JSON");
    assert_eq!(CounterRecord::from_json(&json).expect("the same counts"), record);
    let Document::Counters(document) = Document::from_json(text).expect("a document") else { panic!() };
    assert_eq!(*document, record);
    let [local, remote] = record.cells.as_slice() else { panic!("{:?}", record.cells) };
    assert_eq!(local.value(Counter::NodeLoadMisses), Some(4000.0), "scaled");
    assert!(local.is_doubtful(Counter::NodeLoadMisses) && !remote.is_doubtful(Counter::NodeLoadMisses));
    assert_eq!((remote.value(Counter::Cycles), remote.value(Counter::Instructions)), (None, None));
    assert_eq!((local.value(Counter::NumaHit), remote.prefetchers), (Some(120.0), Some(true)));
    assert_eq!((record.missing.len(), record.factors.pairs.len()), (1, 2));
}

#[test]
fn ping_version_1_round_trips() {
    let text = include_str!("fixtures/ping-1.json");
    let ping = PingRecord::from_json(text).expect("a record");
    let json = serde_json::to_string(&ping).expect("JSON");
    assert_eq!(PingRecord::from_json(&json).expect("the same record"), ping);
    let Document::Ping(document) = Document::from_json(text).expect("a document") else { panic!() };
    assert_eq!(*document, ping);
    let stripings: Vec<Option<Striping>> = ping.cells.iter().map(|cell| cell.striping).collect();
    let expected = [Striping::Single(0), Striping::Single(1), Striping::Even, Striping::Measured];
    assert_eq!(stripings, expected.map(Some));
    assert_eq!(ping.rails[1].rail.to_string(), "203.0.113.1=203.0.113.2");
    let [single, .., measured] = ping.cells.as_slice() else { panic!() };
    assert!(measured.bytes_per_s() > single.bytes_per_s() && measured.parts.iter().sum::<u64>() == 65536);
}

#[test]
fn mmio_version_1_round_trips() {
    let text = include_str!("fixtures/mmio-1.json");
    let mmio = MmioRecord::from_json(text).expect("a record");
    let json = serde_json::to_string(&mmio).expect("JSON");
    assert_eq!(MmioRecord::from_json(&json).expect("the same record"), mmio);
    let Document::Mmio(document) = Document::from_json(text).expect("a document") else { panic!() };
    assert_eq!(*document, mmio);
    assert_eq!((mmio.bar, mmio.offset, mmio.choice), (0, 8, RegisterChoice::NvmeVersion));
    let factors: Vec<Option<f64>> = mmio.cells.iter().map(|cell| mmio.factor(cell)).collect();
    assert_eq!(factors, [Some(1.25), Some(1.0), None]);
}

#[test]
fn reads_topology_version_1() {
    let document = TopologyDocument::from_json(include_str!("fixtures/topology-1.json")).expect("a topology");
    assert_eq!(document.topology.nodes.len(), 4);
    assert_eq!(document.topology.device_nodes().to_string(), "0,2");
}

#[test]
fn prediction_version_1_round_trips() {
    let text = include_str!("fixtures/prediction-1.json");
    let prediction = IoPrediction::from_json(text).expect("a prediction");
    let capacities = &prediction.capacities;
    assert_eq!((capacities.nodes.len(), capacities.fitted_mixes), (8, 0));
    let sharing = &capacities.sharing[0];
    assert_eq!((sharing.model, sharing.parameters[0].value), (SharingModel::Bytes, 34712330.0));
    let mix = prediction.mix.as_ref().expect("a mix");
    assert_eq!((mix.limits.bytes_per_s, mix.selected, mix.flows.len()), (34712330.0, None, 2));
    let Document::Prediction(document) = Document::from_json(text).expect("a document") else { panic!() };
    assert_eq!(*document, prediction);
    let json = serde_json::to_string(&prediction).expect("JSON");
    assert_eq!(IoPrediction::from_json(&json).expect("the same prediction"), prediction);
}

#[test]
fn host_report_version_1_round_trips() {
    let text = include_str!("fixtures/host-report-1.json");
    let report = HostReport::from_json(text).expect("a report");
    let json = serde_json::to_string(&report).expect("JSON");
    assert_eq!(HostReport::from_json(&json).expect("the same report"), report);
    assert_eq!((report.host.as_str(), report.topology.topology.nodes.len()), ("n17", 4));
    let nested = Document::from_json(&report.documents[0].to_string()).expect("a document");
    assert!(matches!(nested, Document::Model(_)), "{nested:?}");
    let newer = text.replacen("host-report/1", "host-report/2", 1);
    let error = HostReport::from_json(&newer).expect_err("a newer version");
    assert!(matches!(error, DocumentError::NewerVersion { .. }), "{error}");
    let cut = HostReport::from_json(&text[..text.len() / 2]).expect_err("half a report");
    assert!(cut.to_string().contains("incomplete JSON"), "{cut}");
}

#[test]
fn guests_version_1_round_trips() {
    let text = include_str!("fixtures/guests-1.json");
    let document = GuestsDocument::from_json(text).expect("guests");
    let json = serde_json::to_string(&document).expect("JSON");
    assert_eq!(GuestsDocument::from_json(&json).expect("the same guests"), document);
    let guest = &document.guests[0];
    assert!(guest.pinned && guest.has_faults() && guest.configuration.owns_device());
    let roles: Vec<String> = guest.threads.iter().map(|thread| thread.role.to_string()).collect();
    assert_eq!(roles, ["vCPU 0", "I/O iothread1", "emulator"]);
    assert_eq!((guest.threads[1].name.as_str(), guest.devices[0].node), ("IO iothread1", Some(NodeId(1))));
}

#[test]
fn guest_plan_version_1_round_trips() {
    let text = include_str!("fixtures/guest-plan-1.json");
    let plan = GuestPlan::from_json(text).expect("a plan");
    let json = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(GuestPlan::from_json(&json).expect("the same plan"), plan);
    assert_eq!((plan.guests[0].memory_bytes(), plan.guests[0].vcpus().len()), (1 << 30, 2));
    assert_eq!(
        plan.guests[0].function.as_ref().map(|function| function.physical_function.as_str()),
        Some("eth0")
    );
    let newer = text.replacen("guest-plan/1", "guest-plan/2", 1);
    assert!(matches!(GuestPlan::from_json(&newer), Err(DocumentError::NewerVersion { .. })));
}

/// Changes of guests, as receipts hold them.
#[test]
fn changes_of_guests_round_trip() {
    for text in [
        r#"{"change":"thread-affinity","pid":7,"tid":8,"start_time":9,"cpus":"0-3"}"#,
        r#"{"change":"process-pages","pid":7,"start_time":9,"shared":true,"runs":[]}"#,
        r#"{"change":"libvirt-pin","domain":"web","thread":{"thread":"vcpu","number":1},"pid":7,"tid":8,"start_time":9,"cpus":"4"}"#,
        r#"{"change":"libvirt-pin","domain":"web","thread":{"thread":"emulator"},"pid":7,"tid":7,"start_time":9,"cpus":"4"}"#,
        r#"{"change":"virtual-functions","function":"0000:3b:00.0","count":4}"#,
    ] {
        let change: Change = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&change).expect("JSON"), text);
        assert!(change.is_same_setting(&change), "{text}");
    }
}

#[test]
fn reads_receipt_version_1() {
    let receipt = Receipt::from_json(include_str!("fixtures/receipt-1.json")).expect("a receipt");
    assert_eq!(receipt.applied[0].inverse, Change::NumaBalancing { mode: 1 });
}

#[test]
fn diagnosis_version_1_round_trips() {
    let diagnosis = Diagnosis::from_json(include_str!("fixtures/diagnosis-1.json")).expect("a diagnosis");
    let json = serde_json::to_string(&diagnosis).expect("JSON");
    assert_eq!(Diagnosis::from_json(&json).expect("the same diagnosis"), diagnosis);
    assert!(diagnosis.has_faults() && diagnosis.findings[0].cost.most().is_some_and(|most| most > 0.12));
    assert!(matches!(diagnosis.findings[1].cost, Cost::Unknown { .. }));
    assert_eq!(diagnosis.findings[1].fix.undo, ["sysctl -w kernel.numa_balancing=1"]);
}

#[test]
fn fleet_check_version_1_round_trips() {
    let text = include_str!("fixtures/fleet-check-1.json");
    let check = FleetCheck::from_json(text).expect("a check");
    let json = serde_json::to_string(&check).expect("JSON");
    assert_eq!(FleetCheck::from_json(&json).expect("the same check"), check);
    let Document::FleetCheck(document) = Document::from_json(text).expect("a document") else { panic!() };
    assert_eq!(*document, check);
    let [link, slow] = check.hosts.as_slice() else { panic!("{:#?}", check.hosts) };
    assert!(link.differs_in_structure() && !link.has_slow_figures() && !link.facts[0].explains.is_empty());
    assert!(!slow.differs_in_structure() && slow.has_slow_figures() && check.has_findings());
    assert_eq!(slow.summaries[0].scope, FigureScope::Node { node: NodeId(5) });
}

#[test]
fn devices_version_1_round_trips() {
    let document = DevicesDocument::from_json(include_str!("fixtures/devices-1.json")).expect("devices");
    let json = serde_json::to_string(&document).expect("JSON");
    assert_eq!(DevicesDocument::from_json(&json).expect("the same devices"), document);
    let [drive, home, nic] = document.devices.as_slice() else { panic!("{document:#?}") };
    assert_eq!((drive.read.bytes_per_s(), drive.write.bytes_per_s()), (Some(3.2e9), None));
    assert!(matches!(&drive.read_threads.source, ValueSource::Configuration { line: 12, .. }));
    assert!(home.has_name("/home/") && home.nodes.is_none() && !home.has_name("/"));
    assert_eq!((nic.kind.value, nic.purpose.value), (TransferDeviceKind::Nic, DevicePurpose::Network));
    assert_eq!(document.omitted[0].reason, "no link");
}

#[test]
fn job_version_1_round_trips() {
    let job = Job::from_json(include_str!("fixtures/job-1.json")).expect("a job");
    assert_eq!(
        (job.state, job.command[2].clone()),
        (JobState::Interrupted, CommandArg::Text("my data/".to_owned()))
    );
    let mut bytes = job.clone();
    bytes.command.push(CommandArg::Bytes(vec![0xff, 0x20]));
    for job in [job, bytes] {
        let json = serde_json::to_string(&job).expect("JSON");
        assert_eq!(Job::from_json(&json).expect("the same job"), job);
    }
}

#[test]
fn job_keeps_first_problems_and_last_log_lines() {
    let mut job = Job::from_json(include_str!("fixtures/job-1.json")).expect("a job");
    let (problem, first) = (job.problems[0].clone(), job.problems[0].text.clone());
    for number in 0..1500 {
        job.add_problem(JobProblem { text: number.to_string(), ..problem.clone() });
        job.add_line(number, String::new());
    }
    assert_eq!((job.problems.len(), &job.problems[0].text), (Job::MAX_PROBLEMS, &first));
    assert_eq!((job.log.len(), job.log[0].at, job.log[999].at), (Job::MAX_LINES, 500, 1499));
}

/// Names and texts may come from another host, and a job may be resumed many times.
#[test]
fn job_truncates_long_names_and_texts() {
    let mut job = Job::from_json(include_str!("fixtures/job-1.json")).expect("a job");
    job.problems.clear();
    for char in ["\u{1b}", "\"", "x", "\u{1f600}"] {
        let long = || char.repeat(30_000);
        let problem = JobProblem { name: Some(long()), side: long(), reason: long(), text: long() };
        let repetitions = if char == "\u{1b}" { Job::MAX_PROBLEMS } else { 1 };
        (0..repetitions).for_each(|_| job.add_problem(problem.clone()));
        (0..repetitions).for_each(|_| job.add_line(1, long()));
        let json_length = |text: &str| serde_json::to_string(text).expect("JSON").len();
        let problem = job.problems.pop().expect("a problem");
        let JobProblem { name, side, reason, text } = &problem;
        let name = json_length(name.as_deref().expect("a name"));
        assert!((28_000..29_000).contains(&name), "{name} bytes of a name");
        for text in [side, reason, text, &job.log[0].text] {
            assert!((4_000..=4_098).contains(&json_length(text)), "{} bytes", json_length(text));
        }
        assert_eq!(problem.clone().truncated(), problem);
        let all = serde_json::to_vec_pretty(&job).expect("JSON").len();
        assert!(all < 48 << 20, "{all} bytes");
        job.problems.clear();
        job.log.clear();
    }
}

#[test]
fn reads_comparison_version_1() {
    let comparison = Comparison::from_json(include_str!("fixtures/comparison-1.json")).expect("a comparison");
    let names: Vec<&str> = comparison.views.iter().map(|view| view.name.as_str()).collect();
    assert_eq!((comparison.target, names), (NodeId(0), vec!["slit", "copy-write", "copy-read"]));
    let pair = &comparison.agreements[2];
    assert_eq!((pair.tau_b, pair.same_classes, pair.nodes.len()), (Some(1.0), true, 4));
}

#[test]
fn reads_view_version_1() {
    let view = View::from_json(include_str!("fixtures/view-1.json")).expect("a view");
    let classes: Vec<String> = view.classes.iter().map(|class| class.nodes.to_string()).collect();
    assert_eq!((view.quantity, classes), (Quantity::BytesPerS, vec!["0".into(), "1".into(), "2-3".into()]));
    assert!(view.nodes.iter().all(|value| value.n > 0 && value.interval.is_some()));
}

#[test]
fn plan_problem_version_1_round_trips() {
    let text = include_str!("fixtures/plan-problem-1.json");
    let problem = PlanProblem::from_json(text).expect("a problem");
    assert_eq!((problem.total_bytes(), problem.nodes[0].reserved), (3_000_000_000_000, 1));
    let json = serde_json::to_string(&problem).expect("JSON");
    assert_eq!(PlanProblem::from_json(&json).expect("the same problem"), problem);
    let written = toml::to_string(&problem).expect("TOML");
    assert_eq!(toml::from_str::<PlanProblem>(&written).expect("the same problem"), problem);
    let modified = text.replacen("\"reserved\"", "\"reservde\"", 1);
    let error = PlanProblem::from_json(&modified).expect_err("an unknown field").to_string();
    assert!(error.contains("nodes[0]") && error.contains("reservde"), "{error}");
}

#[test]
fn plan_version_1_round_trips() {
    let plan = Plan::from_json(include_str!("fixtures/plan-1.json")).expect("a plan");
    let json = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(Plan::from_json(&json).expect("the same plan"), plan);
    let bytes = |paths: &[PlannedPath]| paths.iter().map(|path| path.bytes).sum::<u64>();
    assert_eq!(bytes(&plan.storage_paths), plan.problem.total_bytes());
    assert_eq!(bytes(&plan.network_paths), plan.problem.total_bytes());
    assert!(
        plan.proof.optimal
            && plan.bottleneck().any(|slow| slow.stage == Stage::Storage("nvme0n1".to_owned()))
    );
    assert!(plan.threads_on(NodeId(0)) <= 7 && plan.rejected.len() == 2);
}

#[test]
fn rejects_other_documents_and_versions_by_name() {
    let rejected = |text: &str| Model::from_json(text).expect_err("not a model of version 1");
    let newer = include_str!("fixtures/model-1.json").replacen("numaio/model/1", "numaio/model/2", 1);
    assert_eq!(
        rejected(&newer).to_string(),
        "'numaio/model/2' was written by a newer numaio; this version reads numaio/model/1"
    );
    let unknown = newer.replacen("numaio/model/2", "numaio/model/0", 1);
    assert_eq!(rejected(&unknown).to_string(), "expected a numaio/model/1, got 'numaio/model/0'");
    let record = include_str!("fixtures/record-1.json");
    assert!(matches!(rejected(record), DocumentError::WrongKind { found, .. } if found == "numaio/record/1"));
    for text in ["{}", "[]", "7", "{\"schema\": 1}"] {
        assert!(matches!(rejected(text), DocumentError::NoSchema), "{text}");
    }
}

#[test]
fn reports_the_field_that_is_malformed() {
    let model = include_str!("fixtures/model-1.json");
    let truncated = Model::from_json(&model[..model.len() / 2]).expect_err("truncated");
    assert!(matches!(truncated, DocumentError::NotJson(_)), "{truncated}");
    let modified = model.replacen("\"level\":", "\"leevel\":", 1);
    assert_ne!(modified, model);
    let error = Model::from_json(&modified).expect_err("a missing field").to_string();
    assert!(error.contains("targets[0].directions[0]") && error.contains("level"), "{error}");
}

#[test]
fn detects_the_kind_of_a_document_by_its_schema() {
    let model = Document::from_json(include_str!("fixtures/model-1.json")).expect("a model");
    assert!(matches!(model, Document::Model(_)));
    let topology = Document::from_json(include_str!("fixtures/topology-1.json")).expect("a topology");
    assert!(matches!(topology, Document::Topology(_)));
    let error = |text: &str| Document::from_json(text).expect_err("an unknown document").to_string();
    let newer = include_str!("fixtures/record-1.json").replacen("numaio/record/1", "numaio/record/9", 1);
    assert!(error(&newer).contains("a newer numaio"));
    assert!(error("{\"schema\": \"numaio/letter/1\"}").contains("numaio/letter/1"));
}

#[test]
fn transfer_record_version_1_round_trips() {
    let text = include_str!("fixtures/transfer-record-1.json");
    let record = TransferRecord::from_json(text).expect("a record");
    assert_eq!(
        (record.user.as_str(), record.direction, record.result, record.counts.bytes),
        ("alice", Some(TransferDirection::Write), TransferResult::DoneWithFailures, 6_000_000)
    );
    let json = serde_json::to_string(&record).expect("JSON");
    assert_eq!(json, text.trim_end(), "one line with all fields");
    assert_eq!(TransferRecord::from_json(&json).expect("the same record"), record);
}

#[test]
fn transfer_totals_version_1_round_trip() {
    let totals = TransferTotals::from_json(include_str!("fixtures/transfer-totals-1.json")).expect("totals");
    assert_eq!((totals.through_day, totals.totals[0].sessions[&TransferResult::Done]), (20_783, 7));
    let json = serde_json::to_string(&totals).expect("JSON");
    assert_eq!(TransferTotals::from_json(&json).expect("the same totals"), totals);
}

#[test]
fn daemon_state_version_1_round_trips() {
    let state = DaemonState::from_json(include_str!("fixtures/daemon-state-1.json")).expect("a state");
    assert_eq!((state.active[0].sessions, state.lost_records), (2, 3));
    let json = serde_json::to_string(&state).expect("JSON");
    assert_eq!(DaemonState::from_json(&json).expect("the same state"), state);
}

#[test]
fn reads_fleet_run_version_1() {
    let text = include_str!("fixtures/fleet-run-1.json");
    let run = FleetRun::from_json(text).expect("a run");
    let FleetLauncher::Slurm(launch) = &run.launcher else { panic!("not Slurm") };
    assert!(launch.per_switch && launch.at_once == Some(8));
    assert_eq!((run.hosts[1].jobs.len(), run.hosts[2].jobs.len()), (2, 0));
    let ssh = text.replace("\"kind\": \"slurm\"", "\"kind\": \"ssh\"");
    let run = FleetRun::from_json(&ssh).expect("a run");
    assert_eq!(run.launcher, FleetLauncher::Ssh { at_once: 8 });
}

#[test]
fn balance_events_version_1_round_trip() {
    let lines = include_str!("fixtures/balance-event-1.jsonl").lines();
    let events: Vec<BalanceEvent> =
        lines.map(|line| BalanceEvent::from_json(line).expect("an event")).collect();
    for event in &events {
        let json = serde_json::to_string(event).expect("JSON");
        assert_eq!(BalanceEvent::from_json(&json).expect("the same event"), *event);
    }
    let BalanceEventKind::Decision(decision) = &events[2].event else { panic!("{events:?}") };
    assert_eq!((decision.to, decision.reason.name()), (Some(NodeId(7)), "gain"));
    let BalanceEventKind::Decision(decision) = &events[3].event else { panic!("{events:?}") };
    assert!(matches!(decision.reason, BalanceReason::OutsideAffinity { .. }));
    assert!(matches!(events[6].event, BalanceEventKind::Ended { moves: 1, .. }));
}

#[test]
fn reads_fleet_status_version_1() {
    let status = FleetStatus::from_json(include_str!("fixtures/fleet-status-1.json")).expect("a status");
    assert_eq!(status.hosts[1].state, FleetHostState::Lost);
    assert!(!status.is_complete() && status.counts.len() == 3);
}

#[test]
fn fleet_summaries_version_1_round_trip() {
    let summary = FleetSummary::from_json(include_str!("fixtures/fleet-summary-1.json")).expect("a summary");
    let json = serde_json::to_string(&summary).expect("JSON");
    assert_eq!(FleetSummary::from_json(&json).expect("the same summary"), summary);
    let group = &summary.groups[0];
    assert_eq!((summary.hosts, group.group.hosts.len(), group.pair_classes.len()), (4, 4, 2));
    let host = FleetHostSummary::from_json(include_str!("fixtures/fleet-host-1.json")).expect("a host");
    let json = serde_json::to_string(&host).expect("JSON");
    assert_eq!(FleetHostSummary::from_json(&json).expect("the same host"), host);
    assert_eq!((host.host.as_str(), host.group_hosts), ("slow", 4));
}

#[test]
fn baseline_version_1_round_trips() {
    let text = include_str!("fixtures/baseline-1.json");
    let comparison = BaselineComparison::from_json(text).expect("a comparison");
    let json = serde_json::to_string(&comparison).expect("JSON");
    assert_eq!(BaselineComparison::from_json(&json).expect("the same comparison"), comparison);
    assert!(comparison.figures.iter().all(|change| change.after < change.before));
}

#[test]
fn top_snapshots_version_1_round_trip() {
    let text = include_str!("fixtures/top-1.json");
    let snapshot = TopSnapshot::from_json(text).expect("a snapshot");
    let json = serde_json::to_string(&snapshot).expect("JSON");
    assert_eq!(TopSnapshot::from_json(&json).expect("the same snapshot"), snapshot);
    let dd = &snapshot.programs[1];
    assert_eq!((dd.bytes(), dd.io_bytes_per_s()), (Some(1 << 20), Some(37e6)));
    assert_eq!(snapshot.programs.iter().filter(|program| program.is_active()).count(), 5);
}

#[test]
fn recordings_of_snapshots_may_end_within_a_line() {
    let snapshot = TopSnapshot::from_json(include_str!("fixtures/top-1.json")).expect("a snapshot");
    let line = serde_json::to_string(&snapshot).expect("JSON");
    let whole = TopRecording::parse(&format!("{line}\n\n{line}\n")).expect("a recording");
    assert_eq!((whole.snapshots.len(), whole.is_truncated), (2, false));
    let cut = TopRecording::parse(&format!("{line}\n{}", &line[..100])).expect("a recording");
    assert_eq!((cut.snapshots.len(), cut.is_truncated), (1, true));
    let wrong = TopRecording::parse(&format!("{line}\n{{}}\n{line}\n")).expect_err("no schema");
    assert_eq!((wrong.line, TopRecording::parse("\n").is_err()), (2, true));
    assert!(TopRecording::is_recording(&line.replace("top/1", "top/9")));
    assert!(!TopRecording::is_recording("{\"tape\": 1}") && !TopRecording::is_recording(""));
}
