//! HTML reports: their content, and how a browser shows it.

use crate::browser::Browser;
use crate::documents::{self, MEASURED_AT};
use crate::support::{unique_id, Limited};
use numaio_machine::control::Change;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::*;
use numaio_sim::shapes;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A temporary home directory.
struct TestDir(PathBuf);

impl TestDir {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{}", unique_id()));
        fs::create_dir_all(&path).expect("a dir");
        Self(path)
    }

    fn document(&self, name: &str, document: &impl Serialize) -> String {
        self.text(name, &serde_json::to_string(document).expect("JSON"))
    }

    fn text(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }

    /// Runs `numaio report`, and returns exit status, standard output and standard error.
    fn report(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_numaio"));
        command.arg("report").args(args).env("HOME", &self.0).env("XDG_STATE_HOME", self.0.join("state"));
        let output = command.current_dir(&self.0).stdin(Stdio::null()).limited_output().expect("numaio");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Writes a page with these arguments, and returns its path.
    fn page(&self, args: &[&str]) -> PathBuf {
        let path = self.0.join("page.html");
        let name = path.to_string_lossy().into_owned();
        let (code, _, stderr) = self.report(&[args, &["-o", &name]].concat());
        assert_eq!(code, Some(0), "{stderr}");
        path
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The expected value of a cell, in the displayed unit.
struct ExpectedValue {
    value: f64,
    low: f64,
    high: f64,
    n: u32,
    drift: f64,
}

impl ExpectedValue {
    fn of(summary: &Summary, factor: f64) -> Self {
        let Summary { median, low, high, n, drift, .. } = *summary;
        Self { value: median * factor, low: low * factor, high: high * factor, n, drift }
    }

    fn of_reading(reading: &Reading, factor: f64) -> Option<Self> {
        reading.summary.as_ref().map(|summary| Self::of(summary, factor))
    }
}

/// Returns whether a text is this number, rounded to its digits.
fn shows(text: &str, value: f64) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let number: f64 = text.parse().expect("a number");
    (number - value).abs() <= 0.5001 * 10f64.powi(-decimals) && (number - value).abs() <= 0.01 * value
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Returns the data of the grids of a page with the description `what`.
fn grids<'v>(page: &'v Value, what: &str) -> Vec<&'v Value> {
    list(&page["data"]["grids"]).iter().filter(|grid| grid["what"] == what).collect()
}

/// Asserts that the data of a grid, and the cell texts of a matrix, are the expected values.
/// Returns the number of cells.
fn assert_grid(
    page: &Value,
    grid: &Value,
    expected: impl Fn(NodeId, NodeId) -> Option<ExpectedValue>,
) -> usize {
    let id = |value: &Value| NodeId(value.as_u64().expect("an id") as u32);
    let texts = page["texts"].get(grid["id"].as_str().expect("an id"));
    let columns = list(&grid["columns"]);
    for (row, row_id) in list(&grid["rows"]).iter().enumerate() {
        for (column, column_id) in columns.iter().enumerate() {
            let index = row * columns.len() + column;
            let expected = expected(id(row_id), id(column_id));
            let found = &grid["value"][index];
            let Some(expected) = expected else {
                assert!(found.is_null(), "{row_id} {column_id}: {found}");
                continue;
            };
            let number = |name: &str| grid[name][index].as_f64().expect("a number");
            assert!(
                (number("value") / expected.value - 1.0).abs() < 1e-5,
                "{found} and not {}",
                expected.value
            );
            assert!((number("below") / 1e4 - (1.0 - expected.low / expected.value)).abs() < 1e-4);
            assert!((number("above") / 1e4 - (expected.high / expected.value - 1.0)).abs() < 1e-4);
            assert!((number("drift") / 1e4 - expected.drift).abs() < 1e-4);
            assert_eq!(grid["n"][index], expected.n);
            if let Some(texts) = texts {
                let text = texts[index].as_str().expect("a text");
                assert!(shows(text, expected.value), "{text} is not {}", expected.value);
            }
        }
    }
    list(&grid["value"]).len()
}

