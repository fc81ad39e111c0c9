//! The log of sessions, their records, and metrics.

use crate::client::{open, same, skipped, User, HEAD, OPEN};
use crate::daemon::Daemon;
use crate::serve::open_control_channel;
use crate::support::{kill, until, CommandOutput, Home, Limited};
use numaio_schema::{TransferDirection, TransferRecord, TransferResult};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns all records of a directory in order, with the number of invalid lines.
fn records(directory: &Path) -> (Vec<TransferRecord>, usize) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    let text: String = files.iter().map(|file| fs::read_to_string(file).expect("a file")).collect();
    let lines: Vec<&str> = text.lines().collect();
    let valid: Vec<_> = lines.iter().filter_map(|line| TransferRecord::from_json(line).ok()).collect();
    let invalid = lines.len() - valid.len();
    (valid, invalid)
}

/// Waits for a number of records.
fn wait_for_records(directory: &Path, count: usize, daemon: &Daemon) -> Vec<TransferRecord> {
    until(|| records(directory).0.len() >= count, || format!("{:?}; {}", records(directory), daemon.log()));
    let (records, invalid) = records(directory);
    assert_eq!((records.len(), invalid), (count, 0), "{records:?}");
    records
}

/// A daemon that records sessions in its directory `records`.
fn recording(more: &str) -> (Daemon, User) {
    open(&format!("records = \"FOLDER/records\"\n{more}"))
}

#[test]
fn records_finished_and_failed_sessions() {
    let user = User::new();
    let class = format!("{}class = \"project\"\n", user.known_as("alice"));
    let daemon = Daemon::start(&format!("{HEAD}records = \"FOLDER/records\"\n{OPEN}{class}"));
    user.trust(&daemon);
    let directory = daemon.home.0.join("records");
    user.copy(&["-r", "src/", &daemon.url("data")]).ok();
    wait_for_records(&directory, 1, &daemon);
    user.copy(&["-r", "--tunnel", &daemon.url("data"), "back"]).ok();
    wait_for_records(&directory, 2, &daemon);
    fs::remove_file(daemon.home.0.join("data/small")).expect("removed");
    fs::create_dir_all(daemon.home.0.join("data/small/d")).expect("a folder");
    user.copy(&["-r", "src/", &daemon.url("data")]).failed(3, &["small: "]);
    wait_for_records(&directory, 3, &daemon);
    user.copy(&["-r", "src/", &daemon.url("data/no/such/place")]).failed(1, &["does not exist"]);
    wait_for_records(&directory, 4, &daemon);
    user.copy(&["-r", "src/", &daemon.url("none")]).failed(1, &["there is no root"]);
    let all = wait_for_records(&directory, 5, &daemon);
    let results: Vec<TransferResult> = all.iter().map(|record| record.result).collect();
    use TransferResult::{Done, DoneWithFailures, Failed, Refused};
    assert_eq!(results, [Done, Done, DoneWithFailures, Failed, Refused], "{all:?}");
    let bytes = 5_000_001 + (1 << 20) + 99;
    for (record, direction) in all.iter().zip([TransferDirection::Write, TransferDirection::Read]) {
        let counts = record.counts;
        assert_eq!(
            (record.user.as_str(), record.user_class.as_str(), record.root.as_str()),
            ("alice", "project", "data")
        );
        assert_eq!((record.direction, counts.files, counts.bytes), (Some(direction), 4, bytes), "{record:?}");
        assert!(
            record.seconds > 0.0 && record.client.starts_with("127.0.0.1:") && !record.retry,
            "{record:?}"
        );
        assert_eq!(record.transfer.len(), all[0].transfer.len());
    }
    assert_ne!(all[0].transfer, all[1].transfer);
    // An upload is received, a download sent; content of these files does not get larger.
    assert!(all[0].counts.received > 1000 && all[0].counts.sent < all[0].counts.received, "{all:?}");
    assert!(all[1].counts.sent > 1000 && all[1].counts.received < all[1].counts.sent, "{all:?}");
    assert_eq!((all[2].counts.failed, all[2].reason.as_str()), (1, "1 failed"));
    assert!(all[3].reason.contains("does not exist"), "{all:?}");
    assert_eq!((all[4].root.as_str(), all[4].reason.as_str()), ("", "there is no root \"none\" for alice"));
    let log = daemon.wait_for_log("alice: refused: there is no root \"none\" for alice; files=0 ");
    assert!(
        log.contains(&format!("alice reads data: done; files=4 entries=6 bytes={bytes} received=")),
        "{log}"
    );
    let text = user.home.run(&["metrics", "--records", &directory.to_string_lossy()]).ok();
    let labels = "{root=\"data\",direction=\"write\",user_class=\"project\"}";
    assert!(text.contains(&format!("numaio_transfer_files_total{labels} 8\n")), "{text}");
    assert!(text.contains(&format!("numaio_transfer_errors_total{labels} 1\n")), "{text}");
    assert!(text.contains("numaio_daemon_up 1\n") && !text.contains("alice"), "{text}");
    let by_user = user.home.run(&["metrics", "--by-user", "--records", &directory.to_string_lossy()]).ok();
    assert!(by_user.contains("user_class=\"project\",user=\"alice\"} "), "{by_user}");
}

