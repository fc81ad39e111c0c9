//! `numaio serve`: permissions, sessions, limits, configuration, start and stop.

use crate::client::{open, same, skipped, User, HEAD, OPEN};
use crate::daemon::Daemon;
use crate::support::{content, kill, until, CommandOutput, Home, Limited, LIMIT};
use numaio_mover_linux::port::net::control;
use numaio_mover_linux::port::net::{KeyPair, PublicKey};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

#[test]
fn copies_to_a_root_and_back() {
    let (daemon, user) = open("");
    user.copy(&["-a", "src/", &daemon.url("data")]).ok();
    same(&user.home, "src", &daemon.home.0.join("data"));
    // The URL of a root stands for its contents; other paths follow the usual slash rules.
    user.copy(&["-a", &daemon.url("data"), "back"]).ok();
    same(&user.home, "src", &user.home.0.join("back"));
    user.copy(&["-a", &daemon.url("data/d"), "part"]).ok();
    same(&user.home, "src/d", &user.home.0.join("part/d"));
    user.copy(&[&daemon.url("data/d/block"), &daemon.url("data/small"), "part"]).ok();
    user.copy(&[&daemon.url("data/small"), "renamed"]).ok();
    for args in ["-r", "-rn"] {
        let output = user.copy(&[args, "src", &daemon.url("data/new/deep/x")]);
        output.failed(
            1,
            &["new/deep/x: directory 'new/deep' does not exist, and only the last one is created"],
        );
    }
    assert_eq!(fs::read(user.home.0.join("renamed")).ok(), Some(content(99, 1)));
    // A second copy moves nothing; the options are those of copies by ssh.
    let out = user.copy(&["-a", "src/", &daemon.url("data/")]).ok();
    assert!(out.contains("0 moved"), "{out}");
    fs::remove_file(user.home.0.join("src/small")).expect("removed");
    user.copy(&["-a", "--delete", "--checksum", "src/", &daemon.url("data")]).ok();
    same(&user.home, "src", &daemon.home.0.join("data"));
    let output = daemon.log();
    assert!(
        output.contains("alice writes to data (process ")
            && output.contains("alice reads data: done; files="),
        "{output}"
    );
}

#[test]
fn log_reports_the_number_of_failed_files() {
    let (daemon, user) = open("");
    // A file does not replace a directory that is not empty.
    fs::create_dir_all(daemon.home.0.join("data/small/d")).expect("a folder");
    user.copy(&["-r", "src/", &daemon.url("data")]).failed(3, &["small: "]);
    daemon.wait_for_log("alice writes to data: done, 1 failed; files=4 ");
    fs::create_dir_all(user.home.0.join("back/d/block/d")).expect("a folder");
    user.copy(&["-r", &daemon.url("data"), "back"]).failed(3, &["d/block: "]);
    daemon.wait_for_log("alice reads data: done, 1 failed; files=");
}

#[test]
fn tunnel_sends_data_through_the_control_connection() {
    let (daemon, user) = open("");
    let to = daemon.url("data/new");
    user.copy(&["-a", "--tunnel", "src/", &to]).ok();
    user.copy(&["-a", "--tunnel", &daemon.url("data/new/"), "back"]).ok();
    same(&user.home, "src", &user.home.0.join("back"));
    user.copy(&["-a", "--data-port", "4000", "src/", &to]).failed(2, &["at its own port"]);
}

/// Last bytes of the remote addresses of open connections to a port (proc_net_tcp.rst).
fn connected(port: u16) -> Vec<u8> {
    let table = fs::read_to_string("/proc/net/tcp").expect("a table");
    let (port, open) = (format!(":{port:04X}"), "01");
    let rows = table.lines().skip(1).filter_map(|line| {
        let [_, _, to, state, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let address = to.strip_suffix(&port).filter(|_| state == open)?;
        // 127.0.0.1 is 0100007F.
        u8::from_str_radix(address.get(..2)?, 16).ok()
    });
    rows.collect()
}

#[test]
fn via_distributes_connections_over_several_addresses() {
    let user = User::new();
    let all = HEAD.replace("127.0.0.1:0", "0.0.0.0:0");
    let daemon = Daemon::start(&format!("{all}{OPEN}{}", user.known_as("alice")));
    user.trust(&daemon);
    let to = format!("numaio://127.0.0.1:{}/data", daemon.port);
    let slowly = ["-r", "--bwlimit", "100K", "--streams", "3", "--via", "127.0.0.2", "src/", &to];
    let mut slow = user.copying(&slowly);
    // The control channel, and four data connections that alternate between two addresses.
    let by_turns = || {
        let connected = connected(daemon.port);
        let of = |last| connected.iter().filter(|at| **at == last).count();
        (of(1), of(2)) == (3, 2)
    };
    until(by_turns, || format!("{:?}; {}", connected(daemon.port), daemon.log()));
    kill("-TERM", slow.id());
    let ended = slow.limited_output().expect("ended");
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    user.copy(&["-r", "--via", "127.0.0.2,127.0.0.3", "src/", &to]).ok();
    same(&user.home, "src", &daemon.home.0.join("data"));
    let few = user.copy(&["-r", "--streams", "1", "--via", "127.0.0.2", "src/", &to]);
    few.failed(2, &["too few for 2 addresses"]);
    user.copy(&["-r", "--via", "no such host", "src/", &to]).failed(2, &["--via no such host"]);
    // If no daemon listens at an address, its connections use the others.
    let (only, user) = open("");
    let output = user.copy(&["-r", "--via", "127.0.0.2", "src/", &only.url("data")]);
    assert!(output.err.contains("no data connection to 127.0.0.2"), "{}", output.err);
    output.ok();
}

#[test]
fn client_verifies_the_key_of_the_daemon() {
    let (daemon, user) = open("");
    let known = user.home.0.join(".config/numaio/known_hosts");
    fs::remove_file(&known).expect("removed");
    let (to, trust) = (daemon.url("data"), format!("--trust={}", daemon.key));
    user.copy(&["-r", "src/", &to]).failed(1, &["is not known", &daemon.key, "add --trust"]);
    let other = format!("--trust={}", user.key);
    user.copy(&["-r", &other, "src/", &to]).failed(1, &["has the key", "of --trust"]);
    assert!(!known.exists());
    user.copy(&["-r", &trust, "src/", &to]).ok();
    user.copy(&["-r", "src/", &to]).ok();
    // A key from --trust must match even if the daemon's key is known.
    user.copy(&["-r", &other, "src/", &to]).failed(1, &["has the key", "of --trust"]);
    // Another daemon at the same address.
    fs::write(&known, format!("# mine\n127.0.0.1:{} {}\n", daemon.port, user.key)).expect("a file");
    for trust in ["-v", &trust] {
        let output = user.copy(&["-r", trust, "src/", &to]);
        output.failed(1, &["THE KEY OF 127.0.0.1", &daemon.key, &user.key]);
    }
    fs::write(&known, "nonsense\n").expect("a file");
    user.copy(&["-r", "src/", &to]).failed(1, &["known_hosts: line 1"]);
    // Without a home directory, the key must be given each time.
    let key = user.home.path(".config/numaio/key");
    let mut homeless = user.home.numaio(&["copy", "-r", "--key", &key, &trust, "src/", &to]);
    let output = homeless.env_remove("HOME").env_remove("XDG_STATE_HOME").limited_output().expect("numaio");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.contains("cannot remember"), "{words}");
}

