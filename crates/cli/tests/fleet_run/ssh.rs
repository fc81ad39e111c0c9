//! Runs through ssh. Most use a script in its place.

use crate::support::{kill, until, CommandOutput, Home, Limited, LIMIT};
use crate::{only_run, read_report, read_run, states};
use numaio_schema::FleetHostState::{Lost, Measured, Missing, Queued, Running};
use numaio_schema::FleetRun;
use std::process::{Command, Stdio};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// A script in place of ssh: each host fails in another way, and others run the command here.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2
shift 2
case $host in
    refused) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
    denied) echo "user@$host: Permission denied (publickey)." >&2; exit 255 ;;
    older) echo "error: unrecognized subcommand 'fleet'" >&2; exit 2 ;;
    garbage) head -c 3000 /dev/urandom; exit 0 ;;
    noisy) echo "Welcome to $host"; printf 'no newline' ;;
    half) sh -c "$*" | head -c 500; exit 255 ;;
    corrupt) sh -c "$*" | sed 's/"host":/"hOst":/'; exit 0 ;;
    silent) [ ! -e "$HOME/silent" ] || exec sleep 1000 ;;
esac
exec sh -c "$*"
"#;

fn command(home: &Home, args: &[&str]) -> Command {
    let ssh = home.script("ssh", SSH);
    let mut command = home.numaio(&[&["fleet"], args].concat());
    command.env("NUMAIO_SSH", ssh);
    command
}

fn fleet(home: &Home, args: &[&str]) -> CommandOutput {
    CommandOutput::of(command(home, args).limited_output().expect("numaio"))
}

fn run_args<'a>(hosts: &'a str, runs: &'a str) -> Vec<&'a str> {
    vec![
        "run",
        "--on",
        "ssh",
        "--hosts",
        hosts,
        "--shared",
        runs,
        "--remote-numaio",
        NUMAIO,
        "--",
        "topology",
    ]
}

#[test]
fn each_host_is_measured_or_has_a_reason() {
    let home = Home::new();
    let names = ["good", "refused", "denied", "older", "garbage", "noisy", "half", "corrupt"];
    let (hosts, runs) = (home.file("hosts", &names.join("\n")), home.path("runs"));
    let output = fleet(&home, &run_args(&hosts, &runs));
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.out.contains("8 hosts: 2 measured, 6 lost"), "{}", output.out);
    assert!(output.err.contains("numaio: noisy: measured"), "{}", output.err);
    let run = only_run(&home.0.join("runs"));
    let found = states(&fleet(&home, &["status", "--json", run.to_str().expect("a path")]));
    for (host, reason) in [
        ("refused", "ssh failed: ssh: connect to host refused port 22: Connection refused"),
        ("denied", "ssh failed: user@denied: Permission denied (publickey)."),
        ("older", "its numaio is older and has no 'fleet host-report'"),
        ("garbage", "no report in its output"),
        ("half", "its report is incomplete: "),
        ("corrupt", "its report is corrupted: the checksum differs"),
    ] {
        let (state, found) = &found[host];
        assert!(*state == Lost && found.starts_with(reason), "{host}: {state:?} {found}");
    }
    for host in ["good", "noisy"] {
        assert_eq!(found[host].0, Measured);
        assert_eq!(read_report(&run, host).host, host);
    }
    assert!(!run.join("hosts/half.json").exists());
}

