//! Commands at the command line, and their output.

use crate::support::{expect, kill, skipped, CommandOutput, Home, Limited};
use numaio_schema::{Model, TopologyDocument};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn numaio(args: &[&str]) -> CommandOutput {
    Home::new().run(args)
}

fn model(args: &[&str]) -> Model {
    let text = numaio(&[&["model", "--json"], args].concat()).ok();
    Model::from_json(&text).expect("a model")
}

fn classes(model: &Model, target: usize) -> Vec<Vec<String>> {
    let directions = &model.targets[target].directions;
    directions
        .iter()
        .map(|model| model.classes.iter().map(|class| class.nodes.to_string()).collect())
        .collect()
}

/// Li et al., ICPP 2013, Tables IV and V.
#[test]
fn machine_of_the_paper_has_its_classes() {
    let listing =
        numaio(&["model", "--machine", "amd-dl585-g7", "--classes", "paper", "--format", "listing"]).ok();
    expect("dl585-paper.txt", &listing);
    let header = "8 nodes available\n16 CPUs available\n";
    let classes_of_writes =
        "\nNode 7 IO model:\nCPU Centric levels :\n    Class1: 7 6\n    Class2: 0 1 4 5\n";
    assert!(listing.starts_with(header) && listing.contains(classes_of_writes), "{listing}");
    let measured = model(&["--machine", "amd-dl585-g7"]);
    assert_eq!(classes(&measured, 0), [vec!["7", "0-1,4-6", "2-3"], vec!["2-3,6-7", "0-1,5", "4"]]);
    assert!(measured.record.provenance.complete, "{:?}", measured.record.provenance.warnings);
}

#[test]
fn r820_has_its_numa_factors_and_amd_2p_is_symmetric() {
    let r820 = model(&["--machine", "intel-r820"]);
    for direction in &r820.targets[0].directions {
        for (node, wanted) in direction.nodes.iter().zip([1.8, 1.0, 1.81, 2.37]) {
            let factor = node.numa_factor.expect("the local cell was measured");
            assert!((factor / wanted - 1.0).abs() < 0.05, "node {}: {factor}", node.node);
        }
    }
    let two = model(&["--machine", "amd-2p"]);
    assert_eq!(classes(&two, 0), [["0", "1", "2-3"], ["0", "1", "2-3"]]);
    assert_eq!(classes(&two, 1), [["2", "3", "0-1"], ["2", "3", "0-1"]]);
}

#[test]
fn models_all_nodes_of_every_shipped_machine() {
    for (name, nodes) in [("amd-dl585-g7", 8), ("intel-r820", 4), ("amd-2p", 4)] {
        let model = model(&["--machine", name, "--all"]);
        assert_eq!(model.targets.len(), nodes, "{name}");
        assert!(model.record.provenance.complete, "{name}: {:?}", model.record.provenance.warnings);
        expect(&format!("topology-{name}.txt"), &numaio(&["topology", "--machine", name]).ok());
    }
}

#[test]
fn options_select_targets_directions_and_classes() {
    let one = model(&["--machine", "amd-2p", "--device", "eth0", "--direction", "read"]);
    assert_eq!(one.targets.len(), 1);
    assert_eq!((one.targets[0].target.0, one.targets[0].directions.len()), (2, 1));
    let strict = model(&["--machine", "amd-dl585-g7", "--level", "1%"]);
    assert!(classes(&strict, 0)[0].len() > 3);
    let kmeans = model(&["--machine", "amd-dl585-g7", "--classes", "kmeans"]);
    assert_eq!(classes(&kmeans, 0)[0], ["0-1,4-7", "2-3"]);
}

