//! Changes of kernel settings.

use crate::{ethtool, guest_control, hot_pages, Root};
use numaio_machine::control::{Change, ControlError};
use numaio_machine::ids::CpuId;
use numaio_machine::prefetch::{registers_path, PrefetchRegister};
use numaio_machine::sysfs::{ReadErrorKind, SysfsExt};
use numaio_machine::{interleave, steering};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fmt::Display;
use std::str::FromStr;

/// `Documentation/admin-guide/sysctl/kernel.rst`, `numa_balancing`.
const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Applies a change below `root` and returns the inverse change.
pub fn apply(root: &Root, change: &Change) -> Result<Change, ControlError> {
    match change {
        Change::NumaBalancing { mode } => {
            let before = set(root, NUMA_BALANCING, *mode)?;
            Ok(Change::NumaBalancing { mode: before })
        }
        Change::InterleaveWeight { node, weight } => {
            let before = set(root, &interleave::path(*node), *weight)?;
            Ok(Change::InterleaveWeight { node: *node, weight: before })
        }
        Change::AutomaticInterleave { enabled: on } => {
            let path = interleave::automatic_path(root).ok_or_else(|| ControlError::Refused {
                what: change.to_string(),
                why: "this kernel has no automatic interleave weights".to_owned(),
            })?;
            let before = set(root, &path, *on)?;
            Ok(Change::AutomaticInterleave { enabled: before })
        }
        Change::Prefetchers { cpu, disabled } => set_prefetchers(root, *cpu, *disabled),
        Change::ReceiveTable { interface, queues } => set_receive_table(change, interface, queues),
        Change::ThreadAffinity { .. }
        | Change::LibvirtPin { .. }
        | Change::LibvirtNodes { .. }
        | Change::VirtualFunctions { .. } => guest_control::apply(root, change),
        Change::IrqAffinity { .. }
        | Change::RpsCpus { .. }
        | Change::RpsFlows { .. }
        | Change::XpsCpus { .. }
        | Change::SockFlowEntries { .. } => apply_steering(root, change),
        Change::ProcessPages(_) => Err(ControlError::Refused {
            what: change.to_string(),
            why: "not a setting: Control::move_pages moves pages".to_owned(),
        }),
        Change::AccessMonitor(monitor) => hot_pages::damon::apply(root, monitor),
    }
}

/// An open register of prefetchers.
struct PrefetchFile {
    file: OwnedFd,
    path: String,
    register: PrefetchRegister,
    /// The operation, for errors.
    what: String,
}

impl PrefetchFile {
    fn open(root: &Root, cpu: CpuId, what: String) -> Result<Self, ControlError> {
        let Some(register) = PrefetchRegister::find(root) else {
            let why = "no document describes a register for prefetchers of these CPUs".to_owned();
            return Err(ControlError::Refused { what, why });
        };
        let path = registers_path(cpu);
        match root.open_file(&path, OFlags::RDWR) {
            Ok(file) => Ok(Self { file, path, register, what }),
            Err(errno) => Err(register_error(&what, &path, errno)),
        }
    }

    fn read(&self) -> Result<u64, ControlError> {
        let mut bytes = [0; 8];
        match rustix::io::pread(&self.file, &mut bytes, u64::from(self.register.number)) {
            Ok(8) => Ok(u64::from_le_bytes(bytes)),
            Ok(_) => Err(register_error(&self.what, &self.path, Errno::IO)),
            Err(errno) => Err(register_error(&self.what, &self.path, errno)),
        }
    }

    fn write(&self, value: u64) -> Result<(), ControlError> {
        let written = rustix::io::pwrite(&self.file, &value.to_le_bytes(), u64::from(self.register.number));
        written.map(drop).map_err(|errno| register_error(&self.what, &self.path, errno))
    }
}

/// Converts an error of a CPU's registers (msr(4)).
fn register_error(what: &str, path: &str, errno: Errno) -> ControlError {
    let why = match errno {
        Errno::NOENT | Errno::NXIO => format!("{path} is missing: the module msr is not loaded"),
        Errno::IO => "the CPU or the hypervisor has no register for prefetchers".to_owned(),
        errno => return SettingError::Open(errno).error(what, &format!("{path}: ")),
    };
    ControlError::Refused { what: what.to_owned(), why }
}

