//! End-to-end tests of `numaio place` and `numaio run`.

use crate::support::limits::read_line;
use crate::support::{device, kill, skipped, until, CommandOutput, Home, Limited};
use numaio_machine::set::CpuSet;
use numaio_schema::{PlacementPlan, Verification};
use std::fs;
use std::process::Stdio;

#[test]
fn placement_follows_the_classes_of_the_model() {
    let home = Home::new();
    let place = |direction: &str, more: &[&str]| {
        let args =
            ["place", "--machine", "amd-dl585-g7", "--near", "nvme0n1", "--direction", direction, "--json"];
        let output = home.run(&[&args, more].concat());
        assert_eq!(output.code, Some(0), "{}", output.err);
        PlacementPlan::from_json(&output.out).expect("a plan")
    };
    let nodes = |plan: &PlacementPlan| -> Vec<u32> {
        plan.tasks.iter().flat_map(|task| task.cpu_nodes.iter().map(|node| node.0)).collect()
    };
    assert_eq!(nodes(&place("write", &["--tasks", "2"])), [7, 7]);
    let mut spread = nodes(&place("read", &["--tasks", "8", "--spread"]));
    spread.sort_unstable();
    assert_eq!(spread, [2, 2, 3, 3, 6, 6, 7, 7]);
    let one_program = place("read", &["--spread"]);
    assert_eq!(one_program.tasks[0].cpus, CpuSet::parse_list("4-7,12-15").expect("a list"));
    assert!(
        one_program.rejected.iter().any(|node| node.node.0 == 4 && node.reason.contains("54 %")),
        "{:?}",
        one_program.rejected
    );
}