/// Process ID of the newest session.
fn session(daemon: &Daemon) -> u32 {
    let log = daemon.wait_for_log("(process ");
    let digits =
        log.rsplit("(process ").next().expect("a number").split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("a number")
}

#[test]
fn records_a_killed_session_and_its_retry() {
    let (daemon, user) = recording("");
    let directory = daemon.home.0.join("records");
    let mut child = user.copying_slowly(&daemon, "2M");
    let metrics = || user.home.run(&["metrics", "--records", &directory.to_string_lossy()]).ok();
    until(|| metrics().contains("numaio_sessions_active{user_class=\"user\"} 1\n"), metrics);
    kill("-KILL", session(&daemon));
    let killed = wait_for_records(&directory, 1, &daemon).remove(0);
    assert_eq!(
        (killed.result, killed.user.as_str(), killed.root.as_str(), killed.reason.as_str()),
        (TransferResult::Killed, "alice", "data", "signal 9")
    );
    CommandOutput::of(child.limited_output().expect("ended")).ok();
    let retried = wait_for_records(&directory, 2, &daemon).remove(1);
    assert_eq!((retried.result, retried.retry, killed.retry), (TransferResult::Done, true, false));
    same(&user.home, "src", &daemon.home.0.join("data"));
    assert!(metrics().contains(
        "numaio_transfer_retries_total{root=\"data\",direction=\"write\",user_class=\"user\"} 1\n"
    ));
}

#[test]
fn interrupted_session_is_cut() {
    let (daemon, user) = recording("");
    let mut child = user.copying_slowly(&daemon, "100K");
    kill("-TERM", child.id());
    assert_eq!(child.limited_status().expect("ended").code(), Some(130));
    let cut = wait_for_records(&daemon.home.0.join("records"), 1, &daemon).remove(0);
    assert_eq!(cut.result, TransferResult::Interrupted, "{cut:?}");
    assert!(!cut.reason.is_empty(), "{cut:?}");
}

#[test]
fn json_log_has_an_object_per_line_and_no_control_characters() {
    let (daemon, user) = recording("log_format = \"json\"\nlog_level = \"debug\"\n");
    user.copy(&["-r", "src/", &daemon.url("data")]).ok();
    let own = numaio_transfer::keys::read(&user.home.0.join(".config/numaio/key")).expect("a key");
    let own = own.keys().expect("keys");
    for hello in [
        r#"{"numaio_copy":1,"user":"m\u001b[2J\nnumaio: fake","root":"data","takes_files":false,"has_no_key":false,"capacity":{}}"#,
        r#"{"numaio_copy":1,"user":null,"root":"\u001b[2J\n{\"level\":\"info\"}","takes_files":true,"has_no_key":true,"capacity":{}}"#,
    ] {
        let (_, greeting) = open_control_channel(&daemon, &own, hello);
        assert!(greeting.contains("Refused"), "{greeting}");
    }
    let all = wait_for_records(&daemon.home.0.join("records"), 3, &daemon);
    assert!(all[1].reason.contains("not to m\u{fffd}[2J\u{fffd}numaio: fake"), "{all:?}");
    assert_eq!((all[1].root.as_str(), all[2].root.as_str()), ("data", ""));
    daemon.configure("nonsense\n");
    daemon.signal("-HUP");
    let log = daemon.wait_for_log("keeping the previous configuration");
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"))).collect();
    assert!(lines.iter().all(|line| line["time"].is_string() && line["message"].is_string()), "{log}");
    assert!(!log.contains('\u{1b}') && !log.contains("\\u001b"), "{log}");
    let with = |text: &str| {
        let found = lines.iter().find(|line| line["message"].as_str().is_some_and(|all| all.contains(text)));
        found.unwrap_or_else(|| panic!("no {text} in {log}"))
    };
    let done = with("alice writes to data: done");
    assert_eq!(
        (&done["level"], &done["transfer"]["user"], &done["transfer"]["files"]),
        (&"info".into(), &"alice".into(), &4.into())
    );
    assert_eq!(with("refused")["level"], "warning");
    assert_eq!(with("serve.toml:1: ")["level"], "error");
    assert_eq!(with("started process")["level"], "debug");
}