#[test]
fn reclassifies_a_saved_model_without_measuring() {
    let home = Home::new();
    let text = home.run(&["model", "--machine", "amd-dl585-g7", "--json"]).ok();
    let saved = home.file("model.json", &text);
    let listing = home.run(&["model", "--from", &saved, "--classes", "paper", "--format", "listing"]).ok();
    // A model lists neither all nodes nor all CPUs of its machine.
    let measured =
        numaio(&["model", "--machine", "amd-dl585-g7", "--classes", "paper", "--format", "listing"]).ok();
    assert!(listing.starts_with("Number of element") && measured.ends_with(&listing), "{listing}");
    home.run(&["model", "--from", &home.file("no.json", "{}")]).failed(1, &["no.json", "no field `schema`"]);
    let topology = home.run(&["topology", "--machine", "amd-2p", "--json"]).ok();
    home.run(&["model", "--from", &home.file("t.json", &topology)]).failed(1, &["numaio/topology/1"]);
    home.run(&["model", "--from", &saved, "--direction", "read"]).failed(2, &["--from", "--direction"]);
    let tape = include_str!("../../../../machines/amd-2p.tape");
    home.run(&["model", "--from", &home.file("a.tape", tape)]).failed(1, &["tape", "hint", "--machine"]);
    home.run(&["model", "--from", &home.file("cut.json", &text[..5000])]).failed(1, &["cut.json", "hint"]);
}

#[test]
fn copy_of_a_tape_gives_the_same_model() {
    let home = Home::new();
    let tape = home.path("copy.tape");
    home.run(&["record", "--machine", "amd-2p", "-o", &tape, "--name", "copy", "--quiet"]).ok();
    let figures = |machine: &str| {
        let model =
            Model::from_json(&home.run(&["model", "--json", "--machine", machine]).ok()).expect("a model");
        (classes(&model, 0), model.record.cells)
    };
    assert_eq!(figures(&tape), figures("amd-2p"));
    let bare = home.path("bare.tape");
    home.run(&["record", "--machine", "amd-2p", "-o", &bare, "--no-measure"]).ok();
    home.run(&["model", "--machine", &bare]).failed(1, &["not on the tape"]);
}

#[test]
fn discovers_a_rendered_machine_below_a_root() {
    let home = Home::new();
    let spec = numaio_sim::shapes::named("sparse").expect("a shape");
    numaio_sim::write_tree(&numaio_sim::render(&spec), &home.0.join("root")).expect("a tree");
    let text = home.run(&["topology", "--json", "--sysroot", &home.path("root")]).ok();
    let seen = TopologyDocument::from_json(&text).expect("a topology").topology;
    let wanted: Vec<u32> = spec.nodes.iter().map(|node| node.id.0).collect();
    assert_eq!(seen.nodes.iter().map(|node| node.id.0).collect::<Vec<_>>(), wanted);
    home.run(&["model", "--sysroot", &home.path("root")]).failed(2, &["measured", "hint"]);
    let tape = home.path("seen.tape");
    let record = ["record", "--sysroot", &home.path("root"), "-o", &tape];
    home.run(&record).failed(2, &["measured", "hint", "--no-measure"]);
    assert!(!home.0.join("seen.tape").exists());
    home.run(&[&record[..], &["--no-measure"]].concat()).ok();
}

#[test]
fn writes_complete_drawings() {
    let home = Home::new();
    let drawing = home.run(&["topology", "--machine", "amd-dl585-g7", "--svg", "-"]).ok();
    assert!(
        drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>") && drawing.contains("nvme0n1")
    );
    home.run(&["topology", "--machine", "amd-dl585-g7", "--svg", &home.path("a.svg")]).ok();
    assert_eq!(fs::read_to_string(home.0.join("a.svg")).expect("the drawing"), drawing);
    home.run(&["topology", "--svg", &home.path("none/a.svg")]).failed(1, &["none/a.svg"]);
}

#[test]
fn help_lists_commands_and_options() {
    for command in [&[][..], &["topology"], &["model"], &["record"]] {
        let name = format!("help-{}.txt", command.first().unwrap_or(&"numaio"));
        expect(&name, &numaio(&[command, &["--help"]].concat()).ok());
    }
    assert!(numaio(&["--version"]).ok().starts_with("numaio "));
    let described = [
        ("copy", &["NUMAIO_SSH", "[alias: -P]", "at a daemon 64"][..]),
        ("doctor", &["Exit status: 0 no findings", "Nothing is changed"]),
        ("keygen", &["XDG_CONFIG_HOME"]),
        ("run", &["NUMAIO_TASK is", "NUMAIO_TASKS", "127: the program does not"]),
        ("status", &["Exit status: 1"]),
    ];
    for (command, phrases) in described {
        let help = numaio(&[command, "--help"]).ok();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        phrases.iter().for_each(|phrase| assert!(help.contains(phrase), "{phrase}: {help}"));
    }
}

