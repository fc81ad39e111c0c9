//! Options of `numaio copy`: placement, comparison, and selection of files.

use crate::support::limits::read_all;
use crate::support::{content, until, with_children, CommandOutput, Home, Limited};
use numaio_machine::set::CpuSet;
use numaio_schema::PlacementPlan;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Two threads on node 0 with data on the disk, one for storage and one for the network.
const PROBLEM: &str = r#"
threads_per_node = 2
direction = "DIRECTION"
nodes = [{ node = 0 }]
storage = [{ device = "disk", node = 0, bytes = 1_000_000_000 }]
nics = [{ device = "net", node = 0 }]
storage_paths = [{ device_node = 0, memory_node = 0, thread_bytes_per_s = 1e9, max_bytes_per_s = 1e9 }]
network_paths = [{ device_node = 0, memory_node = 0, thread_bytes_per_s = 1e9, max_bytes_per_s = 1e9 }]
"#;

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy"], args].concat())
}

/// Writes a plan, and returns its path.
fn plan(home: &Home, direction: &str) -> String {
    let problem = home.file("problem.toml", &PROBLEM.replace("DIRECTION", direction));
    let plan = home.run(&["plan", "--file", &problem, "--json"]).ok();
    home.file(&format!("{direction}.json"), &plan)
}

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Creates files whose content is their name, and their parent directories.
fn files(home: &Home, names: &[&str]) {
    for name in names {
        fs::create_dir_all(home.0.join(name).parent().expect("a folder")).expect("a folder");
        home.file(name, name);
    }
}

/// Sets old times: rsync keeps the time of a directory that changed in the second of its creation.
fn age(folder: &Path) {
    for below in fs::read_dir(folder).into_iter().flatten().flatten().filter(|below| below.path().is_dir()) {
        age(&below.path());
    }
    let old = std::time::UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    fs::File::open(folder).and_then(|folder| folder.set_modified(old)).expect("a time");
}

/// Maps every path below a directory to its content, mode, owner and times.
fn tree(home: &Home, root: &str) -> BTreeMap<String, String> {
    let root = home.0.join(root);
    let mut tree = BTreeMap::new();
    let mut rest: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = rest.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let found = fs::symlink_metadata(entry.path()).expect("a file");
            let content = fs::read(entry.path()).unwrap_or_default();
            let name = entry.path().strip_prefix(&root).expect("below").to_string_lossy().into_owned();
            let time = (found.mtime(), found.mtime_nsec());
            let content = match content.len() {
                length @ 100.. => format!("{length} bytes, the first {}", content[0]),
                _ => String::from_utf8_lossy(&content).into_owned(),
            };
            tree.insert(
                name,
                format!("{:o} {}:{} {time:?} {content}", found.mode(), found.uid(), found.gid()),
            );
            if found.is_dir() {
                rest.push(entry.path());
            }
        }
    }
    tree
}

/// Checks that rsync, with its extra options, and numaio create the same tree with these names.
fn assert_same_as_rsync(home: &Home, args: &[&str], rsync: &[&str], names: &[&str]) {
    age(&home.0.join("src"));
    copy(home, &[args, &["src/", "numaio"]].concat()).ok();
    let ours = tree(home, "numaio");
    assert_eq!(ours.keys().map(String::as_str).collect::<Vec<_>>(), names);
    match home.command("rsync", &[args, rsync, &["src/", "rsync"]].concat()).limited_output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(ours, tree(home, "rsync"));
        }
        Err(_) => skipped("no rsync to compare with"),
    }
    for made in ["numaio", "rsync"] {
        let _ = fs::remove_dir_all(home.0.join(made));
    }
}

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// CPU lists of those threads of a process and its children whose names start with `name`.
fn allowed(pid: u32, name: &str) -> BTreeSet<String> {
    let processes = with_children(pid).into_iter();
    let tasks = processes.flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task"))).flatten().flatten();
    let of = |folder: std::path::PathBuf| {
        let comm = fs::read_to_string(folder.join("comm")).ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        comm.starts_with(name).then(|| cpus.trim().to_owned())
    };
    tasks.filter_map(|task| of(task.path())).collect()
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.limited_status();
    }
}