#[test]
fn run_binds_to_the_plan_and_forwards_output_and_status() {
    let home = Home::new();
    let device = device(&home);
    if device.is_empty() {
        skipped("this machine has no device that moves data");
        return;
    }
    let plan = home.0.join("plan.json");
    let path = plan.to_string_lossy();
    let output = home.run(&["place", "--near", &device, "--tasks", "1", "--json", "-o", &path]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let cpus = PlacementPlan::from_json(&fs::read_to_string(&plan).expect("a file")).expect("a plan").tasks
        [0]
    .cpus
    .clone();
    let line = "grep Cpus_allowed_list /proc/self/status; head -1 /proc/self/numa_maps; exit 7";
    for more in [
        &["--plan", &path][..],
        &["--near", &device, "--tasks", "1"],
        &["--near", &device, "--tasks", "1", "--verify"],
    ] {
        let output = home.run(&[&["run"], more, &["--", "sh", "-c", line]].concat());
        assert_eq!(output.code, Some(7), "{more:?}: {}", output.err);
        assert!(output.out.contains(&format!("Cpus_allowed_list:\t{cpus}\n")), "{cpus}: {}", output.out);
        assert!(output.out.contains(" prefer") || !output.out.contains("kernelpagesize"), "{}", output.out);
    }
    // Standard input, output and a terminating signal pass through.
    let mut command =
        home.numaio(&["run", "--near", &device, "--", "sh", "-c", "read x; echo got $x; kill -TERM $$"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    std::io::Write::write_all(child.stdin.as_mut().expect("its input"), b"this\n").expect("written");
    let output = child.limited_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got this\n");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(15));
}

#[test]
fn several_tasks_get_separate_cores() {
    let home = Home::new();
    let device = device(&home);
    let line = "grep Cpus_allowed_list /proc/self/status; test {task} = $NUMAIO_TASK; exit {task}";
    let output = home.run(&["run", "--near", &device, "--tasks", "2", "--", "sh", "-c", line]);
    if output.err.contains("may use 1") || device.is_empty() {
        skipped("this needs a device and two cores");
        return;
    }
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.err.contains("task 1 ended with status 1"), "{}", output.err);
    let lists: Vec<&str> = output.out.lines().collect();
    assert!(lists.len() == 2 && lists[0] != lists[1], "{lists:?}");
}

#[test]
fn verify_detects_a_program_that_changes_its_affinity() {
    let home = Home::new();
    let device = device(&home);
    let path = home.0.join("verification.json");
    let verify = |line: &str| {
        let output = home.run(&[
            "run",
            "--near",
            &device,
            "--tasks",
            "1",
            "--verify",
            "--verify-json",
            &path.to_string_lossy(),
            "--",
            "sh",
            "-c",
            line,
        ]);
        assert_eq!(output.code, Some(0), "{}", output.err);
        Verification::from_json(&fs::read_to_string(&path).expect("a file")).expect("a verification")
    };
    if device.is_empty() {
        skipped("this machine has no device that moves data");
        return;
    }
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let bound = verify(busy);
    assert_eq!(bound.tasks[0].threads_unbound, 0);
    assert!(bound.tasks[0].ticks > 0 && bound.time_in_place() == Some(1.0), "{bound:?}");
    assert!(bound.tasks[0].bytes_in_place.is_none_or(|bytes| bytes > 0), "{bound:?}");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        skipped("a program cannot leave the only CPU");
        return;
    }
    let unbound = verify(&format!("taskset -p -a -c 0-{} $$ >/dev/null; {busy}", cpus - 1));
    assert_eq!(unbound.tasks[0].threads_unbound, 1, "{unbound:?}");
}

#[test]
fn signals_reach_the_program() {
    let home = Home::new();
    let device = device(&home);
    if device.is_empty() {
        skipped("this machine has no device that moves data");
        return;
    }
    let ready = home.0.join("ready");
    let line = format!("trap 'exit 9' TERM; touch {}; while :; do sleep 0.05; done", ready.display());
    let mut command = home.numaio(&["run", "--near", &device, "--verify", "--", "sh", "-c", &line]);
    let mut child = command.stderr(Stdio::null()).spawn().expect("started");
    until(|| ready.exists(), || "the program did not start");
    kill("-TERM", child.id());
    assert_eq!(child.limited_status().expect("ended").code(), Some(9));
}

#[test]
fn unreadable_descriptors_of_a_process_are_reported() {
    let home = Home::new();
    let pid = std::process::id();
    let starters = [
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"][..],
        // Root without ptrace rights may list the descriptors, but not resolve them.
        &["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"],
    ];
    for starter in starters {
        let can_run = home
            .command_by(starter, &["--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .limited_status();
        if !can_run.is_ok_and(|status| status.success()) {
            skipped("cannot drop privileges");
            return;
        }
        let run = |args: &[&str]| {
            CommandOutput::of(home.command_by(starter, args).limited_output().expect("setpriv"))
        };
        let output = run(&["status", &pid.to_string(), "--json"]);
        assert_eq!(output.code, Some(1), "{}", output.out);
        let status = numaio_schema::Status::from_json(&output.out).expect("a status");
        let unseen: Vec<(u32, &str)> =
            status.unreadable.iter().map(|it| (it.pid, it.reason.as_str())).collect();
        assert_eq!((status.processes.len(), unseen), (0, vec![(pid, "permission denied")]));
        let near = run(&["near", &format!("pid:{pid}")]);
        assert!(near.code == Some(1) && near.out.contains("permission denied"), "{}", near.out);
    }
}

#[test]
fn exit_status_is_reported_with_sigchld_ignored() {
    let home = Home::new();
    let device = device(&home);
    let starter = ["timeout", "-s", "KILL", "300", "env", "--ignore-signal=CHLD"];
    let can_run = home
        .command_by(&starter, &["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .limited_status();
    if device.is_empty() || !can_run.is_ok_and(|status| status.success()) {
        skipped("no device that moves data, or cannot ignore signals");
        return;
    }
    let run = |command: &[&str]| {
        let args = [&["run", "--near", &device, "--verify", "--"], command].concat();
        CommandOutput::of(home.command_by(&starter, &args).limited_output().expect("started"))
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).code, Some(7));
    run(&["/no/such/program"]).failed(127, &["no such program"]);
    // Bit 16 is SIGCHLD. The program inherits the disposition, as if started directly.
    let alone = ["run", "--near", &device, "--", "grep", "SigIgn", "/proc/self/status"];
    let alone = CommandOutput::of(home.command_by(&starter, &alone).limited_output().expect("started"));
    for output in [run(&["grep", "SigIgn", "/proc/self/status"]), alone] {
        let mask = u64::from_str_radix(output.out.trim_start_matches("SigIgn:").trim(), 16);
        assert_eq!((output.code, mask.map(|mask| mask >> 16 & 1)), (Some(0), Ok(1)), "{}", output.err);
    }
}

#[test]
fn status_shows_the_device_of_an_open_file() {
    let home = Home::new();
    let file = home.0.join("data");
    fs::write(&file, "data").expect("a file");
    let near = home.run(&["near", &file.to_string_lossy()]);
    let line = format!("exec 3<{}; echo ready; exec sleep 30", file.display());
    let mut sleeper = std::process::Command::new("sh");
    let mut sleeper = sleeper
        .args(["-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    assert_eq!(read_line(sleeper.stdout.take().expect("its output")), "ready");
    let pid = sleeper.id().to_string();
    let seen = home.run(&["status", &pid, "--json"]);
    let listed = home.run(&["status", "--all"]);
    sleeper.kill().expect("killed");
    sleeper.limited_status().expect("ended");
    let status = numaio_schema::Status::from_json(&seen.ok()).expect("a status");
    let process = &status.processes[0];
    assert_eq!((process.pid.to_string(), process.threads_on.values().sum::<u32>()), (pid.clone(), 1));
    let listed = listed.ok();
    if near.code == Some(0) {
        assert!(process.devices[0].reached_via.contains("data"), "{process:?}");
        assert!(listed.lines().any(|line| line.trim_start().starts_with(&pid)), "{listed}");
    } else {
        skipped(format_args!("the file system of {} leads to no device", file.display()));
    }
    home.run(&["status", "4194304"]).failed(1, &["process 4194304 not found", "ps -e"]);
    home.run(&["status"]).failed(2, &["<PID>"]);
    home.run(&["status", "--all", "--machine", "amd-2p"])
        .failed(2, &["a recorded machine has no running processes"]);
}

#[test]
fn invalid_input_fails_with_a_hint() {
    let home = Home::new();
    let device = device(&home);
    let file = home.0.join("file");
    fs::write(&file, "text").expect("a file");
    let plan = home.0.join("other.json");
    let output = home.run(&[
        "place",
        "--machine",
        "amd-2p",
        "--near",
        "nvme0n1",
        "--json",
        "-o",
        &plan.to_string_lossy(),
    ]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let (file, plan) = (file.to_string_lossy(), plan.to_string_lossy());
    let cases: [(&[&str], i32, &str, &str); 11] = [
        (&["place"], 2, "--near is missing", "--near eth0"),
        (&["place", "--near", "eth77"], 2, "eth77", "known devices"),
        (&["place", "--near", &device, "--tasks", "0"], 2, "invalid number of tasks", ""),
        (&["place", "--near", &device, "--tasks", "9000"], 1, "9000 cores are needed", "fewer --tasks"),
        (&["place", "--near", &device, "--needs", "12q"], 2, "invalid size", ""),
        (&["place", "--near", &device, "--needs", "90P", "--strict"], 1, "need 90 PiB", "--strict"),
        (&["place", "--near", &device, "--model", &file], 1, "not JSON", ""),
        (&["run", "--near", &device, "--", "no-such-program"], 127, "no such program", ""),
        (&["run", "--near", &device, "--verify", "--", "no-such-program"], 127, "no such program", ""),
        (&["run", "--near", &device, "--", &file], 126, "cannot execute", ""),
        (&["run", "--plan", &plan, "--", "true"], 1, "plan for machine", "numaio place"),
    ];
    for (args, code, message, hint) in cases {
        let output = home.run(args);
        assert_eq!(output.code, Some(code), "{args:?}: {}", output.err);
        assert!(output.err.contains(message) && output.err.contains(hint), "{args:?}: {}", output.err);
    }
    let recorded = home.run(&["run", "--machine", "amd-2p", "--near", "nvme0n1", "--", "true"]);
    assert!(recorded.code == Some(2) && recorded.err.contains("cannot run programs"), "{}", recorded.err);
}
