//! Faults during `numaio copy`: full, closed or lost storage, odd names and times, bad peers, and
//! lost hosts. In each test the error is reported, all other files arrive, no partial file gets its
//! final name, and the same command completes the copy.

use crate::support::{content, skipped, until, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy"], args].concat())
}

/// Creates a large file and small ones.
fn files(folder: &Path, large: usize) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("large"), content(large, 1)).expect("a file");
    for index in 0..20 {
        fs::write(folder.join(index.to_string()), content(20_000 + index, index as u8)).expect("a file");
    }
}

fn same(home: &Home, one: &str, other: &str) {
    let output =
        home.command("diff", &["-r", "--no-dereference", one, other]).limited_output().expect("diff");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Checks that files with final names are complete, and returns their number.
fn check_finished_files(home: &Home, from: &str, to: &str) -> usize {
    let names = fs::read_dir(home.0.join(to)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let finished: Vec<_> = names.filter(|name| !name.to_string_lossy().starts_with(".numaio-")).collect();
    for name in &finished {
        let read = |folder: &str| fs::read(home.0.join(folder).join(name)).expect("a file");
        assert!(read(from) == read(to), "{name:?} is incomplete");
    }
    finished.len()
}

/// Bytes written so far by a running copy.
fn written(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * 512).sum()
}

/// Runs a script with permission to mount and to create network interfaces; None if that fails,
/// which the script reports by status 99.
fn run_unshared(home: &Home, script: &str) -> Option<CommandOutput> {
    let script = format!("numaio={NUMAIO}\n{script}");
    home.run_unshared("-rmn", &[&script])
}

#[test]
fn reports_full_storage_and_completes_after_it_is_enlarged() {
    let home = Home::new();
    files(&home.0.join("src"), 40 << 20);
    fs::create_dir(home.0.join("dst")).expect("a folder");
    // Other files may fail instead of the large one, while parts of it use the space.
    let script = "mount -t tmpfs -o size=20m none dst || exit 99
        $numaio copy -a src/ dst; echo code $?
        cd dst; for name in *; do [ $name = '*' ] || cmp $name ../src/$name; done; cd ..
        mount -o remount,size=100m dst || exit 99
        $numaio copy -a src/ dst; echo code $?; diff -r src dst && echo same; ls -A dst | grep -c numaio";
    let Some(output) = run_unshared(&home, script) else {
        return skipped("no permission to mount a small file system");
    };
    assert!(output.err.contains(": cannot write: no space left on device (destination)"), "{}", output.err);
    let is_status = |line: &&str| !line.contains("moved") && !line.contains("are listed above");
    let lines: Vec<&str> = output.out.lines().filter(is_status).collect();
    assert_eq!(lines, ["code 3", "code 0", "same", "0"], "{}\n{}", output.out, output.err);
}

/// A btrfs with a subvolume, `mnt/dst`, limited to 16 MiB; unmounted and detached when dropped.
struct SmallFileSystem<'a> {
    home: &'a Home,
    device: String,
}

impl<'a> SmallFileSystem<'a> {
    fn new(home: &'a Home) -> Option<Self> {
        let attached = "truncate -s 300M image && mkfs.btrfs image >/dev/null && losetup --find --show image";
        let output = sh(home, attached);
        let limited =
            (output.code == Some(0)).then(|| Self { home, device: output.out.trim().to_owned() })?;
        let script = format!(
            "mkdir mnt && mount {} mnt && btrfs quota enable mnt && btrfs subvolume create mnt/dst && \
             btrfs qgroup limit 16M mnt/dst",
            limited.device
        );
        (sh(home, &script).code == Some(0)).then_some(limited)
    }
}

impl Drop for SmallFileSystem<'_> {
    fn drop(&mut self) {
        sh(self.home, &format!("umount mnt; losetup --detach {}", self.device));
    }
}

fn sh(home: &Home, script: &str) -> CommandOutput {
    CommandOutput::of(home.command("sh", &["-c", script]).limited_output().expect("sh"))
}

#[test]
fn reports_an_exceeded_quota() {
    let home = Home::new();
    files(&home.0.join("src"), 30 << 20);
    let Some(_limited) = SmallFileSystem::new(&home) else {
        return skipped("a quota: needs btrfs-progs, losetup and root");
    };
    let output = copy(&home, &["-a", "src/", "mnt/dst"]);
    assert!(
        output.code == Some(3) && output.err.contains("disk quota exceeded (destination)"),
        "{}",
        output.err
    );
    assert!(check_finished_files(&home, "src", "mnt/dst") < 21);
    let raised = sh(&home, "btrfs qgroup limit none mnt/dst && sync -f mnt/dst");
    assert_eq!(raised.code, Some(0), "{}", raised.err);
    copy(&home, &["-a", "src/", "mnt/dst"]).ok();
    same(&home, "src", "mnt/dst");
}