#[test]
fn without_a_command_a_terminal_shows_this_machine_and_a_script_an_error() {
    let home = Home::new();
    home.run(&[]).failed(2, &["Usage: numaio"]);
    let mut command = home.command("script", &["-qec", env!("CARGO_BIN_EXE_numaio"), "/dev/null"]);
    match command.limited_output() {
        Ok(output) => {
            let output = CommandOutput::of(output).ok();
            for part in ["Findings:", "Next", "numaio doctor", "numaio help"] {
                assert!(output.contains(part), "{part}: {output}");
            }
        }
        Err(error) => skipped(format!("no terminal: script: {error}")),
    }
}

#[test]
fn an_unclosed_quote_of_the_ssh_program_is_an_error() {
    let home = Home::new();
    let mut command = home.numaio(&["topology", "--brief"]);
    let output = command.env("NUMAIO_SSH", "ssh -o 'ProxyCommand=nc").limited_output().expect("numaio");
    CommandOutput::of(output).failed(2, &["NUMAIO_SSH: a quote is not closed"]);
}

#[test]
fn configuration_files_set_defaults() {
    let home = Home::new();
    let show = || home.run(&["config", "show"]).ok();
    let line = |key: &str| show().lines().find(|line| line.starts_with(key)).expect(key).to_owned();
    assert!(line("unit").contains("GB/s") && line("unit").ends_with("default"), "{}", show());
    fs::create_dir_all(home.0.join(".config/numaio")).expect("a folder");
    home.file(".config/numaio/config.toml", "unit = \"Gbit/s\"\nstreams = 3\n");
    assert!(line("unit").contains("Gbit/s") && line("unit").ends_with("numaio/config.toml"), "{}", show());
    let stream = ["stream", "--machine", "amd-2p", "--no-save", "--quiet"];
    assert!(home.run(&stream).ok().contains("Gbit/s"));
    assert!(!home.run(&[&stream[..], &["--unit", "GB/s"]].concat()).ok().contains("Gbit/s"));
    let mut command = home.numaio(&stream);
    let overridden = CommandOutput::of(command.env("NUMAIO_UNIT", "GB/s").limited_output().expect("numaio"));
    assert!(!overridden.ok().contains("Gbit/s"));
    home.file(".config/numaio/config.toml", "unti = \"Gbit/s\"\n");
    home.run(&stream).failed(1, &["config.toml", "unti: unknown setting", "numaio config --help"]);
    assert!(home.run(&["config", "--help"]).ok().contains("time-limit"));
}

#[test]
fn generates_man_pages_and_completions() {
    let home = Home::new();
    home.run(&["generate", "man", "--dir", &home.path("man")]).ok();
    home.run(&["generate", "completions", "--dir", &home.path("completions")]).ok();
    let page = fs::read_to_string(home.0.join("man/numaio-model.1")).expect("a man page");
    assert!(page.contains("\\-\\-classes"));
    for file in ["numaio.bash", "numaio.fish", "_numaio"] {
        let text = fs::read_to_string(home.0.join("completions").join(file)).expect("completions");
        assert!(text.contains("no-job") && text.contains("keygen") && text.contains("machine"), "{file}");
        for hidden in ["attached", "human-readable", "--session", "-l session"] {
            assert!(!text.contains(hidden), "{file}: {hidden}");
        }
    }
}

#[test]
fn generates_json_schemas() {
    let home = Home::new();
    home.run(&["generate", "schemas", "--dir", &home.path("schemas")]).ok();
    let of_file = fs::read_to_string(home.0.join("schemas/prediction-1.json")).expect("a schema");
    for name in ["prediction", "prediction/1", "numaio/prediction/1"] {
        assert_eq!(home.run(&["generate", "schemas", name]).ok(), of_file, "{name}");
    }
    home.run(&["generate", "schemas", "letter"])
        .failed(2, &["no document 'letter'", "hint: ", "numaio/model/1"]);
    home.run(&["generate", "schemas"]).failed(2, &["<DOCUMENT>"]);
    home.file("file", "");
    home.run(&["generate", "schemas", "--dir", &home.path("file/x")]).failed(1, &["file/x"]);
}

