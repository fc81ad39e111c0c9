//! Sources on several storage devices.

use crate::hung_storage::HungVolume;
use crate::support::{kill, skipped, until, Home, Limited};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;

/// A directory in memory, removed when dropped.
struct MemoryFolder(PathBuf);

impl MemoryFolder {
    /// `None`, after reporting why, where memory and the home are the same device.
    fn new(home: &Home) -> Option<Self> {
        let path = PathBuf::from(format!("/dev/shm/numaio-devices-{}", std::process::id()));
        if fs::create_dir(&path).is_err() {
            skipped("two devices: /dev/shm is not writable");
            return None;
        }
        let folder = Self(path);
        let device = |path| fs::metadata(path).expect("a folder").dev();
        if device(&folder.0) == device(&home.0) {
            skipped("two devices: the test's directory is on /dev/shm, too");
            return None;
        }
        Some(folder)
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn source_that_hangs_does_not_delay_another_device() {
    let home = Home::new();
    let Some(volume) = HungVolume::mount(&home, "read") else { return };
    // More than there are threads.
    let hung: Vec<String> = (0..40).map(|number| format!("hung/file{number}")).collect();
    let names: Vec<String> = (0..300).map(|number| format!("other/{number}")).collect();
    fs::create_dir(home.0.join("other")).expect("a folder");
    names.iter().for_each(|name| drop(home.file(name, "content")));
    let paths: Vec<&str> = hung.iter().map(String::as_str).chain(["other", "to"]).collect();
    let mut command = home.numaio(&[&["copy", "-r", "--work-sharing=off"], &paths[..]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
    let is_copied = |name: &String| fs::exists(home.0.join("to").join(name)).expect("a path");
    until(
        || volume.is_hung() && names.iter().all(is_copied),
        || {
            format!(
                "only {} files of the other device arrived",
                names.iter().filter(|it| is_copied(it)).count()
            )
        },
    );
    assert!(child.try_wait().expect("a child").is_none(), "the other device still reads");
    kill("-KILL", child.id());
    drop(volume);
    child.limited_status().expect("an end");
}

#[test]
fn each_device_of_the_sources_has_its_own_threads() {
    let home = Home::new();
    let Some(memory) = MemoryFolder::new(&home) else { return };
    for directory in ["disk", "disk/both", "disk/first"] {
        fs::create_dir(home.0.join(directory)).expect("a folder");
    }
    for directory in ["both", "second"] {
        fs::create_dir(memory.0.join(directory)).expect("a folder");
    }
    for name in ["disk/both/name", "disk/first/name"] {
        home.file(name, "disk");
    }
    for name in ["both/name", "both/other", "second/name"] {
        fs::write(memory.0.join(name), "memory").expect("a file");
    }
    let source = format!("{}/", memory.0.display());
    let output = home.run(&["copy", "-r", "--json", "disk/", &source, "to"]).ok();
    let content = |name: &str| fs::read_to_string(home.0.join("to").join(name)).expect("a file");
    let found = ["both/name", "both/other", "first/name", "second/name"].map(content);
    assert_eq!(found, ["disk", "memory", "disk", "memory"], "the first source wins");
    let events = output.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let placed: Vec<Value> = events.filter(|event| event["event"] == "placement").collect();
    let devices = |index: usize| -> Vec<Option<String>> {
        let fields = placed[index].as_object().expect("an object");
        let groups = fields.values().find_map(Value::as_array).expect("worker groups");
        groups.iter().map(|group| group["device"].as_str().map(str::to_owned)).collect()
    };
    let [Some(disk), Some(other)] = &devices(0)[..] else { panic!("{placed:?}") };
    assert!(disk != other && other == "memory", "{placed:?}");
    assert_eq!(devices(1), [None], "the destination is on one device");
    // A line of text for each device; --threads is divided among them.
    let options = ["copy", "-r", "-v", "--dry-run", "--threads", "6"];
    let shown = home.run(&[&options[..], &["disk/", &source, "again"]].concat());
    for device in [disk, other] {
        let line = format!("numaio: source {device}, placed by ");
        let line = shown.err.lines().find(|shown| shown.starts_with(&line));
        assert!(line.is_some_and(|line| line.contains(": 3 threads on ")), "{}", shown.err);
    }
}