/// Asserts the properties that every page must have.
fn assert_valid_page(page: &Value) {
    for (what, count) in [
        ("empty_svgs", 0),
        ("empty_bars", 0),
        ("broken", 0),
        ("images", 0),
        ("dead_links", 0),
        ("tables_without_caption", 0),
        ("heads_without_scope", 0),
        ("nameless_images", 0),
        ("resources", 0),
        ("overflow", 0),
        ("landmarks", 4),
        // The data, the page's own script and the probe.
        ("scripts", 3),
    ] {
        assert_eq!(page[what], count, "{what}");
    }
    assert_eq!(page["double_ids"], serde_json::json!([]));
    assert_eq!(page["ready"], "yes");
    let levels: Vec<u64> = list(&page["headings"]).iter().filter_map(Value::as_u64).collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{levels:?}");
    assert!(levels[0] == 1 && levels.windows(2).all(|two| two[1] <= two[0] + 1), "{levels:?}");
    for scheme in ["auto", "light", "dark"] {
        let ratio = page["schemes"][scheme]["ratio"].as_f64().expect("a ratio");
        assert!(ratio >= 4.5, "{scheme}: {}", page["schemes"][scheme]);
    }
}

/// Opens a page, which must write nothing to the console, and returns the properties that the probe
/// collects.
fn open(browser: &Browser, page: &Path, options: &[&str]) -> Value {
    let loaded = browser.open(page, options);
    assert!(loaded.console.is_empty(), "{:?}", loaded.console);
    assert!(loaded.dom.contains("data-ready=\"yes\""), "the page's script did not run");
    let properties = browser.probe(page, options);
    assert_valid_page(&properties);
    properties
}

/// Asserts the values of the copy model in data, matrices, and the tables behind charts.
fn assert_model(page: &Value, model: &Model) {
    for direction in [Direction::Write, Direction::Read] {
        let expected = |target: NodeId, node: NodeId| {
            let cell = model.record.cell(target, Flow::of(direction, target, node))?;
            cell.bytes_copied_per_s.as_ref().map(|summary| ExpectedValue::of(summary, 1e-9))
        };
        for grid in grids(page, &format!("{}, all targets", direction.name())) {
            assert_grid(page, grid, expected);
        }
        let charts = grids(page, direction.name());
        assert!(!charts.is_empty());
        for grid in charts {
            assert_grid(page, grid, expected);
            let rows = list(&page["figures"][grid["id"].as_str().expect("an id")]);
            assert_eq!(rows.len(), list(&grid["columns"]).len());
            for (row, value) in rows.iter().zip(list(&grid["value"])) {
                let text = row[1].as_str().expect("a text");
                assert!(shows(text, value.as_f64().expect("a number")), "{text} is not {value}");
            }
        }
    }
}

