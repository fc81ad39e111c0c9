//! What people type who do not know numaio yet: one error that says what is wrong, a hint what to do, the right exit
//! status, and nothing written.

use crate::support::{Home, Limited, Said};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Every command that reads documents, ready for the name of one.
const READERS: [&[&str]; 5] = [
    &["report"],
    &["report", "--format", "csv", "-o", "-"],
    &["export"],
    &["compare", "--from"],
    &["compare", "--machine", "amd-2p", "--with"],
];

/// Files of all kinds in a home.
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

/// Every file below a folder, with its size.
fn files(folder: &Path) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, about) = (entry.path(), entry.metadata().expect("what it is"));
        found.insert((path.to_string_lossy().into_owned(), if about.is_dir() { 0 } else { about.len() }));
        if about.is_dir() {
            found.extend(files(&path));
        }
    }
    found
}

/// Runs numaio, which fails with this status, an error that holds all of these parts, and a hint that holds all of
/// those; it writes nothing.
fn refuses(home: &Home, args: &[&str], code: i32, error: &[&str], hint: &[&str]) {
    let before = files(&home.0);
    let Said { code: found, out, err } = home.run(&[args, &["--quiet"]].concat());
    let lines: Vec<&str> = err.lines().collect();
    let said = format!("{args:?} said: {err}");
    assert_eq!((found, out.as_str()), (Some(code), ""), "{said}");
    let [first, second] = lines.as_slice() else { panic!("not an error and a hint: {said}") };
    assert!(
        first.starts_with("numaio: ") && error.iter().all(|part| first.contains(part)),
        "{error:?}: {said}"
    );
    assert!(
        second.starts_with("  hint: ") && hint.iter().all(|part| second.contains(part)),
        "{hint:?}: {said}"
    );
    assert_eq!(files(&home.0), before, "{args:?} changed files");
}

#[test]
fn files_that_are_no_documents_are_named() {
    let home = home();
    let documents: &[&str] = &["model, stream, latency, compare and topology", "--json"];
    let wrong: [(&str, &[&str], &[&str]); 11] = [
        ("cut.json", &["no JSON"], &["cut short"]),
        ("empty.json", &["no JSON"], &["cut short"]),
        ("notes.txt", &["no JSON"], documents),
        ("newer.json", &["numaio/model/9", "a newer numaio"], &["that version of numaio"]),
        ("foreign.json", &["no field `schema`"], documents),
        ("no-cells.json", &["field `record`", "missing field `cells`"], documents),
        ("words.json", &["field `record.cells[0].", "median`", "\"fast\""], documents),
        ("picture.png", &["it is no text"], documents),
        ("this.tape", &["it is a tape"], &["--machine this.tape"]),
        ("absent.json", &["No such file"], documents),
        ("folder", &["Is a directory"], &["files in it"]),
    ];
    for command in READERS {
        for (file, error, hint) in wrong {
            refuses(&home, &[command, &[file]].concat(), 1, &[&[file][..], error].concat(), hint);
            // A good file before it changes nothing.
            if command[0] != "compare" {
                refuses(&home, &[command, &["model.json", file]].concat(), 1, &[file], hint);
            }
        }
    }
}

#[test]
fn documents_of_another_machine_are_told_apart_by_name() {
    let home = home();
    let both = ["other.json", "intel-r820", "amd-2p"];
    refuses(&home, &["export", "model.json", "other.json"], 1, &both, &["numaio report takes"]);
    refuses(&home, &["compare", "--from", "model.json", "other.json"], 1, &both, &["numaio report takes"]);
    refuses(
        &home,
        &["compare", "--from", "model.json", "--with", "other.json"],
        1,
        &["other.json", "intel-r820"],
        &["one machine"],
    );
    refuses(
        &home,
        &["report", "other.json", "--machine", "amd-2p"],
        1,
        &["other.json"],
        &["leave --machine"],
    );
    refuses(
        &home,
        &["export", "other.json"],
        1,
        &["another machine"],
        &["numaio topology --json", "--machine"],
    );
    home.run(&["report", "model.json", "other.json", "-o", "both.html"]).ok();
}