#[test]
fn daemon_authenticates_users_by_key() {
    let (daemon, user) = open("");
    let to = daemon.url("data");
    let unknown_user = User::new();
    unknown_user.trust(&daemon);
    unknown_user.copy(&["-r", "src/", &to]).failed(1, &["no user here has the key", &unknown_user.key]);
    daemon.wait_for_log("refused: no user here has the key");
    let as_other = to.replace("//", "//bob@");
    user.copy(&["-r", "src/", &as_other]).failed(1, &["the key belongs to alice, not to bob"]);
    user.copy(&["-r", "src/", &to.replace("//", "//alice@")]).ok();
    // A key file that other users can read is rejected, and so is a missing one.
    let key = user.home.0.join(".config/numaio/key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("a mode");
    user.copy(&["-r", "src/", &to]).failed(1, &["other users may access this key", "chmod 600"]);
    user.copy(&["-r", "--key", "absent", "src/", &to]).failed(1, &["absent: ", "numaio keygen"]);
    let key = unknown_user.home.path(".config/numaio/key");
    user.copy(&["-r", "--key", &key, "src/", &to]).failed(1, &["no user here has the key"]);
}

#[test]
fn users_have_only_the_permissions_of_their_roots() {
    let (alice, bob) = (User::new(), User::new());
    let roots = "[root.in]\npath = \"FOLDER/data\"\nwrite = \"alice\"\n\
                 [root.out]\npath = \"FOLDER/outside\"\nread = [\"alice\"]\n";
    let daemon = Daemon::start(&format!("{HEAD}{roots}{}{}", alice.known_as("alice"), bob.known_as("bob")));
    fs::write(daemon.home.0.join("outside/file"), "content").expect("a file");
    [&alice, &bob].into_iter().for_each(|user| user.trust(&daemon));
    alice.copy(&["-r", "src/", &daemon.url("in")]).ok();
    alice.copy(&["-r", &daemon.url("out"), "got"]).ok();
    assert_eq!(fs::read(alice.home.0.join("got/file")).ok(), Some(b"content".to_vec()));
    alice.copy(&["-r", "src/", &daemon.url("out")]).failed(1, &["alice may not write to out"]);
    alice.copy(&["-r", &daemon.url("in"), "no"]).failed(1, &["alice may not read from in"]);
    // A user without permissions in a root does not learn that it exists.
    for root in ["in", "out", "none"] {
        let why = format!("there is no root {root:?} for bob");
        bob.copy(&["-r", "src/", &daemon.url(root)]).failed(1, &[&why]);
        bob.copy(&["-r", &daemon.url(root), "no"]).failed(1, &[&why]);
    }
    assert_eq!(fs::read_dir(daemon.home.0.join("outside")).expect("a folder").count(), 1);
    assert!(!bob.home.0.join("no/file").exists());
}

#[test]
fn rejects_names_and_links_out_of_a_root() {
    let (daemon, user) = open("");
    let (root, outside) = (daemon.home.0.join("data"), daemon.home.0.join("outside"));
    fs::write(outside.join("secret"), "secret").expect("a file");
    symlink(&outside, root.join("absolute")).expect("a link");
    symlink("../outside", root.join("relative")).expect("a link");
    symlink("../outside/secret", root.join("file")).expect("a link");
    for from in [
        "../outside/secret",
        "absolute/secret",
        "relative/secret",
        "absolute/",
        "relative/",
        "d/../../outside/",
    ] {
        let output = user.copy(&["-r", &daemon.url(&format!("data/{from}")), "got"]);
        assert_eq!(output.code, Some(1), "{from}: {}{}", output.out, output.err);
    }
    for to in ["../outside/", "absolute/", "relative/", "absolute/new/", "../new", "relative/new", "file"] {
        let output = user.copy(&["src/small", &daemon.url(&format!("data/{to}"))]);
        assert!(to == "file" || output.code == Some(1), "{to}: {}{}", output.out, output.err);
    }
    // An extra slash does not leave the root.
    user.copy(&["src/small", &daemon.url("data//etc")]).ok();
    assert!(root.join("etc").is_file());
    // Links are copied as links, and a directory replaces a link of the same name.
    user.copy(&["-r", &daemon.url("data/"), "links"]).ok();
    assert!(user.home.0.join("links/absolute").is_symlink());
    fs::create_dir_all(user.home.0.join("tree/absolute")).expect("a folder");
    fs::write(user.home.0.join("tree/absolute/secret"), "changed").expect("a file");
    user.copy(&["-r", "tree/", &daemon.url("data")]).ok();
    // A link that a user uploaded cannot leave the root either.
    fs::remove_dir_all(user.home.0.join("tree/absolute")).expect("removed");
    symlink("../outside", user.home.0.join("tree/planted")).expect("a link");
    user.copy(&["-r", "tree/", &daemon.url("data")]).ok();
    user.copy(&["src/small", &daemon.url("data/planted/")]).failed(1, &["planted"]);
    let names: Vec<_> =
        fs::read_dir(&outside).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read_to_string(outside.join("secret")).expect("a file"), "secret");
    assert!(!daemon.home.0.join("new").exists() && !user.home.0.join("got").join("secret").exists());
}