#[test]
fn log_level_and_format_follow_a_reload() {
    let (daemon, user) = open("");
    let known = user.known_as("alice");
    daemon.configure(&format!("{HEAD}log_level = \"warning\"\n{OPEN}{known}"));
    daemon.signal("-HUP");
    // The new level already applies to the line about the reload.
    until(
        || {
            user.copy(&["src/small", &daemon.url("none/")]).failed(1, &["there is no root"]);
            let log = daemon.log();
            log.lines().last().is_some_and(|line| line.contains("alice: refused: "))
                && !log.contains("reloaded")
        },
        || daemon.log(),
    );
    user.copy(&["src/small", &daemon.url("data/")]).ok();
    user.copy(&["src/small", &daemon.url("none/")]).failed(1, &["there is no root"]);
    let log = daemon.wait_for_log("alice: refused: ");
    assert!(!log.contains("(process ") && !log.contains(": done"), "{log}");
    daemon.configure(&format!("{HEAD}log_format = \"journal\"\n{OPEN}{known}"));
    daemon.signal("-HUP");
    daemon.wait_for_log("<6>numaio: reloaded ");
    user.copy(&["src/small", &daemon.url("data/again")]).ok();
    let log = daemon.wait_for_log("alice writes to data: done; ");
    let line = log.lines().find(|line| line.contains("(process ")).expect("a line of the session");
    assert!(line.starts_with("<6>numaio: 127.0.0.1:"), "{log}");
}

#[test]
fn records_survive_a_restart_and_a_cut_line() {
    let (records_home, user) = (Home::new(), User::new());
    let config =
        format!("{HEAD}records = \"{}\"\n{OPEN}{}", records_home.path("all"), user.known_as("alice"));
    let directory = records_home.0.join("all");
    let mut first = Daemon::start(&config);
    user.trust(&first);
    user.copy(&["-r", "src/", &first.url("data")]).ok();
    wait_for_records(&directory, 1, &first);
    first.signal("-TERM");
    assert_eq!(first.wait_for_exit().code(), Some(0));
    let metrics = || user.home.run(&["metrics", "--records", &directory.to_string_lossy()]);
    let text = metrics().ok();
    assert!(text.contains("numaio_daemon_up 0\n") && !text.contains("numaio_sessions_active"), "{text}");
    let file = fs::read_dir(&directory).expect("a folder").flatten().map(|entry| entry.path());
    let file =
        file.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).expect("a file");
    fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .expect("a file")
        .write_all(b"{\"schema\":\"nu")
        .expect("written");
    let output = metrics();
    assert!(output.err.contains("skipped line 2: incomplete JSON"), "{}", output.err);
    output.ok();
    let second = Daemon::start(&config);
    user.trust(&second);
    user.copy(&["-r", &second.url("data"), "back"]).ok();
    until(|| records(&directory).0.len() == 2, || second.log());
    assert_eq!(records(&directory).1, 1);
    let text = metrics().ok();
    for direction in ["read", "write"] {
        let series = format!(
            "numaio_transfer_sessions_total{{root=\"data\",direction=\"{direction}\",result=\"done\",user_class=\"user\"}} 1\n"
        );
        assert!(text.contains(&series), "{text}");
    }
}

