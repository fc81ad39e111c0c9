//! `numaio jobs`: the records of transfers, even killed ones, and the commands that act on them.

use crate::image::Image;
use crate::slow_copy::start_slow_copy;
use crate::support::{content, until, CommandOutput, Home, Limited};
use numaio_schema::{CommandArg, Job, JobState};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

fn store(home: &Home) -> PathBuf {
    home.0.join("state/numaio/jobs")
}

/// The stored record of a job.
fn stored_job(home: &Home, id: u32) -> Job {
    let text = fs::read_to_string(store(home).join(format!("{id}.json"))).expect("a job's file");
    Job::from_json(&text).expect("a job")
}

fn write(home: &Home, job: &Job) {
    fs::create_dir_all(store(home)).expect("a folder");
    let text = serde_json::to_string(job).expect("JSON");
    fs::write(store(home).join(format!("{}.json", job.id)), text).expect("a file");
}

/// The record that `numaio jobs show` prints.
fn show_job(home: &Home, id: u32) -> Job {
    Job::from_json(&home.run(&["jobs", "show", &id.to_string(), "--json"]).ok()).expect("a job")
}

fn list_jobs(home: &Home) -> Vec<Job> {
    serde_json::from_str(&home.run(&["jobs", "--json"]).ok()).expect("jobs")
}

fn write_large_file(home: &Home, mib: usize) {
    fs::create_dir_all(home.0.join("src")).expect("a folder");
    fs::write(home.0.join("src/large"), content(mib << 20, 1)).expect("a file");
}

fn same(home: &Home, to: &str) {
    let read = |name: &str| fs::read(home.0.join(name).join("large")).expect("a file");
    assert!(read("src") == read(to), "{to}/large differs from src/large");
}

#[test]
fn every_copy_records_a_job() {
    let home = Home::new();
    home.file("f", "content");
    assert!(home.run(&["jobs"]).ok().contains("No jobs"));
    home.run(&["copy", "f", "g"]).ok();
    home.run(&["copy", "--dry-run", "f", "h"]).ok();
    home.run(&["copy", "--no-job", "f", "h"]).ok();
    home.run(&["copy", "-r", "absent", "f", "to"]).failed(3, &["absent"]);
    home.run(&["copy", "f", "no/such/folder/"]).failed(1, &["no/such/folder"]);
    let jobs = list_jobs(&home);
    let states: Vec<JobState> = jobs.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Done, JobState::Failed, JobState::Failed]);
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((jobs[0].totals.moved, jobs[0].totals.bytes, jobs[0].runs), (1, 7, 1));
    assert_eq!(jobs[0].command, ["copy", "f", "g"].map(|word| CommandArg::Text(word.to_owned())));
    assert_eq!(jobs[1].problems[0].name.as_deref(), Some("absent"));
    assert!(jobs[2].reason.contains("no/such/folder"), "{}", jobs[2].reason);
    let table = home.run(&["jobs"]).ok();
    assert!(table.contains("numaio copy -r absent f to"), "{table}");
    let text = home.run(&["jobs", "show", "2"]).ok();
    assert!(text.contains("Job 2, failed: 1 failed") && text.contains("absent: "), "{text}");
    assert!(home.run(&["jobs", "show"]).ok().contains("Job 3, failed"), "the newest");
    let mode = fs::metadata(store(&home)).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "other users must not read job records");
    let names: Vec<_> = fs::read_dir(store(&home)).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn killed_copy_is_interrupted_and_resumes() {
    let home = Home::new();
    write_large_file(&home, 60);
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "20M", 24 << 20);
    assert_eq!(show_job(&home, 1).state, JobState::Running);
    child.kill().expect("killed");
    // Also before the parent has waited for the process.
    until(|| show_job(&home, 1).state == JobState::Interrupted, || "the job is not interrupted");
    assert_eq!(stored_job(&home, 1).state, JobState::Running, "no process could record the end");
    child.limited_status().expect("ended");
    assert!(home.run(&["jobs", "show", "1"]).ok().contains("interrupted: its process no longer exists"));
    // From any directory; the rate limit is part of the command.
    let elsewhere = home.numaio(&["jobs", "resume", "1"]).current_dir("/").limited_output();
    let output = CommandOutput::of(elsewhere.expect("numaio")).ok();
    assert!(output.contains(" resumed"), "{output}");
    same(&home, "dst");
    let job = show_job(&home, 1);
    assert_eq!((job.state, job.runs, list_jobs(&home).len()), (JobState::Done, 2, 1));
    assert!(job.totals.resumed > 0 && job.totals.bytes < 60 << 20, "{:?}", job.totals);
}

