//! Reports: what is in them, and that a browser shows it.

use crate::browser::Browser;
use crate::documents::{self, THEN};
use crate::support::Limited;
use numaio_machine::control::Change;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::*;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder with a home in it, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
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

    /// Runs `numaio report`; gives exit status, standard output and error.
    fn report(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_numaio"));
        command.arg("report").args(args).env("HOME", &self.0).env("XDG_STATE_HOME", self.0.join("state"));
        let output = command.current_dir(&self.0).stdin(Stdio::null()).limited_output().expect("numaio");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// A page of these arguments.
    fn page(&self, args: &[&str]) -> PathBuf {
        let path = self.0.join("page.html");
        let name = path.to_string_lossy().into_owned();
        let (code, _, said) = self.report(&[args, &["-o", &name]].concat());
        assert_eq!(code, Some(0), "{said}");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a figure of a page should be, in the unit shown.
struct Wanted {
    value: f64,
    low: f64,
    high: f64,
    n: u32,
    drift: f64,
}

impl Wanted {
    fn of(summary: &Summary, factor: f64) -> Self {
        let Summary { median, low, high, n, drift, .. } = *summary;
        Self { value: median * factor, low: low * factor, high: high * factor, n, drift }
    }

    fn reading(reading: &Reading, factor: f64) -> Option<Self> {
        reading.summary.as_ref().map(|summary| Self::of(summary, factor))
    }
}

/// Whether a text is this number, as exactly as its digits tell.
fn shows(text: &str, value: f64) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let number: f64 = text.parse().expect("a number");
    (number - value).abs() <= 0.5001 * 10f64.powi(-decimals) && (number - value).abs() <= 0.01 * value
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// The data of grids of a page by what they are.
fn grids<'v>(seen: &'v Value, what: &str) -> Vec<&'v Value> {
    list(&seen["data"]["grids"]).iter().filter(|grid| grid["what"] == what).collect()
}

/// A grid's data are the figures wanted, and so are the texts of its cells where it is a matrix.
fn assert_grid(seen: &Value, grid: &Value, wanted: impl Fn(NodeId, NodeId) -> Option<Wanted>) -> usize {
    let id = |value: &Value| NodeId(value.as_u64().expect("an id") as u32);
    let texts = seen["texts"].get(grid["id"].as_str().expect("an id"));
    let columns = list(&grid["columns"]);
    for (row, row_id) in list(&grid["rows"]).iter().enumerate() {
        for (column, column_id) in columns.iter().enumerate() {
            let index = row * columns.len() + column;
            let wanted = wanted(id(row_id), id(column_id));
            let found = &grid["value"][index];
            let Some(wanted) = wanted else {
                assert!(found.is_null(), "{row_id} {column_id}: {found}");
                continue;
            };
            let number = |name: &str| grid[name][index].as_f64().expect("a number");
            assert!((number("value") / wanted.value - 1.0).abs() < 1e-5, "{found} and not {}", wanted.value);
            assert!((number("below") / 1e4 - (1.0 - wanted.low / wanted.value)).abs() < 1e-4);
            assert!((number("above") / 1e4 - (wanted.high / wanted.value - 1.0)).abs() < 1e-4);
            assert!((number("drift") / 1e4 - wanted.drift).abs() < 1e-4);
            assert_eq!(grid["n"][index], wanted.n);
            if let Some(texts) = texts {
                let text = texts[index].as_str().expect("a text");
                assert!(shows(text, wanted.value), "{text} is not {}", wanted.value);
            }
        }
    }
    list(&grid["value"]).len()
}

/// What every page has to be, whatever is on it.
fn assert_sound(seen: &Value) {
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
        assert_eq!(seen[what], count, "{what}");
    }
    assert_eq!(seen["double_ids"], serde_json::json!([]));
    assert_eq!(seen["ready"], "yes");
    let levels: Vec<u64> = list(&seen["headings"]).iter().filter_map(Value::as_u64).collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{levels:?}");
    assert!(levels[0] == 1 && levels.windows(2).all(|two| two[1] <= two[0] + 1), "{levels:?}");
    for scheme in ["auto", "light", "dark"] {
        let ratio = seen["schemes"][scheme]["ratio"].as_f64().expect("a ratio");
        assert!(ratio >= 4.5, "{scheme}: {}", seen["schemes"][scheme]);
    }
}