#[test]
fn reports_an_unwritable_destination() {
    let home = Home::new();
    files(&home.0.join("src"), 2 << 20);
    fs::create_dir(home.0.join("dst")).expect("a folder");
    let script = "mount -t tmpfs none dst && mount -o remount,ro dst || exit 99
        $numaio copy -a src/ dst; echo code $?; $numaio copy -a src dst/new/; echo code $?; ls -A dst";
    match run_unshared(&home, script) {
        Some(output) => {
            assert!(
                output.err.contains("large: cannot create: read-only file system (destination)"),
                "{}",
                output.err
            );
            assert!(
                output.err.contains("dst/new") && output.err.contains("Read-only file system"),
                "{}",
                output.err
            );
            let codes: Vec<&str> = output.out.lines().filter(|line| line.starts_with("code")).collect();
            assert_eq!(codes, ["code 3", "code 1"], "{}\n{}", output.out, output.err);
        }
        None => skipped("no permission to mount a read-only file system"),
    }
    fs::set_permissions(home.0.join("dst"), fs::Permissions::from_mode(0o555)).expect("a mode");
    let is_root = fs::metadata(home.0.join("dst")).expect("a folder").uid() == 0;
    // Root bypasses permissions, so this runs as another user.
    let starter: &[&str] =
        if is_root { &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] } else { &[] };
    let mut command = home.command_by(starter, &["copy", "--no-job", "-r", "src/", "dst"]);
    let Ok(output) = command.limited_output() else { return skipped("another user: needs setpriv") };
    let output = CommandOutput::of(output);
    if output.code != Some(3) {
        return skipped(format!("another user cannot access the directory of the test: {}", output.err));
    }
    assert!(output.err.contains("large: cannot create: permission denied (destination)"), "{}", output.err);
    assert_eq!(fs::read_dir(home.0.join("dst")).expect("a folder").count(), 0);
}