/// A script that serves with records on a full file system, and then on one with space again.
const FULL_DISK: &str = "
    mkdir small && mount -t tmpfs -o size=64k none small || exit 99
    \"$NUMAIO\" serve --config serve.toml 2>log & daemon=$!
    until grep -q 'listening at' log; do sleep 0.1; done
    url=numaio://127.0.0.1:$(sed -n 's/.*listening at .*://p' log)/data
    cat /dev/zero 2>/dev/null >small/fill
    for to in a b; do \"$NUMAIO\" copy -r --trust $1 src/ $url/$to >/dev/null || exit 1; done
    until grep -c 'writes to data: done' log | grep -q 2; do sleep 0.1; done
    wc -c small/transfers-*
    rm small/fill
    \"$NUMAIO\" copy -r src/ $url/c >/dev/null || exit 1
    until grep -q 'records to .* again' log; do sleep 0.1; done
    until \"$NUMAIO\" metrics --records small 2>/dev/null | grep 'numaio_records_lost_total 2'; do sleep 0.1; done
    kill $daemon; wait $daemon || exit 2
    cat small/transfers-* log";

#[test]
fn full_disk_loses_records_but_no_session() {
    let user = User::new();
    let key = user.home.run(&["keygen", "key"]).ok();
    fs::create_dir(user.home.0.join("data")).expect("a folder");
    let config = format!("{HEAD}records = \"FOLDER/small\"\n{OPEN}{}", user.known_as("alice"));
    user.home.file("serve.toml", &config.replace("FOLDER", &user.home.path("")));
    let Some(output) = user.home.run_unshared("-m", &[FULL_DISK, "sh", key.trim()]) else {
        return skipped("a full file system: needs permission to mount");
    };
    let text = output.ok();
    assert_eq!(text.matches("{\"schema\":\"numaio/transfer-record/1\"").count(), 1, "{text}");
    assert!(text.starts_with("0 small/transfers-"), "no part of a record is left: {text}");
    assert_eq!(text.matches("cannot write records to ").count(), 1, "{text}");
    assert!(text.contains("again; 2 were lost so far"), "{text}");
}

#[test]
fn metrics_need_no_daemon() {
    let home = Home::new();
    let text = home.run(&["metrics", "--machine", "intel-r820"]).ok();
    assert!(text.ends_with("\n# EOF\n") && text.contains("numaio_device_info{"), "{text}");
    assert!(
        text.contains("numaio_findings{severity=\"note\"} ") && !text.contains("numaio_daemon_up"),
        "{text}"
    );
    assert_eq!(home.run(&["metrics", "-o", "all.prom"]).ok(), "");
    let written = fs::read_to_string(home.0.join("all.prom")).expect("a file");
    assert!(
        written.ends_with("\n# EOF\n") && written.contains("numaio_jobs{state=\"running\"} 0\n"),
        "{written}"
    );
    let names: Vec<_> =
        fs::read_dir(&home.0).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{names:?}");
    check_by_promtool(&text);
}

/// Checks metrics with promtool, if it is installed.
fn check_by_promtool(text: &str) {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return skipped("metrics: needs promtool") };
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("sent");
    let errors: Vec<String> =
        BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok).collect();
    // Status 3 reports matters of style.
    assert!(matches!(child.wait().expect("ended").code(), Some(0 | 3)), "{errors:?}");
}

#[test]
fn metrics_report_wrong_input() {
    let home = Home::new();
    home.run(&["metrics", "--records", "none"])
        .failed(1, &["none: the directory of records does not exist", "numaio serve creates it"]);
    home.run(&["metrics", "--config", "none"]).failed(1, &["none: No such file"]);
    home.file("bad.toml", "records = 7\n");
    home.run(&["metrics", "--config", "bad.toml"]).failed(1, &["bad.toml:1: records: expected a string"]);
    home.file(
        "s.toml",
        &format!(
            "key = \"/k\"\n{}[user.u]\nkeys = \"{}\"\n",
            OPEN.replace("FOLDER", "/r"),
            home.run(&["keygen"]).ok().trim()
        ),
    );
    home.run(&["metrics", "--config", "s.toml"])
        .failed(1, &["s.toml: it configures no records", "add records"]);
    home.run(&["metrics", "--records", "a", "--config", "b"]).failed(2, &["cannot be used with"]);
    home.run(&["metrics", "--format", "xml"]).failed(2, &["openmetrics, prometheus"]);
    fs::create_dir(home.0.join("r")).expect("a folder");
    fs::write(home.0.join("r/transfer-totals.json"), "{}").expect("a file");
    home.run(&["metrics", "--records", "r"]).failed(1, &["cannot read records in 'r'", "no field `schema`"]);
    fs::write(home.0.join("r/transfer-totals.json"), "").expect("a file");
    home.run(&["metrics", "--records", "r"]).failed(1, &["incomplete JSON"]);
}
