//! Transfers between two remote hosts, and to hosts without numaio. A program in place of ssh maps
//! each host to a directory.

use crate::support::{content, kill, until, CommandOutput, Home, Limited};
use numaio_schema::{Job, JobState, JobTotals};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// Hosts are directories below `hosts`; a host without one is unreachable. Logs every process ID.
const SSH: &str = "#!/bin/sh
while [ \"$1\" != -- ]; do [ \"$1\" = -A ] && echo $* >>\"$HERE/agents\"; shift; done
cd \"$HERE/hosts/$2\" || exit 255
echo $$ >>\"$HERE/hosts/$2.pids\"
export HOME=\"$HERE/hosts/$2\"
shift 2
echo \"$*\" | cut -c 1-1000 >>\"$HERE/commands\"
exec sh -c \"$*\"
";

struct Hosts {
    home: Home,
    ssh: String,
}

impl Hosts {
    fn new() -> Self {
        let home = Home::new();
        for host in ["one", "two"] {
            fs::create_dir_all(home.0.join("hosts").join(host)).expect("a folder");
        }
        let ssh = home.script("ssh", SSH);
        Self { home, ssh }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.numaio(args);
        command.env("NUMAIO_SSH", &self.ssh).env("HERE", &self.home.0);
        command
    }

    fn copy(&self, args: &[&str]) -> CommandOutput {
        let args = [&["copy", "--remote-numaio", NUMAIO], args].concat();
        CommandOutput::of(self.command(&args).limited_output().expect("numaio"))
    }

    /// A folder for programs of the hosts.
    fn bin(&self) -> PathBuf {
        let bin = self.home.0.join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        bin
    }

    /// Copies the file `f` to a host, which finds programs on `path`.
    fn bootstrap(&self, path: &str, to: &str) -> CommandOutput {
        let mut command = self.command(&["copy", "--bootstrap", "f", to]);
        CommandOutput::of(command.env("PATH", path).limited_output().expect("numaio"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.0.join("hosts").join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// Writes a shell script, and returns its path.
    fn program(&self, name: &str, script: &str) -> String {
        let path = self.home.script(name, &format!("#!/bin/sh\n{script}\n"));
        path
    }

    /// Returns whether a process that was started on a host still runs.
    fn is_busy(&self, host: &str) -> bool {
        let root = numaio_linux::Root::live().expect("a root");
        let pids = fs::read_to_string(self.path(&format!("{host}.pids"))).unwrap_or_default();
        let mut pids = pids.lines().filter_map(|pid| pid.parse().ok());
        pids.any(|pid| numaio_machine::process::start_time(&root, pid).is_some())
    }

    fn jobs(&self) -> Vec<Job> {
        serde_json::from_str(&self.home.run(&["jobs", "--json"]).ok()).expect("jobs")
    }
}

#[test]
fn copies_from_one_host_to_another() {
    let hosts = Hosts::new();
    hosts.write("one/src/d/file", b"content");
    hosts.write("one/src/left.o", b"object");
    hosts.write("one/src/kept.o", b"object");
    hosts.write("one/it's a:b", b"odd");
    let odd = hosts.path("one/src").join(OsStr::from_bytes(b"\xff\n "));
    fs::write(&odd, b"bytes").expect("a file");
    let rules = ["--include=kept.o", "--exclude", "*.o"];
    let output = hosts.copy(&[&["-av"][..], &rules, &["one:src/", "one:it's a:b", "two:dst"]].concat());
    let out = output.ok();
    assert!(out.contains("copied: d/file\n") && out.contains("copied: \\xff\\n \n"), "{out}");
    assert!(!out.contains('\u{1b}') && out.contains(" moved, ") && !out.contains("failed"), "{out}");
    let there = |name: &str| fs::read(hosts.path("two/dst").join(name)).ok();
    assert_eq!(there("d/file"), Some(b"content".to_vec()));
    assert_eq!(there("it's a:b"), Some(b"odd".to_vec()));
    assert!(there("kept.o").is_some() && there("left.o").is_none());
    assert!(hosts.path("two/dst").join(odd.file_name().expect("a name")).exists());
    // This machine records a single job.
    let jobs = hosts.jobs();
    assert_eq!((jobs.len(), jobs[0].state, jobs[0].totals.bytes), (1, JobState::Done, 7 + 6 + 3 + 5));
    assert!(!hosts.path("one/.local").exists() && !hosts.home.0.join("agents").exists());
    // As for local copies: events, a second run, and a dry run.
    let out = hosts.copy(&["-a", "--json", "one:src/", "two:dst"]).ok();
    let lines: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!(lines[0]["name"], "left.o");
    let end = lines.last().expect("an end");
    assert_eq!((&end["event"], &end["moved"], &end["done"]), (&"end".into(), &1.into(), &true.into()));
    let out = hosts.copy(&["-n", "--forward-agent", "one:src/kept.o", "two:new"]).ok();
    assert!(
        out.starts_with("would be copied: new\n1 would be moved") && !hosts.path("two/new").exists(),
        "{out}"
    );
    assert!(hosts.home.0.join("agents").exists());
    // A copy within one host needs no second ssh.
    hosts.copy(&["-r", "one:src/d", "one:copy"]).ok();
    assert!(hosts.path("one/copy/d/file").exists());
}

#[test]
fn remote_numaio_is_started_by_a_command() {
    let hosts = Hosts::new();
    hosts.write("one/file", b"content");
    hosts.home.file("local", "content");
    let sudo = hosts.program("sudo", "echo \"$1\" >>\"$HERE/users\"; shift; exec \"$@\"");
    let command = format!("{sudo} root {NUMAIO}");
    for ends in [["local", "one:to"], ["one:file", "back"], ["one:file", "two:to"]] {
        let args = [&["copy", "--remote-numaio", &command], &ends[..]].concat();
        CommandOutput::of(hosts.command(&args).limited_output().expect("numaio")).ok();
    }
    // The last copy starts it on both hosts.
    let users = fs::read_to_string(hosts.home.0.join("users")).expect("a file");
    assert_eq!(users, "root\n".repeat(4));
    assert!(hosts.path("one/to").exists() && hosts.path("two/to").exists());
    let args = ["copy", "--remote-numaio", " ", "local", "one:to"];
    let output = hosts.command(&args).limited_output().expect("numaio");
    CommandOutput::of(output).failed(2, &["a command such as 'sudo numaio'"]);
}

/// One argument of a command line holds 128 KiB, also the command for ssh.
#[test]
fn passes_long_lists_of_options_between_two_hosts() {
    let hosts = Hosts::new();
    hosts.write("one/src/kept", b"content");
    hosts.write("one/src/left-4999.tmp", b"content");
    let rules: Vec<String> =
        (0..5_000).map(|index| format!("--exclude=/left-{index}.tmp*{}", "x*".repeat(20))).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).chain(["--exclude=left-*"]).collect();
    hosts.copy(&[&["-r"], &rules[..], &["one:src/", "two:dst"]].concat()).ok();
    assert_eq!(fs::read(hosts.path("two/dst/kept")).ok(), Some(b"content".to_vec()));
    assert!(!hosts.path("two/dst/left-4999.tmp").exists());
    let commands = fs::read_to_string(hosts.home.0.join("commands")).expect("a file");
    assert!(commands.lines().any(|line| line.ends_with("'--arguments-from-stdin'")), "{commands}");
}

#[test]
fn quiet_applies_to_the_remote_hosts() {
    let hosts = Hosts::new();
    hosts.write("one/file", b"content");
    let output = hosts.copy(&["one:file", "two:loud"]);
    assert!(output.code == Some(0) && output.err.contains("data goes through ssh"), "{}", output.err);
    let output = hosts.copy(&["--quiet", "one:file", "two:quiet"]);
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (Some(0), "", ""));
    let output = hosts.copy(&["--quiet", "one:file", "one:absent", "two:dst"]);
    assert_eq!(output.code, Some(3));
    assert!(output.err.starts_with("numaio: absent: ") && output.err.lines().count() == 1, "{}", output.err);
    // Output that is not an event is passed on.
    hosts.copy(&["--quiet", "one:file", "two:no/such/folder/"]).failed(1, &["one: two: ", "no/such/folder"]);
}

/// The progress event of a numaio process with these totals.
fn progress(totals: JobTotals) -> String {
    let mut progress = serde_json::to_value(totals).expect("totals");
    (progress["event"], progress["reached"]) = ("progress".into(), totals.bytes.into());
    progress.to_string()
}

#[test]
fn quiet_copy_still_records_progress() {
    let hosts = Hosts::new();
    let event = progress(JobTotals { moved: 1, bytes: 3, ..JobTotals::default() });
    let fake_numaio = hosts.program(
        "far",
        &format!("case \"$*\" in *quiet*) sleep 600;; esac; while echo '{event}'; do sleep 0.2; done"),
    );
    let mut command = hosts.command(&["copy", "--quiet", "--remote-numaio", &fake_numaio, "one:f", "two:f"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio");
    until(|| hosts.jobs().iter().any(|job| job.totals.moved == 1), || "the job does not record progress");
    kill("-INT", child.id());
    let output = CommandOutput::of(child.limited_output().expect("ended"));
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (Some(130), "", ""));
    assert_eq!(hosts.jobs()[0].totals.moved, 1);
}

/// Totals that a hostile host reports may be arbitrarily large.
#[test]
fn totals_beyond_u64_do_not_overflow() {
    let hosts = Hosts::new();
    let most = u64::MAX;
    let event = progress(JobTotals { moved: most, unchanged: most, bytes: most, ..JobTotals::default() });
    let fake_numaio = hosts.program("far", &format!("echo '{event}'; kill -9 $$"));
    let output = CommandOutput::of(
        hosts
            .command(&["copy", "--retry", "0", "--remote-numaio", &fake_numaio, "one:f", "two:f"])
            .limited_output()
            .expect("numaio"),
    );
    output.failed(1, &["the connection was lost"]);
}

/// A hostile host reports names beyond any limit: the job must remain readable.
#[test]
fn truncates_overlong_names_in_the_job() {
    let hosts = Hosts::new();
    let name = "n".repeat(900_000);
    let problem =
        format!(r#"{{"event":"problem","name":"{name}","side":"source","reason":"Other","text":"long"}}"#);
    hosts.home.file("problem", &(problem + "\n"));
    let end = r#"{"event":"end","done":true,"seconds":1,"entries":0,"size":0,"moved":0,"unchanged":0,"removed":0,"failed":80,"bytes":0,"resumed":0}"#;
    let fake_numaio = hosts
        .program("far", &format!("for i in $(seq 80); do cat \"$HERE/problem\"; done; echo '{end}'; exit 3"));
    for json in [&["--json"][..], &[]] {
        let words = [&["copy"], json, &["--remote-numaio", &fake_numaio, "one:f", "two:f"]].concat();
        let output = CommandOutput::of(hosts.command(&words).limited_output().expect("numaio"));
        assert_eq!(output.code, Some(3), "{}", output.err.chars().take(2_000).collect::<String>());
        let job = hosts.jobs().pop().expect("a job");
        let kept = job.problems.iter().filter_map(|problem| problem.name.as_ref()).map(String::len);
        assert_eq!((job.problems.len(), kept.max() < Some(30_000)), (80, true));
    }
}

/// The remote process has copied a file, and exits without a last event when interrupted.
#[test]
fn interrupted_copy_reports_completed_work() {
    let hosts = Hosts::new();
    let event = progress(JobTotals { moved: 1, bytes: 3, ..JobTotals::default() });
    let fake_numaio = hosts.program("far", &format!("echo '{event}'\ncat >/dev/null"));
    let mut command =
        hosts.command(&["copy", "--json", "--progress", "--remote-numaio", &fake_numaio, "one:f", "two:f"]);
    let events_path = hosts.home.0.join("events");
    command.stdout(fs::File::create(&events_path).expect("a file")).stderr(Stdio::piped());
    let mut child = command.spawn().expect("numaio");
    let printed = || fs::read_to_string(&events_path).expect("a file");
    until(|| printed().contains("progress"), || "no progress was reported");
    kill("-INT", child.id());
    let output = CommandOutput::of(child.limited_output().expect("ended"));
    assert_eq!((output.code, output.err.as_str()), (Some(130), ""));
    let end: serde_json::Value =
        serde_json::from_str(printed().lines().last().expect("an end")).expect("JSON");
    assert_eq!((&end["event"], &end["done"], &end["moved"]), (&"end".into(), &false.into(), &1.into()));
}

#[test]
fn errors_name_the_host_that_failed() {
    let hosts = Hosts::new();
    hosts.write("one/file", b"content");
    let output = hosts.copy(&["one:file", "one:absent", "two:dst"]);
    output.failed(3, &["numaio: absent: ", "(source)"]);
    assert!(hosts.path("two/dst/file").exists());
    hosts.copy(&["one:file", "two:no/such/folder/"]).failed(1, &["one: two: ", "no/such/folder"]);
    hosts.copy(&["one:file", "three:to"]).failed(1, &["one: no numaio answers on three"]);
    hosts.copy(&["three:file", "one:to"]).failed(1, &["no numaio answers on three", "/ssh three true"]);
    let output = hosts.command(&["copy", "one:file", "two:to"]).limited_output().expect("numaio");
    CommandOutput::of(output).failed(1, &["no numaio answers on one", "--bootstrap"]);
    // A program that prints anything but events is not numaio.
    let echo = hosts.command(&["copy", "--remote-numaio", "echo", "one:file", "two:to"]).limited_output();
    CommandOutput::of(echo.expect("numaio")).failed(1, &["expected an event"]);
    assert!(hosts.jobs().iter().all(|job| job.state == JobState::Failed));
}

#[test]
fn interrupt_ends_the_processes_on_both_hosts() {
    let hosts = Hosts::new();
    let large = content(24 << 20, 1);
    hosts.write("one/src/large", &large);
    let part = || {
        let entries = fs::read_dir(hosts.path("two/dst")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * 512).sum::<u64>()
    };
    for signal in ["-TERM", "-KILL"] {
        let args = ["copy", "--remote-numaio", NUMAIO, "-r", "--bwlimit", "2M", "one:src/", "two:dst"];
        let mut command = hosts.command(&args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
        let before = part();
        until(|| part() >= before + (2 << 20), || "the copy made no progress");
        kill(signal, child.id());
        let code = child.limited_status().expect("ended").code();
        assert_eq!(code, (signal == "-TERM").then_some(130));
        until(|| !hosts.is_busy("one") && !hosts.is_busy("two"), || "a remote process still runs");
        assert!(!hosts.path("two/dst/large").exists(), "interrupted too late: the copy was complete");
    }
    let states: Vec<JobState> = hosts.jobs().into_iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Interrupted, JobState::Interrupted]);
    hosts.copy(&["-r", "one:src/", "two:dst"]).ok();
    assert!(fs::read(hosts.path("two/dst/large")).expect("a file") == large);
}

#[test]
fn bootstrap_installs_numaio_on_a_host() {
    let hosts = Hosts::new();
    hosts.home.file("f", "content");
    let copy = |args: &[&str]| CommandOutput::of(hosts.command(args).limited_output().expect("numaio"));
    copy(&["copy", "f", "one:g"]).failed(1, &["no numaio answers on one", "--bootstrap"]);
    copy(&["copy", "--bootstrap", "f", "one:g"]).ok();
    assert_eq!(fs::read(hosts.path("one/g")).ok(), Some(b"content".to_vec()));
    let folder = hosts.path("one/.cache/numaio");
    let entries = || fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path());
    let installed: Vec<PathBuf> = entries().collect();
    assert_eq!(installed.len(), 1, "{installed:?}");
    let found = fs::metadata(&installed[0]).expect("a file");
    let mode = fs::metadata(&folder).expect("a folder").mode();
    assert_eq!((found.mode() & 0o777, mode & 0o777), (0o700, 0o700));
    // The second time it is already installed.
    copy(&["copy", "--bootstrap", "one:g", "h"]).ok();
    assert_eq!(fs::metadata(&installed[0]).expect("a file").ino(), found.ino());
    // A damaged copy is not run.
    fs::write(&installed[0], "#!/bin/sh\ntouch $HOME/started\n").expect("a file");
    copy(&["copy", "--bootstrap", "one:g", "i"]).ok();
    assert!(!hosts.path("one/started").exists());
    assert_eq!(fs::metadata(&installed[0]).expect("a file").len(), found.len());
    // On both of two hosts.
    fs::remove_dir_all(&folder).expect("removed");
    copy(&["copy", "--bootstrap", "one:g", "two:g"]).ok();
    assert!(hosts.path("two/g").exists() && hosts.path("two/.cache/numaio").exists());
    // An installed numaio is used.
    fs::remove_dir_all(&folder).expect("removed");
    hosts.copy(&["--bootstrap", "f", "one:j"]).ok();
    assert!(!folder.exists());
}

#[test]
fn bootstrap_is_compressed_where_gzip_is_installed() {
    let hosts = Hosts::new();
    hosts.home.file("f", "content");
    let bin = hosts.bin();
    let everywhere = std::env::var("PATH").unwrap_or_default();
    let real = |name: &str| {
        std::env::split_paths(&everywhere).map(|folder| folder.join(name)).find(|file| file.exists())
    };
    let gzip = real("gzip").expect("gzip");
    hosts.home.script(
        "bin/gzip",
        &format!("#!/bin/sh\ntouch \"$HOME/unpacked\"\nexec {} \"$@\"\n", gzip.display()),
    );
    hosts.bootstrap(&format!("{}:{everywhere}", bin.display()), "one:g").ok();
    assert!(hosts.path("one/unpacked").exists());
    // Only the programs that the scripts need.
    fs::remove_file(bin.join("gzip")).expect("removed");
    for name in ["sh", "uname", "sha256sum", "mkdir", "chmod", "cat", "mv", "rm", "env"] {
        std::os::unix::fs::symlink(real(name).expect(name), bin.join(name)).expect("a link");
    }
    hosts.bootstrap(&bin.display().to_string(), "two:g").ok();
    assert!(hosts.path("two/g").exists() && hosts.path("two/.cache/numaio").exists());
}

#[test]
fn reports_why_a_bootstrap_failed() {
    let hosts = Hosts::new();
    hosts.home.file("f", "content");
    let bin = hosts.bin();
    let program = |name: &str, script: &str| {
        hosts.home.script(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
    };
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let copy = |to: &str| hosts.bootstrap(&path, to);
    copy("three:g").failed(1, &["cannot identify the system of three", "/ssh three true"]);
    program("uname", "[ $1 = -m ] && echo riscv64 || echo Linux");
    copy("one:g").failed(1, &["one is Linux riscv64", "--remote-numaio"]);
    fs::remove_file(bin.join("uname")).expect("removed");
    program("sha256sum", "cat >/dev/null; echo 1234 -");
    copy("one:g").failed(1, &["could not hash it"]);
    fs::remove_file(bin.join("sha256sum")).expect("removed");
    fs::remove_dir_all(hosts.path("one/.cache")).expect("removed");
    fs::write(hosts.path("one/.cache"), "not a directory").expect("a file");
    copy("one:g").failed(1, &["could not make the folder"]);
    assert!(!hosts.path("one/g").exists());
}

/// Data that is sent repeatedly and lost each time does not count as progress.
#[test]
fn gives_up_after_retries_without_progress() {
    let hosts = Hosts::new();
    let src = hosts.home.file("large", "");
    fs::write(&src, content(4 << 20, 1)).expect("a file");
    // It is killed as soon as a partial file exists.
    let doomed = hosts.home.script(
        "doomed",
        &format!(
            "#!/bin/sh
(while ! ls dst/.numaio-part* >/dev/null 2>&1; do sleep 0.05; done; sleep 0.2; kill -KILL $$) </dev/null >/dev/null 2>&1 &
exec {NUMAIO} \"$@\"
"
        ),
    );
    fs::create_dir(hosts.path("one/dst")).expect("a folder");
    let args =
        ["copy", "--remote-numaio", &doomed, "--retry", "3", "--tunnel", "--bwlimit", "1M", &src, "one:dst"];
    let output = CommandOutput::of(hosts.command(&args).limited_output().expect("numaio"));
    output.failed(1, &["retrying in 0.5 s", "retrying in 1.0 s"]);
    assert!(!hosts.path("one/dst/large").exists());
    hosts.copy(&[&src, "one:dst"]).ok();
    assert!(fs::read(hosts.path("one/dst/large")).expect("a file") == content(4 << 20, 1));
}

/// numaio restarts the process on either host, and reports only the final result.
#[test]
fn restarts_a_lost_process_on_either_host() {
    for lost in ["one", "two"] {
        let hosts = Hosts::new();
        let large = content(12 << 20, 1);
        hosts.write("one/src/large", &large);
        let wrapper = format!("#!/bin/sh\necho $$ >>numaio.pids\nexec {NUMAIO} \"$@\"\n");
        let wrapper = hosts.home.script("noted", &wrapper);
        let args =
            ["copy", "--remote-numaio", &wrapper, "-a", "--json", "--bwlimit", "4M", "one:src/", "two:dst"];
        let mut command = hosts.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio");
        let parts = || fs::read_dir(hosts.path("two/dst")).into_iter().flatten().flatten();
        let there = || parts().filter_map(|part| Some(part.metadata().ok()?.blocks())).sum::<u64>() * 512;
        until(|| there() > 3 << 20, || "the copy wrote too little");
        let pids = fs::read_to_string(hosts.path(&format!("{lost}/numaio.pids"))).expect("processes");
        kill("-KILL", pids.lines().last().and_then(|pid| pid.parse().ok()).expect("a process"));
        let output = CommandOutput::of(child.limited_output().expect("ended"));
        assert!(output.err.contains("retrying in 0.5 s"), "{lost}: {}", output.err);
        let events: Vec<serde_json::Value> =
            output.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        assert!(!events.iter().any(|event| event["event"] == "problem"), "{lost}: {}", output.out);
        let end = events.last().expect("an end");
        assert_eq!((&end["done"], &end["failed"]), (&true.into(), &0.into()), "{lost}: {}", output.out);
        assert_eq!(output.code, Some(0), "{lost}: {}", output.err);
        assert!(fs::read(hosts.path("two/dst/large")).expect("a file") == large);
        assert_eq!(parts().count(), 1, "{lost}: temporary files remain");
        // A forced command that lets only numaio pass accepts also the retry.
        let commands = fs::read_to_string(hosts.home.0.join("commands")).expect("a file");
        // `ssh -G` has no command.
        let mut lines = commands.lines().filter(|line| !line.is_empty());
        assert!(lines.all(|line| line.starts_with(&format!("'{wrapper}' "))), "{commands}");
        assert_eq!(commands.contains("'--retry-attempt'"), lost == "one", "{commands}");
    }
}