#[test]
fn reports_a_vanished_file_and_copies_the_others() {
    // A slow machine may have read all files before one is deleted, so this is tried several times.
    let found = (0..3).any(|_| {
        let home = Home::new();
        fs::create_dir(home.0.join("src")).expect("a folder");
        for index in 0..40 {
            fs::write(home.0.join(format!("src/{index:02}")), content(500_000, index)).expect("a file");
        }
        let mut command = home.numaio(&["copy", "-r", "--bwlimit", "4M", "src/", "dst"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio");
        until(|| written(&home.0.join("dst")) > 0, || "the copy wrote nothing");
        // Files are read by inode or disk block, both in order of creation: one of these is late.
        for name in ["00", "39"] {
            fs::remove_file(home.0.join("src").join(name)).expect("removed");
        }
        let output = CommandOutput::of(child.limited_output().expect("an end"));
        if output.code == Some(0) {
            return false;
        }
        assert!(
            output.err.contains("cannot open for reading: no such file or directory (source)"),
            "{}",
            output.err
        );
        assert_eq!(output.code, Some(4), "{}", output.err);
        let there = fs::read_dir(home.0.join("dst")).expect("a folder").flatten();
        assert!((38..40).contains(&there.count()), "expected all other files, and nothing else");
        copy(&home, &["-r", "--delete", "src/", "dst"]).ok();
        same(&home, "src", "dst");
        true
    });
    assert!(found, "each time all files had been read before one was deleted");
}

/// As on a broken disk: thousands of lines would hide the others.
#[test]
fn counts_failures_with_the_same_cause() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    for index in 0..25 {
        symlink("nowhere", home.0.join(format!("src/{index}"))).expect("a link");
    }
    symlink("loop", home.0.join("src/loop")).expect("a link");
    let cause = "the target of this symbolic link does not exist (source)";
    let output = copy(&home, &["-rL", "src/", "dst"]);
    assert_eq!((output.code, output.err.matches(cause).count()), (Some(3), 11), "{}", output.err);
    let counted = format!("numaio: 15 more: {cause}\n");
    assert!(output.err.contains(&counted) && output.err.contains("loop: "), "{}", output.err);
    assert!(output.out.contains("--verbose lists all"), "{}", output.out);
    let output = copy(&home, &["-rLv", "src/", "dst"]);
    assert_eq!((output.err.matches(cause).count(), output.err.contains(" more: ")), (25, false));
    let output = copy(&home, &["-rL", "--json", "src/", "dst"]);
    assert_eq!(output.out.lines().filter(|line| line.contains("does not exist")).count(), 25);
}

#[test]
fn circular_links_fail_when_followed_and_are_copied_as_links() {
    let home = Home::new();
    files(&home.0.join("src"), 10);
    for (from, to) in [("one", "two"), ("two", "one")] {
        symlink(from, home.0.join("src").join(to)).expect("a link");
    }
    symlink(".", home.0.join("src/here")).expect("a link");
    copy(&home, &["-a", "src/", "dst"]).ok();
    same(&home, "src", "dst");
    assert_eq!(fs::read_link(home.0.join("dst/here")).ok(), Some(".".into()));
    // In the path of a source or destination, links are followed.
    let circle = "Too many levels of symbolic links";
    copy(&home, &["src/one/file", "dst"]).failed(1, &["src/one", circle]);
    copy(&home, &["src/large", "src/one/"]).failed(1, &["src/one"]);
    copy(&home, &["-r", "src/here/here/here/", "through"]).ok();
    same(&home, "src", "through");
}

#[test]
fn reports_overlong_names_and_copies_the_others() {
    let home = Home::new();
    files(&home.0.join("src"), 10);
    // The longest name of a file system.
    fs::write(home.0.join("src").join("n".repeat(255)), "long").expect("a file");
    // The kernel rejects paths over 4,095 bytes, so each directory is created from its parent.
    let folder = "d".repeat(250);
    let script = format!(
        "import os\nos.chdir('src')\nfor _ in range(17):\n    os.mkdir('{folder}')\n    os.chdir('{folder}')\nopen('x', 'w')"
    );
    assert!(home.command("python3", &["-c", &script]).limited_status().expect("python3").success());
    let output = copy(&home, &["-a", "src/", "dst"]);
    let there = home.0.join("dst").join("n".repeat(255)).exists() && home.0.join("dst/large").exists();
    let deep = fs::metadata(home.0.join("dst").join(vec![folder.as_str(); 15].join("/"))).is_ok();
    // The cleanup of the test cannot name such paths.
    for tree in ["src", "dst"] {
        drop(home.command("rm", &["-rf", tree]).limited_status());
    }
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(output.err.contains("(source)") && output.err.contains("4095 at most"), "{}", output.err);
    assert!(there && deep, "names within the limit were not copied");
}

#[test]
fn tolerates_clocks_that_differ() {
    let home = Home::new();
    files(&home.0.join("src"), 100);
    // The source's clock was ahead, behind, or never set.
    let year = Duration::from_secs(365 * 24 * 3600);
    let times = [
        SystemTime::now() + 10 * year,
        SystemTime::UNIX_EPOCH + Duration::new(0, 1),
        SystemTime::UNIX_EPOCH - Duration::new(20 * 365 * 24 * 3600, 999_999_999),
        SystemTime::UNIX_EPOCH + 80 * year,
    ];
    for (index, time) in times.iter().enumerate() {
        let file = fs::File::options().write(true).open(home.0.join(format!("src/{index}"))).expect("a file");
        file.set_modified(*time).expect("a time");
    }
    copy(&home, &["-r", "src/", "dst"]).ok();
    let time =
        |name: &str| fs::metadata(home.0.join(name)).and_then(|found| found.modified()).expect("a time");
    for index in 0..times.len() {
        assert_eq!(time(&format!("dst/{index}")), time(&format!("src/{index}")));
    }
    let again = copy(&home, &["-r", "src/", "dst"]).ok();
    assert!(again.starts_with("0 moved, "), "{again}");
    // By its own clock, the source changed later; --update compares no content.
    fs::write(home.0.join("src/2"), "changed now").expect("a file");
    copy(&home, &["-ru", "src/", "dst"]).ok();
    same(&home, "src", "dst");
    fs::write(home.0.join("src/0"), "changed ten years before").expect("a file");
    copy(&home, &["-ru", "src/", "dst"]).ok();
    assert!(
        fs::read(home.0.join("dst/0")).expect("a file") == content(20_000, 0),
        "--update compares only times"
    );
    copy(&home, &["-r", "src/", "dst"]).ok();
    same(&home, "src", "dst");
}

/// Writes a program in place of ssh that runs the script `run`, with its process ID in `far.pid`.
fn ssh(home: &Home, address: &str, run: &str) {
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -G ] && {{ echo hostname {address}; exit; }}\n\
         while [ \"$1\" != -- ]; do shift; done\nshift 2\necho $$ >far.pid\n{run}\n"
    );
    home.script("ssh", &script);
}