/// Unsynced data may be lost even if the journal lists it, so none of it is reused.
#[test]
fn does_not_resume_after_the_disk_was_reattached() {
    let home = Home::new();
    let Some(mut image) = Image::new(&home) else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: an ext4 on a loop device: it needs mkfs.ext4, losetup and root"
        );
        return;
    };
    write_large_file(&home, 40);
    for (id, reattaches, resumes) in [(1, false, true), (2, true, false)] {
        drop(fs::remove_dir_all(image.at.join("dst")));
        let mut child = start_slow_copy(&home, &["-r", "src/"], "mount/dst", "20M", 24 << 20);
        child.kill().expect("killed");
        child.limited_status().expect("ended");
        assert!(!reattaches || image.reattach(), "cannot reattach the disk");
        home.run(&["jobs", "resume", &id.to_string()]).ok();
        same(&home, "mount/dst");
        assert_eq!(show_job(&home, id).totals.resumed > 0, resumes, "reattached: {reattaches}");
    }
}

#[test]
fn next_run_sets_directory_modes_of_a_killed_run() {
    let home = Home::new();
    write_large_file(&home, 40);
    fs::create_dir_all(home.0.join("src/closed/deep")).expect("a folder");
    fs::set_permissions(home.0.join("src/closed"), fs::Permissions::from_mode(0o750)).expect("a mode");
    fs::create_dir_all(home.0.join("dst/kept")).expect("a folder");
    fs::create_dir_all(home.0.join("src/kept")).expect("a folder");
    fs::set_permissions(home.0.join("dst/kept"), fs::Permissions::from_mode(0o700)).expect("a mode");
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "20M", 24 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    home.run(&["copy", "-r", "src/", "dst"]).ok();
    home.run(&["copy", "-r", "src/", "other"]).ok();
    let mode = |name: &str| fs::metadata(home.0.join(name)).expect("a folder").permissions().mode() & 0o7777;
    for name in ["closed", "closed/deep"] {
        assert_eq!(mode(&format!("dst/{name}")), mode(&format!("other/{name}")), "{name}");
    }
    assert_eq!(mode("dst/kept"), 0o700, "it existed before the copy");
    // A source closed to other users stays closed at the destination, even during the copy.
    fs::set_permissions(home.0.join("src"), fs::Permissions::from_mode(0o700)).expect("a mode");
    let mut child = start_slow_copy(&home, &["-r", "src/"], "new", "20M", 24 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    assert_eq!(mode("new") & 0o777, 0o700);
    home.run(&["copy", "-r", "src/", "new"]).ok();
    assert_eq!(mode("new"), 0o700);
}

/// Counts only the data of a sparse file, and resumes after a run that filtered the file out.
#[test]
fn partial_file_survives_a_run_that_filters_it_out() {
    let home = Home::new();
    write_large_file(&home, 40);
    let file = fs::File::options().write(true).open(home.0.join("src/large")).expect("a file");
    file.set_len(1 << 30).expect("a hole");
    home.file("src/small", "small");
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "20M", 24 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    home.run(&["copy", "-r", "--max-size=1M", "src/", "dst"]).ok();
    home.run(&["jobs", "resume", "1"]).ok();
    same(&home, "dst");
    let resumed = show_job(&home, 1).totals.resumed;
    assert!((1..40 << 20).contains(&resumed), "{resumed}");
}

/// Accounts of services have a home directory that does not exist on purpose.
#[test]
fn missing_home_directory_is_not_created() {
    let home = Home::new();
    home.file("f", "f");
    let missing = home.0.join("nonexistent");
    let mut command = home.numaio(&["copy", "f", "g"]);
    let output = command.env("HOME", &missing).env_remove("XDG_STATE_HOME").limited_output().expect("numaio");
    let output = CommandOutput::of(output);
    assert!(output.err.contains("numaio: cannot record this transfer as a job: "), "{}", output.err);
    assert!(output.err.contains("/nonexistent' does not exist; --no-job skips it"), "{}", output.err);
    output.ok();
    assert!(home.0.join("g").exists() && !missing.exists());
}

#[test]
fn cancels_a_running_job() {
    let home = Home::new();
    write_large_file(&home, 40);
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "4M", 2 << 20);
    home.run(&["jobs", "resume", "1"]).failed(2, &["job 1 is running"]);
    let output = home.run(&["jobs", "cancel", "1"]);
    assert_eq!(child.limited_status().expect("ended").code(), Some(130));
    assert!(output.code == Some(0) && output.err.contains("numaio jobs resume 1"), "{}", output.err);
    let job = stored_job(&home, 1);
    assert_eq!((job.state, job.reason.as_str()), (JobState::Interrupted, "interrupted"));
    let log: Vec<&str> = job.log.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(log, ["started", "interrupt requested", "interrupted"]);
    home.run(&["jobs", "cancel", "1"]).failed(2, &["job 1 is not running: it is interrupted"]);
    home.run(&["copy", "-r", "src/", "dst"]).ok();
    same(&home, "dst");
}