#[test]
fn threads_run_on_the_cpus_of_the_plan() {
    let home = Home::new();
    fs::write(home.0.join("from"), vec![7; 8 << 20]).expect("a file");
    let (send, receive) = (plan(&home, "send"), plan(&home, "receive"));
    let places = home.run(&["place", "--plan", &send, "--json"]).ok();
    let all = PlacementPlan::from_json(&places).expect("a plan").tasks[0].cpus.clone();
    let first: CpuSet = all.iter().take(1).collect();
    let args = ["copy", "--bwlimit", "1M", "--json", "--plan", &send, "--plan", &receive, "from", "to"];
    let mut command = home.numaio(&args);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("numaio"));
    let pid = running.0.id();
    let planned = BTreeSet::from([first.to_string()]);
    until(|| allowed(pid, "files ") == planned, || "the threads are not on the plan's first core");
    let status = home.run(&["status", &pid.to_string()]).ok();
    assert!(status.contains(&format!("{pid}  numaio")), "{status}");
    drop(running.0.kill());
    let out = read_all(running.0.stdout.take().expect("a pipe"));
    let placed: Vec<Value> = events(&out).into_iter().filter(|it| it["event"] == "placement").collect();
    let sides: Vec<_> = placed.iter().map(|it| (it["side"].as_str(), it["by"].as_str())).collect();
    assert_eq!(sides, [(Some("source"), Some("the plan")), (Some("destination"), Some("the plan"))]);
    for side in &placed {
        let worker_groups = side["groups"].as_array().expect("worker groups");
        assert_eq!(worker_groups.len(), 1);
        assert_eq!(
            (&worker_groups[0]["threads"], &worker_groups[0]["cpus"]),
            (&1.into(), &first.to_string().into())
        );
        assert_eq!(side["network"], Value::Null, "a local copy has no connections");
    }
}

#[test]
fn io_engine_is_reported_and_selectable() {
    let home = Home::new();
    home.file("from", "x");
    for (io, reported) in [("threads", &["threads"][..]), ("auto", &["io_uring", "threads"])] {
        let out = home.run(&["copy", "--json", "--io", io, "from", "to"]).ok();
        let events = events(&out).into_iter().filter(|it| it["event"] == "placement");
        let engines: Vec<String> = events.filter_map(|it| it["io"].as_str().map(str::to_owned)).collect();
        assert_eq!(engines.len(), 2);
        assert!(engines[0] == engines[1] && reported.contains(&&*engines[0]), "{io}: {engines:?}");
    }
}