#[test]
fn daemon_does_not_remove_files_that_it_sends() {
    let (daemon, user) = open("");
    fs::write(daemon.home.0.join("data/f"), "content").expect("a file");
    let words = ["a daemon does not remove the files that it sends"];
    user.copy(&["-r", "--remove-source-files", &daemon.url("data/"), "got"]).failed(1, &words);
    assert!(daemon.home.0.join("data/f").exists() && !user.home.0.join("got/f").exists());
    // It receives files that are removed at their source.
    user.copy(&["-r", "--remove-source-files", "src/", &daemon.url("data/in")]).ok();
    assert!(!user.home.0.join("src/small").exists() && daemon.home.0.join("data/in/small").exists());
}

#[test]
fn keeps_a_source_that_the_daemon_serves_as_destination() {
    let (daemon, user) = open("");
    fs::create_dir_all(daemon.home.0.join("data/d/below")).expect("folders");
    let files = ["data/d/f", "data/d/below/g"].map(|name| daemon.home.0.join(name));
    files.iter().for_each(|file| fs::write(file, "content").expect("a file"));
    let here = |path: &str| daemon.home.path(path);
    let there = |path: &str| daemon.url(path);
    for (options, from, to) in [
        (&["--remove-source-files"][..], here("data/d/"), there("data/d")),
        (&["--inplace"], here("data/d/"), there("data/d/")),
        (&["--inplace"], there("data/d/"), here("data/d")),
        (&["--delete"], here("data/d/"), there("data/d")),
        (&["--delete"], there("data/d/"), here("data/d")),
        (&["--backup-dir=../old"], there("data/d/"), here("data/d")),
        (&["--delete"], here("data/d/below/"), there("data/d")),
        (&["--delete"], there("data/d/below/"), here("data")),
    ] {
        let output = user.copy(&[&["-rI"][..], options, &[&from, &to]].concat());
        let is_refused = ["is source and destination", "is inside the destination"];
        assert!(
            is_refused.iter().any(|why| output.err.contains(why)),
            "{options:?} {from} {to}: {}",
            output.err
        );
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        assert!(files.iter().all(|file| read(file) == "content"), "{options:?} {from} {to}");
    }
    let count = || fs::read_dir(daemon.home.0.join("data/d")).expect("a folder").count();
    until(|| count() == 2, || "a marker is left");
}

#[test]
fn daemon_reports_missing_snapshots() {
    let (daemon, user) = open("");
    for (snapshot, why) in [
        ("../none", "does not exist"),
        ("../../outside", "cannot be used: path leaves the root directory"),
        ("../file", "cannot be used: not a directory"),
    ] {
        fs::write(daemon.home.0.join("data/file"), "").expect("a file");
        let output = user.copy(&["-a", "--link-dest", snapshot, "src/", &daemon.url("data/new")]);
        let remark = format!("--link-dest: directory 'new/{snapshot}' {why}");
        assert!(output.err.to_lowercase().contains(&remark), "{}", output.err);
        drop(output.ok());
    }
}