#[test]
fn cancels_a_stopped_process() {
    let home = Home::new();
    write_large_file(&home, 40);
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "4M", 2 << 20);
    let status =
        Command::new("kill").args(["-STOP", &child.id().to_string()]).limited_status().expect("kill");
    assert!(status.success());
    home.run(&["jobs", "cancel", "1"]).ok();
    assert_eq!(child.limited_status().expect("ended").code(), Some(130));
}

#[test]
fn only_one_of_concurrent_resumes_runs() {
    let home = Home::new();
    write_large_file(&home, 40);
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "4M", 2 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    let resume = |_| {
        let mut command = home.numaio(&["jobs", "resume", "1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio")
    };
    let all = std::cell::RefCell::new((0..6).map(resume).collect::<Vec<Child>>());
    let codes = || -> Vec<Option<i32>> {
        let ended = |child: &mut Child| child.try_wait().expect("a child").map(|status| status.code());
        all.borrow_mut().iter_mut().filter_map(ended).collect()
    };
    until(|| codes().len() >= 5, || "the other processes still run");
    assert_eq!(codes(), [Some(2); 5], "the job is running");
    home.run(&["jobs", "cancel", "1"]).ok();
    until(|| codes().len() == 6, || "the resumed copy still runs");
    assert_eq!(show_job(&home, 1).runs, 2);
}

#[test]
fn process_with_a_reused_id_is_not_the_job() {
    let home = Home::new();
    // It exits when this test does, because its standard input closes.
    let mut other = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    home.file("f", "f");
    home.run(&["copy", "f", "g"]).ok();
    let mut job = stored_job(&home, 1);
    job.state = JobState::Running;
    // The same process ID, but another start time.
    let root = numaio_linux::Root::live().expect("a root");
    let began = numaio_machine::process::start_time(&root, other.id()).expect("it runs");
    (job.process.pid, job.process.start_time) = (other.id(), began + 1);
    write(&home, &job);
    assert_eq!(show_job(&home, 1).state, JobState::Interrupted);
    home.run(&["jobs", "cancel", "1"]).failed(2, &["is not running"]);
    assert_eq!(other.try_wait().expect("a child"), None, "an unrelated process was killed");
    // The same process ID and start time, but another boot of the machine.
    job.process.start_time = began;
    write(&home, &job);
    assert_eq!(show_job(&home, 1).state, JobState::Running);
    job.process.boot = Some("another".to_owned());
    write(&home, &job);
    assert_eq!(show_job(&home, 1).state, JobState::Interrupted);
    // The state of a process on another host is unknown.
    job.process.host = "elsewhere".to_owned();
    write(&home, &job);
    assert_eq!(show_job(&home, 1).state, JobState::Running);
    home.run(&["jobs", "cancel", "1"]).failed(1, &["runs on elsewhere"]);
    other.kill().expect("killed");
    other.limited_status().expect("ended");
}

#[test]
fn reports_damaged_records_and_lists_the_others() {
    let home = Home::new();
    home.file("f", "f");
    home.run(&["copy", "f", "g"]).ok();
    let next = store(&home).join("2.json");
    for damage in
        ["", "{", "[1]", "{\"schema\": \"numaio/job/9\"}", "{\"schema\": \"numaio/job/1\"}", "\u{0}"]
    {
        fs::write(&next, damage).expect("a file");
        let output = home.run(&["jobs", "list"]);
        assert!(output.err.contains("2.json: not a job record"), "{damage:?}: {}", output.err);
        assert!(output.ok().contains("numaio copy f g"), "{damage:?}");
        home.run(&["jobs", "show", "2"]).failed(1, &["not a job record"]);
    }
    fs::write(&next, b"\xff\xfe").expect("a file");
    home.run(&["jobs", "show", "2"]).failed(1, &["2.json"]);
    // The number of a damaged record is not reused.
    home.run(&["copy", "f", "h"]).ok();
    assert_eq!(stored_job(&home, 3).state, JobState::Done);
    let mut job = stored_job(&home, 1);
    for (command, directory, message) in [
        (&["copy", "--no-such-option", "f", "g"][..], home.path(""), "--no-such-option"),
        (&["topology"], home.path(""), "not numaio copy"),
        (&["copy", "f", "g"], home.path("missing"), "missing"),
    ] {
        job.command = command.iter().map(|word| CommandArg::Text((*word).to_owned())).collect();
        job.directory = CommandArg::Text(directory);
        write(&home, &job);
        home.run(&["jobs", "resume", "1"]).failed(1, &["cannot resume job 1", message]);
    }
    home.run(&["jobs", "show", "9"]).failed(2, &["job 9 not found"]);
    home.run(&["jobs", "cancel", "9"]).failed(2, &["job 9 not found"]);
    home.run(&["jobs", "resume", "1", "--json"]).failed(2, &["--json"]);
    home.run(&["jobs", "--machine", "amd-2p"]).failed(2, &["on this machine"]);
}

#[test]
fn deletes_old_jobs_but_not_running_ones() {
    let home = Home::new();
    home.file("f", "f");
    home.run(&["copy", "f", "g"]).ok();
    let root = numaio_linux::Root::live().expect("a root");
    let mut job = stored_job(&home, 1);
    let (own, began) = (std::process::id(), numaio_machine::process::start_time(&root, std::process::id()));
    // The first job runs, since this test's process does; all others have ended.
    (job.state, job.process.pid, job.process.start_time) = (JobState::Running, own, began.expect("it runs"));
    write(&home, &job);
    job.state = JobState::Done;
    for id in 2..=130 {
        job.id = id;
        write(&home, &job);
    }
    // Two run on another host; the record of one of them is old.
    (job.state, job.process.host) = (JobState::Running, "elsewhere".to_owned());
    for id in [119, 121] {
        job.id = id;
        write(&home, &job);
    }
    let old = SystemTime::now() - Duration::from_secs(31 * 86_400);
    let age = |name: &str| {
        let file = fs::File::options().append(true).open(store(&home).join(name)).expect("a file");
        file.set_modified(old).expect("a time");
    };
    fs::write(store(&home).join("77.json.4242.tmp"), "{").expect("a file");
    ["1.json", "120.json", "121.json", "77.json.4242.tmp"].into_iter().for_each(age);
    home.run(&["copy", "f", "g"]).ok();
    let left: Vec<u32> = list_jobs(&home).into_iter().map(|job| job.id).collect();
    let wanted: Vec<u32> =
        std::iter::once(1).chain((31..=131).filter(|id| ![120, 121].contains(id))).collect();
    assert_eq!(left, wanted);
    assert!(!store(&home).join("77.json.4242.tmp").exists());
}

#[test]
fn concurrent_copies_get_distinct_job_numbers() {
    let home = Home::new();
    home.file("f", "f");
    let children: Vec<Child> = (0..8)
        .map(|to| {
            let mut command = home.numaio(&["copy", "f", &format!("to{to}")]);
            command.stdout(Stdio::null()).spawn().expect("numaio")
        })
        .collect();
    children.into_iter().for_each(|mut child| assert!(child.limited_status().expect("ended").success()));
    let mut destinations: Vec<CommandArg> =
        list_jobs(&home).into_iter().map(|job| job.command[2].clone()).collect();
    destinations.sort_by_key(|word| format!("{word:?}"));
    let wanted: Vec<CommandArg> = (0..8).map(|to| CommandArg::Text(format!("to{to}"))).collect();
    assert_eq!(destinations, wanted);
}

#[test]
fn store_is_readable_after_a_kill_at_any_moment() {
    let home = Home::new();
    write_large_file(&home, 8);
    for moment in 0..24u64 {
        let mut command = home.numaio(&["copy", "-r", "src/", &format!("dst{moment}")]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
        std::thread::sleep(Duration::from_millis(moment * 3));
        // It may already have exited.
        drop(child.kill());
        child.limited_status().expect("ended");
        let output = home.run(&["jobs"]);
        assert!(output.err.is_empty(), "{}", output.err);
        assert_eq!(output.code, Some(0));
    }
    assert!(list_jobs(&home).iter().all(|job| !job.state.is_alive()));
}

#[test]
fn copies_even_if_the_job_cannot_be_recorded() {
    let home = Home::new();
    home.file("f", "f");
    home.file("state", "not a directory");
    let output = home.run(&["copy", "f", "g"]);
    assert!(
        output.code == Some(0) && output.err.contains("cannot record this transfer as a job"),
        "{:?} {}",
        output.code,
        output.err
    );
    let output = home.run(&["copy", "--no-job", "f", "h"]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    assert!(home.0.join("g").exists() && home.0.join("h").exists());
    home.run(&["jobs"]).failed(1, &["state/numaio/jobs", "Not a directory"]);
}

/// Its paths are those of the other host.
#[test]
fn does_not_resume_a_job_of_another_host() {
    let home = Home::new();
    home.file("f", "f");
    home.run(&["copy", "f", "g"]).ok();
    let mut job = stored_job(&home, 1);
    (job.state, job.process.host) = (JobState::Interrupted, "elsewhere".to_owned());
    write(&home, &job);
    fs::remove_file(home.0.join("g")).expect("a file");
    home.run(&["jobs", "resume", "1"]).failed(1, &["it ran on elsewhere", "run its command again"]);
    assert!(!home.0.join("g").exists());
    assert_eq!(stored_job(&home, 1).state, JobState::Interrupted);
}

#[test]
fn records_why_a_resume_failed_to_start() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/f", "f");
    home.file("list", "f\n");
    home.run(&["copy", "--files-from", "list", "src/", "dst"]).ok();
    fs::remove_file(home.0.join("list")).expect("a file");
    home.run(&["jobs", "resume", "1"]).failed(1, &["list: No such file"]);
    let job = show_job(&home, 1);
    assert!(job.state == JobState::Failed && job.reason.contains("list: No such file"), "{job:?}");
}

/// With an unmounted disk, for example, all its files would be deleted at the destination.
#[test]
fn does_not_resume_delete_if_a_directory_was_replaced() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    home.file("from/f", "f");
    home.run(&["copy", "-r", "--delete", "from/", "to"]).ok();
    home.run(&["copy", "-r", "from/", "more"]).ok();
    home.run(&["jobs", "resume", "1"]).ok();
    fs::rename(home.0.join("from"), home.0.join("away")).expect("renamed");
    fs::create_dir(home.0.join("from")).expect("a folder");
    home.run(&["jobs", "resume", "1"]).failed(1, &["may have been replaced", "run its command again"]);
    assert!(home.0.join("to/f").exists());
    home.run(&["jobs", "resume", "2"]).ok();
}

/// A list on standard input is lost: without it more would be deleted, and less copied.
#[test]
fn does_not_resume_a_job_that_read_standard_input() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    fs::create_dir(home.0.join("to")).expect("a folder");
    home.file("to/kept", "");
    for (id, input, named) in [
        ("1", "-", "standard input"),
        ("2", "/dev/stdin", "/dev/stdin"),
        ("3", "/proc/self/fd/0", "/proc/self/fd/0"),
    ] {
        home.run(&[
            "copy",
            "-r",
            "--delete",
            "--allow-empty-source",
            "--exclude-from",
            input,
            "from/",
            "to/",
        ])
        .ok();
        assert!(!home.0.join("to/kept").exists(), "a rule protected it");
        home.file("to/kept", "");
        home.run(&["jobs", "resume", id]).failed(1, &[named, "run its command again"]);
        assert!(home.0.join("to/kept").exists());
    }
}
