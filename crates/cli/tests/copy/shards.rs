//! `numaio copy --shard K/N`: several processes copy one tree, and a run with `--finish` completes
//! it.

use crate::slow_copy::start_slow_copy;
use crate::support::{content, until, CommandOutput, Home, Limited};
use crate::unprivileged::{run_as_other_user, skip_without_other_user};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

/// Creates a tree `src` with hard links between directories, read-only and deep directories,
/// symbolic links, and old times.
pub fn make_tree(home: &Home) {
    let src = home.0.join("src");
    for directory in 0..12 {
        let below = src.join(format!("{directory}/deep/er/{directory}"));
        fs::create_dir_all(&below).expect("directories");
        for file in 0..20 {
            fs::write(below.join(format!("file-{file}")), format!("{directory} {file}")).expect("a file");
        }
        symlink("file-0", below.join("link")).expect("a symbolic link");
        let other = src.join(format!("{}/deep", (directory + 1) % 12));
        fs::create_dir_all(&other).expect("directories");
        for file in 0..3 {
            let linked = other.join(format!("hard-{directory}-{file}"));
            fs::hard_link(below.join(format!("file-{file}")), linked).expect("a hard link");
        }
    }
    fs::create_dir(src.join("empty")).expect("a directory");
    set_times(&src, SystemTime::now() - Duration::from_secs(86_400));
    for directory in [0, 3, 7] {
        for path in [format!("{directory}/deep/er"), format!("{directory}/deep/er/{directory}")] {
            fs::set_permissions(src.join(path), fs::Permissions::from_mode(0o555)).expect("a mode");
        }
    }
}

/// Sets the times of all directories below a path, contents first.
fn set_times(directory: &Path, time: SystemTime) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        if entry.file_type().expect("a type").is_dir() {
            set_times(&entry.path(), time);
        }
    }
    fs::File::open(directory).expect("a directory").set_modified(time).expect("a time");
}

/// Describes every path below a directory: mode, size, time, target of a symbolic link, content,
/// and the first name of the same file.
pub fn describe(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut paths = vec![root.to_owned()];
    let mut done = 0;
    while let Some(path) = paths.get(done).cloned() {
        if fs::symlink_metadata(&path).expect("a file").is_dir() {
            paths.extend(fs::read_dir(&path).expect("a directory").flatten().map(|entry| entry.path()));
        }
        done += 1;
    }
    paths.sort();
    let mut first_names = BTreeMap::new();
    let mut describe = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).expect("a file");
        let name = path.strip_prefix(root).expect("below the root").to_owned();
        let first = first_names.entry(found.ino()).or_insert_with(|| name.clone());
        let content = if found.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
        // The text of a large file would take most of the time of the test.
        let mut hasher = DefaultHasher::new();
        hasher.write(&content);
        let content = (content.len(), hasher.finish(), &content[..content.len().min(64)]);
        let time = (found.mtime(), found.mtime_nsec());
        let text =
            format!("{:o} {time:?} {:?} {first:?} {content:?}", found.mode(), fs::read_link(&path).ok(),);
        (name, text)
    };
    paths.into_iter().map(&mut describe).collect()
}

/// Asserts that two trees are equal.
pub fn assert_equal_trees(home: &Home, from: &str, to: &str) {
    let (from, to) = (describe(&home.0.join(from)), describe(&home.0.join(to)));
    let differs = |name: &&PathBuf| from.get(*name) != to.get(*name);
    let names: Vec<&PathBuf> = from.keys().chain(to.keys()).filter(differs).collect();
    let both = names.first().map(|name| (from.get(*name), to.get(*name)));
    assert!(names.is_empty(), "{names:?} differ: {both:?}");
}