#[test]
fn documents_that_hold_nothing_of_use_are_named() {
    let home = home();
    let compare: &[&str] = &["compare", "--from"];
    refuses(
        &home,
        &[compare, &["comparison.json"]].concat(),
        1,
        &["comparison.json"],
        &["numaio report shows"],
    );
    refuses(&home, &[compare, &["topology.json"]].concat(), 1, &["only SLIT distance"], &["add documents"]);
    refuses(&home, &["export", "comparison.json"], 1, &["comparison.json", "nothing to export"], &["--json"]);
    refuses(
        &home,
        &["export", "--format", "weights", "topology.json"],
        1,
        &["no measurement to export"],
        &["numaio stream"],
    );
    refuses(
        &home,
        &["export", "--format", "hwloc-annotate", "topology.json"],
        1,
        &["no measurement to export"],
        &["numaio latency or numaio stream"],
    );
    for command in ["stream", "latency"] {
        refuses(
            &home,
            &[command, "--machine", "this.tape"],
            1,
            &["not on the tape"],
            &["when it was recorded"],
        );
    }
    refuses(
        &home,
        &["compare", "--machine", "this.tape"],
        1,
        &["nothing to compare"],
        &["record the machine anew"],
    );
}

#[test]
fn wrong_machines_are_refused_by_every_command() {
    let home = home();
    for command in ["report", "export", "compare", "stream", "latency"] {
        let shipped: &[&str] = &["tape", "amd-dl585-g7", "intel-r820", "amd-2p"];
        let on = |machine: &'static str| [command, "--machine", machine];
        refuses(&home, &on("model.json"), 1, &["model.json", "a document, and no tape"], &["compare --from"]);
        refuses(&home, &on("cut.json"), 1, &["cut.json", "header of a numaio tape"], &["numaio record"]);
        refuses(&home, &on("picture.png"), 1, &["picture.png"], &["numaio record"]);
        refuses(&home, &on("amd-dl585"), 2, &["amd-dl585", "No such file"], shipped);
        refuses(&home, &on("folder"), 2, &["Is a directory"], shipped);
        refuses(&home, &[command, "--sysroot", "folder"], 1, &["folder", "holds neither"], &["sys and proc"]);
    }
}

#[test]
fn places_that_cannot_be_written_are_found_out() {
    let home = home();
    home.file("there.html", "what was there");
    for command in [["report", "model.json"], ["export", "topology.json"]] {
        let to = |place: &'static str| [&command[..], &["-o", place]].concat();
        refuses(&home, &to("absent/file"), 1, &["absent/file", "No such file"], &["a folder that is there"]);
        refuses(
            &home,
            &to("model.json/file"),
            1,
            &["model.json/file", "Not a directory"],
            &["a folder that is there"],
        );
        refuses(&home, &to("/dev/full"), 1, &["/dev/full", "No space left"], &["free space"]);
    }
    refuses(
        &home,
        &["export", "topology.json", "-o", "folder"],
        1,
        &["folder", "is a directory"],
        &["a file in it"],
    );
    refuses(&home, &["report", "model.json", "-o", "/dev/null/"], 1, &["/dev/null"], &["another place"]);
    // What cannot be read leaves what was there.
    refuses(&home, &["report", "cut.json", "-o", "there.html"], 1, &["cut.json"], &["cut short"]);
    refuses(&home, &["report", "cut.json", "-o", "new/"], 1, &["cut.json"], &["cut short"]);
    assert_eq!(fs::read_to_string(home.0.join("there.html")).expect("a file"), "what was there");
}

#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
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
        let said = Said::of(
            command
                .arg("-q")
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .expect("numaio")
                .limited_output()
                .expect("numaio"),
        );
        said.failed(1, &["standard output", "No space left", "hint: free space"]);
    }
}

#[test]
fn a_place_for_documents_that_cannot_be_written_is_found_out_before_measuring() {
    let home = home();
    for command in ["stream", "latency"] {
        let mut command = home.numaio(&[command, "--precision", "50"]);
        let said = Said::of(command.env("XDG_STATE_HOME", "/dev/null").limited_output().expect("numaio"));
        assert_eq!(said.out, "");
        said.failed(1, &["/dev/null/numaio", "Not a directory", "hint: set XDG_STATE_HOME", "--no-save"]);
    }
}