#[test]
fn copied_links_stay_below_the_root() {
    let (daemon, user) = open("");
    let (root, outside) = (daemon.home.0.join("data"), daemon.home.0.join("outside"));
    fs::write(outside.join("secret"), "secret").expect("a file");
    fs::create_dir_all(root.join("from/folder")).expect("a folder");
    fs::write(root.join("shared"), "shared").expect("a file");
    fs::write(root.join("from/folder/f"), "f").expect("a file");
    // Within the root, but not below the source.
    symlink("../shared", root.join("from/inside")).expect("a link");
    symlink("folder", root.join("from/again")).expect("a link");
    symlink("../../shared", root.join("from/folder/deep")).expect("a link");
    for (name, target) in [
        ("absolute", outside.join("secret")),
        ("relative", "../../outside/secret".into()),
        ("directory", "../../outside".into()),
        ("magic", format!("/proc/self/root{}/secret", outside.display()).into()),
    ] {
        symlink(target, root.join("from").join(name)).expect("a link");
    }
    let output = user.copy(&["-rL", &daemon.url("data/from/"), "got"]);
    let outside_of_root = output.err.matches("this symbolic link leads out of the root directory").count();
    assert_eq!((output.code, outside_of_root), (Some(3), 4), "{}", output.err);
    let got = |name: &str| fs::read_to_string(user.home.0.join("got").join(name)).ok();
    for (name, content) in
        [("inside", "shared"), ("again/f", "f"), ("again/deep", "shared"), ("folder/deep", "shared")]
    {
        assert_eq!(got(name).as_deref(), Some(content), "{name}");
    }
    let names = fs::read_dir(user.home.0.join("got")).expect("a folder").flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string().expect("a name")).collect();
    names.sort_unstable();
    assert_eq!(names, ["again", "folder", "inside"]);
    // The source itself is a link.
    user.copy(&["-L", &daemon.url("data/from/inside"), "one"]).ok();
    assert_eq!(fs::read_to_string(user.home.0.join("one")).expect("a file"), "shared");
    user.copy(&["-rL", &daemon.url("data/from/again"), "two"]).ok();
    assert!(user.home.0.join("two/again/f").exists());
    assert_ne!(user.copy(&["-L", &daemon.url("data/from/relative"), "three"]).code, Some(0));
    assert!(!user.home.0.join("three").exists());
}

#[test]
fn ssh_host_copies_to_a_daemon_directly() {
    let (daemon, user) = open("");
    // The host is this machine, with the user's home and therefore the user's key.
    let ssh = user.home.local_ssh();
    let args =
        ["copy", "-a", "--remote-numaio", env!("CARGO_BIN_EXE_numaio"), "h:src/", &daemon.url("data/there")];
    let mut command = user.home.numaio(&args);
    CommandOutput::of(command.env("NUMAIO_SSH", ssh).limited_output().expect("numaio")).ok();
    same(&user.home, "src", &daemon.home.0.join("data/there"));
}

#[test]
fn removes_terminal_escapes_from_peer_messages() {
    let home = Home::new();
    home.file("f", "x");
    for answer in [
        r#"{"Refused":"\u001b[31mred"}"#,
        r#"{"Ready":{"is_one_file":true,"endpoint":{"Err":"\u001b[31mred"}}}"#,
    ] {
        let ssh =
            home.script("ssh", &format!("#!/bin/sh\n[ \"$1\" = -G ] && exit\nprintf '%s\\n' '{answer}'\n"));
        let mut command = home.numaio(&["copy", "-v", "--retry", "0", "f", "h:g"]);
        let output = CommandOutput::of(command.env("NUMAIO_SSH", ssh).limited_output().expect("numaio"));
        assert!(output.err.contains("[31mred") && !output.err.contains('\u{1b}'), "{}", output.err);
    }
}

/// Captures the request that numaio copy sends over ssh.
fn capture_request(user: &User, args: &[&str]) -> String {
    let ssh = user.home.script("ssh", "#!/bin/sh\n[ \"$1\" = -G ] && exit\nhead -n 1 >request\n");
    let mut command = user.home.numaio(&[&["copy", "--tunnel"], args].concat());
    drop(command.env("NUMAIO_SSH", ssh).limited_output().expect("numaio"));
    fs::read_to_string(user.home.0.join("request")).expect("a request")
}

/// Opens a control channel to the daemon, and returns it with the daemon's greeting.
pub fn open_control_channel(
    daemon: &Daemon,
    own: &KeyPair,
    hello: &str,
) -> (control::ControlChannel, String) {
    let socket = TcpStream::connect(("127.0.0.1", daemon.port)).expect("a daemon");
    let key: PublicKey = daemon.key.parse().expect("a key");
    let mut channel =
        control::connect(&socket, own, move |presented| presented == key, LIMIT).expect("a channel");
    channel.write_line(hello).expect("sent");
    let greeting = channel.read_line(4096, LIMIT).expect("a greeting");
    (channel, greeting)
}

pub fn keys_of(user: &User) -> KeyPair {
    let text = fs::read_to_string(user.home.0.join(".config/numaio/key")).expect("a key");
    let line = text.lines().find(|line| !line.starts_with('#')).expect("a key");
    line.parse::<numaio_mover_linux::port::net::PrivateKey>().expect("a key").keys().expect("a key")
}

