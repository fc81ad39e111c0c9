use super::*;
use numaio_machine::findings::Severity;
use numaio_schema::{ActiveSessions, DaemonState, TransferRecord};
use std::collections::{BTreeMap, BTreeSet};

/// A family as the text describes it.
#[derive(Default)]
struct ParsedFamily {
    kind: String,
    unit: Option<String>,
    samples: BTreeMap<String, f64>,
}

/// Parses OpenMetrics text strictly (OpenMetrics 1.0, section "Text format").
fn parse(text: &str) -> BTreeMap<String, ParsedFamily> {
    let mut families: BTreeMap<String, ParsedFamily> = BTreeMap::new();
    let (body, end) = text.rsplit_once("# EOF\n").expect("an end");
    assert!(end.is_empty() && !body.contains("\n# EOF"), "text after the end: {text}");
    assert!(!text.contains('\r') && !text.contains("\n\n"));
    let mut current = String::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name) = (words.next().expect("a word"), words.next().expect("a name"));
            let value = words.next().expect("a value").to_owned();
            if what == "HELP" {
                assert!(families.insert(name.to_owned(), ParsedFamily::default()).is_none(), "{name} twice");
                current = name.to_owned();
            }
            assert_eq!(name, current, "{line}");
            let family = families.get_mut(name).expect("a family");
            match what {
                "HELP" => {}
                "TYPE" => family.kind = value,
                "UNIT" => {
                    assert!(name.ends_with(&format!("_{value}")), "{line}");
                    family.unit = Some(value);
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        let name = series.split('{').next().expect("a name");
        let family = families.get_mut(&current).expect("a family before its samples");
        assert!(["counter", "gauge"].contains(&family.kind.as_str()), "{line}");
        let suffix = if family.kind == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{current}{suffix}"), "{line}");
        parse_labels(&series[name.len()..]);
        let value: f64 = value.parse().expect("a number");
        assert!(value >= 0.0 && value.is_finite(), "{line}");
        assert!(family.samples.insert(series.to_owned(), value).is_none(), "{series} twice");
    }
    families
}