/// Returns the bits of the disabled prefetchers of a CPU, and those of all its prefetchers.
pub fn prefetchers(root: &Root, cpu: CpuId) -> Result<(u64, u64), ControlError> {
    let file = PrefetchFile::open(root, cpu, format!("read the prefetchers of CPU {cpu}"))?;
    Ok((file.read()? & file.register.bits, file.register.bits))
}

/// Disables the prefetchers of a CPU whose bits are set, and enables the others.
fn set_prefetchers(root: &Root, cpu: CpuId, disabled: u64) -> Result<Change, ControlError> {
    let what = Change::Prefetchers { cpu, disabled }.to_string();
    let file = PrefetchFile::open(root, cpu, what.clone())?;
    let refused = |why: &str| Err(ControlError::Refused { what: what.clone(), why: why.to_owned() });
    if disabled & !file.register.bits != 0 {
        return refused("bits of no prefetcher");
    }
    let before = file.read()?;
    let wanted = before & !file.register.bits | disabled;
    file.write(wanted)?;
    if file.read()? != wanted {
        return refused("the CPU or the hypervisor ignores the register");
    }
    Ok(Change::Prefetchers { cpu, disabled: before & file.register.bits })
}

/// Writes the indirection table of an interface, and checks that the driver keeps it.
fn set_receive_table(change: &Change, interface: &str, queues: &[u32]) -> Result<Change, ControlError> {
    let error = |errno: Errno| SettingError::Write(errno).error(&change.to_string(), "");
    let before = ethtool::receive_table(interface).map_err(error)?;
    ethtool::set_receive_table(interface, queues).map_err(error)?;
    let after = ethtool::receive_table(interface).map_err(error)?;
    if after != queues {
        let _ = ethtool::set_receive_table(interface, &before);
        let why = "the driver set another table instead".to_owned();
        return Err(ControlError::Refused { what: change.to_string(), why });
    }
    Ok(Change::ReceiveTable { interface: interface.to_owned(), queues: before })
}

/// Sets interrupt affinity or packet steering; see [`steering`].
fn apply_steering(root: &Root, change: &Change) -> Result<Change, ControlError> {
    let what = change.to_string();
    let refused = |why: String| ControlError::Refused { what: what.clone(), why };
    let (path, text) =
        steering::setting_file(change).ok_or_else(|| refused("invalid interface name".to_owned()))?;
    let read = || {
        let text = root.text(&path).map_err(|error| read_error(&what, &format!("{path}: "), &error.why))?;
        steering::parse_setting(change, &text)
            .ok_or_else(|| refused(format!("unexpected content of {path}: {text:?}")))
    };
    let before = read()?;
    write(root, &path, &text).map_err(|step| {
        unmovable(change, &before, &step).unwrap_or_else(|| step.error(&what, &format!("{path}: ")))
    })?;
    let after = read()?;
    if after != *change {
        // The kernel adjusted the value: restore the previous one.
        if let Some((path, text)) = steering::setting_file(&before) {
            let _ = write(root, &path, &text);
        }
        return Err(refused(format!("the kernel set {after} instead")));
    }
    Ok(before)
}

/// Returns an error if the write failed because the interrupt cannot be moved.
fn unmovable(change: &Change, before: &Change, step: &SettingError) -> Option<ControlError> {
    let Change::IrqAffinity { irq, .. } = change else { return None };
    let is_it = match step {
        // Linux 6.11 and later return EPERM. The file is open, so permissions are not the cause.
        SettingError::Write(Errno::IO | Errno::PERM) => true,
        // Rewriting the current value is never invalid: the interrupt controller cannot move
        // interrupts, as for PCIe on many aarch64 machines.
        SettingError::Write(Errno::INVAL) => change == before,
        _ => false,
    };
    is_it.then_some(ControlError::Unmovable { irq: *irq })
}

/// Step of writing a setting that failed.
enum SettingError {
    Open(Errno),
    Write(Errno),
}

impl SettingError {
    /// Returns the error for the operation `what`; `place` precedes the kernel's message.
    fn error(&self, what: &str, place: &str) -> ControlError {
        let (Self::Open(errno) | Self::Write(errno)) = self;
        let denied = matches!(*errno, Errno::ACCESS | Errno::PERM | Errno::ROFS);
        denied_or_refused(denied, what, format!("{place}{errno}"))
    }
}

/// Converts an error of reading a setting.
fn read_error(what: &str, place: &str, why: &ReadErrorKind) -> ControlError {
    denied_or_refused(*why == ReadErrorKind::Denied, what, format!("{place}{why}"))
}