#[test]
fn rejects_requests_of_a_hostile_user() {
    let (daemon, user) = open("");
    let keys = keys_of(&user);
    fs::write(daemon.home.0.join("outside/secret"), "secret").expect("a file");
    let outside = daemon.home.path("outside");
    let (take, put) = (
        "{\"numaio_copy\":1,\"root\":\"data\",\"takes_files\":true,\"has_no_key\":false,\"capacity\":{}}",
        "{\"numaio_copy\":1,\"root\":\"data\",\"takes_files\":false,\"has_no_key\":false,\"capacity\":{}}",
    );
    let answer = |hello: &str, call: &str| {
        let (channel, greeting) = open_control_channel(&daemon, &keys, hello);
        assert!(greeting.contains("Welcome"), "{greeting}");
        let (mut ends, _carrier) = channel.into_streams().expect("streams");
        ends.to.write_all(call.as_bytes()).expect("sent");
        let mut line = String::new();
        BufReader::new(ends.from).read_line(&mut line).expect("an answer");
        drop(ends.to);
        line
    };
    // Paths outside of the root.
    for path in [format!("{outside}/"), format!("{outside}/secret"), "../outside/".to_owned(), "/".to_owned()]
    {
        let from = answer(take, &capture_request(&user, &["-r", &format!("h:{path}"), "got"]));
        assert!(from.contains("Refused") && from.contains("leaves the root directory"), "{path}: {from}");
        let to = answer(put, &capture_request(&user, &["-r", "src", &format!("h:{path}new/")]));
        assert!(to.contains("Refused"), "{path}: {to}");
    }
    // A request for the other direction than announced, and an invalid request.
    let line = answer(take, &capture_request(&user, &["-r", "src", "h:."]));
    assert!(line.contains("another side"), "{line}");
    assert!(answer(take, "nonsense\n").contains("Refused"));
    // Invalid hellos.
    for (hello, why) in [
        ("nonsense", "expected the hello"),
        ("{}", "expected the hello"),
        (&take.replace("data", "../outside"), "no root"),
    ] {
        let (_, greeting) = open_control_channel(&daemon, &keys, hello);
        assert!(greeting.contains("Refused") && greeting.contains(why), "{hello}: {greeting}");
    }
    // A client that has already sent a long request still receives the rejection.
    let (_, greeting) = open_control_channel(&daemon, &keys, &format!("nonsense\n{}", "x".repeat(4 << 20)));
    assert!(greeting.contains("expected the hello"), "{greeting}");
    assert_eq!(fs::read_dir(daemon.home.0.join("outside")).expect("a folder").count(), 1);
    user.copy(&["-r", "src/", &daemon.url("data")]).ok();
}