fn start_shard(home: &Home, shard: &str, args: &[&str]) -> Child {
    let shard = format!("--shard={shard}");
    let mut command = home.numaio(&[&["copy", "--no-job", "-a", &shard], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio")
}

fn outputs(children: Vec<Child>) -> Vec<CommandOutput> {
    children.into_iter().map(|child| CommandOutput::of(child.wait_with_output().expect("ended"))).collect()
}

/// Asserts that a verbose run found no file to copy and nothing to create.
pub fn assert_complete(changes: &str) {
    let is_new = |line: &&str| line.starts_with("copied: ") || line.starts_with("made: ");
    let new: Vec<&str> = changes.lines().filter(is_new).collect();
    assert!(new.is_empty(), "the shards left {new:?}");
    assert!(changes.contains(" moved, "), "{changes}");
}

/// Returns the number that precedes `unit` in a summary.
fn number_before(summary: &str, unit: &str) -> u64 {
    let words: Vec<&str> = summary.split_whitespace().collect();
    let at = words.windows(2).find(|pair| pair[1].trim_end_matches(',') == unit).expect("a number");
    at[0].parse().expect("a number")
}

/// Returns the number of the only shard that would copy a file of `src`.
fn shard_of(home: &Home, name: &str, count: u32) -> u32 {
    let copies = |number: &u32| {
        let shard = format!("--shard={number}/{count}");
        home.run(&["copy", "-rn", &shard, "src/", "dst"]).ok().contains(&format!("would be copied: {name}\n"))
    };
    let all: Vec<u32> = (1..=count).filter(copies).collect();
    assert_eq!(all.len(), 1, "{name} is in {all:?}");
    all[0]
}

/// Temporary files of numaio below a directory.
fn leftovers(home: &Home, directory: &str) -> Vec<PathBuf> {
    let own = |name: &&PathBuf| name.to_string_lossy().contains(".numaio-");
    describe(&home.0.join(directory)).keys().filter(own).cloned().collect()
}

#[test]
fn eight_shards_copy_a_tree_at_once_and_finish_completes_it() {
    let home = Home::new();
    make_tree(&home);
    let shards = (1..=8).map(|number| start_shard(&home, &format!("{number}/8"), &["src/", "dst"])).collect();
    let mut moved = Vec::new();
    for (number, output) in (1..).zip(outputs(shards)) {
        let summary = output.ok();
        assert!(summary.starts_with(&format!("shard {number}/8: ")), "{summary}");
        moved.push(number_before(&summary, "moved"));
    }
    assert!(moved.iter().all(|files| *files > 10), "a shard copied almost nothing: {moved:?}");
    assert_eq!(leftovers(&home, "dst"), [""; 0].map(PathBuf::from));
    let (from, to) = (describe(&home.0.join("src")), describe(&home.0.join("dst")));
    let is_kept = |(name, text): (&PathBuf, &String)| {
        !home.0.join("src").join(name).is_dir() && to.get(name) != Some(text)
    };
    let wrong: Vec<_> = from.iter().filter(|(name, text)| is_kept((name, text))).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    home.file("dst/extra", "");
    let changes = home.run(&["copy", "-av", "--finish", "--delete", "src/", "dst"]).ok();
    assert!(changes.contains("removed: extra\n"), "{changes}");
    assert_complete(&changes);
    assert_equal_trees(&home, "src", "dst");
}

/// As root, the modes of directories would not matter.
#[test]
fn shards_write_to_read_only_directories_without_root() {
    for options in ["-a", "-r"] {
        let home = Home::new();
        make_tree(&home);
        // Read-only directories exist from an earlier copy, and each gets files of several shards.
        let script = format!(
            "$NUMAIO copy --no-job -a src/ dst && chmod -R u+w src || exit 98
            for directory in 0 3 7; do
                for file in 0 1 2 3 4 5 6 7 8 9; do
                    echo $file >src/$directory/deep/er/$directory/new-$file || exit 98
                done
                chmod 555 src/$directory/deep/er/$directory dst/$directory/deep/er/$directory || exit 98
            done
            for shard in 1 2 3 4 5 6 7 8; do $NUMAIO copy --no-job {options} --shard=$shard/8 src/ dst & pids=\"$pids $!\"; done
            for pid in $pids; do wait $pid || exit 1; done
            $NUMAIO copy --no-job {options} --finish -v src/ dst"
        );
        let Some(output) = run_as_other_user(&home, &script) else { return skip_without_other_user() };

        let text = output.ok();
        let (_, finish) = text.rsplit_once("shard ").expect("summaries of the shards");
        assert_complete(finish);
        if options == "-a" {
            assert_equal_trees(&home, "src", "dst");
        }
    }
}

/// A home with a tree and files of 120 MB in it.
fn home_with_large_files(names: &[&str]) -> Home {
    let home = Home::new();
    make_tree(&home);
    for (name, seed) in names.iter().zip([3, 7]) {
        fs::write(home.0.join("src").join(name), content(120 << 20, seed)).expect("a file");
    }
    fs::create_dir(home.0.join("dst")).expect("a directory");
    home
}

#[test]
fn shard_that_was_killed_resumes_and_the_others_are_not_affected() {
    let home = home_with_large_files(&["large"]);
    let failing = shard_of(&home, "large", 4);
    let shard = format!("--shard={failing}/4");
    let mut child = start_slow_copy(&home, &["-a", "--no-job", &shard, "src/"], "dst", "20M", 36 << 20);
    home.run(&["copy", "-a", "--finish", "src/", "dst"])
        .failed(1, &[&format!("shard {failing} is still running into 'dst'"), "wait until all shards"]);
    let others: Vec<u32> = (1..=4).filter(|number| *number != failing).collect();
    let start = |number: &u32| start_shard(&home, &format!("{number}/4"), &["src/", "dst"]);
    let running = others.iter().map(start).collect();
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    // They do not take over the partial file.
    outputs(running).into_iter().for_each(|output| drop(output.ok()));
    assert_eq!(leftovers(&home, "dst").len(), 2, "a journal and a partial file remain");
    let summary = home.run(&["copy", "-a", &shard, "src/", "dst"]).ok();
    assert!(summary.contains(" resumed"), "{summary}");
    home.run(&["copy", "-a", "--finish", "--delete", "src/", "dst"]).ok();
    assert_equal_trees(&home, "src", "dst");
}

#[test]
fn finish_copies_what_killed_shards_left_and_removes_their_files() {
    let home = home_with_large_files(&["large", "0/large"]);
    let shards = ["large", "0/large"].map(|name| shard_of(&home, name, 16));
    assert_ne!(shards[0], shards[1], "choose another number of shards");
    // Both leave a partial file.
    for (number, bytes) in shards.into_iter().zip([36 << 20, 72 << 20]) {
        let shard = format!("--shard={number}/16");
        let mut child = start_slow_copy(&home, &["-a", "--no-job", &shard, "src/"], "dst", "20M", bytes);
        child.kill().expect("killed");
        child.limited_status().expect("ended");
    }
    assert_eq!(leftovers(&home, "dst").len(), 4, "{:?}", leftovers(&home, "dst"));
    let summary = home.run(&["copy", "-a", "--finish", "src/", "dst"]).ok();
    assert!(summary.contains(" resumed"), "{summary}");
    assert_eq!(leftovers(&home, "dst"), [""; 0].map(PathBuf::from));
    assert_equal_trees(&home, "src", "dst");
}

#[test]
fn shards_copy_from_and_to_other_hosts() {
    let home = Home::new();
    make_tree(&home);
    for (from, to) in [("host:src/", "from-host"), ("src/", "host:to-host"), ("one:src/", "two:between")] {
        let local = to.rsplit(':').next().expect("a path");
        let [from, to] = [(from, "src/"), (to, local)].map(|(typed, path)| match typed.split_once(':') {
            Some((host, _)) => format!("{host}:{}", home.path(path)),
            None => path.to_owned(),
        });
        fs::create_dir(home.0.join(local)).expect("a directory");
        for shard in ["--shard=1/3", "--shard=2/3", "--shard=3/3", "--finish"] {
            let numaio = env!("CARGO_BIN_EXE_numaio");
            let args = ["copy", "--remote-numaio", numaio, "-av", shard, &from, &to];
            let mut command = home.numaio(&args);
            command.env("NUMAIO_SSH", home.local_ssh());
            let summary = CommandOutput::of(command.limited_output().expect("numaio")).ok();
            let copied = summary.lines().filter(|line| line.starts_with("copied: ")).count();
            match shard {
                "--finish" => assert_complete(&summary),
                _ => assert!((50..150).contains(&copied), "{from} {to} {shard}: {summary}"),
            }
        }
        assert_equal_trees(&home, "src", local);
    }
}

#[test]
fn a_single_file_is_in_one_shard() {
    let home = Home::new();
    home.file("file", "content");
    for to in ["dst", "new-name"] {
        let copy = |number: u32| {
            let shard = format!("--shard={number}/4");
            number_before(&home.run(&["copy", &shard, "file", to]).ok(), "moved")
        };
        assert_eq!((1..=4).map(copy).sum::<u64>(), 1);
        assert_eq!(fs::read_to_string(home.0.join(to)).expect("a file"), "content");
    }
}

#[test]
fn a_missing_source_fails_in_all_shards_and_a_missing_listed_name_in_one() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src")).expect("a directory");
    home.file("list", "a\nabsent\n");
    home.file("src/a", "");
    let codes = |args: &[&str]| -> Vec<Option<i32>> {
        let shard = |number| format!("--shard={number}/4");
        (1..=4).map(|number| home.run(&[&["copy", "-r", &shard(number)], args].concat()).code).collect()
    };
    assert_eq!(codes(&["absent", "dst"]), [Some(3); 4]);
    let mut listed = codes(&["--files-from", "list", "src", "dst"]);
    listed.sort_unstable();
    assert_eq!(listed, [Some(0), Some(0), Some(0), Some(3)]);
    assert!(home.0.join("dst/a").exists());
}

#[test]
fn rejects_invalid_shards_and_options_for_all_files() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a directory");
    let copy = |args: &[&str]| home.run(&[&["copy", "-a"], args, &["src/", "dst"]].concat());
    for value in ["0/4", "5/4", "x", "1/65537"] {
        copy(&[&format!("--shard={value}")]).failed(2, &[&format!("'{value}'"), "expected K/N"]);
    }
    copy(&["--shard", "1/4"]).failed(2, &["write --shard=1/4"]);
    copy(&["--shard"]).failed(2, &["SLURM_NTASKS is not set", "write --shard=K/N"]);
    for option in ["--delete", "--delete-before", "--remove-source-files", "--manifest=m", "--finish"] {
        copy(&["--shard=1/4", option]).failed(2, &["cannot be combined with --shard", "--finish"]);
    }
    assert!(!home.0.join("dst").exists());
}