fn remote_copy(home: &Home, args: &[&str]) -> Command {
    let args = [&["copy", "-a", "--remote-numaio", NUMAIO], args].concat();
    let mut command = home.numaio(&args);
    command.env("NUMAIO_SSH", home.0.join("ssh")).env_remove("SSH_CONNECTION");
    command
}

fn remote_runs(home: &Home) -> bool {
    let pid = fs::read_to_string(home.0.join("far.pid")).expect("a process");
    let root = numaio_linux::Root::live().expect("a root");
    numaio_machine::process::start_time(&root, pid.trim().parse().expect("a number")).is_some()
}

/// numaio accesses special files and attributes through /proc; without it, such files would look
/// absent and be deleted.
#[test]
fn fails_without_proc_instead_of_deleting_files() {
    let home = Home::new();
    files(&home.0.join("src"), 10);
    files(&home.0.join("dst"), 10);
    let script = "mount -t tmpfs none /proc || exit 99
        $numaio copy --no-job -a --delete src/ dst; echo code $?; $numaio copy --no-job -r src/ new; echo code $?";
    let Some(output) = run_unshared(&home, script) else {
        return skipped("no permission to mount");
    };
    assert!(output.out.matches("code 1").count() == 2, "{}{}", output.out, output.err);
    assert!(output.err.contains("/proc is not mounted"), "{}", output.err);
    assert!(
        fs::read_dir(home.0.join("dst")).expect("a folder").count() == 21 && !home.0.join("new").exists()
    );
}

/// Forwards a stream, and sets the version in its header to 99.
const NEWER: &str = r"
import os
ours, newer = b'\x93numaio\n\0\1', b'\x93numaio\n\0\x63'
held, found = b'', False
while some := os.read(0, 65536):
    held += some
    found = found or ours in held
    if found:
        os.write(1, held.replace(ours, newer))
        held = b''
";

#[test]
fn reports_a_peer_of_another_version() {
    let home = Home::new();
    files(&home.0.join("src"), 10);
    ssh(&home, "127.0.0.1", "sed -u 's/\"numaio_copy\":1,/\"numaio_copy\":99,/' | sh -c \"$*\"");
    let output =
        CommandOutput::of(remote_copy(&home, &["src/", "host:there"]).limited_output().expect("numaio"));
    assert!(
        output.code == Some(1) && output.err.contains("the other numaio speaks version 99"),
        "{}",
        output.err
    );
    // The requests agree, but the streams have another protocol version. If the destination
    // exists, the source first asks which files are needed.
    home.file("newer.py", NEWER);
    fs::create_dir(home.0.join("there")).expect("a folder");
    home.file("there/own", "its own");
    ssh(&home, "127.0.0.1", "sh -c \"$*\" | python3 newer.py");
    let output = CommandOutput::of(
        remote_copy(&home, &["--tunnel", "src/", "host:there"]).limited_output().expect("numaio"),
    );
    assert!(output.code == Some(1) && output.err.contains("protocol version 99"), "{}", output.err);
    assert!(output.err.contains("use the same numaio at both ends"), "{}", output.err);
    assert!(!home.0.join("there/large").exists());
}

#[test]
fn killed_client_leaves_no_remote_process_and_no_partial_names() {
    for options in [&["--tunnel"][..], &["--data-security", "none"]] {
        let home = Home::new();
        files(&home.0.join("src"), 12 << 20);
        ssh(&home, "127.0.0.1", "exec sh -c \"exec $*\"");
        for paths in [["src/", "host:there"], ["host:src/", "there"]] {
            let slow = [options, &["--bwlimit", "4M"], &paths].concat();
            let mut client = remote_copy(&home, &slow)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("numaio");
            until(|| written(&home.0.join("there")) > 1 << 20, || "the copy wrote too little");
            client.kill().expect("killed");
            client.limited_status().expect("ended");
            until(|| !remote_runs(&home), || "the remote process still runs");
            assert!(
                check_finished_files(&home, "src", "there") < 21,
                "killed too late: the copy was complete"
            );
            CommandOutput::of(
                remote_copy(&home, &[options, &paths].concat()).limited_output().expect("numaio"),
            )
            .ok();
            same(&home, "src", "there");
            fs::remove_dir_all(home.0.join("there")).expect("removed");
        }
    }
}