/// Opens the page as it is; nothing may come on the console. Then looks at a copy of it from within.
fn open(browser: &Browser, page: &Path, options: &[&str]) -> Value {
    let opened = browser.open(page, options);
    assert!(opened.console.is_empty(), "{:?}", opened.console);
    assert!(opened.dom.contains("data-ready=\"yes\""), "the page's script did not run");
    let seen = browser.probe(page, options);
    assert_sound(&seen);
    seen
}

/// Figures of the copy model, in data, matrices and tables behind charts.
fn assert_model(seen: &Value, model: &Model) {
    for direction in [Direction::Write, Direction::Read] {
        let wanted = |target: NodeId, node: NodeId| {
            let cell = model.record.cell(target, Flow::of(direction, target, node))?;
            cell.bytes_copied_per_s.as_ref().map(|summary| Wanted::of(summary, 1e-9))
        };
        for grid in grids(seen, &format!("{}, all targets", direction.name())) {
            assert_grid(seen, grid, wanted);
        }
        let charts = grids(seen, direction.name());
        assert!(!charts.is_empty());
        for grid in charts {
            assert_grid(seen, grid, wanted);
            let rows = list(&seen["figures"][grid["id"].as_str().expect("an id")]);
            assert_eq!(rows.len(), list(&grid["columns"]).len());
            for (row, value) in rows.iter().zip(list(&grid["value"])) {
                let text = row[1].as_str().expect("a text");
                assert!(shows(text, value.as_f64().expect("a number")), "{text} is not {value}");
            }
        }
    }
}