#[test]
fn shard_of_a_slurm_task_is_recorded_and_resumed() {
    let home = home_with_large_files(&["large"]);
    let failing = shard_of(&home, "large", 4);
    let mut command = home.numaio(&["copy", "-a", "--bwlimit=20M", "--shard", "src/", "dst"]);
    command.env("SLURM_NTASKS", "4").env("SLURM_PROCID", (failing - 1).to_string());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
    until(|| leftovers_have_bytes(&home.0.join("dst"), 36 << 20), || "the copy wrote too little");
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    let jobs = home.run(&["jobs"]).ok();
    assert!(jobs.contains(&format!("--shard={failing}/4")), "{jobs}");
    let summary = home.run(&["jobs", "resume", "1"]).ok();
    assert!(summary.contains(&format!("shard {failing}/4: ")) && summary.contains(" resumed"), "{summary}");
    assert!(home.0.join("dst/large").exists());
}

/// Returns whether the partial files in a directory have this number of bytes.
fn leftovers_have_bytes(directory: &Path, bytes: u64) -> bool {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let partial = files.filter(|entry| entry.file_name().to_string_lossy().starts_with(".numaio-part-"));
    partial.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * 512).sum::<u64>() >= bytes
}

#[test]
fn json_and_statistics_are_of_the_shard() {
    let home = Home::new();
    make_tree(&home);
    let output = home.run(&["copy", "-a", "--json", "--shard=2/4", "src/", "dst"]).ok();
    let end: serde_json::Value =
        serde_json::from_str(output.lines().last().expect("an event")).expect("JSON");
    assert_eq!(end["shard"], "2/4");
    let output = home.run(&["copy", "-a", "--json", "--finish", "src/", "dst"]).ok();
    let end: serde_json::Value =
        serde_json::from_str(output.lines().last().expect("an event")).expect("JSON");
    assert!(end.get("shard").is_none(), "{end}");
}