/// The arguments of a copy with the far side in another process.
fn far(options: &[&'static str]) -> Vec<&'static str> {
    let remote = ["copy", "--json", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")];
    [&remote[..], options].concat()
}

/// Returns the sizes of blocks in the placement events of the local sides.
fn blocks(out: &str) -> Vec<u64> {
    let placed = events(out).into_iter().filter(|it| it["event"] == "placement");
    placed.filter_map(|it| it["block"].as_u64()).collect()
}

#[test]
fn both_sides_use_the_requested_block_size() {
    let home = Home::new();
    let content = content(5_000_003, 1);
    fs::write(home.0.join("from"), &content).expect("a file");
    let ssh = ssh_wrapper(&home, None);
    let run = |args: Vec<&str>| {
        let mut command = home.numaio(&args);
        let output = command.env("NUMAIO_SSH", &ssh).limited_output().expect("numaio");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read(home.0.join("to")).expect("a file") == content, "{args:?}");
        fs::remove_file(home.0.join("to")).expect("removed");
        String::from_utf8(output.stdout).expect("text")
    };
    for (typed, bytes) in [("64K", 64 << 10), ("1M", 1 << 20), ("16MiB", 16 << 20)] {
        let local = run(vec!["copy", "--json", "--block", typed, "from", "to"]);
        assert_eq!(blocks(&local), [bytes, bytes]);
        assert_eq!(blocks(&run([far(&["--block"]), vec![typed, "from", "127.0.0.1:to"]].concat())), [bytes]);
        assert_eq!(blocks(&run([far(&["--block"]), vec![typed, "127.0.0.1:from", "to"]].concat())), [bytes]);
        // Compressed blocks decompress to the same size.
        let packed = [far(&["-z", "--tunnel", "--block"]), vec![typed, "from", "127.0.0.1:to"]].concat();
        assert_eq!(blocks(&run(packed)), [bytes]);
    }
    assert_eq!(blocks(&run(far(&["from", "127.0.0.1:to"]))), [1 << 20]);
    for invalid in ["32K", "32M", "100K", "x"] {
        copy(&home, &["--block", invalid, "from", "to"]).failed(2, &["--block"]);
    }
}

#[test]
fn direct_io_order_and_mode_do_not_change_the_result() {
    let home = Home::new();
    files(&home, &["src/a/small", "src/b/c/other", "src/empty/x"]);
    let content = content(9_000_001, 1);
    for name in ["src/large", "src/a/large"] {
        fs::write(home.0.join(name), &content).expect("a file");
    }
    age(&home.0.join("src"));
    for options in [
        &["--direct", "on"][..],
        &["--direct", "off"],
        &["--order", "inode"],
        &["--order", "physical"],
        &["--order", "none"],
        &["--mode", "stripe"],
        &["--mode", "pipeline"],
        &["--direct", "on", "--mode", "stripe", "--block", "256K", "--io", "threads"],
        &["--placement", "none", "--mode", "pipeline", "--order", "none", "--block", "4M"],
    ] {
        copy(&home, &[options, &["-a", "src/", "dst"]].concat()).ok();
        assert_eq!(tree(&home, "src"), tree(&home, "dst"), "{options:?}");
        fs::remove_dir_all(home.0.join("dst")).expect("removed");
    }
}

#[test]
fn plan_for_the_far_side_is_checked_and_used_there() {
    let home = Home::new();
    home.file("from", "x");
    let (send, receive, ssh) = (plan(&home, "send"), plan(&home, "receive"), ssh_wrapper(&home, None));
    let run = |plan: &str, paths: [&str; 2]| {
        let remote = ["copy", "--remote-numaio", env!("CARGO_BIN_EXE_numaio"), "--remote-plan", plan];
        let mut command = home.numaio(&[&remote[..], &paths].concat());
        let output = command.env("NUMAIO_SSH", &ssh).limited_output().expect("numaio");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (push, pull) = (["from", "127.0.0.1:to"], ["127.0.0.1:from", "back"]);
    assert_eq!(run(&receive, push), (true, String::new()));
    assert_eq!(run(&send, pull), (true, String::new()));
    let (ended, error) = run(&send, push);
    assert!(!ended && error.contains("it is for the other side"), "{error}");
    let other = ["plan", "--machine", "amd-dl585-g7", "--data", "nvme0n1=2TB", "--nic", "eth0", "--json"];
    let other = home.file("other.json", &home.run(&other).ok());
    let (ended, error) = run(&other, pull);
    assert!(!ended && error.contains("not for this machine"), "{error}");
    let (ended, error) = run(&home.file("bad.json", "{}"), pull);
    assert!(!ended && error.contains("--remote-plan cannot be used"), "{error}");
    copy(&home, &["--remote-plan", &send, "from", "to"]).failed(2, &["--remote-plan needs another host"]);
}

#[test]
fn connection_threads_run_beside_storage_threads() {
    let home = Home::new();
    fs::write(home.0.join("from"), vec![7; 8 << 20]).expect("a file");
    let (send, ssh) = (plan(&home, "send"), ssh_wrapper(&home, None));
    let places = home.run(&["place", "--plan", &send, "--json"]).ok();
    let all = PlacementPlan::from_json(&places).expect("a plan").tasks[0].cpus.clone();
    // On a machine with one core, all threads share it.
    let others: CpuSet = all.iter().skip(usize::from(all.len() > 1)).collect();
    let other = ["--remote-numaio", env!("CARGO_BIN_EXE_numaio"), "from", "127.0.0.1:to"];
    let args = [&["copy", "--bwlimit", "1M", "--json", "--plan", &send][..], &other].concat();
    let mut command = home.numaio(&args);
    command.env("NUMAIO_SSH", ssh).env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22");
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("numaio"));
    let planned = BTreeSet::from([others.to_string()]);
    until(
        || ["data out ", "data in "].iter().all(|name| allowed(running.0.id(), name) == planned),
        || "the connection threads are not on the plan's other core",
    );
    drop(running.0.kill());
    let out = read_all(running.0.stdout.take().expect("a pipe"));
    let placed = events(&out).into_iter().find(|it| it["event"] == "placement").expect("an event");
    assert_eq!(placed["network"], serde_json::json!({"by": "the plan", "cpus": [others.to_string()]}));
}

#[test]
fn rejects_unsuitable_plans() {
    let home = Home::new();
    home.file("from", "x");
    let send = plan(&home, "send");
    copy(&home, &["--plan", &send, "--plan", &send, "from", "to"])
        .failed(1, &["a second plan for the same side", "--receive"]);
    copy(&home, &["--plan", &send, "--threads", "2", "from", "to"]).failed(2, &["--threads"]);
    let other = ["plan", "--machine", "amd-dl585-g7", "--data", "nvme0n1=2TB", "--nic", "eth0", "--json"];
    let other = home.file("other.json", &home.run(&other).ok());
    copy(&home, &["--plan", &other, "from", "to"])
        .failed(1, &["it is a plan for machine", "not for this machine"]);
    let invalid = fs::read_to_string(&send).expect("a plan").replace("\"threads\": 1", "\"threads\": 9");
    let invalid = home.file("invalid.json", &invalid);
    copy(&home, &["--plan", &invalid, "from", "to"]).failed(1, &["invalid.json"]);
    copy(&home, &["--plan", "from", "from", "to"])
        .failed(1, &["numaio plan --json writes plans of transfers"]);
    assert!(!home.0.join("to").exists());
    let output = copy(&home, &["-nv", "--plan", &send, "from", "to"]);
    assert!(output.err.contains("source, placed by the plan: 1 thread on CPU "), "{}", output.err);
    assert_eq!(output.ok().lines().next(), Some("would be copied: to"));
}

#[test]
fn files_from_copies_names_with_their_parents() {
    let home = Home::new();
    files(&home, &["src/a/b/c", "src/a/b/d", "src/a/e", "src/f/g", "src/h/i/j", "src/#k", "src/l"]);
    let list = home.file("list", "a/b/c\n\n# not a name\n; nor this\n/f\n./h/i\na/../l\n");
    let args = ["-a", "--files-from", &list];
    assert_same_as_rsync(&home, &args, &[], &["a", "a/b", "a/b/c", "f", "h", "h/i", "l"]);
    let below = [&args[..], &["-r"]].concat();
    assert_same_as_rsync(&home, &below, &[], &["a", "a/b", "a/b/c", "f", "f/g", "h", "h/i", "h/i/j", "l"]);
    let ruled = [&below[..], &["--exclude", "g", "--exclude", "/h"]].concat();
    assert_same_as_rsync(&home, &ruled, &[], &["a", "a/b", "a/b/c", "f", "h", "h/i", "h/i/j", "l"]);
    let list = home.file("list", "a/b/c\n");
    // Unlike rsync, numaio creates the parents of a name even if a rule excludes it.
    copy(&home, &["-a", "--files-from", &list, "--exclude", "*", "src", "parents"]).ok();
    assert_eq!(tree(&home, "parents").into_keys().collect::<Vec<_>>(), ["a", "a/b"]);
    let list = home.file("list0", "a/e\0");
    assert_same_as_rsync(&home, &["-r", "-0", "--files-from", &list], &["-t"], &["a", "a/e"]);
    // A NUL-separated list has no comments; rsync drops this name.
    let list = home.file("list0", "#k\0");
    copy(&home, &["-0", "--files-from", &list, "src", "dst"]).ok();
    assert!(home.0.join("dst/#k").exists());
}

#[test]
fn files_from_validates_the_list() {
    let home = Home::new();
    files(&home, &["src/a", "src/b"]);
    let absent = home.file("absent", "a\nnothing\n");
    copy(&home, &["--files-from", &absent, "src", "dst"]).failed(3, &["nothing: no such file or directory"]);
    assert!(home.0.join("dst/a").exists() && !home.0.join("dst/b").exists());
    // A parent that is a link or a file is not copied.
    std::os::unix::fs::symlink("a", home.0.join("src/link")).expect("a link");
    let through = home.file("through", "a/x\nlink/x\n");
    copy(&home, &["--files-from", &through, "src", "through-dst"])
        .failed(3, &["a/x: no such file", "link: a symbolic link in the path", "link/x: no such file"]);
    assert!(tree(&home, "through-dst").is_empty());
    let out = home.file("out", "../absent\n");
    copy(&home, &["--files-from", &out, "src", "dst"])
        .failed(1, &["\"../absent\" is not a name below the source"]);
    let dotted = home.file("dotted", "d/./a\n");
    copy(&home, &["--files-from", &dotted, "src", "dst"]).failed(1, &["d/./a"]);
    let zeros = home.file("zeros", "a\0b\0");
    for option in ["--files-from", "--exclude-from"] {
        copy(&home, &["-r", option, &zeros, "src", "dst"]).failed(1, &["zero bytes", "add -0"]);
    }
    copy(&home, &["--files-from", &absent, "src", "src", "dst"]).failed(2, &["one SRC and one DST"]);
    copy(&home, &["-r", "--delete", "--files-from", &absent, "src", "dst"]).failed(2, &["--delete"]);
    copy(&home, &["--files-from", "-", "--exclude-from", "-", "src", "dst"]).failed(2, &["can be read once"]);
    copy(&home, &["--files-from", "no-list", "src", "dst"]).failed(1, &["no-list"]);
    let mut command = home.numaio(&["copy", "--files-from", "-", "src", "dst"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("numaio");
    child.stdin.take().expect("a pipe").write_all(b"b\n").expect("written");
    assert!(child.limited_output().expect("an end").status.success());
    assert!(home.0.join("dst/b").exists());
}

#[test]
fn filter_files_and_size_limits_match_rsync() {
    let home = Home::new();
    files(&home, &["src/a.o", "src/b.o", "src/c", "src/d/e", "src/d/f.tmp"]);
    home.file("src/large", &"x".repeat(5000));
    home.file("src/empty", "");
    let (keep, skip) = (home.file("keep", "# kept\na.o\n"), home.file("skip", "*.o\n+ f.tmp\n\n- e\n"));
    let rules = ["-a", "--include-from", &keep, "--exclude-from", &skip, "--exclude", "*.tmp"];
    assert_same_as_rsync(&home, &rules, &[], &["a.o", "c", "d", "d/f.tmp", "empty", "large"]);
    // Typed rules have the syntax of rule files; an exclamation mark clears all previous rules.
    let typed = ["-a", "--exclude=+ a.o", "--include=- c", "--exclude=*.o", "--exclude=large"];
    assert_same_as_rsync(&home, &typed, &[], &["a.o", "d", "d/e", "d/f.tmp", "empty"]);
    let dropped = home.file("dropped", "*.o\n!\nd\n");
    let rules = ["-a", "--exclude=c", "--exclude-from", &dropped, "--exclude=large"];
    assert_same_as_rsync(&home, &rules, &[], &["a.o", "b.o", "c", "empty"]);
    let sizes = ["-a", "--max-size", "4K", "--min-size", "1"];
    assert_same_as_rsync(&home, &sizes, &[], &["a.o", "b.o", "c", "d", "d/e", "d/f.tmp"]);
    // A size limit also protects files at the destination from --delete.
    files(&home, &["dst/large", "dst/own"]);
    copy(&home, &["-r", "--delete", "--max-size", "4K", "src/", "dst"]).ok();
    assert_eq!(fs::read(home.0.join("dst/large")).ok(), Some(b"dst/large".to_vec()));
    assert!(!home.0.join("dst/own").exists());
    // So does it for a directory of the same name, without an error.
    files(&home, &["beside/large/held", "beside/own"]);
    copy(&home, &["-r", "--delete", "--max-size", "4K", "src/", "beside"]).ok();
    assert!(home.0.join("beside/large/held").exists() && !home.0.join("beside/own").exists());
    fs::hard_link(home.0.join("src/large"), home.0.join("src/larger")).expect("a link");
    let output = copy(&home, &["-a", "--max-size", "4K", "src/", "linked"]).ok();
    assert!(!home.0.join("linked/larger").exists() && !output.contains("failed"), "{output}");
}

/// Replaces the content of a file, and restores its mtime.
fn corrupt(path: &Path, content: &[u8]) {
    let time = fs::metadata(path).and_then(|found| found.modified()).expect("a time");
    fs::write(path, content).expect("written");
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
}

#[test]
fn checksum_compares_files_of_equal_size() {
    let home = Home::new();
    files(&home, &["src/same", "src/damaged", "src/d/older", "src/longer", "src/new"]);
    home.file("src/empty", "");
    fs::write(home.0.join("src/big"), vec![3; 70 << 20]).expect("a file");
    copy(&home, &["-a", "src/", "dst"]).ok();
    corrupt(&home.0.join("dst/damaged"), b"src/dbmaged");
    corrupt(&home.0.join("dst/longer"), b"longer than it was");
    let mut big = vec![3; 70 << 20];
    big[69 << 20] = 4;
    corrupt(&home.0.join("dst/big"), &big);
    fs::remove_file(home.0.join("dst/new")).expect("removed");
    let old = std::time::UNIX_EPOCH + Duration::from_secs(9);
    let older = fs::File::options().write(true).open(home.0.join("dst/d/older"));
    older.and_then(|file| file.set_modified(old)).expect("a time");
    let unchecked = copy(&home, &["-rn", "src/", "dst"]).ok();
    assert!(!unchecked.contains("damaged") && !unchecked.contains("big"), "{unchecked}");
    let reported = |args: &[&str]| {
        let text = copy(&home, &[args, &["src/", "dst"]].concat()).ok();
        let mut lines: Vec<String> =
            text.lines().filter(|line| line.contains(": ")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let moved = ["big", "damaged", "longer", "new"].map(|name| format!("copied: {name}"));
    let attributes_set = [".", "d/older"].map(|name| format!("attributes: {name}"));
    let expected = [&attributes_set, &moved[..]].concat();
    assert_eq!(
        reported(&["-anc"]),
        expected.iter().map(|line| format!("would be {line}")).collect::<Vec<_>>()
    );
    assert_eq!(reported(&["-avc"]), expected);
    assert_eq!(tree(&home, "src"), tree(&home, "dst"));
    assert_eq!(reported(&["-avc"]), [""; 0]);
}

#[test]
fn manifest_lists_all_files_with_hashes() {
    let home = Home::new();
    files(&home, &["src/moved", "src/there", "src/d/e", "src/odd\\name\nof two lines"]);
    home.file("src/empty", "");
    fs::write(home.0.join("src/big"), vec![5; 3 << 20]).expect("a file");
    fs::hard_link(home.0.join("src/d/e"), home.0.join("src/linked")).expect("a link");
    std::os::unix::fs::symlink("moved", home.0.join("src/symlink")).expect("a link");
    fs::create_dir(home.0.join("dst")).expect("a folder");
    copy(&home, &["-a", "src/there", "dst"]).ok();
    files(&home, &["dst/own"]);
    copy(&home, &["-a", "--manifest", "sums", "src/", "dst"]).ok();
    let text = fs::read_to_string(home.0.join("sums")).expect("a manifest");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    let hash = |name: &str| {
        let content = fs::read(home.0.join("src").join(name)).expect("a file");
        let digest = numaio_mover::hash::HashKind::Blake3.function()(&content);
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let mut expected: Vec<String> = ["moved", "there", "d/e", "empty", "big", "linked"]
        .iter()
        .map(|name| format!("{}  {name}", hash(name)))
        .chain([format!("\\{}  odd\\\\name\\nof two lines", hash("odd\\name\nof two lines"))])
        .collect();
    expected.sort();
    assert_eq!(lines, expected);
    let again = copy(&home, &["-a", "--manifest", "sums", "src/", "dst"]).ok();
    assert!(again.starts_with("0 moved"), "{again}");
    let mut second: Vec<String> =
        fs::read_to_string(home.0.join("sums")).expect("a manifest").lines().map(str::to_owned).collect();
    second.sort();
    assert_eq!(second, expected, "the manifest lists unchanged files, too");
    match home.command("b3sum", &["--check", "../sums"]).current_dir(home.0.join("dst")).limited_output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => skipped("no b3sum to check the manifest"),
    }
    copy(&home, &["-an", "--manifest", "sums", "src/", "dst"]).failed(2, &["--manifest"]);
    copy(&home, &["-a", "--manifest", "no/folder", "src/", "dst"]).failed(1, &["no/folder"]);
    assert!(fs::read_dir(&home.0)
        .expect("a folder")
        .flatten()
        .all(|it| !it.file_name().as_encoded_bytes().starts_with(b".numaio")));
}

fn is_root(home: &Home) -> bool {
    fs::metadata(&home.0).is_ok_and(|found| found.uid() == 0)
}

#[test]
fn preserves_owners_by_name_or_number() {
    let home = Home::new();
    if !is_root(&home) {
        return skipped("files of other owners: needs root");
    }
    files(&home, &["src/daemon", "src/unknown-owner", "src/root"]);
    let of = |name: &str, id: u32| {
        let path = home.0.join("src").join(name);
        std::os::unix::fs::chown(path, Some(id), Some(id)).expect("root gives files away");
    };
    of("daemon", 1);
    of("unknown-owner", 4_000_007);
    let owners = |folder: &str| {
        ["daemon", "unknown-owner", "root"].map(|name| {
            let found = fs::metadata(home.0.join(folder).join(name)).expect("a file");
            (found.uid(), found.gid())
        })
    };
    for more in [&[][..], &["--numeric-ids"]] {
        copy(&home, &[&["-a"], more, &["src/", "dst"]].concat()).ok();
        assert_eq!(owners("dst"), [(1, 1), (4_000_007, 4_000_007), (0, 0)]);
        let again = copy(&home, &[&["-a"], more, &["src/", "dst"]].concat()).ok();
        assert!(again.starts_with("0 moved"), "{again}");
        fs::remove_dir_all(home.0.join("dst")).expect("removed");
    }
}

/// Writes a program in place of ssh; with `passwd` the peer has that file as its /etc/passwd.
fn ssh_wrapper(home: &Home, passwd: Option<&str>) -> String {
    let mount = passwd.map(|passwd| {
        let passwd = home.file("passwd", passwd);
        format!("mount --bind {passwd} /etc/passwd && ")
    });
    let enter = if mount.is_some() { "unshare -m " } else { "" };
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec {enter}sh -c \"{}$*\"\n",
        mount.unwrap_or_default()
    );
    home.script("ssh", &script)
}

/// Writes an ssh wrapper whose peer has another ID for user `daemon`; None if that is impossible.
fn other_accounts(home: &Home) -> Option<String> {
    let tried =
        home.command("unshare", &["-m", "mount", "--bind", "/dev/null", "/etc/passwd"]).limited_output();
    if !is_root(home) || !tried.is_ok_and(|output| output.status.success()) {
        skipped("no permission to give the peer its own accounts");
        return None;
    }
    Some(ssh_wrapper(home, Some("root:x:0:0::/root:/bin/sh\ndaemon:x:4711:1::/:/bin/false\n")))
}

fn copy_remote(home: &Home, ssh: &str, args: &[&str]) -> CommandOutput {
    let args = [&["copy", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", ssh).limited_output().expect("numaio"))
}

#[test]
fn lists_hashes_and_manifests_work_with_another_host() {
    let home = Home::new();
    let ssh = ssh_wrapper(&home, None);
    files(&home, &["src/a/b", "src/a/c", "src/d"]);
    let list = home.file("list", "a/b\nd\n");
    copy_remote(&home, &ssh, &["-a", "--files-from", &list, "--manifest", "pulled", "host:src", "dst"]).ok();
    assert_eq!(tree(&home, "dst").into_keys().collect::<Vec<_>>(), ["a", "a/b", "d"]);
    corrupt(&home.0.join("dst/a/b"), b"src/x/b");
    let output = copy_remote(&home, &ssh, &["-avc", "--manifest", "pushed", "src/", "host:dst"]).ok();
    assert!(output.contains("copied: a/b\n") && !output.contains("copied: d\n"), "{output}");
    assert_eq!(tree(&home, "src"), tree(&home, "dst"));
    // In the request, each byte of this list takes two bytes.
    let long = home.file("long", &format!("{}\n", "\u{436}".repeat(50)).repeat(90_000));
    copy_remote(&home, &ssh, &["-a", "--files-from", &long, "host:src", "long-dst"])
        .failed(1, &["the name and rule lists are too long for a remote transfer", "copy in parts"]);
    let names = |manifest: &str| {
        let text = fs::read_to_string(home.0.join(manifest)).expect("a manifest");
        let mut names: Vec<String> = text.lines().map(|line| line[66..].to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(
        (names("pulled"), names("pushed")),
        (vec!["a/b".into(), "d".into()], vec!["a/b".into(), "a/c".into(), "d".into()])
    );
    let damaged = copy_remote(&home, &ssh, &["-rc", "host:src/", "dst"]).ok();
    assert!(damaged.starts_with("0 moved"), "{damaged}");
}

#[test]
fn maps_owners_by_name_on_another_host() {
    let home = Home::new();
    let Some(ssh) = other_accounts(&home) else { return };
    files(&home, &["src/x"]);
    std::os::unix::fs::chown(home.0.join("src/x"), Some(1), Some(1)).expect("root gives files away");
    let owner = |name: &str| fs::metadata(home.0.join(name)).map(|found| (found.uid(), found.gid())).ok();
    copy_remote(&home, &ssh, &["-a", "src/", "host:there"]).ok();
    assert_eq!(owner("there/x"), Some((4711, 1)));
    copy_remote(&home, &ssh, &["-a", "host:there/", "back"]).ok();
    assert_eq!(owner("back/x"), Some((1, 1)));
    copy_remote(&home, &ssh, &["-a", "--numeric-ids", "src/", "host:numbers"]).ok();
    assert_eq!(owner("numbers/x"), Some((1, 1)));
}

/// An ACL that grants one more user read and write access (include/uapi/linux/posix_acl_xattr.h).
fn acl(user: u32) -> Vec<u8> {
    let entry = |tag, permissions, id: u32| [[tag, 0, permissions, 0], id.to_le_bytes()].concat();
    let no_id = u32::MAX;
    let others = [entry(4, 4, no_id), entry(0x10, 6, no_id), entry(0x20, 0, no_id)].concat();
    [vec![2, 0, 0, 0], entry(1, 6, no_id), entry(2, 6, user), others].concat()
}

#[test]
fn maps_acl_users_by_name_on_another_host() {
    let home = Home::new();
    let Some(ssh) = other_accounts(&home) else { return };
    files(&home, &["src/d/x"]);
    let all = [("d/x", "system.posix_acl_access"), ("d", "system.posix_acl_default")];
    for (at, name) in all {
        match rustix::fs::setxattr(home.0.join("src").join(at), name, &acl(1), XattrFlags::empty()) {
            Err(Errno::NOTSUP) => {
                return skipped("ACLs, which the file system of this test does not support")
            }
            set => set.expect("an ACL"),
        }
    }
    let acls = |folder: &str| {
        all.map(|(at, name)| {
            let mut value = [0; 256];
            let length = rustix::fs::getxattr(home.0.join(folder).join(at), name, &mut value);
            value[..length.expect("an ACL")].to_vec()
        })
    };
    let both = |user| [acl(user), acl(user)];
    copy_remote(&home, &ssh, &["-a", "src/", "host:there"]).ok();
    assert_eq!(acls("there"), both(4711));
    let again = copy_remote(&home, &ssh, &["-a", "src/", "host:there"]).ok();
    assert!(again.starts_with("0 moved"), "{again}");
    copy_remote(&home, &ssh, &["-a", "host:there/", "back"]).ok();
    assert_eq!(acls("back"), both(1));
    copy_remote(&home, &ssh, &["-a", "--numeric-ids", "src/", "host:numbers"]).ok();
    assert_eq!(acls("numbers"), both(1));
    copy(&home, &["-a", "src/", "local"]).ok();
    assert_eq!(acls("local"), both(1));
}

/// A directory is never copied into itself.
#[test]
fn reports_a_directory_copied_into_itself() {
    let home = Home::new();
    fs::create_dir(home.0.join("a")).expect("a folder");
    home.file("a/x", "x");
    home.run(&["copy", "--no-job", "-a", "a", "a"])
        .failed(3, &["the destination cannot be copied into itself"]);
    home.run(&["copy", "--no-job", "-a", "--exclude=/a", "a", "a"]).ok();
    assert!(!home.0.join("a/a").exists());
    // Below a source, the destination is skipped without an error.
    home.run(&["copy", "--no-job", "-a", ".", "a"]).ok();
}

/// Reported once, also in a dry run.
#[test]
fn reports_a_directory_with_the_name_of_an_earlier_file() {
    for dry in [&["-n"][..], &[]] {
        let home = Home::new();
        fs::create_dir_all(home.0.join("b/e")).expect("a folder");
        fs::create_dir_all(home.0.join("a/f")).expect("a folder");
        for name in ["a/e", "a/f/x", "b/e/x", "b/y"] {
            home.file(name, name);
        }
        fs::create_dir_all(home.0.join("b/f")).expect("a folder");
        home.file("b/f/z", "z");
        let args = [&["copy", "-r", "--json"], dry, &["a/", "b/", "to"]].concat();
        let output = home.run(&args);
        assert_eq!(
            (output.code, output.out.matches("different kind of file with this name").count()),
            (Some(3), 1),
            "{}",
            output.out
        );
        assert!(output.out.contains("f/z") && !output.out.contains("e/x"), "{}", output.out);
    }
}
