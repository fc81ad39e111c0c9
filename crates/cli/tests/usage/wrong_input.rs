//! Mistakes of new users: each gets one error with the reason, a hint, the right exit status, and
//! no files are written.

use crate::support::{CommandOutput, Home, Limited};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Every command that reads documents, without the file name.
const READERS: [&[&str]; 5] = [
    &["report"],
    &["report", "--format", "csv", "-o", "-"],
    &["export"],
    &["compare", "--from"],
    &["compare", "--machine", "amd-2p", "--with"],
];

/// Creates a home with files of all kinds.
fn home() -> Home {
    let home = Home::new();
    let json = |command: &str, machine: &str| home.run(&[command, "--machine", machine, "--json", "-q"]).ok();
    let model = json("model", "amd-2p");
    home.file("model.json", &model);
    home.file("other.json", &json("model", "intel-r820"));
    home.file("topology.json", &json("topology", "amd-2p"));
    home.file("comparison.json", &json("compare", "amd-2p"));
    home.file("cut.json", &model[..model.len() / 2]);
    home.file("empty.json", "");
    home.file("newer.json", &model.replacen("numaio/model/1", "numaio/model/9", 1));
    home.file("foreign.json", "{\"fio version\": \"fio-3.36\"}");
    home.file("no-cells.json", &model.replacen("\"cells\"", "\"c\"", 1));
    home.file("words.json", &model.replace("\"median\": ", "\"median\": \"fast\", \"was\": "));
    home.file("notes.txt", "node 7 was slow today\n");
    fs::write(home.0.join("picture.png"), [0x89, b'P', b'N', b'G', 0xff, 0, 0xfe]).expect("a file");
    home.run(&["record", "-o", "this.tape", "--no-measure", "-q"]).ok();
    fs::create_dir_all(home.0.join("folder")).expect("a folder");
    home
}

/// Returns every file below a directory, with its size.
fn files(folder: &Path) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().expect("its metadata"));
        found.insert((
            path.to_string_lossy().into_owned(),
            if metadata.is_dir() { 0 } else { metadata.len() },
        ));
        if metadata.is_dir() {
            found.extend(files(&path));
        }
    }
    found
}

/// Checks that numaio fails with this status, an error and a hint that contain these parts, and
/// writes no files.
fn assert_rejected(home: &Home, args: &[&str], code: i32, error: &[&str], hint: &[&str]) {
    let before = files(&home.0);
    let CommandOutput { code: found, out, err } = home.run(&[args, &["--quiet"]].concat());
    let lines: Vec<&str> = err.lines().collect();
    let context = format!("{args:?}: {err}");
    assert_eq!((found, out.as_str()), (Some(code), ""), "{context}");
    let [first, second] = lines.as_slice() else { panic!("not an error and a hint: {context}") };
    assert!(
        first.starts_with("numaio: ") && error.iter().all(|part| first.contains(part)),
        "{error:?}: {context}"
    );
    assert!(
        second.starts_with("  hint: ") && hint.iter().all(|part| second.contains(part)),
        "{hint:?}: {context}"
    );
    assert_eq!(files(&home.0), before, "{args:?} changed files");
}

#[test]
fn errors_name_files_that_are_not_documents() {
    let home = home();
    let documents: &[&str] = &["topology, model, stream, latency and compare", "--json"];
    let wrong: [(&str, &[&str], &[&str]); 11] = [
        ("cut.json", &["incomplete JSON"], &["truncated"]),
        ("empty.json", &["incomplete JSON"], &["truncated"]),
        ("notes.txt", &["not JSON"], documents),
        ("newer.json", &["numaio/model/9", "a newer numaio"], &["use a newer numaio"]),
        ("foreign.json", &["no field `schema`"], documents),
        ("no-cells.json", &["field `record`", "missing field `cells`"], documents),
        ("words.json", &["field `record.cells[0].", "median`", "\"fast\""], documents),
        ("picture.png", &["not a text file"], documents),
        ("this.tape", &["found a tape"], &["--machine this.tape"]),
        ("absent.json", &["No such file"], documents),
        ("folder", &["Is a directory"], &["files in it"]),
    ];
    for command in READERS {
        for (file, error, hint) in wrong {
            assert_rejected(&home, &[command, &[file]].concat(), 1, &[&[file][..], error].concat(), hint);
            // A valid file before it does not matter.
            if command[0] != "compare" {
                assert_rejected(&home, &[command, &["model.json", file]].concat(), 1, &[file], hint);
            }
        }
    }
}

#[test]
fn errors_name_documents_of_another_machine() {
    let home = home();
    let both = ["other.json", "intel-r820", "amd-2p"];
    assert_rejected(&home, &["export", "model.json", "other.json"], 1, &both, &["numaio report accepts"]);
    assert_rejected(
        &home,
        &["compare", "--from", "model.json", "other.json"],
        1,
        &both,
        &["numaio report accepts"],
    );
    assert_rejected(
        &home,
        &["compare", "--from", "model.json", "--with", "other.json"],
        1,
        &["other.json", "intel-r820"],
        &["one machine"],
    );
    assert_rejected(
        &home,
        &["report", "other.json", "--machine", "amd-2p"],
        1,
        &["other.json"],
        &["omit --machine"],
    );
    assert_rejected(
        &home,
        &["export", "other.json"],
        1,
        &["another machine"],
        &["numaio topology --json", "--machine"],
    );
    home.run(&["report", "model.json", "other.json", "-o", "both.html"]).ok();
}