/// Two network namespaces, with the remote process in the second one. Function `lost` makes the
/// network drop all packets while both interfaces stay up.
const HALF_OPEN: &str = "
ip link set lo up || exit 99
unshare -n sleep 1000 & other=$!
trap 'kill $other' EXIT
until [ \"$(readlink /proc/$other/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.01; done
ip link add near type veth peer name far netns $other && ip addr add 10.99.0.1/24 dev near && ip link set near up || exit 99
there() { nsenter -t $other -n \"$@\"; }
there ip addr add 10.99.0.2/24 dev far && there ip link set far up || exit 99
export OTHER=$other
lost() {
    ip neigh $1 10.99.0.2 lladdr 02:00:00:00:00:77 dev near nud permanent
    there ip neigh $1 10.99.0.1 lladdr 02:00:00:00:00:77 dev far nud permanent
}
$numaio copy -a --remote-numaio $numaio --data-port 20000-29999 --retry 0 --bwlimit 2M FROM TO & copy=$!
until [ \"$(du -sk there 2>/dev/null | cut -f 1)0\" -gt 20000 ]; do
    kill -0 $copy || break
    sleep 0.01
done
lost replace
wait $copy; echo code $?
far=$(cat far.pid)
while kill -0 $far 2>/dev/null; do sleep 0.1; done
echo far ended
lost del
$numaio copy -a --remote-numaio $numaio --data-port 20000-29999 FROM TO; echo code $?
diff -r src there && echo same
";

#[test]
fn both_sides_detect_a_network_that_drops_all_packets() {
    let run = |from: &'static str, to: &'static str| {
        std::thread::spawn(move || {
            let home = Home::new();
            files(&home.0.join("src"), 16 << 20);
            ssh(&home, "10.99.0.2", "exec nsenter -t $OTHER -n sh -c \"exec $*\"");
            let script = HALF_OPEN.replace("FROM", from).replace("TO", to);
            let script = format!("export NUMAIO_SSH={}\n{script}", home.path("ssh"));
            run_unshared(&home, &script)
        })
    };
    // Detection takes half a minute, so both directions run in parallel.
    for direction in [run("src/", "host:there"), run("host:src/", "there")] {
        let Some(output) = direction.join().expect("joined") else {
            return skipped("no permission to create a network");
        };
        let lines: Vec<&str> = output.out.lines().filter(|line| !line.contains("moved")).collect();
        assert_eq!(lines, ["code 1", "far ended", "code 0", "same"], "{}\n{}", output.out, output.err);
        assert!(output.err.contains("the transfer failed: the connection to the"), "{}", output.err);
    }
}

#[test]
fn sparse_file_of_10_tib_needs_seconds_and_little_memory() {
    let home = Home::new();
    let length = 10 << 40;
    let path = home.0.join("huge");
    let file = fs::File::create(&path).expect("a file");
    if file.set_len(length).is_err() {
        return skipped("a file of 10 TiB, which the file system of this test does not support");
    }
    let offsets = [0, (5 << 40) + 123_456_789, length - 1_000];
    for offset in offsets {
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 1_000], offset).expect("written");
    }
    ssh(&home, "127.0.0.1", "exec sh -c \"$*\"");
    // Enough memory for the buffers of both sides: any use that grows with the file size fails.
    let limited = |args: &str| {
        let script = format!(
            "ulimit -d 700000; export NUMAIO_SSH={}; exec {NUMAIO} copy --remote-numaio {NUMAIO} {args}",
            home.path("ssh")
        );
        CommandOutput::of(home.command("sh", &["-c", &script]).limited_output().expect("sh")).ok()
    };
    let would = limited("-n huge there");
    assert_eq!(would, "would be copied: there\n1 would be moved, 0 unchanged; 3 MiB of data\n");
    for to in ["huge there", "huge host:far-there", "--inplace huge in-place"] {
        let output = limited(to);
        assert!(output.starts_with("1 moved, 0 unchanged; 3 MiB"), "{output}");
    }
    for there in ["there", "far-there", "in-place"] {
        let there = fs::File::open(home.0.join(there)).expect("a file");
        let found = there.metadata().expect("a file");
        assert!(found.len() == length && found.blocks() * 512 < 8 << 20, "{} blocks", found.blocks());
        for offset in offsets {
            let mut read = vec![1; 1_002];
            let from = offset.saturating_sub(1);
            let count = std::os::unix::fs::FileExt::read_at(&there, &mut read, from).expect("read");
            let before = (offset - from) as usize;
            assert!(
                read[..before].iter().all(|byte| *byte == 0) && read[before..before + 1_000] == [7; 1_000]
            );
            assert!(read[before + 1_000..count].iter().all(|byte| *byte == 0));
        }
    }
    let again = limited("huge there");
    assert!(again.starts_with("0 moved, 1 unchanged"), "{again}");
}