/// The models among the documents that `--format json` writes.
fn models(folder: &Folder, args: &[&str]) -> Vec<Model> {
    let (code, out, said) = folder.report(&[args, &["--format", "json", "-o", "-"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let documents = list(&bundle["machines"]).iter().flat_map(|machine| list(&machine["documents"]));
    let models = documents.filter(|document| document["schema"] == MODEL_SCHEMA);
    models.map(|model| Model::from_json(&model.to_string()).expect("a model")).collect()
}

#[test]
fn a_tape_becomes_a_page_that_a_browser_shows() {
    let folder = Folder::new();
    let page = folder.page(&["--machine", "amd-dl585-g7"]);
    let models = models(&folder, &["--machine", "amd-dl585-g7"]);
    let [model] = models.as_slice() else { panic!("one model") };
    let text = fs::read_to_string(&page).expect("the page");
    assert!(text.contains("not the real machine") && !text.contains("Incomplete. "));
    let Some(browser) = Browser::find("a_tape_becomes_a_page_that_a_browser_shows") else { return };
    let seen = open(&browser, &page, &[]);
    assert_model(&seen, model);
    assert_eq!(seen["bars"], 8 * 8 * 2, "a bar for each target, direction and node");
    let shown = &seen["choice"]["shown"];
    assert!(seen["choice"]["hidden"] == false && shown[3] == "0.103", "{}", seen["choice"]);
    let light = &seen["schemes"]["light"]["page"];
    let dark = &seen["schemes"]["dark"]["page"];
    assert!(light[0] == 255 && dark[0].as_u64().expect("a colour") < 40, "{light} {dark}");
    assert_eq!(&seen["schemes"]["auto"]["page"], light);
    // As a system that prefers dark, and as narrow as a telephone.
    let seen = open(&browser, &page, &["--blink-settings=preferredColorScheme=0", "--window-size=400,800"]);
    assert_eq!(&seen["schemes"]["auto"]["page"], dark);
}

#[test]
fn a_tape_that_holds_everything_is_reported_whole() {
    let folder = Folder::new();
    let tape = folder.text("whole.tape", &documents::whole_tape("uniform"));
    let (code, out, said) = folder.report(&["--machine", &tape, "--format", "json", "-o", "-"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let documents = list(&bundle["machines"][0]["documents"]);
    let schemas: Vec<&str> = documents.iter().filter_map(|document| document["schema"].as_str()).collect();
    assert_eq!(schemas, [TOPOLOGY_SCHEMA, MODEL_SCHEMA, STREAM_SCHEMA, LATENCY_SCHEMA]);
    let stream = StreamRecord::from_json(&documents[2].to_string()).expect("STREAM");
    assert_eq!((stream.cells.len(), stream.classes.len()), (16, 1));
    let text = fs::read_to_string(folder.page(&["--machine", &tape])).expect("the page");
    for part in ["STREAM copy", "Idle latency", "Classes of all pairs", "device write, all targets"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_page_of_64_nodes_is_small_and_whole() {
    let folder = Folder::new();
    let machine = documents::machine("large");
    let model = documents::model(&machine, THEN);
    let stream = documents::stream(&machine, &StreamOp::ALL, THEN);
    let latency = documents::latency(&machine, THEN);
    let files = [
        folder.document("topology.json", &TopologyDocument::new(machine)),
        folder.document("model.json", &model),
        folder.document("stream.json", &stream),
        folder.document("latency.json", &latency),
    ];
    let page = folder.page(&files.each_ref().map(String::as_str));
    let bytes = fs::metadata(&page).expect("the page").len();
    assert!(bytes < 2_000_000, "{bytes} bytes");
    let Some(browser) = Browser::find("a_page_of_64_nodes_is_small_and_whole") else { return };
    let seen = open(&browser, &page, &[]);
    println!("64 nodes: {bytes} bytes, laid out after {} ms", seen["drawn_ms"]);
    assert_model(&seen, &model);
    for op in StreamOp::ALL {
        let found = grids(&seen, &format!("STREAM {op}"));
        let cell = |cpu: NodeId, memory: NodeId| {
            stream
                .cells
                .iter()
                .find(|cell| cell.op == op && cell.cpu_node == cpu && cell.memory_node == memory)
        };
        let wanted = |cpu, memory| Wanted::reading(&cell(cpu, memory)?.bytes_per_s, 1e-9);
        assert_eq!(found.into_iter().map(|grid| assert_grid(&seen, grid, wanted)).sum::<usize>(), 64 * 64);
    }
    let idle = |cpu: NodeId, memory: NodeId| {
        let cell = latency.cells.iter().find(|cell| cell.cpu_node == cpu && cell.memory_node == memory)?;
        Wanted::reading(&cell.ns_per_load, 1.0)
    };
    assert_eq!(assert_grid(&seen, grids(&seen, "Idle latency")[0], idle), 64 * 64);
    assert_eq!(seen["curves"], 3 * (8 - 1) + 3, "between eight points of three curves, and in their key");
}

#[test]
fn several_machines_and_views_stand_on_one_page() {
    let folder = Folder::new();
    let (one, two) = (documents::machine("dl585"), documents::machine("arm"));
    let model = documents::model(&one, THEN);
    let comparison = documents::comparison(&one, &model, NodeId(7));
    let files = [
        folder.document("one.json", &TopologyDocument::new(one.clone())),
        folder.document("comparison.json", &comparison),
        folder.document("two.json", &TopologyDocument::new(two.clone())),
        folder.document("stream.json", &documents::stream(&two, &[StreamOp::Triad], THEN)),
    ];
    let page = folder.page(&files.each_ref().map(String::as_str));
    let text = fs::read_to_string(&page).expect("the page");
    assert!(text.contains("I/O bandwidth report of 2 machines"));
    assert_eq!(text.matches("<article").count(), 2);
    let wrong: usize = comparison.agreements.iter().map(|agreement| agreement.inversions.len()).sum();
    assert!(wrong > 0 && text.matches(" better by ").count() == 2 * wrong, "{wrong} pairs");
    let Some(browser) = Browser::find("several_machines_and_views_stand_on_one_page") else { return };
    let seen = open(&browser, &page, &[]);
    for view in comparison.views.iter().filter(|view| view.quantity == Quantity::BytesPerS) {
        let wanted = |_, node| {
            let NodeValue { value, interval, n, drift, .. } = *view.node(node)?;
            let (low, high) = interval?;
            Some(Wanted { value: value / 1e9, low: low / 1e9, high: high / 1e9, n, drift })
        };
        assert_eq!(assert_grid(&seen, grids(&seen, &view.name)[0], wanted), 8);
    }
}

#[test]
fn hostile_names_and_what_is_missing_stay_text() {
    let folder = Folder::new();
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
        what: hostile.into(),
        evidence: hostile.into(),
        remedy: hostile.into(),
    }];
    let mut model = documents::model(&machine, THEN);
    let provenance = &mut model.record.provenance;
    provenance.complete = false;
    provenance.source = MachineSource::Tape { name: hostile.into(), note: hostile.into() };
    provenance.warnings = vec![Warning { rule: "a-rule".into(), what: hostile.into() }];
    let cell = &mut model.record.cells[1];
    (cell.bytes_copied_per_s, cell.settled, cell.failure) = (None, false, Some(hostile.into()));
    let model = numaio_model::fit(model.record, &machine, numaio_model::ClassOptions::default());
    let files = [
        folder.document("topology.json", &TopologyDocument::new(machine)),
        folder.document("model.json", &model),
    ];
    let page = folder.page(&files.each_ref().map(String::as_str));
    let text = fs::read_to_string(&page).expect("the page");
    assert!(!text.contains("<img") && !text.contains(|c: char| c.is_control() && c != '\n'));
    assert!(text.contains("<strong>Incomplete. </strong>") && text.contains("<strong>No value: </strong>"));
    let Some(browser) = Browser::find("hostile_names_and_what_is_missing_stay_text") else { return };
    let seen = open(&browser, &page, &[]);
    assert_model(&seen, &model);
}

#[test]
fn the_newest_of_each_thing_is_kept_unless_all_are_wanted() {
    let folder = Folder::new();
    let machine = documents::machine("dl585");
    let write = folder.document("old.json", &documents::model(&machine, THEN));
    let mut newer = documents::model(&machine, THEN + 60);
    newer.targets.retain(|target| target.target == NodeId(7));
    newer.targets[0].directions.retain(|model| model.direction == Direction::Read);
    let newer = folder.document("new.json", &newer);
    let what = |models: &[Model]| -> Vec<(u64, usize, usize)> {
        let directions = |model: &Model| model.targets.iter().map(|target| target.directions.len()).sum();
        models.iter().map(|it| (it.record.provenance.measured_at, it.targets.len(), directions(it))).collect()
    };
    let merged = models(&folder, &[&write, &newer]);
    assert_eq!(what(&merged), [(THEN + 60, 1, 1), (THEN, 8, 15)]);
    let all = models(&folder, &[&write, &newer, "--all"]);
    assert_eq!(what(&all), [(THEN + 60, 1, 1), (THEN, 8, 16)]);
}

#[test]
fn saved_documents_of_this_machine_are_found() {
    let folder = Folder::new();
    let (_, out, _) = folder.report(&["--format", "json", "-o", "-", "-q"]);
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let topology = bundle["machines"][0]["documents"][0].to_string();
    let topology = TopologyDocument::from_json(&topology).expect("this machine").topology;
    let saved = folder.0.join("state/numaio/latencies").join(&topology.identity.fingerprint);
    fs::create_dir_all(&saved).expect("a folder");
    let latency = documents::latency(&topology, THEN);
    fs::write(saved.join("001795000000.json"), serde_json::to_string(&latency).expect("JSON"))
        .expect("a file");
    fs::write(saved.join("001795000001.json"), "{").expect("a file");
    let (code, out, said) = folder.report(&["--format", "json", "-o", "-"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("passed over") && said.contains("001795000001.json"), "{said}");
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(bundle["machines"][0]["documents"][1]["schema"], LATENCY_SCHEMA);
}

#[test]
fn what_a_machine_alike_left_in_the_same_home_is_not_taken_for_ones_own() {
    let folder = Folder::new();
    let (_, out, _) = folder.report(&["--format", "json", "-o", "-", "-q"]);
    let bundle: Value = serde_json::from_str(&out).expect("JSON");
    let topology = bundle["machines"][0]["documents"][0].to_string();
    let own = TopologyDocument::from_json(&topology).expect("this machine").topology;
    let mut twin = own.clone();
    twin.identity.hostname = "its-twin".into();
    let saved = folder.0.join("state/numaio/latencies").join(&own.identity.fingerprint);
    fs::create_dir_all(&saved).expect("a folder");
    let save = |name: &str, topology, at| {
        let text = serde_json::to_string(&documents::latency(topology, at)).expect("JSON");
        fs::write(saved.join(name), text).expect("a file");
    };
    let hosts = || {
        let (code, out, said) = folder.report(&["--format", "json", "-o", "-"]);
        assert_eq!(code, Some(0), "{said}");
        let bundle: Value = serde_json::from_str(&out).expect("JSON");
        let told = list(&bundle["machines"]).iter().map(|machine| {
            (machine["host"].as_str().expect("a host").to_owned(), list(&machine["documents"]).len())
        });
        (told.collect::<Vec<_>>(), said.contains("identical host 'its-twin'"))
    };
    let name = own.identity.hostname.clone();
    assert!(!name.is_empty());
    // The newest one is the twin's, but for a broken one, which is nobody's.
    save("001795000002.json", &twin, THEN + 2);
    fs::write(saved.join("001795000003.json"), "{").expect("a file");
    assert_eq!(hosts(), (vec![(name.clone(), 2)], true), "as wherever else they stand for this machine's");
    let page = folder.report(&["-o", "-"]).1;
    assert!(page.contains(", as host its-twin"));
    save("001795000000.json", &own, THEN);
    assert_eq!(hosts(), (vec![(name, 2)], false));
}

#[test]
fn what_cannot_be_reported_is_named_by_file_and_field() {
    let folder = Folder::new();
    let failed = |args: &[&str], parts: &[&str]| {
        let (code, out, said) = folder.report(args);
        assert_eq!(code, Some(1), "{out}{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} not all in {said}");
    };
    let machine = documents::machine("dl585");
    let model = serde_json::to_string(&documents::model(&machine, THEN)).expect("JSON");
    let newer = folder.text("newer.json", &model.replacen("numaio/model/1", "numaio/model/9", 1));
    failed(&[&newer], &["newer.json", "a newer numaio", "numaio/model/1"]);
    let cut = folder.text("cut.json", &model[..model.len() / 2]);
    failed(&[&cut], &["cut.json", "not JSON"]);
    let damaged = folder.text("damaged.json", &model.replacen("\"samples\":10", "\"samples\":\"ten\"", 1));
    failed(&[&damaged], &["damaged.json", "record.cells[0].visits[0].samples"]);
    let foreign = folder.text("foreign.json", "[1, 2]");
    failed(&[&foreign], &["foreign.json", "not a numaio document"]);
    failed(&["absent.json"], &["absent.json"]);
    let diagnosis = folder.text("diagnosis.json", &format!("{{\"schema\": \"{DIAGNOSIS_SCHEMA}\"}}"));
    failed(&[&diagnosis], &[DIAGNOSIS_SCHEMA, "expected a document of a machine or a measurement"]);

    let applied = AppliedChange {
        change: Change::NumaBalancing { mode: 0 },
        inverse: Change::NumaBalancing { mode: 1 },
    };
    let receipt = Receipt::planned("0", None, 0, vec![applied]);
    failed(&[&folder.document("receipt.json", &receipt)], &["receipt.json", "receipts of changes"]);
    let whole = documents::model(&machine, THEN);
    let mut comparison = documents::comparison(&machine, &whole, NodeId(7));
    comparison.views[1].machine = "another".into();
    let mixed = folder.document("mixed.json", &comparison);
    failed(&[&mixed], &["mixed.json", "views[1].machine", "another"]);
    let whole = folder.document("whole.json", &whole);
    failed(&[&whole, "--machine", "amd-2p"], &["whole.json", "is of machine", "--machine"]);
    assert_eq!(folder.report(&["--format", "doc"]).0, Some(2));
}

#[test]
fn the_report_goes_where_one_wants() {
    let folder = Folder::new();
    let (code, out, said) = folder.report(&["--machine", "amd-2p", "-o", "new/folder/"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{said}");
    assert!(folder.0.join("new/folder/numaio-report.html").is_file() && said.contains("new/folder"));
    assert_eq!(folder.report(&["--machine", "amd-2p"]).0, Some(0));
    assert!(folder.0.join("numaio-report.html").is_file());
    let (code, out, _) = folder.report(&["--machine", "amd-2p", "-o", "-"]);
    assert!(code == Some(0) && out.starts_with("<!DOCTYPE html>"));
    let unit = folder.report(&["--machine", "amd-2p", "-o", "-", "--unit", "Gbit/s"]).1;
    assert!(unit.contains("\"unit\":\"Gbit/s\"") && !unit.contains("\"unit\":\"GB/s\""));
}