#[test]
fn errors_name_documents_without_usable_content() {
    let home = home();
    let compare: &[&str] = &["compare", "--from"];
    assert_rejected(
        &home,
        &[compare, &["comparison.json"]].concat(),
        1,
        &["comparison.json"],
        &["numaio report shows"],
    );
    assert_rejected(
        &home,
        &[compare, &["topology.json"]].concat(),
        1,
        &["only SLIT distance"],
        &["add documents"],
    );
    assert_rejected(
        &home,
        &["export", "comparison.json"],
        1,
        &["comparison.json", "nothing to export"],
        &["--json"],
    );
    assert_rejected(
        &home,
        &["export", "--format", "weights", "topology.json"],
        1,
        &["no measurement to export"],
        &["numaio stream"],
    );
    assert_rejected(
        &home,
        &["export", "--format", "hwloc-annotate", "topology.json"],
        1,
        &["no measurement to export"],
        &["numaio latency or numaio stream"],
    );
    for command in ["stream", "latency"] {
        assert_rejected(
            &home,
            &[command, "--machine", "this.tape"],
            1,
            &["not on the tape"],
            &["measurements of its recording"],
        );
    }
    assert_rejected(
        &home,
        &["compare", "--machine", "this.tape"],
        1,
        &["nothing to compare"],
        &["record the machine again"],
    );
}

#[test]
fn every_command_rejects_invalid_machines() {
    let home = home();
    for command in ["report", "export", "compare", "stream", "latency"] {
        let shipped: &[&str] = &["tape", "amd-dl585-g7", "intel-r820", "amd-2p"];
        let on = |machine: &'static str| [command, "--machine", machine];
        assert_rejected(
            &home,
            &on("model.json"),
            1,
            &["model.json", "expected a tape, found a document"],
            &["compare --from"],
        );
        assert_rejected(
            &home,
            &on("cut.json"),
            1,
            &["cut.json", "header of a numaio tape"],
            &["numaio record"],
        );
        assert_rejected(&home, &on("picture.png"), 1, &["picture.png"], &["numaio record"]);
        assert_rejected(&home, &on("amd-dl585"), 2, &["amd-dl585", "No such file"], shipped);
        assert_rejected(&home, &on("folder"), 2, &["Is a directory"], shipped);
        assert_rejected(
            &home,
            &[command, "--sysroot", "folder"],
            1,
            &["folder", "contains neither"],
            &["sys and proc"],
        );
    }
}

#[test]
fn reports_unwritable_destinations() {
    let home = home();
    home.file("there.html", "existing content");
    for command in [["report", "model.json"], ["export", "topology.json"]] {
        let to = |place: &'static str| [&command[..], &["-o", place]].concat();
        assert_rejected(
            &home,
            &to("absent/file"),
            1,
            &["absent/file", "No such file"],
            &["a writable directory"],
        );
        assert_rejected(
            &home,
            &to("model.json/file"),
            1,
            &["model.json/file", "Not a directory"],
            &["a writable directory"],
        );
        assert_rejected(&home, &to("/dev/full"), 1, &["/dev/full", "No space left"], &["free space"]);
    }
    assert_rejected(
        &home,
        &["export", "topology.json", "-o", "folder"],
        1,
        &["folder", "is a directory"],
        &["a file in it"],
    );
    assert_rejected(
        &home,
        &["report", "model.json", "-o", "/dev/null/"],
        1,
        &["/dev/null", "Not a directory"],
        &["writable directory"],
    );
    // Unreadable input leaves the existing file unchanged.
    assert_rejected(&home, &["report", "cut.json", "-o", "there.html"], 1, &["cut.json"], &["truncated"]);
    assert_rejected(&home, &["report", "cut.json", "-o", "new/"], 1, &["cut.json"], &["truncated"]);
    assert_eq!(fs::read_to_string(home.0.join("there.html")).expect("a file"), "existing content");
}

#[test]
fn full_disk_on_standard_output_is_a_failure() {
    let home = home();
    for args in [
        &["report", "model.json", "-o", "-"][..],
        &["export", "topology.json"],
        &["compare", "--machine", "amd-2p"],
        &["stream", "--machine", "amd-2p"],
        &["latency", "--machine", "amd-2p", "--json"],
    ] {
        let mut command = home.numaio(args);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = CommandOutput::of(
            command
                .arg("-q")
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .expect("numaio")
                .limited_output()
                .expect("numaio"),
        );
        output.failed(1, &["standard output", "No space left", "hint: free space"]);
    }
}

#[test]
fn unwritable_state_directory_fails_before_measuring() {
    let home = home();
    for command in ["stream", "latency"] {
        let mut command = home.numaio(&[command, "--precision", "50"]);
        let output =
            CommandOutput::of(command.env("XDG_STATE_HOME", "/dev/null").limited_output().expect("numaio"));
        assert_eq!(output.out, "");
        output.failed(1, &["/dev/null/numaio", "Not a directory", "hint: set XDG_STATE_HOME", "--no-save"]);
    }
}
