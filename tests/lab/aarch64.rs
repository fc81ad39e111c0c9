//! numaio on an emulated machine with aarch64 CPUs, whose shape is that of a host with a Grace CPU:
//! one node has the CPUs and the devices, and three have memory only.
//!
//! The tests need programs for that processor, which `tools/test` builds if a cross compiler is
//! installed. It sets their paths in `NUMAIO_STATIC_AARCH64` and `NUMAIO_TESTS_AARCH64`.

use crate::measure::{assert_near, assert_pages_in_place, classes, factors, model_of, target};
use numaio_lab::{measure_on, skip, Folder, Lab, AARCH64};
use numaio_machine::workload::Direction;
use std::fs;
use std::path::Path;

const MACHINE: &str = "grace-like";

#[test]
#[ignore = "make test-all: aarch64 under emulation"]
fn aarch64_loops_find_the_classes_of_a_grace_like_machine() {
    measure_on(AARCH64, "aarch64_loops_find_the_classes_of_a_grace_like_machine", |lab| {
        for copy_loop in ["stnp", "memcpy"] {
            let model = model_of(lab, MACHINE, &["--copy-loop", copy_loop, "--device", "nvme0n1"]);
            assert_pages_in_place(&model);
            let measured = target(&model, 0);
            assert!(measured.devices.contains(&"nvme0n1".to_owned()), "its node is from the device tree");
            for direction in [Direction::Write, Direction::Read] {
                assert_eq!(classes(measured, direction), ["0", "1-3"]);
                // The machine's description: 100 MB/s in the node, 60 MB/s to the others.
                assert_near(&factors(measured, direction), &[1.0, 5.0 / 3.0, 5.0 / 3.0, 5.0 / 3.0], 0.1);
            }
        }
    });
}

/// Places a program near the drive, and copies a tree to a file system on it.
const PLACE_AND_COPY: &str = "set -e
numaio topology --json >/out/topology.json
mke2fs /dev/nvme0n1 >/dev/null; mkdir -p /data /tmp/tree/d; mount -t ext4 /dev/nvme0n1 /data
dd if=/dev/urandom of=/tmp/tree/d/file bs=1M count=8 2>/dev/null; ln -s file /tmp/tree/d/link
numaio run --near /data -- grep _allowed_list /proc/self/status >/out/placed
numaio run --near /data --strict -- cat /proc/self/numa_maps >/out/maps
numaio copy --quiet -a /tmp/tree/ /data/copy
cmp /tmp/tree/d/file /data/copy/d/file; readlink /data/copy/d/link >/out/link
";

#[test]
#[ignore = "make test-all: aarch64 under emulation"]
fn programs_and_copies_run_near_the_drive_of_an_aarch64_machine() {
    let test = "programs_and_copies_run_near_the_drive_of_an_aarch64_machine";
    let Some(lab) = Lab::open_on(AARCH64, test) else { return };
    let folder = Folder::new("aarch64");
    let command = ["sh", "-c", PLACE_AND_COPY];
    let output = lab.run_with_modules(&["ext4", "crc32c_generic"], MACHINE, &folder.0, &command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    assert!(text("topology.json").contains("numaio lab emulated grace-like"), "its name in the device tree");
    assert!(text("placed").contains("Cpus_allowed_list:\t0-1"), "{}", text("placed"));
    assert!(text("maps").lines().all(|line| line.contains(" bind=static:0")), "{}", text("maps"));
    assert_eq!(text("link").trim(), "file");
}

/// Runs the tests of crates that make system calls, among them the conformance checks of the
/// engines that copy files.
const RUN_TESTS: &str = "set -e
mount -t tmpfs tmp /tmp; ip link set lo up
echo root:x:0:0::/root:/bin/sh >/etc/passwd; echo root:x:0: >/etc/group
mover-linux-tests --quiet; linux-tests --quiet
";

#[test]
#[ignore = "make test-all: aarch64 under emulation"]
fn engines_pass_their_conformance_checks_on_an_aarch64_kernel() {
    let test = "engines_pass_their_conformance_checks_on_an_aarch64_kernel";
    let Ok(programs) = std::env::var("NUMAIO_TESTS_AARCH64") else {
        return skip(test, "NUMAIO_TESTS_AARCH64 names no folder of programs; make test sets it");
    };
    let Some(lab) = Lab::open_on(AARCH64, test) else { return };
    let paths = ["linux-tests", "mover-linux-tests"].map(|name| Path::new(&programs).join(name));
    let add = paths.each_ref().map(|path| path.to_str().expect("a path in UTF-8"));
    let options = ["--full-speed", "--add", add[0], "--add", add[1]];
    let folder = Folder::new("aarch64-tests");
    let output = lab.run_with_options(&options, MACHINE, &folder.0, &["sh", "-c", RUN_TESTS]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("test result: ok.").count(), 2, "{text}");
}