#[test]
fn bash_completes_file_names() {
    let home = Home::new();
    home.run(&["generate", "completions", "--dir", &home.path("completions")]).ok();
    home.file("two words", "");
    let offered = |words: &str, last: &str| {
        let script = format!(
            ". completions/numaio.bash && complete -p numaio && COMP_WORDS=(numaio {words} {last}) && \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && {{ _numaio numaio {last} ${{COMP_WORDS[-2]}}; echo \"${{COMPREPLY[*]}}\"; }}"
        );
        let output = home.command("bash", &["-c", &script]).limited_output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let Some(command) = offered("", "cop") else {
        let _ = writeln!(std::io::stderr(), "skipped: bash_completes_file_names: no bash");
        return;
    };
    assert!(command[0].contains("-o default") && command[1] == "copy", "{command:?}");
    let file = offered("copy --manifest", "tw").expect("bash");
    assert_eq!(file.get(1).map(String::as_str), Some(""), "bash completes the file name");
}

#[test]
fn invalid_options_get_one_clear_error() {
    let machine = ["--machine", "amd-2p"];
    let wrong =
        |args: &[&str], parts: &[&str]| numaio(&[&["model"], &machine[..], args].concat()).failed(2, parts);
    wrong(&["--node", "9"], &["there is no node 9", "0-3"]);
    wrong(&["--node", "x"], &["'x'", "expected a node number"]);
    wrong(&["--device", "eth9"], &["no device 'eth9'", "nvme0n1"]);
    wrong(&["--level", "0"], &["percentage"]);
    wrong(&["--level", "100"], &["percentage"]);
    wrong(&["--precision", "abc"], &["percentage"]);
    wrong(&["--time-limit", "-1"], &["'-1'", "expected a number of seconds above 0"]);
    wrong(&["--node", "-1"], &["'-1'", "expected a node number"]);
    wrong(&["--level", "-5"], &["'-5'", "expected a percentage"]);
    wrong(&["--threads", "abc"], &["expected an integer from 1"]);
    wrong(&["--threads", "0"], &["expected an integer from 1"]);
    wrong(&["--repetitions", "3", "--precision", "2"], &["--repetitions", "--precision"]);
    wrong(&["--from", "a.json"], &["--from", "--machine"]);
    wrong(&["--copy-loop", "fast"], &["expected one of", "avx2"]);
    wrong(&["--classes", "best"], &["measured", "paper", "kmeans"]);
    wrong(&["--repetitions", "0"], &["expected an integer from 1 to 10000"]);
    wrong(&["--repetitions", "10001"], &["from 1 to 10000"]);
    wrong(&["--unit", "MB"], &["GB/s"]);
    wrong(&["--all", "--node", "1"], &["--all"]);
    numaio(&["nonsense"]).failed(2, &["nonsense"]);
    numaio(&["modle"]).failed(2, &["'modle'", "'model'"]);
    numaio(&["stream", "--threads", "0"]).failed(2, &["expected an integer from 1"]);
    numaio(&["latency", "--stride", "-64"]).failed(2, &["expected a multiple of 64"]);
    numaio(&["export", "--machine", "amd-2p", "-o", "."]).failed(1, &["directory"]);
    numaio(&["model", "--machine", "amd-dl585"]).failed(2, &["amd-dl585", "amd-dl585-g7", "hint"]);
    numaio(&["model", "--machine", "amd-2p", "--threads", "1"]).failed(1, &["not on the tape", "hint"]);
}

#[test]
fn errors_name_the_line_of_a_malformed_tape() {
    let home = Home::new();
    let tape = |content: &str| home.file("a.tape", content);
    let good = include_str!("../../../../machines/amd-2p.tape");
    let seen = |content: &str| home.run(&["topology", "--machine", &tape(content)]);
    seen("no tape\n").failed(1, &["a.tape", "header"]);
    seen("").failed(1, &["header"]);
    seen(&good.replacen("numaio/tape/1", "numaio/tape/7", 1)).failed(1, &["numaio/tape/7"]);
    let lines: Vec<&str> = good.lines().collect();
    let malformed = [&lines[..4], &["{\"file\":"], &lines[4..]].concat().join("\n");
    seen(&malformed).failed(1, &["line 5"]);
    // A tape truncated by a crash contains everything before.
    seen(&good[..good.len() - 30]).ok();
    seen(&lines[..3].join("\n")).failed(1, &["incomplete tape", "hint"]);
    fs::write(home.0.join("b.tape"), [0xff; 1000]).expect("a file");
    home.run(&["topology", "--machine", "b.tape"]).failed(1, &["b.tape", "UTF-8", "hint"]);
    home.run(&["topology", "--machine", "."]).failed(2, &["directory", "hint"]);
    // A tape without end is rejected.
    home.run(&["topology", "--machine", "/dev/zero"]).failed(2, &["/dev/zero", "larger", "hint"]);
}

#[test]
fn root_without_a_machine_is_an_error() {
    let home = Home::new();
    home.run(&["topology", "--sysroot", &home.path("absent")]).failed(1, &["absent"]);
    fs::create_dir(home.0.join("empty")).expect("a folder");
    home.run(&["topology", "--sysroot", &home.path("empty")])
        .failed(1, &["neither sys/", "nor proc/", "hint"]);
    // /proc contains an unrelated directory named sys.
    home.run(&["topology", "--sysroot", "/proc"]).failed(1, &["neither sys/", "nor proc/", "hint"]);
}

#[test]
fn color_needs_a_terminal_or_the_option() {
    let is_colored =
        |args: &[&str]| numaio(&[&["model", "--machine", "amd-2p"], args].concat()).ok().contains('\x1b');
    assert!(!is_colored(&[]), "without a terminal");
    assert!(is_colored(&["--color", "always"]));
    assert!(!is_colored(&["--color", "never"]));
}

#[test]
fn unit_option_converts_all_values() {
    let gbit = numaio(&["model", "--machine", "amd-2p", "--unit", "Gbit/s"]).ok();
    assert!(gbit.contains("Gbit/s") && !gbit.contains("GB/s"), "{gbit}");
}

#[test]
fn closed_pipe_is_success_and_full_disk_is_failure() {
    let home = Home::new();
    let mut child = home.numaio(&["topology", "--machine", "amd-dl585-g7", "--json"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio");
    drop(child.stdout.take());
    let output = CommandOutput::of(child.limited_output().expect("an end"));
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = home
        .numaio(&["topology", "--machine", "amd-2p"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .expect("numaio")
        .limited_output()
        .expect("numaio");
    CommandOutput::of(output).failed(1, &["standard output"]);
}

/// On this machine, a short campaign saves a model or fails with one error.
#[test]
fn models_this_machine_and_saves_the_model() {
    let home = Home::new();
    let output = home.run(&["model", "--time-limit", "0.5", "--json"]);
    if output.code != Some(0) {
        assert!(output.err.contains("numaio: "), "{}", output.err);
        return;
    }
    let model = Model::from_json(&output.out).expect("a model");
    assert!(model.targets.iter().all(|target| !target.directions.is_empty()));
    assert_eq!(home.saved_models(), [output.out]);
}

/// Two campaigns in the same second both save their models.
#[test]
fn concurrent_campaigns_save_two_models() {
    let home = Home::new();
    let start = || {
        let mut command = home.numaio(&["model", "--time-limit", "0.5", "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio")
    };
    let statuses: Vec<_> = [start(), start()].map(|mut child| child.limited_status().expect("an end")).into();
    let successes = statuses.iter().filter(|status| status.success()).count();
    assert_eq!(home.saved_models().len(), successes);
}

/// Unwritable destinations are reported before measuring: standard output stays empty.
#[test]
fn unwritable_destination_fails_before_measuring() {
    let home = Home::new();
    home.file("state", "a file where a folder should be");
    let fails_early = |output: CommandOutput, parts: &[&str]| {
        assert_eq!(output.out, "");
        output.failed(1, parts);
    };
    // Measuring would take minutes, and timeout(1) would then return another exit status.
    let long_campaign = |args: &[&str]| {
        let options = ["--repetitions", "10000", "--time-limit", "3600"];
        home.command_by(&["timeout", "20"], &[args, &options].concat())
    };
    let run = |mut command: Command| CommandOutput::of(command.limited_output().expect("numaio"));
    fails_early(run(long_campaign(&["model"])), &["state", "hint", "XDG_STATE_HOME", "--no-save"]);
    for command in ["stream", "latency"] {
        let args = [command, "--precision", "0.000001", "--time-limit", "3600"];
        fails_early(run(home.command_by(&["timeout", "20"], &args)), &["state", "hint", "--no-save"]);
    }
    fails_early(home.run(&["compare", "--measure", "--time-limit", "1"]), &["state", "hint", "--no-save"]);
    let mut homeless = long_campaign(&["model"]);
    homeless.env_remove("HOME").env_remove("XDG_STATE_HOME");
    fails_early(run(homeless), &["no state directory", "hint", "HOME"]);
    let record = |tape: &str| run(long_campaign(&["record", "-o", tape]));
    fails_early(record("nowhere/a.tape"), &["nowhere/a.tape", "No such file"]);
    fails_early(record("."), &["directory"]);
    assert_eq!(fs::read_dir(&home.0).expect("the home").count(), 1, "only the file named state");
}

#[test]
fn replaces_files_and_writes_to_other_objects() {
    let home = Home::new();
    let draw = |to: &str| home.run(&["topology", "--machine", "amd-2p", "--svg", to]);
    let drawing = draw("-").ok();
    home.file("real.svg", "old");
    std::os::unix::fs::symlink("real.svg", home.0.join("link.svg")).expect("a link");
    draw("link.svg").ok();
    assert!(fs::symlink_metadata(home.0.join("link.svg")).expect("the link").is_symlink());
    assert_eq!(fs::read_to_string(home.0.join("real.svg")).expect("the drawing"), drawing);
    // The pipe represents devices: a test of replacing a device such as /dev/null would need root.
    assert!(Command::new("mkfifo").arg(home.0.join("pipe")).limited_status().expect("mkfifo").success());
    let mut reader =
        Command::new("cat").arg(home.0.join("pipe")).stdout(Stdio::piped()).spawn().expect("cat");
    draw("pipe").ok();
    let pipe = fs::symlink_metadata(home.0.join("pipe")).expect("the pipe");
    if pipe.is_file() {
        // Otherwise the reader would wait forever.
        drop(Command::new("kill").arg(reader.id().to_string()).limited_status());
        panic!("the pipe was replaced by a file");
    }
    assert_eq!(CommandOutput::of(reader.limited_output().expect("an end")).out, drawing);
    let tape = home.run(&["record", "--machine", "amd-2p", "--no-measure", "-o", "-"]).ok();
    home.run(&["topology", "--machine", &home.file("a.tape", &tape)]).ok();
}

/// Ctrl-C, a service manager's stop and a hangup keep the results, marked incomplete.
#[test]
fn interrupt_keeps_partial_results() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let home = Home::new();
        // An unreachable precision, so that the campaign runs until it is stopped.
        let mut command = home.numaio(&["model", "--json", "--precision", "0.000001", "--time-limit", "600"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio");
        std::thread::sleep(std::time::Duration::from_millis(2500));
        kill(signal, child.id());
        let output = CommandOutput::of(child.limited_output().expect("an end"));
        assert_eq!(output.code, Some(130), "{signal}: {}", output.err);
        if output.out.is_empty() {
            assert!(output.err.contains("interrupted before anything was measured"), "{}", output.err);
            continue;
        }
        let model = Model::from_json(&output.out).expect("a model");
        assert!(!model.record.provenance.complete);
        assert_eq!(home.saved_models(), [output.out], "{signal}");
    }
}
