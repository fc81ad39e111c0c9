//! `numaio place` and `numaio run`, as a user types them.

use crate::support::limits::read_line;
use crate::support::{device, kill, skipped, until, CommandOutput, Home, Limited};
use numaio_machine::set::CpuSet;
use numaio_schema::{PlacementPlan, Verification};
use std::fs;
use std::process::Stdio;

#[test]
fn places_on_the_papers_machine_follow_its_classes() {
    let home = Home::new();
    let place = |direction: &str, more: &[&str]| {
        let args =
            ["place", "--machine", "amd-dl585-g7", "--near", "nvme0n1", "--direction", direction, "--json"];
        let said = home.run(&[&args, more].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        PlacementPlan::from_json(&said.out).expect("a plan")
    };
    let nodes = |plan: &PlacementPlan| -> Vec<u32> {
        plan.tasks.iter().flat_map(|task| task.cpu_nodes.iter().map(|node| node.0)).collect()
    };
    assert_eq!(nodes(&place("write", &["--tasks", "2"])), [7, 7]);
    let mut spread = nodes(&place("read", &["--tasks", "8", "--spread"]));
    spread.sort_unstable();
    assert_eq!(spread, [2, 2, 3, 3, 6, 6, 7, 7]);
    let whole = place("read", &["--spread"]);
    assert_eq!(whole.tasks[0].cpus, CpuSet::parse_list("4-7,12-15").expect("a list"));
    assert!(
        whole.rejected.iter().any(|node| node.node.0 == 4 && node.why.contains("54 %")),
        "{:?}",
        whole.rejected
    );
}

#[test]
fn a_program_runs_where_its_plan_says_and_ends_as_it_would_alone() {
    let home = Home::new();
    let device = device(&home);
    if device.is_empty() {
        skipped("this machine has no device that moves data");
        return;
    }
    let plan = home.0.join("plan.json");
    let path = plan.to_string_lossy();
    let said = home.run(&["place", "--near", &device, "--tasks", "1", "--json", "-o", &path]);
    assert_eq!(said.code, Some(0), "{}", said.err);
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
        let said = home.run(&[&["run"], more, &["--", "sh", "-c", line]].concat());
        assert_eq!(said.code, Some(7), "{more:?}: {}", said.err);
        assert!(said.out.contains(&format!("Cpus_allowed_list:\t{cpus}\n")), "{cpus}: {}", said.out);
        assert!(said.out.contains(" prefer") || !said.out.contains("kernelpagesize"), "{}", said.out);
    }
    // Standard input, output and a signal's end pass through.
    let mut command =
        home.numaio(&["run", "--near", &device, "--", "sh", "-c", "read x; echo got $x; kill -TERM $$"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    std::io::Write::write_all(child.stdin.as_mut().expect("its input"), b"this\n").expect("written");
    let output = child.limited_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got this\n");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(15));
}

#[test]
fn several_tasks_get_cores_of_their_own() {
    let home = Home::new();
    let device = device(&home);
    let line = "grep Cpus_allowed_list /proc/self/status; test {task} = $NUMAIO_TASK; exit {task}";
    let said = home.run(&["run", "--near", &device, "--tasks", "2", "--", "sh", "-c", line]);
    if said.err.contains("may use 1") || device.is_empty() {
        skipped("this needs a device and two cores");
        return;
    }
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("task 1 ended with status 1"), "{}", said.err);
    let lists: Vec<&str> = said.out.lines().collect();
    assert!(lists.len() == 2 && lists[0] != lists[1], "{lists:?}");
}

#[test]
fn what_runs_is_watched_and_a_program_that_goes_elsewhere_is_found_out() {
    let home = Home::new();
    let device = device(&home);
    let seen = home.0.join("seen.json");
    let watched = |line: &str| {
        let said = home.run(&[
            "run",
            "--near",
            &device,
            "--tasks",
            "1",
            "--verify",
            "--verify-json",
            &seen.to_string_lossy(),
            "--",
            "sh",
            "-c",
            line,
        ]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        Verification::from_json(&fs::read_to_string(&seen).expect("a file")).expect("a verification")
    };
    if device.is_empty() {
        skipped("this machine has no device that moves data");
        return;
    }
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let stays = watched(busy);
    assert_eq!(stays.tasks[0].threads_unbound, 0);
    assert!(stays.tasks[0].ticks > 0 && stays.time_in_place() == Some(1.0), "{stays:?}");
    assert!(stays.tasks[0].bytes_in_place.is_none_or(|bytes| bytes > 0), "{stays:?}");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        skipped("with one CPU nobody can leave his place");
        return;
    }
    let leaves = watched(&format!("taskset -p -a -c 0-{} $$ >/dev/null; {busy}", cpus - 1));
    assert_eq!(leaves.tasks[0].threads_unbound, 1, "{leaves:?}");
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
fn what_another_has_open_is_not_said_to_be_nothing() {
    let home = Home::new();
    let pid = std::process::id();
    let starters = [
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"][..],
        // Root that may list what a process has open, and not see what that is.
        &["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"],
    ];
    for starter in starters {
        let can_run = home
            .command_by(starter, &["--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .limited_status();
        if !can_run.is_ok_and(|status| status.success()) {
            skipped("no way to have fewer rights");
            return;
        }
        let run = |args: &[&str]| {
            CommandOutput::of(home.command_by(starter, args).limited_output().expect("setpriv"))
        };
        let said = run(&["status", &pid.to_string(), "--json"]);
        assert_eq!(said.code, Some(1), "{}", said.out);
        let status = numaio_schema::Status::from_json(&said.out).expect("a status");
        let unseen: Vec<(u32, &str)> = status.unseen.iter().map(|it| (it.pid, it.why.as_str())).collect();
        assert_eq!((status.processes.len(), unseen), (0, vec![(pid, "permission denied")]));
        let near = run(&["near", &format!("pid:{pid}")]);
        assert!(near.code == Some(1) && near.out.contains("permission denied"), "{}", near.out);
    }
}

#[test]
fn ends_are_seen_also_by_one_that_was_started_to_ignore_them() {
    let home = Home::new();
    let device = device(&home);
    let starter = ["timeout", "-s", "KILL", "300", "env", "--ignore-signal=CHLD"];
    let can_run = home
        .command_by(&starter, &["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .limited_status();
    if device.is_empty() || !can_run.is_ok_and(|status| status.success()) {
        skipped("no device that moves data, or no way to ignore signals");
        return;
    }
    let run = |command: &[&str]| {
        let args = [&["run", "--near", &device, "--verify", "--"], command].concat();
        CommandOutput::of(home.command_by(&starter, &args).limited_output().expect("started"))
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).code, Some(7));
    run(&["/no/such/program"]).failed(127, &["no such program"]);
    // Bit 16 is SIGCHLD: the program finds it as it would without us.
    let alone = ["run", "--near", &device, "--", "grep", "SigIgn", "/proc/self/status"];
    let alone = CommandOutput::of(home.command_by(&starter, &alone).limited_output().expect("started"));
    for said in [run(&["grep", "SigIgn", "/proc/self/status"]), alone] {
        let mask = u64::from_str_radix(said.out.trim_start_matches("SigIgn:").trim(), 16);
        assert_eq!((said.code, mask.map(|mask| mask >> 16 & 1)), (Some(0), Ok(1)), "{}", said.err);
    }
}

#[test]
fn a_running_program_is_shown_beside_the_device_of_its_file() {
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
    home.run(&["status", "4194304"]).failed(1, &["no process 4194304", "ps -e"]);
    home.run(&["status"]).failed(2, &["<PID>"]);
    home.run(&["status", "--all", "--machine", "amd-2p"]).failed(2, &["nothing runs on a recorded machine"]);
}

#[test]
fn wrong_input_is_told_with_a_hint() {
    let home = Home::new();
    let device = device(&home);
    let folder = home.0.join("file");
    fs::write(&folder, "no program").expect("a file");
    let plan = home.0.join("other.json");
    let said = home.run(&[
        "place",
        "--machine",
        "amd-2p",
        "--near",
        "nvme0n1",
        "--json",
        "-o",
        &plan.to_string_lossy(),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let (folder, plan) = (folder.to_string_lossy(), plan.to_string_lossy());
    let cases: [(&[&str], i32, &str, &str); 11] = [
        (&["place"], 2, "nothing to be near", "--near eth0"),
        (&["place", "--near", "eth77"], 2, "eth77", "known devices"),
        (&["place", "--near", &device, "--tasks", "0"], 2, "invalid number of tasks", ""),
        (&["place", "--near", &device, "--tasks", "9000"], 1, "9000 cores are needed", "fewer --tasks"),
        (&["place", "--near", &device, "--needs", "12q"], 2, "invalid size", ""),
        (&["place", "--near", &device, "--needs", "90P", "--strict"], 1, "need 90 PiB", "--strict"),
        (&["place", "--near", &device, "--model", &folder], 1, "not JSON", ""),
        (&["run", "--near", &device, "--", "no-such-program"], 127, "no such program", ""),
        (&["run", "--near", &device, "--verify", "--", "no-such-program"], 127, "no such program", ""),
        (&["run", "--near", &device, "--", &folder], 126, "cannot be executed", ""),
        (&["run", "--plan", &plan, "--", "true"], 1, "plan for machine", "numaio place"),
    ];
    for (args, code, message, hint) in cases {
        let said = home.run(args);
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(message) && said.err.contains(hint), "{args:?}: {}", said.err);
    }
    let frozen = home.run(&["run", "--machine", "amd-2p", "--near", "nvme0n1", "--", "true"]);
    assert!(frozen.code == Some(2) && frozen.err.contains("cannot run programs"), "{}", frozen.err);
}