/// Parses `{name="value",...}` with the escapes of the format.
fn parse_labels(text: &str) {
    let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        return assert_eq!(text, "");
    };
    let (mut rest, mut names) = (inner, BTreeSet::new());
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("a label");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && names.insert(name), "{text}");
        let mut escaped = false;
        let end = after.char_indices().find(|(_, c)| {
            let is_end = !escaped && *c == '"';
            assert!(!escaped || matches!(c, '\\' | '"' | 'n'), "{text}");
            assert!(!c.is_control(), "{text:?}");
            escaped = !escaped && *c == '\\';
            is_end
        });
        rest = &after[end.expect("an end").0 + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn totals() -> TransferTotals {
    let text = include_str!("../../../schema/tests/fixtures/transfer-record-1.json");
    let record = TransferRecord::from_json(text).expect("a record");
    let mut totals = TransferTotals::new();
    for (user, root) in [("alice", "incoming"), ("bob", "incoming"), ("bob", "other"), ("bob", "other")] {
        totals.add(&TransferRecord { user: user.to_owned(), root: root.to_owned(), ..record.clone() });
    }
    totals
}

fn state() -> DaemonState {
    let active = |user: &str, sessions| ActiveSessions {
        user: user.to_owned(),
        user_class: "project".to_owned(),
        sessions,
    };
    DaemonState {
        schema: numaio_schema::DAEMON_STATE_SCHEMA.to_owned(),
        numaio: String::new(),
        pid: 1,
        start_time: 1,
        boot: None,
        written_at: 1,
        active: vec![active("alice", 2), active("bob", 1)],
        unauthenticated: 0,
        waiting: 4,
        lost_records: 3,
    }
}

/// All sources, with hostile names.
fn sample(by_user: bool, format: MetricsFormat) -> String {
    let topology = include_str!("../../../schema/tests/fixtures/topology-1.json");
    let mut topology = numaio_schema::TopologyDocument::from_json(topology).expect("a topology").topology;
    topology.devices[0].names = vec!["evil\"} 1\n# EOF\n\\\u{1b}[2J".to_owned()];
    let model =
        Model::from_json(include_str!("../../../schema/tests/fixtures/model-1.json")).expect("a model");
    let finding = |subject: &str| Finding::new(Severity::Warning, "pcie-link-degraded", subject, "", "", "");
    let job = Job::from_json(include_str!("../../../schema/tests/fixtures/job-1.json")).expect("a job");
    let running = Job { id: 9, state: numaio_schema::JobState::Running, ..job.clone() };
    let (totals, state) = (totals(), state());
    let sources = MetricSources {
        version: "0.1.0",
        by_user,
        transfers: Some(&totals),
        daemon: DaemonStatus::Up(&state),
        jobs: &[job, running],
        topology: Some(&topology),
        device_bytes: &[(0, 700), (usize::MAX, 1)],
        findings: &[finding("eth0"), finding("eth0"), finding("a\"b\\c\nd")],
        model: Some(&model),
    };
    metrics_text(&sources, format).expect("text")
}

#[test]
fn text_is_valid_openmetrics() {
    let text = sample(false, MetricsFormat::OpenMetrics);
    let families = parse(&text);
    let value = |family: &str, series: &str| {
        let samples = &families.get(family).unwrap_or_else(|| panic!("no {family} in {text}")).samples;
        samples.get(series).copied().unwrap_or_else(|| panic!("no {series} in {samples:?}"))
    };
    let labels = "{root=\"other\",direction=\"write\",user_class=\"project\"}";
    for (family, suffix, expected) in [
        ("numaio_transfer_bytes", "_total", 12_000_000.0),
        ("numaio_transfer_files", "_total", 80.0),
        ("numaio_transfer_session_seconds", "_total", 25.0),
        ("numaio_transfer_retries", "_total", 2.0),
        ("numaio_transfer_errors", "_total", 4.0),
    ] {
        assert_eq!(value(family, &format!("{family}{suffix}{labels}")), expected);
    }
    let incoming =
        "{root=\"incoming\",direction=\"write\",result=\"done-with-failures\",user_class=\"project\"}";
    assert_eq!(value("numaio_transfer_sessions", &format!("numaio_transfer_sessions_total{incoming}")), 2.0);
    assert_eq!(value("numaio_sessions_active", "numaio_sessions_active{user_class=\"project\"}"), 3.0);
    assert_eq!(value("numaio_sessions_waiting", "numaio_sessions_waiting"), 4.0);
    assert_eq!(value("numaio_jobs", "numaio_jobs{state=\"running\"}"), 1.0);
    assert_eq!(families["numaio_job_transferred_bytes"].samples.len(), 1);
    assert_eq!(families["numaio_finding"].samples.len(), 2, "the same finding twice is one series");
    assert_eq!(value("numaio_findings", "numaio_findings{severity=\"warning\"}"), 3.0);
    let class = "numaio_model_class{target=\"0\",direction=\"write\",node=\"3\"}";
    assert_eq!(value("numaio_model_class", class), 3.0);
    assert_eq!(families["numaio_model_bandwidth_bytes_per_second"].unit.as_deref(), Some("bytes_per_second"));
    assert_eq!(families["numaio_device_io_bytes"].samples.len(), 1);
    assert!(!text.contains("alice") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(text, sample(false, MetricsFormat::OpenMetrics), "the order is stable");
}

#[test]
fn names_of_users_are_labels_on_request() {
    let families = parse(&sample(true, MetricsFormat::OpenMetrics));
    let series = |user: &str| {
        format!(
            "numaio_transfer_bytes_total{{root=\"incoming\",direction=\"write\",user_class=\"project\",user=\"{user}\"}}"
        )
    };
    for user in ["alice", "bob"] {
        assert_eq!(families["numaio_transfer_bytes"].samples[&series(user)], 6_000_000.0);
    }
    assert_eq!(families["numaio_sessions_active"].samples.len(), 2);
}

#[test]
fn prometheus_format_names_counters_with_their_suffix() {
    let text = sample(false, MetricsFormat::Prometheus);
    assert!(text.contains("# TYPE numaio_transfer_bytes_total counter\n"), "{text}");
    assert!(!text.contains("# EOF\n") && !text.contains("# UNIT"), "{text}");
    let kinds: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    // The parser of node_exporter rejects a file with any other type.
    assert_eq!(kinds, ["counter", "gauge"].into());
}

#[test]
fn missing_sources_are_left_out() {
    let sources = MetricSources { version: "0.1.0", ..MetricSources::default() };
    let families = parse(&metrics_text(&sources, MetricsFormat::OpenMetrics).expect("text"));
    let names: Vec<&str> = families.keys().map(String::as_str).collect();
    assert_eq!(names, ["numaio_build_info", "numaio_dropped_series", "numaio_jobs"]);
    let totals = TransferTotals::new();
    let sources = MetricSources { transfers: Some(&totals), daemon: DaemonStatus::Down, ..sources };
    let families = parse(&metrics_text(&sources, MetricsFormat::OpenMetrics).expect("text"));
    assert_eq!(families["numaio_daemon_up"].samples["numaio_daemon_up"], 0.0);
    assert!(!families.contains_key("numaio_sessions_waiting"));
}

#[test]
fn number_of_series_is_limited() {
    let findings: Vec<Finding> = (0..3000)
        .map(|number| Finding::new(Severity::Note, "rule", format!("eth{number}"), "", "", ""))
        .collect();
    let topology = include_str!("../../../schema/tests/fixtures/topology-1.json");
    let topology = numaio_schema::TopologyDocument::from_json(topology).expect("a topology").topology;
    let sources =
        MetricSources { findings: &findings, topology: Some(&topology), ..MetricSources::default() };
    let families = parse(&metrics_text(&sources, MetricsFormat::OpenMetrics).expect("text"));
    assert_eq!(families["numaio_finding"].samples.len(), 2000);
    assert_eq!(families["numaio_dropped_series"].samples["numaio_dropped_series"], 1000.0);
}
