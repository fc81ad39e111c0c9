//! A machine whose names contain code for the programs that show them.

use crate::documents::{self, MEASURED_AT};
use crate::support::Home;
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, StreamOp};
use numaio_schema::*;

/// Names that are hostile in different ways.
pub const NAMES: [&str; 10] = [
    "\\input{/etc/passwd}\\write18{id} %$#&_{}~^ \\end{document}",
    "=HYPERLINK(\"http://x.example\";\"y\")",
    "</td><script>alert(1)</script><img src=x onerror=alert(1)>&amp;",
    "a|b\\|c`d`*e*_f_[g](http://x.example)![h](www.x.example)",
    "\u{1b}[2J\u{7}\u{202e}\u{0}tab\tline\nnext\r\u{2028}",
    "網路卡 سيرفر сервер 🖧 e\u{301} æøåßñÿÐðÞþ ×±µ°·²½¶§©",
    "\"quoted\", 'single', ``back`` -- --- ?` !` ,, << >>",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "-2+3+cmd",
    "[2ex] * \\\\ & \\\\[1cm] %",
];

/// Returns a name without blanks that is wider than a page.
pub fn endless() -> String {
    "Waaaay-too-long/".repeat(9) + &"W".repeat(300)
}

/// Writes documents of such a machine: topology, model, STREAM, comparison, and single views.
pub fn files(home: &Home) -> Vec<String> {
    let mut names = NAMES.iter().map(|name| (*name).to_owned()).chain([endless()]).cycle();
    let mut next = || names.next().expect("endless");
    let mut machine = documents::machine("dl585");
    (machine.identity.hostname, machine.identity.product) = (next(), next());
    (machine.identity.cpu_model, machine.identity.kernel) = (next(), next());
    machine.findings = (0..11)
        .map(|index| Finding {
            severity: Severity::Problem,
            rule: format!("rule-{index}"),
            subject: next(),
            message: next(),
            evidence: next().repeat(6),
            remedy: next(),
        })
        .collect();
    let mut model = documents::model(&machine, MEASURED_AT);
    model.record.provenance.complete = false;
    model.record.provenance.source = MachineSource::Tape { name: next(), note: next() };
    for _ in 0..11 {
        let what = next();
        model.record.provenance.warnings.push(Warning { rule: "a-rule".into(), message: what });
    }
    let cell = &mut model.record.cells[1];
    (cell.bytes_copied_per_s, cell.settled, cell.failure) = (None, false, Some(next()));
    let model = numaio_model::fit(model.record, &machine, numaio_model::ClassOptions::default());
    let mut stream = documents::stream(&machine, &[StreamOp::Triad], MEASURED_AT);
    let reading = &mut stream.cells[3].bytes_per_s;
    (reading.summary, reading.settled, reading.failure) = (None, false, Some(next()));
    let mut comparison = documents::comparison(&machine, &model, NodeId(7));
    for view in &mut comparison.views {
        view.title = next();
    }
    comparison.warnings = vec![Warning { rule: "a-rule".into(), message: next() }];
    let mut files = vec![
        home.document("topology.json", &TopologyDocument::new(machine)),
        home.document("model.json", &model),
        home.document("stream.json", &stream),
        home.document("comparison.json", &comparison),
    ];
    for index in 0..11 {
        let mut view = comparison.views[1].clone();
        (view.name, view.title) = (next(), next());
        view.direction = Some(if index % 2 == 0 { Direction::Write } else { Direction::Read });
        files.push(home.document(&format!("view-{index}.json"), &view));
    }
    files
}