#[test]
fn interrupt_ends_the_children_and_resume_measures_the_others() {
    let home = Home::new();
    let names = ["good", "silent", "waits"];
    let (hosts, runs, silent) =
        (home.file("hosts", &names.join("\n")), home.path("runs"), home.file("silent", ""));
    let mut args = run_args(&hosts, &runs);
    args.splice(1..1, ["--at-once", "1"]);
    let mut command = command(&home, &args);
    let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("numaio");
    let is_created = || {
        let mut runs = std::fs::read_dir(home.0.join("runs")).into_iter().flatten().flatten();
        runs.any(|run| run.path().join("run.json").exists())
    };
    until(is_created, || "no run");
    let run = only_run(&home.0.join("runs"));
    let path = run.to_str().expect("a path").to_owned();
    let status = || states(&fleet(&home, &["status", "--json", &path])).into_values().map(|host| host.0);
    let expected = [Measured, Running, Queued];
    until(|| status().eq(expected), || format!("not {expected:?}"));
    kill("-INT", launcher.id());
    // It waits for the end of the script in place of ssh, which sleeps far longer than this test.
    let output = launcher.limited_output().expect("numaio");
    assert_eq!(output.status.code(), Some(130), "within {LIMIT:?}");
    assert!(status().eq([Measured, Missing, Missing]));
    std::fs::remove_file(silent).expect("removed");
    let before = read_report(&run, "good");
    let resumed = fleet(&home, &["resume", &path]).ok();
    assert!(resumed.contains("3 hosts: 3 measured"), "{resumed}");
    assert_eq!(read_report(&run, "good"), before, "a measured host is not measured again");
}

type Change = fn(&mut FleetRun);

#[test]
fn a_run_that_another_user_wrote_is_checked_before_it_is_resumed() {
    let home = Home::new();
    let (hosts, runs) = (home.file("hosts", "refused"), home.path("runs"));
    assert_eq!(fleet(&home, &run_args(&hosts, &runs)).code, Some(1));
    let run = only_run(&home.0.join("runs"));
    let path = run.to_str().expect("a path");
    let valid = read_run(&run);
    let changes: [(Change, &str); 6] = [
        (|run| run.hosts[0].name = "-oProxyCommand=touch x".into(), "invalid host '-oProxyCommand"),
        (|run| run.hosts[0].name = "../../x".into(), "invalid host '../../x'"),
        (|run| run.id = "--output=/x".into(), "invalid ID '--output=/x'"),
        (|run| run.time_limit_s = 0, "invalid time limit 0"),
        (|run| run.command = vec!["copy".into()], "hosts of a fleet cannot run 'numaio copy'"),
        (|run| run.machine_options = vec!["--output".into(), "/x".into()], "invalid machine of the run"),
    ];
    for (change, wanted) in changes {
        let mut changed = valid.clone();
        change(&mut changed);
        home.document(&format!("runs/{}/run.json", valid.id), &changed);
        let output = fleet(&home, &["resume", path]);
        assert!(matches!(output.code, Some(1 | 2)) && output.err.contains(wanted), "{}", output.err);
    }
    home.document(&format!("runs/{}/run.json", valid.id), &valid);
    assert!(fleet(&home, &["resume", path]).out.contains("1 host: 1 lost"));
}

#[test]
fn wrong_hosts_and_options_are_usage_errors() {
    let home = Home::new();
    let (bad, good) = (home.file("bad", "n1\n-oProxyCommand=x\n"), home.file("good", "n1"));
    let ssh = ["run", "--on", "ssh"];
    for (args, parts) in [
        (vec!["--hosts", &bad], &["line 2: invalid host '-oProxyCommand=x'"][..]),
        (vec![], &["needs hosts", "--hosts FILE"]),
        (vec!["--hosts", &good, "-p", "x"], &["--partition applies to --on slurm only"]),
        (vec!["--hosts", &good, "--", "copy", "a", "b"], &["cannot run 'numaio copy'"]),
        (vec!["--hosts", &good, "--", "model", "--frob"], &["unexpected argument '--frob'"]),
        (vec!["--hosts", &good, "--", "model", "--machine", "amd-2p"], &["before --"]),
    ] {
        let output = fleet(&home, &[&ssh[..], &args].concat());
        assert!(matches!(output.code, Some(1 | 2)), "{args:?}");
        let code = output.code.unwrap_or_default();
        output.failed(code, parts);
    }
    fleet(&home, &["status", "20200101-000000-0000"]).failed(2, &["no run '20200101-000000-0000'"]);
    assert!(!home.0.join("state/numaio/fleet").exists(), "no run was created");
}