/// Returns whether the daemon closes a connection.
fn is_closed(mut socket: &TcpStream) -> bool {
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn unauthenticated_connections_are_closed() {
    let (daemon, user) = open("[limits]\nlogin_grace_seconds = 1\nper_address = 3\n");
    let connect = || TcpStream::connect(("127.0.0.1", daemon.port)).expect("a daemon");
    let mut noisy = connect();
    noisy.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
    assert!(is_closed(&noisy));
    daemon.wait_for_log("cannot open a session: ");
    // A ticket of an unknown session.
    let mut lost = connect();
    lost.write_all(b"\x93numaio:0123456789abcdef").expect("sent");
    assert!(is_closed(&lost));
    daemon.wait_for_log("data connection with an unknown ticket");
    // A silent connection, and one that sends a byte now and then, are closed after the time limit.
    let (silent, slow) = (connect(), connect());
    let drip = slow.try_clone().expect("a socket");
    let dripping = thread::spawn(move || {
        let mut bytes = [22, 3, 3, 0x3f, 0xff].into_iter().chain(std::iter::repeat(2));
        while (&drip).write_all(&[bytes.next().unwrap_or(2)]).is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(is_closed(&silent) && is_closed(&slow));
    dripping.join().expect("ended");
    daemon.wait_for_log("the client did not authenticate within 1 s");
    user.copy(&["-r", "src/", &daemon.url("data")]).ok();
}

#[test]
fn limits_unauthenticated_connections_per_address() {
    let (daemon, user) = open("[limits]\nlogin_grace_seconds = 600\nper_address = 2\n");
    let connect = || {
        let mut socket = TcpStream::connect(("127.0.0.1", daemon.port)).expect("a daemon");
        // The start of a handshake makes the daemon start a session process.
        socket.write_all(&[22]).expect("sent");
        socket
    };
    let silent = [connect(), connect(), connect()];
    daemon.wait_for_log("limits.per_address");
    user.copy(&["-r", "--retry", "0", "src/", &daemon.url("data")])
        .failed(1, &["is full: limits.per_address"]);
    drop(silent);
    // Their slots become free when their processes have exited.
    until(
        || user.copy(&["-r", "--retry", "0", "src/", &daemon.url("data")]).code == Some(0),
        || daemon.log(),
    );
}

#[test]
fn limits_the_rate_of_a_user() {
    let user = User::new();
    let limited = format!("{}bytes_per_second = \"200M\"\n", user.known_as("alice"));
    let daemon = Daemon::start(&format!("{HEAD}{OPEN}{limited}"));
    user.trust(&daemon);
    user.copy(&["-r", "src/", &daemon.url("data")]).ok();
    user.copy(&["-r", &daemon.url("data"), "back"]).ok();
    same(&user.home, "src", &user.home.0.join("back"));
    // At one byte per second the session makes no progress, but still reacts to a signal.
    let config = format!("{HEAD}{OPEN}{}bytes_per_second = 1\n", user.known_as("alice"));
    daemon.configure(&config);
    daemon.signal("-HUP");
    daemon.wait_for_log("bytes_per_second: expected a string");
    daemon.configure(&config.replace("= 1\n", "= \"1\"\n"));
    daemon.signal("-HUP");
    daemon.wait_for_log("reloaded ");
    let to = daemon.url("data/slow");
    let mut slow = user.copying(&["-r", "src/", &to]);
    let part = || fs::read_dir(daemon.home.0.join("data/slow")).into_iter().flatten().count() > 0;
    until(part, || daemon.log());
    thread::sleep(Duration::from_millis(300));
    assert!(slow.try_wait().expect("a child").is_none(), "the rate was not limited");
    kill("-TERM", slow.id());
    assert_eq!(slow.limited_status().expect("ended").code(), Some(130));
}

/// Process ID of the newest session.
fn session(daemon: &Daemon) -> u32 {
    let log = daemon.wait_for_log("(process ");
    let number = log.rsplit("(process ").next().map(|rest| rest.chars().take_while(char::is_ascii_digit));
    number.and_then(|digits| digits.collect::<String>().parse().ok()).expect("a number")
}

#[test]
fn killed_session_is_retried_and_the_daemon_survives() {
    let (mut daemon, user) = open("");
    let to = daemon.url("data");
    let mut child = user.copying(&["-r", "--bwlimit", "2M", "src/", &to]);
    let root = daemon.home.0.join("data");
    let has_started = || {
        let mut names = fs::read_dir(&root).expect("a folder").flatten().map(|entry| entry.file_name());
        names.any(|name| !name.to_string_lossy().starts_with(".numaio-marker"))
    };
    until(has_started, || daemon.log());
    kill("-KILL", session(&daemon));
    daemon.wait_for_log("alice writes to data: killed: signal 9; ");
    // The client reconnects by itself.
    let output = CommandOutput::of(child.limited_output().expect("ended"));
    assert!(output.err.contains("retrying"), "{}", output.err);
    output.ok();
    same(&user.home, "src", &root);
    assert!(daemon.is_running());
}

#[test]
fn sigterm_waits_for_sessions() {
    let (mut daemon, user) = open("");
    let mut child = user.copying(&["-r", "--bwlimit", "4M", "src/", &daemon.url("data")]);
    daemon.wait_for_log("alice writes to data (process");
    daemon.signal("-TERM");
    let (at, port) = ("127.0.0.1", daemon.port);
    until(|| TcpStream::connect((at, port)).is_err(), || "the daemon still listens".to_owned());
    // SIGHUP while stopping does not interrupt the sessions.
    daemon.signal("-HUP");
    assert!(child.limited_status().expect("ended").success());
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    same(&user.home, "src", &daemon.home.0.join("data"));
}

#[test]
fn sigterm_interrupts_sessions_after_stop_seconds() {
    let (mut daemon, user) = open("stop_seconds = 0\n");
    // With --retry the client would try to reconnect.
    let mut child = user.copying(&["-r", "--retry", "0", "--bwlimit", "10K", "src/", &daemon.url("data")]);
    let root = daemon.home.0.join("data");
    until(|| fs::read_dir(&root).expect("a folder").count() > 0, || daemon.log());
    daemon.signal("-TERM");
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    let output = CommandOutput::of(child.limited_output().expect("ended"));
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    assert!(output.err.contains("interrupted"), "{}", output.err);
}

#[test]
fn sighup_reloads_the_configuration() {
    let (mut daemon, user) = open("");
    let second = User::new();
    second.trust(&daemon);
    daemon.configure("nonsense\n");
    daemon.signal("-HUP");
    let output = daemon.wait_for_log("keeping the previous configuration");
    assert!(output.contains("serve.toml:1: "), "{output}");
    user.copy(&["src/small", &daemon.url("data/")]).ok();
    second.copy(&["src/small", &daemon.url("data/")]).failed(1, &["no user here"]);
    daemon.configure(&format!("{HEAD}{OPEN}{}", second.known_as("bob")));
    daemon.signal("-HUP");
    daemon.wait_for_log("reloaded ");
    second.copy(&["src/small", &daemon.url("data/")]).ok();
    user.copy(&["src/small", &daemon.url("data/")]).failed(1, &["no user here"]);
    assert!(daemon.is_running());
}

#[test]
fn limit_of_open_files_is_raised_or_the_configuration_is_rejected() {
    let (mut daemon, user) = open("");
    let limit_files = |limits: &str| {
        let args = [&format!("--nofile={limits}"), "--pid", &daemon.process().to_string()];
        let status = daemon.home.command("prlimit", &args).limited_status();
        assert!(status.expect("prlimit").success());
    };
    let reload = |connections: u32| {
        let limits = format!("[limits]\nconnections = {connections}\n");
        daemon.configure(&format!("{HEAD}{limits}{OPEN}{}", user.known_as("alice")));
        daemon.signal("-HUP");
    };
    limit_files("1200:2000");
    reload(100);
    daemon.wait_for_log("reloaded ");
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.process())).expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    assert_eq!(line.split_whitespace().skip(3).collect::<Vec<_>>(), ["1765", "2000", "files"]);
    reload(200);
    let why = "the limit of open files is 2000, and the configured limits need 3465";
    daemon.wait_for_log(why);
    assert!(daemon.wait_for_log("keeping the previous configuration").contains(why));
    assert!(daemon.is_running());
    let mut second =
        daemon.home.command_by(&["prlimit", "--nofile=2000"], &["serve", "--config", "serve.toml"]);
    CommandOutput::of(second.limited_output().expect("prlimit")).failed(1, &[why, "LimitNOFILE="]);
}

/// A removed user must lose access even if a new root is unusable.
#[test]
fn reload_succeeds_despite_an_unusable_root() {
    let (mut daemon, user) = open("");
    let second = User::new();
    second.trust(&daemon);
    let (data, away) = (daemon.home.0.join("data"), daemon.home.0.join("away"));
    let other = "[root.other]\npath = \"FOLDER/away\"\nread = \"*\"\nwrite = \"*\"\n";
    daemon.configure(&format!("{HEAD}{OPEN}{other}{}", second.known_as("bob")));
    daemon.signal("-HUP");
    let output = daemon.wait_for_log("1 root cannot be used as ");
    assert!(
        output.contains("serve.toml:9: root \"other\": ") && output.contains("away: No such file"),
        "{output}"
    );
    user.copy(&["src/small", &daemon.url("data/")]).failed(1, &["no user here"]);
    second.copy(&["src/small", &daemon.url("data/")]).ok();
    assert!(data.join("small").exists());
    let why = "cannot open root 'other': No such file";
    second.copy(&["src/small", &daemon.url("other/")]).failed(1, &[why]);
    // Once its directory exists, the root is served.
    fs::create_dir(&away).expect("a folder");
    second.copy(&["src/small", &daemon.url("other/")]).ok();
    assert!(away.join("small").exists());
    // An unreadable key makes the configuration invalid: no user could connect.
    daemon.configure(&format!(
        "{}{OPEN}{}weather = 1\n",
        HEAD.replace("/key", "/none"),
        user.known_as("alice")
    ));
    daemon.signal("-HUP");
    let output = daemon.wait_for_log("keeping the previous configuration");
    assert!(
        output.find("none").expect("a key") < output.find("weather").expect("a fault"),
        "expected the errors in this order: {output}"
    );
    second.copy(&["src/small", &daemon.url("data/")]).ok();
    assert!(daemon.is_running());
}

#[test]
fn notifies_the_service_manager() {
    let home = Home::new();
    let socket = UnixDatagram::bind(home.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let user = User::new();
    let config = format!("{HEAD}{OPEN}{}", user.known_as("alice"));
    let path = home.path("notify");
    let mut daemon = Daemon::start_with(&config, |command| {
        command.env("NOTIFY_SOCKET", path);
    });
    let receive = || {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    assert_eq!(receive(), "READY=1");
    daemon.signal("-TERM");
    assert_eq!(receive(), "STOPPING=1");
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
}

#[test]
fn check_reports_errors_with_line_numbers() {
    let home = Home::new();
    let key = home.run(&["keygen", "key"]).ok();
    let check = |text: &str| {
        home.file("serve.toml", &text.replace("FOLDER", &home.0.to_string_lossy()));
        home.run(&["serve", "--check", "--config", "serve.toml"])
    };
    let good = format!(
        "key = \"FOLDER/key\"\n[root.data]\npath = \"FOLDER\"\nread = \"*\"\n[user.a]\nkeys = \"{}\"\n",
        key.trim()
    );
    assert!(check(&good).ok().starts_with("serve.toml: no faults; 1 root, 1 user\n\n"));
    let bad =
        good.replace("FOLDER\"\nread = \"*\"", "FOLDER/none\"\nread = [\"*\"]\n").replace("/key", "/other");
    check(&bad).failed(1, &["serve.toml:1: key: ", "serve.toml:3: root \"data\": ", "2 errors"]);
    // Together with syntax errors.
    let wrong = ["serve.toml:1: key: ", "serve.toml:3: root \"data\": ", "serve.toml:8: ", "3 errors"];
    check(&(bad + "speed = 1\n")).failed(1, &wrong);
    let bad = good.replace("\"*\"", "\"b\"\nspeed = 1");
    check(&bad).failed(
        1,
        &["serve.toml:4: root \"data\": read: [user.b] is missing", "serve.toml:5: ", "\"speed\""],
    );
    home.run(&["serve", "--config", "absent"]).failed(1, &["absent: ", "--config names the file"]);
    home.run(&["serve", "--machine", "intel-r820"]).failed(2, &["not a recorded one"]);
    if numaio_linux::process::is_super_user() {
        check(&good).ok();
        home.run(&["serve", "--config", "serve.toml"]).failed(1, &["does not run as root"]);
    }
}

#[test]
fn check_shows_the_devices_of_roots_and_addresses() {
    let home = Home::new();
    let key = home.run(&["keygen", "key"]).ok();
    let check = |more: &str| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nkey = \"FOLDER/key\"\n[root.data]\npath = \"FOLDER\"\nread = \"*\"\n\
             [root.shm]\npath = \"/dev/shm\"\nread = \"*\"\n[user.a]\nkeys = \"{}\"\n{more}",
            key.trim()
        );
        home.file("serve.toml", &text.replace("FOLDER", &home.0.to_string_lossy()));
        home.run(&["serve", "--check", "--config", "serve.toml"])
    };
    let text = check("").ok();
    assert!(text.starts_with("serve.toml: no faults; 2 roots, 1 user\n"), "{text}");
    assert!(text.contains("\nroot shm, /dev/shm: memory\n"), "{text}");
    assert!(text.contains("listen 127.0.0.1:0: no device: it is a loopback address\n"), "{text}");
    let root = text.lines().find_map(|line| line.strip_prefix("root data, ")).expect("the root");
    let device = root.rsplit(": ").next().expect("its device").to_owned();
    assert!(text.contains(&format!("\n{device} ")), "{text}");
    let text = check(&format!("[device.{device:?}]\nread = \"1.5GB\"\nwrite = \"0.5GB\"\n")).ok();
    assert!(text.contains("1.500") || text.contains("1.50"), "{text}");
    assert!(text.contains(&format!("{device}: bandwidth set by serve.toml:11\n")), "{text}");
    check("[device.floppy]\nthreads = 1\n")
        .failed(1, &["serve.toml:11: device \"floppy\": this machine does not have it", "1 error"]);
}

#[test]
fn reload_with_a_wrong_device_table_keeps_the_configuration() {
    let (daemon, user) = open("");
    daemon.configure(&format!("{HEAD}{OPEN}{}[device.eth0]\nkind = \"floppy\"\n", user.known_as("bob")));
    daemon.signal("-HUP");
    daemon.wait_for_log("device \"eth0\": kind: expected one of hdd");
    user.copy(&["-a", "src/", &daemon.url("data/a")]).ok();
}

#[test]
fn example_configuration_in_help_is_valid() {
    let home = Home::new();
    let help = home.run(&["serve", "--help"]).ok();
    let shown = help.split("A file that lets ").nth(1).expect("an example").lines().skip(1);
    let shown: Vec<&str> = shown.take_while(|line| line.starts_with("  ")).map(str::trim).collect();
    fs::create_dir(home.0.join("data")).expect("a folder");
    let mut text = shown.join("\n");
    for (name, path) in [("/etc/numaio/key", "key"), ("/srv/data", "data")] {
        assert!(text.contains(name), "{text}");
        text = text.replace(name, &home.path(path));
    }
    home.run(&["keygen", "key"]).ok();
    let check = |text: &str| {
        home.file("serve.toml", text);
        home.run(&["serve", "--check", "--config", "serve.toml"])
    };
    // Without user keys the example is rejected.
    check(&text).failed(1, &["2 errors"]);
    for name in ["alice", "bob"] {
        let key = home.run(&["keygen", name]).ok();
        text = text.replacen("ed25519:...", key.trim(), 1);
    }
    assert!(check(&text).ok().starts_with("serve.toml: no faults; 1 root, 2 users\n\n"));
}

/// Root bypasses permissions, so this runs as another user, which becomes the owner of the key.
#[test]
fn check_reports_inaccessible_roots() {
    let home = Home::new();
    let key = home.run(&["keygen", "key"]).ok();
    let (root, text) = (home.0.join("root"), format!("[user.a]\nkeys = \"{}\"\n", key.trim()));
    fs::create_dir(&root).expect("a folder");
    let is_root = numaio_linux::process::is_super_user();
    let starter: &[&str] =
        if is_root { &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] } else { &[] };
    if is_root {
        for name in ["key", "root"] {
            chown(home.0.join(name), Some(65_534), Some(65_534)).expect("an owner");
        }
    }
    let check = |may: &str, mode| {
        let path = home.path("");
        let config = format!("key = \"{path}key\"\n[root.r]\npath = \"{path}root\"\n{may} = \"a\"\n{text}");
        home.file("serve.toml", &config);
        fs::set_permissions(&root, fs::Permissions::from_mode(mode)).expect("a mode");
        let mut command = home.command_by(starter, &["serve", "--check", "--config", "serve.toml"]);
        command.limited_output().map(CommandOutput::of)
    };
    match check("read", 0o500) {
        Err(_) => return skipped("another user: needs setpriv"),
        Ok(output) if output.err.contains("serve.toml: ") => {
            return skipped("another user cannot access the directory of the test");
        }
        Ok(output) => drop(output.ok()),
    }
    let check = |may: &str, mode| check(may, mode).expect("numaio");
    check("write", 0o300).ok();
    let why = "serve.toml:3: root \"r\": ";
    check("read", 0o300).failed(1, &[why, "root: cannot read it: Permission denied"]);
    check("read", 0o600).failed(1, &[why, "root: cannot read it: Permission denied"]);
    check("write", 0o500).failed(1, &[why, "root: cannot write to it: Permission denied"]);
}

