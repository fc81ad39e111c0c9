//! `numaio bench mmio` on an emulated machine: the emulator answers each read.

use numaio_lab::{Folder, Lab};
use numaio_machine::devices::RegisterChoice;
use numaio_machine::tape::Tape;
use numaio_schema::MmioRecord;
use std::fs;

/// Options for few and short visits.
const QUICK: &str = "--reads 1000 --precision 50 --seconds 30 --no-save --quiet";

/// The functions of the drive and of the e1000e adapter on node 7.
const DRIVE: &str = "0000:91:00.0";
const ADAPTER: &str = "0000:92:00.0";

/// The drive has a safe register, the e1000e adapter has none: its status is read by request.
///
/// Debian's kernel has `CONFIG_IO_STRICT_DEVMEM`, and maps no register that a driver uses.
#[test]
fn registers_of_unbound_devices_are_read_from_every_node() {
    let Some(lab) = Lab::open("registers_of_unbound_devices_are_read_from_every_node") else { return };
    let folder = Folder::new("mmio");
    let line = format!(
        "numaio bench mmio --device nvme0n1 {QUICK} 2>/out/used; echo $? >/out/status; \
         numaio bench mmio --device eth0 2>/out/refused; echo $? >>/out/status; \
         echo {DRIVE} >/sys/bus/pci/drivers/nvme/unbind && echo {ADAPTER} >/sys/bus/pci/drivers/e1000e/unbind && \
         numaio bench mmio --device {DRIVE} {QUICK} --json >/out/drive.json && \
         numaio bench mmio --device {ADAPTER} --bar 0 --offset 8 {QUICK} --json >/out/adapter.json && \
         numaio record -o /out/tape --no-measure --bench 'mmio --device {DRIVE} {QUICK}' >/out/page && \
         numaio bench mmio --machine /out/tape --device {DRIVE} --reads 1000 --json >/out/replay.json; \
         echo $? >>/out/status"
    );
    let output = lab.run("amd-dl585-g7", &folder.0, &["sh", "-c", &line]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let text =
        |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_else(|_| panic!("{name}: {stderr}"));
    assert_eq!(text("status"), "1\n2\n0\n", "{stderr}");
    assert!(text("used").contains("iomem=relaxed"), "{}", text("used"));
    let record = |name: &str| MmioRecord::from_json(&text(name)).expect("a record");
    let drive = record("drive.json");
    assert_eq!((drive.bar, drive.offset, drive.choice), (0, 8, RegisterChoice::NvmeVersion));
    let adapter = record("adapter.json");
    assert_eq!((adapter.bar, adapter.offset, adapter.choice), (0, 8, RegisterChoice::Requested));
    for record in [&drive, &adapter] {
        assert_eq!((record.device.node.map(|node| node.0), record.cells.len()), (Some(7), 8));
        let measured = |cell: &numaio_schema::MmioCell| cell.ns.median().is_some_and(|ns| ns > 0.0);
        assert!(record.cells.iter().all(measured), "{:?}", record.cells);
    }
    assert_eq!(record("replay.json").cells.len(), 8);
    assert!(Tape::parse(&text("tape")).expect("a tape").documents.len() == 1);
    assert!(text("page").contains("7 (local)"), "{}", text("page"));
    assert!(text("refused").contains("no register that is known to be free of side effects"));
}