/// Returns `Denied` for missing permissions, `Refused` for all other errors.
fn denied_or_refused(denied: bool, what: &str, why: String) -> ControlError {
    let what = what.to_owned();
    match denied {
        true => ControlError::Denied { what, why },
        false => ControlError::Refused { what, why },
    }
}

/// Writes an existing setting with one write(2) at offset 0.
fn write(root: &Root, path: &str, text: &str) -> Result<(), SettingError> {
    let file = root.open_file(path, OFlags::WRONLY | OFlags::TRUNC).map_err(SettingError::Open)?;
    rustix::io::write(&file, text.as_bytes()).map(drop).map_err(SettingError::Write)
}

/// Writes an existing setting, verifies it and returns the previous value.
fn set<T: Copy + Display + FromStr + PartialEq>(
    root: &Root,
    path: &str,
    value: T,
) -> Result<T, ControlError> {
    let what = format!("set {path} to {value}");
    let read = || root.value::<T>(path).map_err(|error| read_error(&what, "", &error.why));
    let before = read()?;
    write(root, path, &value.to_string()).map_err(|step| step.error(&what, ""))?;
    let after = read()?;
    if after != value {
        return Err(ControlError::Refused { what, why: format!("the kernel set {after} instead") });
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conformance;
    use numaio_machine::control::Control;
    use numaio_machine::ids::NodeId;
    use numaio_machine::set::CpuSet;
    use std::fs;

    struct RootControl<'a>(&'a Root);

    impl Control for RootControl<'_> {
        fn apply(&self, change: &Change) -> Result<Change, ControlError> {
            apply(self.0, change)
        }
    }

    #[test]
    fn apply_returns_the_inverse_change() {
        let dir = std::env::temp_dir().join(format!("numaio-control-{}", std::process::id()));
        let file = dir.join(NUMA_BALANCING.trim_start_matches('/'));
        fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
        let root = Root::open(&dir).expect("a root");
        let off = Change::NumaBalancing { mode: 0 };
        let absent = apply(&root, &off);
        fs::write(&file, "12\n").expect("a setting");
        let inverse = apply(&root, &off);
        let after = fs::read_to_string(&file).expect("a setting");
        conformance::control(&RootControl(&root), &Change::NumaBalancing { mode: 2 }).expect("allowed");
        let undone = apply(&root, &Change::NumaBalancing { mode: 12 });
        fs::remove_dir_all(&dir).expect("removed");
        assert!(matches!(absent, Err(ControlError::Refused { .. })), "missing setting: {absent:?}");
        assert_eq!(inverse, Ok(Change::NumaBalancing { mode: 12 }));
        assert_eq!(after, "0");
        assert_eq!(undone, Ok(off));
    }

    #[test]
    fn sets_interleave_weights_and_automatic_mode() {
        let dir = std::env::temp_dir().join(format!("numaio-interleave-{}", std::process::id()));
        let folder = dir.join(interleave::FOLDER.trim_start_matches('/'));
        fs::create_dir_all(&folder).expect("directories");
        fs::write(folder.join("node3"), "1\n").expect("a weight");
        fs::write(folder.join("auto"), "true\n").expect("a mode");
        let root = Root::open(&dir).expect("a root");
        let changes = [
            Change::AutomaticInterleave { enabled: false },
            Change::InterleaveWeight { node: NodeId(3), weight: 4 },
        ];
        for change in &changes {
            conformance::control(&RootControl(&root), change).expect("allowed");
        }
        let inverses = changes.map(|change| apply(&root, &change).expect("allowed"));
        let now = interleave::read(&root);
        let absent = apply(&root, &Change::InterleaveWeight { node: NodeId(4), weight: 4 });
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(
            inverses,
            [
                Change::AutomaticInterleave { enabled: true },
                Change::InterleaveWeight { node: NodeId(3), weight: 1 }
            ]
        );
        let weights = [(NodeId(3), 4)].into();
        assert_eq!(now, Some(interleave::Interleave { weights, automatic: Some(false) }));
        assert!(matches!(absent, Err(ControlError::Refused { .. })), "{absent:?}");
    }

    #[test]
    fn switches_prefetchers_off_and_keeps_other_bits() {
        let dir = std::env::temp_dir().join(format!("numaio-prefetchers-{}", std::process::id()));
        let file = dir.join("dev/cpu/3/msr");
        fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
        fs::create_dir_all(dir.join("proc")).expect("directories");
        let root = Root::open(&dir).expect("a root");
        let off = Change::Prefetchers { cpu: CpuId(3), disabled: 0b1111 };
        let unknown = apply(&root, &off);
        fs::write(dir.join("proc/cpuinfo"), "vendor_id : GenuineIntel\n").expect("a file");
        let absent = apply(&root, &off);
        // The register's bytes at its number, with a bit that is not of a prefetcher.
        let mut registers = vec![0u8; 0x1a4];
        registers.extend(0b10_0001u64.to_le_bytes());
        fs::write(&file, &registers).expect("registers");
        let foreign = apply(&root, &Change::Prefetchers { cpu: CpuId(3), disabled: 1 << 8 });
        let inverse = apply(&root, &off);
        let after = fs::read(&file).expect("registers");
        conformance::control(&RootControl(&root), &off).expect("allowed");
        let undone = inverse.clone().and_then(|inverse| apply(&root, &inverse));
        let restored = fs::read(&file).expect("registers");
        fs::remove_dir_all(&dir).expect("removed");
        assert!([unknown, absent, foreign]
            .iter()
            .all(|result| matches!(result, Err(ControlError::Refused { .. }))));
        assert_eq!(inverse, Ok(Change::Prefetchers { cpu: CpuId(3), disabled: 1 }));
        assert_eq!(after[0x1a4], 0b10_1111);
        assert_eq!((undone, restored), (Ok(off), registers));
    }

    #[test]
    fn reports_unmovable_interrupts() {
        let at = |list: &str| Change::IrqAffinity { irq: 7, cpus: CpuSet::parse_list(list).expect("a list") };
        let is_it = |change: &Change, errno| {
            unmovable(change, &at("0-3"), &SettingError::Write(errno))
                == Some(ControlError::Unmovable { irq: 7 })
        };
        assert!(
            is_it(&at("1"), Errno::IO) && is_it(&at("1"), Errno::PERM) && is_it(&at("0-3"), Errno::INVAL)
        );
        assert!(!is_it(&at("1"), Errno::INVAL), "the value may be invalid");
        assert!(!is_it(&at("0-3"), Errno::NOSPC) && !is_it(&Change::NumaBalancing { mode: 1 }, Errno::IO));
        assert_eq!(unmovable(&at("0-3"), &at("0-3"), &SettingError::Open(Errno::PERM)), None);
    }

    #[test]
    fn classifies_permission_errors_as_denied() {
        let denied = |step: SettingError| matches!(step.error("it", ""), ControlError::Denied { .. });
        assert!([Errno::ACCESS, Errno::PERM, Errno::ROFS]
            .into_iter()
            .all(|errno| denied(SettingError::Open(errno))));
        assert!(!denied(SettingError::Write(Errno::INVAL)) && !denied(SettingError::Open(Errno::NOENT)));
        assert!(matches!(read_error("it", "", &ReadErrorKind::Denied), ControlError::Denied { .. }));
        assert!(matches!(read_error("it", "", &ReadErrorKind::Absent), ControlError::Refused { .. }));
    }

    #[test]
    fn sets_interrupt_affinity_and_packet_steering() {
        let dir = std::env::temp_dir().join(format!("numaio-steering-{}", std::process::id()));
        let (interface, queue, cpus) = ("eth0".to_owned(), 1, CpuSet::parse_list("1,34").expect("a list"));
        let changes = [
            (Change::IrqAffinity { irq: 40, cpus: cpus.clone() }, "0-7\n"),
            (Change::RpsCpus { interface: interface.clone(), queue, cpus: cpus.clone() }, "00,00000000\n"),
            (Change::RpsFlows { interface: interface.clone(), queue, flows: 4096 }, "0\n"),
            (Change::XpsCpus { interface, queue, cpus }, "ff\n"),
            (Change::SockFlowEntries { entries: 32768 }, "0\n"),
        ];
        fs::create_dir_all(&dir).expect("a folder");
        let root = Root::open(&dir).expect("a root");
        for (change, before) in &changes {
            assert!(apply(&root, change).is_err(), "missing file: {change}");
            let (path, _) = steering::setting_file(change).expect("a setting");
            let file = dir.join(path.trim_start_matches('/'));
            fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
            fs::write(&file, before).expect("a setting");
            let inverse = apply(&root, change).expect("allowed");
            assert_eq!(Some(inverse), steering::parse_setting(change, before.trim()), "{change}");
            conformance::control(&RootControl(&root), change).expect("allowed");
        }
        fs::remove_dir_all(&dir).expect("removed");
    }
}