#[test]
fn keygen_writes_keys_only_their_owner_can_read() {
    let home = Home::new();
    let public = home.run(&["keygen"]).ok();
    assert!(public.starts_with("ed25519:") && public.trim().len() == 8 + 64, "{public}");
    let mode = |name: &str| fs::metadata(home.0.join(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(".config/numaio/key"), mode(".config/numaio")), (0o600, 0o700));
    let text = fs::read_to_string(home.0.join(".config/numaio/key")).expect("a key");
    home.run(&["keygen"]).failed(1, &["the file already exists", "--public"]);
    assert_eq!(fs::read_to_string(home.0.join(".config/numaio/key")).expect("a key"), text);
    assert_eq!(home.run(&["keygen", "--public"]).ok(), public);
    assert_ne!(home.run(&["keygen", "other"]).ok(), public);
    home.file("no", "hello\n");
    fs::set_permissions(home.0.join("no"), fs::Permissions::from_mode(0o600)).expect("a mode");
    home.run(&["keygen", "--public", "no"]).failed(1, &["invalid private key"]);
    home.run(&["keygen", "--public", "absent"]).failed(1, &["numaio keygen generates a key"]);
}

#[test]
fn rejects_invalid_daemon_urls() {
    let home = Home::new();
    home.file("f", "x");
    home.run(&["copy", "f", "numaio://host"])
        .failed(2, &["it names no root", "numaio://[USER@]HOST[:PORT]/ROOT/PATH"]);
    home.run(&["copy", "numaio://a/r/f", "b:f"]).failed(2, &["a daemon cannot send to another remote host"]);
    home.run(&["copy", "numaio://a/r/f", "numaio://a/s/f", "."]).failed(2, &["different roots"]);
    home.run(&["copy", "f", "numaio://a/r"]).failed(1, &["key: ", "numaio keygen generates a key"]);
    home.run(&["keygen"]).ok();
    home.run(&["copy", "f", "numaio://127.0.0.1:1/r"])
        .failed(1, &["no numaio daemon answers at 127.0.0.1:1"]);
}