/// Returns the models among the documents of `--format json`.
fn models(dir: &TestDir, args: &[&str]) -> Vec<Model> {
    let (code, out, stderr) = dir.report(&[args, &["--format", "json", "-o", "-"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let documents = list(&bundle["machines"]).iter().flat_map(|machine| list(&machine["documents"]));
    let models = documents.filter(|document| document["schema"] == MODEL_SCHEMA);
    models.map(|model| Model::from_json(&model.to_string()).expect("a model")).collect()
}

#[test]
fn browser_shows_the_report_of_a_tape() {
    let dir = TestDir::new();
    let path = dir.page(&["--machine", "amd-dl585-g7"]);
    let models = models(&dir, &["--machine", "amd-dl585-g7"]);
    let [model] = models.as_slice() else { panic!("one model") };
    let text = fs::read_to_string(&path).expect("the page");
    assert!(text.contains("not the real machine") && !text.contains("Incomplete. "));
    let Some(browser) = Browser::find("browser_shows_the_report_of_a_tape") else { return };
    let page = open(&browser, &path, &[]);
    assert_model(&page, model);
    assert_eq!(page["bars"], 8 * 8 * 2, "a bar for each target, direction and node");
    let shown = &page["choice"]["shown"];
    assert!(page["choice"]["hidden"] == false && shown[3] == "0.103", "{}", page["choice"]);
    let light = &page["schemes"]["light"]["page"];
    let dark = &page["schemes"]["dark"]["page"];
    assert!(light[0] == 255 && dark[0].as_u64().expect("a color") < 40, "{light} {dark}");
    assert_eq!(&page["schemes"]["auto"]["page"], light);
    // A dark color scheme, and the width of a phone.
    assert_eq!(page["drawings"], 1, "one of the drawings for wide and narrow screens");
    let page = open(&browser, &path, &["--blink-settings=preferredColorScheme=0", "--window-size=400,800"]);
    assert_eq!(&page["schemes"]["auto"]["page"], dark);
}

#[test]
fn report_contains_all_measurements_of_a_tape() {
    let dir = TestDir::new();
    let tape = dir.text("complete.tape", &documents::complete_tape("uniform"));
    let (code, out, stderr) = dir.report(&["--machine", &tape, "--format", "json", "-o", "-"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let documents = list(&bundle["machines"][0]["documents"]);
    let schemas: Vec<&str> = documents.iter().filter_map(|document| document["schema"].as_str()).collect();
    assert_eq!(schemas, [TOPOLOGY_SCHEMA, MODEL_SCHEMA, STREAM_SCHEMA, LATENCY_SCHEMA]);
    let stream = StreamRecord::from_json(&documents[2].to_string()).expect("STREAM");
    assert_eq!((stream.cells.len(), stream.classes.len()), (16, 1));
    let text = fs::read_to_string(dir.page(&["--machine", &tape])).expect("the page");
    for part in ["STREAM copy", "Idle latency", "Classes of all pairs", "device write, all targets"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn page_of_64_nodes_is_complete_and_small() {
    let dir = TestDir::new();
    let machine = documents::machine("large");
    let model = documents::model(&machine, MEASURED_AT);
    let stream = documents::stream(&machine, &StreamOp::STREAM, MEASURED_AT);
    let latency = documents::latency(&machine, MEASURED_AT);
    let files = [
        dir.document("topology.json", &TopologyDocument::new(machine)),
        dir.document("model.json", &model),
        dir.document("stream.json", &stream),
        dir.document("latency.json", &latency),
    ];
    let path = dir.page(&files.each_ref().map(String::as_str));
    let bytes = fs::metadata(&path).expect("the page").len();
    assert!(bytes < 2_000_000, "{bytes} bytes");
    let Some(browser) = Browser::find("page_of_64_nodes_is_complete_and_small") else { return };
    let page = open(&browser, &path, &[]);
    println!("64 nodes: {bytes} bytes, rendered after {} ms", page["drawn_ms"]);
    assert_model(&page, &model);
    for op in StreamOp::STREAM {
        let found = grids(&page, &format!("STREAM {op}"));
        let cell = |cpu: NodeId, memory: NodeId| {
            stream
                .cells
                .iter()
                .find(|cell| cell.op == op && cell.cpu_node == cpu && cell.memory_node == memory)
        };
        let expected = |cpu, memory| ExpectedValue::of_reading(&cell(cpu, memory)?.bytes_per_s, 1e-9);
        assert_eq!(found.into_iter().map(|grid| assert_grid(&page, grid, expected)).sum::<usize>(), 64 * 64);
    }
    let idle = |cpu: NodeId, memory: NodeId| {
        let cell = latency.cells.iter().find(|cell| cell.cpu_node == cpu && cell.memory_node == memory)?;
        ExpectedValue::of_reading(&cell.ns_per_load, 1.0)
    };
    assert_eq!(assert_grid(&page, grids(&page, "Idle latency")[0], idle), 64 * 64);
    assert_eq!(
        page["curves"],
        3 * (8 - 1) + 3,
        "segments between eight points of three curves, and their legend"
    );
}

#[test]
fn page_fits_a_phone_and_desktop_screens() {
    let dir = TestDir::new();
    let small = documents::machine("dl585");
    let mut large = discover(&numaio_sim::render(&shapes::uniform(16, 8)));
    large.devices.clone_from(&small.devices);
    for device in &mut large.devices {
        device.locality.node = Some(NodeId(15));
    }
    let mut files = Vec::new();
    for (name, machine) in [("small", small), ("large", large)] {
        let file = |what: &str| format!("{name}-{what}.json");
        files.push(dir.document(&file("model"), &documents::model(&machine, MEASURED_AT)));
        files.push(
            dir.document(&file("stream"), &documents::stream(&machine, &StreamOp::STREAM, MEASURED_AT)),
        );
        files.push(dir.document(&file("latency"), &documents::latency(&machine, MEASURED_AT)));
        files.push(dir.document(&file("topology"), &TopologyDocument::new(machine)));
    }
    let path = dir.page(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let Some(browser) = Browser::find("page_fits_a_phone_and_desktop_screens") else { return };
    for (width, smallest_text) in [(390, 10.0), (1280, 7.0), (1920, 7.0)] {
        let layout = browser.layout(&path, width);
        let number = |name: &str| layout[name].as_f64().expect("a number");
        assert!(layout["width"].as_u64().is_some_and(|shown| shown.abs_diff(width.into()) < 20), "{layout}");
        assert_eq!(layout["overflow"], 0, "{layout}");
        assert_eq!(layout["cut_drawings"], 0, "{layout}");
        assert_eq!(layout["hidden_frames"], 0, "{layout}");
        assert!(width < 1280 || list(&layout["cut_matrices"]).is_empty(), "{layout}");
        assert!(number("tallest_chip") < 60.0, "node lists wrap: {layout}");
        assert!(number("smallest_text") >= smallest_text && number("smallest_cell") >= 9.5, "{layout}");
    }
}

#[test]
fn page_contains_several_machines_and_views() {
    let dir = TestDir::new();
    let (one, two) = (documents::machine("dl585"), documents::machine("arm"));
    let model = documents::model(&one, MEASURED_AT);
    let comparison = documents::comparison(&one, &model, NodeId(7));
    let files = [
        dir.document("one.json", &TopologyDocument::new(one.clone())),
        dir.document("comparison.json", &comparison),
        dir.document("two.json", &TopologyDocument::new(two.clone())),
        dir.document("stream.json", &documents::stream(&two, &[StreamOp::Triad], MEASURED_AT)),
    ];
    let path = dir.page(&files.each_ref().map(String::as_str));
    let text = fs::read_to_string(&path).expect("the page");
    assert!(text.contains("I/O bandwidth report of 2 machines"));
    assert_eq!(text.matches("<article").count(), 2);
    let inversions: usize = comparison.agreements.iter().map(|agreement| agreement.inversions.len()).sum();
    assert!(inversions > 0 && text.matches(" better by ").count() == 2 * inversions, "{inversions} pairs");
    let Some(browser) = Browser::find("page_contains_several_machines_and_views") else { return };
    let page = open(&browser, &path, &[]);
    for view in comparison.views.iter().filter(|view| view.quantity == Quantity::BytesPerS) {
        let expected = |_, node| {
            let NodeValue { value, interval, n, drift, .. } = *view.node(node)?;
            let (low, high) = interval?;
            Some(ExpectedValue { value: value / 1e9, low: low / 1e9, high: high / 1e9, n, drift })
        };
        assert_eq!(assert_grid(&page, grids(&page, &view.name)[0], expected), 8);
    }
}

#[test]
fn html_escapes_hostile_names_and_marks_missing_values() {
    let dir = TestDir::new();
    let mut machine = documents::machine("arm");
    let hostile =
        "</script><script>document.title='x'</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[2J&amp;\"'";
    machine.identity.product = hostile.into();
    machine.identity.hostname = "]]><!--".into();
    machine.devices[0].names = vec![hostile.into()];
    machine.findings = vec![numaio_machine::findings::Finding {
        severity: numaio_machine::findings::Severity::Problem,
        rule: "a-rule".into(),
        subject: hostile.into(),
        message: hostile.into(),
        evidence: hostile.into(),
        remedy: hostile.into(),
    }];
    let mut model = documents::model(&machine, MEASURED_AT);
    let provenance = &mut model.record.provenance;
    provenance.complete = false;
    provenance.source = MachineSource::Tape { name: hostile.into(), note: hostile.into() };
    provenance.warnings = vec![Warning { rule: "a-rule".into(), message: hostile.into() }];
    let cell = &mut model.record.cells[1];
    (cell.bytes_copied_per_s, cell.settled, cell.failure) = (None, false, Some(hostile.into()));
    let model = numaio_model::fit(model.record, &machine, numaio_model::ClassOptions::default());
    let files =
        [dir.document("topology.json", &TopologyDocument::new(machine)), dir.document("model.json", &model)];
    let path = dir.page(&files.each_ref().map(String::as_str));
    let text = fs::read_to_string(&path).expect("the page");
    assert!(!text.contains("<img") && !text.contains(|c: char| c.is_control() && c != '\n'));
    assert!(text.contains("<strong>Incomplete. </strong>") && text.contains("<strong>No value: </strong>"));
    let Some(browser) = Browser::find("html_escapes_hostile_names_and_marks_missing_values") else { return };
    let page = open(&browser, &path, &[]);
    assert_model(&page, &model);
}

#[test]
fn reports_only_the_newest_documents_unless_all_are_requested() {
    let dir = TestDir::new();
    let machine = documents::machine("dl585");
    let write = dir.document("old.json", &documents::model(&machine, MEASURED_AT));
    let mut newer = documents::model(&machine, MEASURED_AT + 60);
    newer.targets.retain(|target| target.target == NodeId(7));
    newer.targets[0].directions.retain(|model| model.direction == Direction::Read);
    let newer = dir.document("new.json", &newer);
    let what = |models: &[Model]| -> Vec<(u64, usize, usize)> {
        let directions = |model: &Model| model.targets.iter().map(|target| target.directions.len()).sum();
        models.iter().map(|it| (it.record.provenance.measured_at, it.targets.len(), directions(it))).collect()
    };
    let merged = models(&dir, &[&write, &newer]);
    assert_eq!(what(&merged), [(MEASURED_AT + 60, 1, 1), (MEASURED_AT, 8, 15)]);
    let all = models(&dir, &[&write, &newer, "--all"]);
    assert_eq!(what(&all), [(MEASURED_AT + 60, 1, 1), (MEASURED_AT, 8, 16)]);
}

#[test]
fn reports_saved_documents_and_skips_unreadable_ones() {
    let dir = TestDir::new();
    let (_, out, _) = dir.report(&["--format", "json", "-o", "-", "-q"]);
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let topology = bundle["machines"][0]["documents"][0].to_string();
    let topology = TopologyDocument::from_json(&topology).expect("this machine").topology;
    let saved = dir.0.join("state/numaio/latencies").join(&topology.identity.fingerprint);
    fs::create_dir_all(&saved).expect("a dir");
    let latency = documents::latency(&topology, MEASURED_AT);
    fs::write(saved.join("001795000000.json"), serde_json::to_string(&latency).expect("JSON"))
        .expect("a file");
    fs::write(saved.join("001795000001.json"), "{").expect("a file");
    let (code, out, stderr) = dir.report(&["--format", "json", "-o", "-"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("skipped") && stderr.contains("001795000001.json"), "{stderr}");
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(bundle["machines"][0]["documents"][1]["schema"], LATENCY_SCHEMA);
}

#[test]
fn prefers_own_documents_over_those_of_an_identical_machine() {
    let dir = TestDir::new();
    let (_, out, _) = dir.report(&["--format", "json", "-o", "-", "-q"]);
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let topology = bundle["machines"][0]["documents"][0].to_string();
    let own = TopologyDocument::from_json(&topology).expect("this machine").topology;
    let mut twin = own.clone();
    twin.identity.hostname = "its-twin".into();
    let saved = dir.0.join("state/numaio/latencies").join(&own.identity.fingerprint);
    fs::create_dir_all(&saved).expect("a dir");
    let save = |name: &str, topology, at| {
        let text = serde_json::to_string(&documents::latency(topology, at)).expect("JSON");
        fs::write(saved.join(name), text).expect("a file");
    };
    let hosts = || {
        let (code, out, stderr) = dir.report(&["--format", "json", "-o", "-"]);
        assert_eq!(code, Some(0), "{stderr}");
        let bundle: Value = serde_json::from_str(&out).expect("JSON");
        let machines = list(&bundle["machines"]).iter().map(|machine| {
            (machine["host"].as_str().expect("a host").to_owned(), list(&machine["documents"]).len())
        });
        (machines.collect::<Vec<_>>(), stderr.contains("identical host 'its-twin'"))
    };
    let name = own.identity.hostname.clone();
    assert!(!name.is_empty());
    // The newest readable document is from the twin.
    save("001795000002.json", &twin, MEASURED_AT + 2);
    fs::write(saved.join("001795000003.json"), "{").expect("a file");
    assert_eq!(hosts(), (vec![(name.clone(), 2)], true), "documents of the twin are used as a substitute");
    let page = dir.report(&["-o", "-"]).1;
    assert!(page.contains(", as host its-twin"));
    save("001795000000.json", &own, MEASURED_AT);
    assert_eq!(hosts(), (vec![(name, 2)], false));
}

#[test]
fn errors_name_the_file_and_field_of_invalid_documents() {
    let dir = TestDir::new();
    let failed = |args: &[&str], parts: &[&str]| {
        let (code, out, stderr) = dir.report(args);
        assert_eq!(code, Some(1), "{out}{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{parts:?} not all in {stderr}");
    };
    let machine = documents::machine("dl585");
    let model = serde_json::to_string(&documents::model(&machine, MEASURED_AT)).expect("JSON");
    let newer = dir.text("newer.json", &model.replacen("numaio/model/1", "numaio/model/9", 1));
    failed(&[&newer], &["newer.json", "a newer numaio", "numaio/model/1"]);
    let cut = dir.text("cut.json", &model[..model.len() / 2]);
    failed(&[&cut], &["cut.json", "incomplete JSON"]);
    let damaged = dir.text("damaged.json", &model.replacen("\"samples\":10", "\"samples\":\"ten\"", 1));
    failed(&[&damaged], &["damaged.json", "record.cells[0].visits[0].samples"]);
    let foreign = dir.text("foreign.json", "[1, 2]");
    failed(&[&foreign], &["foreign.json", "not a numaio document"]);
    failed(&["absent.json"], &["absent.json"]);
    let unknown = dir.text("unknown.json", "{\"schema\": \"numaio/letter/1\"}");
    failed(&[&unknown], &["unknown.json", "expected a document of numaio, got 'numaio/letter/1'"]);
    let diagnosis = include_str!("../../../schema/tests/fixtures/diagnosis-1.json");
    failed(&[&dir.text("diagnosis.json", diagnosis)], &["diagnosis.json", DIAGNOSIS_SCHEMA, "(diagnosis)"]);

    let applied = AppliedChange {
        change: Change::NumaBalancing { mode: 0 },
        inverse: Change::NumaBalancing { mode: 1 },
    };
    let receipt = Receipt::planned("0", None, 0, vec![applied]);
    failed(&[&dir.document("receipt.json", &receipt)], &["receipt.json", "receipt of changes"]);
    let complete = documents::model(&machine, MEASURED_AT);
    let mut comparison = documents::comparison(&machine, &complete, NodeId(7));
    comparison.views[1].machine = "another".into();
    let mixed = dir.document("mixed.json", &comparison);
    failed(&[&mixed], &["mixed.json", "views[1].machine", "another"]);
    let complete = dir.document("complete.json", &complete);
    failed(&[&complete, "--machine", "amd-2p"], &["complete.json", "is of machine", "--machine"]);
    assert_eq!(dir.report(&["--format", "doc"]).0, Some(2));
}

#[test]
fn writes_to_a_directory_a_default_file_or_standard_output() {
    let dir = TestDir::new();
    let (code, out, stderr) = dir.report(&["--machine", "amd-2p", "-o", "new/dir/"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{stderr}");
    assert!(dir.0.join("new/dir/numaio-report.html").is_file() && stderr.contains("new/dir"));
    assert_eq!(dir.report(&["--machine", "amd-2p"]).0, Some(0));
    assert!(dir.0.join("numaio-report.html").is_file());
    let (code, out, _) = dir.report(&["--machine", "amd-2p", "-o", "-"]);
    assert!(code == Some(0) && out.starts_with("<!DOCTYPE html>"));
    let unit = dir.report(&["--machine", "amd-2p", "-o", "-", "--unit", "Gbit/s"]).1;
    assert!(unit.contains("\"unit\":\"Gbit/s\"") && !unit.contains("\"unit\":\"GB/s\""));
}
