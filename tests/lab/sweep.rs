//! A sweep of a STREAM program on an emulated machine.

use numaio_lab::{measure, note_value, Folder};
use numaio_model::{sweep_classes, ClassOptions};
use numaio_schema::{ClassRule, SweepClasses, SweepRecord};
use std::collections::BTreeMap;
use std::fs;

/// Returns the pairs of CPU node and memory node of each class, best first, each once.
fn pairs(record: &SweepRecord, classes: &SweepClasses) -> Vec<Vec<(u32, u32)>> {
    let of_class = |class: &numaio_schema::SweepClass| {
        let cells = class.cells.iter().map(|index| &record.cells[*index as usize]);
        let mut pairs: Vec<(u32, u32)> = cells.map(|cell| (cell.cpu_node.0, cell.memory_node.0)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    };
    classes.classes.iter().map(of_class).collect()
}

/// Bytes by (CPU node, memory node), from lines of both nodes and one or several numbers.
fn bytes_by_pair(text: &str) -> BTreeMap<(u32, u32), f64> {
    let mut pairs = BTreeMap::new();
    for line in text.lines() {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [cpu_node, memory_node, bytes @ ..] = numbers.as_slice() else { panic!("{line}") };
        *pairs.entry((*cpu_node as u32, *memory_node as u32)).or_default() +=
            bytes.iter().sum::<u64>() as f64;
    }
    pairs
}

/// The emulator books each access of user code by the physical address, so it is a witness of the
/// pairs to which the program was bound that neither numaio nor the kernel can mislead.
#[test]
#[ignore = "make test-all: a campaign of two minutes"]
fn emulator_counts_the_local_and_remote_bytes_of_each_pair() {
    let test = "emulator_counts_the_local_and_remote_bytes_of_each_pair";
    measure(test, |lab| {
        let folder = Folder::new("witness");
        let (program, counts) = (folder.0.join("stream"), folder.0.join("counts"));
        if !lab.build(test, "stream.c", &program) {
            return;
        }
        let [add, to] = [&program, &counts].map(|path| path.to_string_lossy().into_owned());
        let sweep = "STREAM_LOG=/out/log numaio sweep --figure 'Copy: (.*) MB/s' --figure-unit MB/s \
                     --precision 30 --time-limit 60 --json --no-save -- stream 2";
        let options = ["--add", &add, "--counts", &to];
        let output = lab.run_with_options(&options, "uniform-2n", &folder.0, &["sh", "-c", sweep]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |name: &str| bytes_by_pair(&fs::read_to_string(folder.0.join(name)).expect("bytes"));
        let (program, emulator) = (read("log"), read("counts"));
        assert_eq!(program.len(), 4, "all pairs were measured: {program:?}");
        for (pair, bytes) in &program {
            let witnessed = emulator.get(pair).copied().unwrap_or(0.0);
            note_value("witnessed share", witnessed / bytes);
            assert!((witnessed / bytes - 1.0).abs() < 0.05, "{pair:?}: {bytes}, witnessed {witnessed}");
        }
    });
}

/// The rates of the machine's description within 5 %, and its three classes of pairs: local, same
/// package, other package (Braithwaite et al., 2012, Table 4), by rule `measured`.
#[test]
fn sweep_of_a_stream_program_has_the_rates_and_classes_of_amd_2p() {
    let test = "sweep_of_a_stream_program_has_the_rates_and_classes_of_amd_2p";
    measure(test, |lab| {
        let folder = Folder::new("sweep");
        let program = folder.0.join("stream");
        if !lab.build(test, "stream.c", &program) {
            return;
        }
        let add = program.to_string_lossy().into_owned();
        let command = [
            &[
                "numaio",
                "sweep",
                "--cores",
                "--classes",
                "kmeans",
                "--json",
                "--no-save",
                "--pause-balancing",
                "--precision",
                "10",
            ][..],
            &["--figure", "Copy: ([0-9.]+)", "--figure-unit", "MB/s", "--", "stream", "0.5"],
        ]
        .concat();
        let output = lab.run_with_options(&["--add", &add], "amd-2p", &folder.0, &command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let record = SweepRecord::from_json(&String::from_utf8_lossy(&output.stdout)).expect("a sweep");
        let machine: serde_json::Value = {
            let path = lab.root.join("lab/machines/amd-2p.json");
            serde_json::from_str(&fs::read_to_string(path).expect("a machine")).expect("JSON")
        };
        assert_eq!(record.cells.len(), 8 * 4, "8 cores and 4 memory nodes");
        for cell in &record.cells {
            let (row, column) = (cell.cpu_node.0 as usize, cell.memory_node.0 as usize);
            let rate = |table: &str| machine[table][row][column].as_f64().expect("a rate");
            let scale = machine["mb_per_s_per_unit"].as_f64().expect("a scale") * 1e6;
            let expected = rate("load").min(rate("store")) * scale;
            let found = cell.figure.median().expect("a figure");
            note_value("share of the rate", format_args!("{:.3}", found / expected));
            assert!((found / expected - 1.0).abs() < 0.05, "{row} on {column}: {found}, expected {expected}");
            let checked: Vec<_> = cell.figure.visits.iter().map(|visit| &visit.residency).collect();
            // Two arrays of 2 MiB. Visits may be sampled before all pages are touched.
            assert!(
                checked.iter().any(|pages| pages.pages_checked.is_some_and(|pages| pages >= 256)),
                "{checked:?}"
            );
            assert!(checked.iter().all(|pages| pages.pages_misplaced == 0), "{checked:?}");
        }
        let expected: Vec<Vec<(u32, u32)>> = {
            let all = || (0..4).flat_map(|cpu| (0..4).map(move |memory| (cpu, memory)));
            let local = all().filter(|(cpu, memory)| cpu == memory).collect();
            let package = all().filter(|(cpu, memory)| cpu != memory && cpu / 2 == memory / 2).collect();
            vec![local, package, all().filter(|(cpu, memory)| cpu / 2 != memory / 2).collect()]
        };
        // Cbench's criterion may divide a class of 16 cores by their noise, but mixes none.
        let by_kmeans = pairs(&record, &record.classes);
        let is_part =
            |class: &Vec<(u32, u32)>| expected.iter().any(|of| class.iter().all(|pair| of.contains(pair)));
        assert!(by_kmeans.len() >= 3 && by_kmeans.iter().all(is_part), "k-means: {by_kmeans:?}");
        let measured = sweep_classes(&record, ClassOptions { classes: ClassRule::Measured, level: 0.1 });
        assert_eq!(pairs(&record, &measured), expected, "measured");
    });
}
