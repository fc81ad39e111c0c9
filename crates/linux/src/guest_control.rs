//! Changes of running guests: affinity of threads, pins and nodes of libvirt, and virtual functions
//! of network cards.

use crate::affinity::Mask;
use crate::{tool, Root};
use numaio_machine::control::{Change, ControlError, LibvirtThread};
use numaio_machine::devices::PciAddress;
use numaio_machine::probe::{ProbeError, ToolExit};
use numaio_machine::process;
use numaio_machine::programs::parse_status;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{ToolProcess, ToolWorkload};
use rustix::fs::OFlags;
use std::io;

/// Time limit of virsh in milliseconds, which waits for a busy libvirt.
const VIRSH_LIMIT_MS: u32 = 30_000;

/// Applies a change and returns its inverse.
pub(crate) fn apply(root: &Root, change: &Change) -> Result<Change, ControlError> {
    let what = change.to_string();
    match change {
        Change::ThreadAffinity { pid, tid, start_time, cpus } => {
            let thread = RunningThread { root, pid: *pid, tid: *tid, start_time: *start_time, what: &what };
            let pin = |cpus: &CpuSet| Mask::of(cpus).apply_to(*tid).map_err(|error| thread.error(&error));
            let before = thread.change_cpus(cpus, &pin)?;
            Ok(Change::ThreadAffinity { pid: *pid, tid: *tid, start_time: *start_time, cpus: before })
        }
        Change::LibvirtPin { domain, thread: name, pid, tid, start_time, cpus } => {
            let thread = RunningThread { root, pid: *pid, tid: *tid, start_time: *start_time, what: &what };
            let before = thread.change_cpus(cpus, &|cpus| virsh_pin(&what, domain, *name, cpus))?;
            let (domain, thread) = (domain.clone(), *name);
            let (pid, tid, start_time) = (*pid, *tid, *start_time);
            Ok(Change::LibvirtPin { domain, thread, pid, tid, start_time, cpus: before })
        }
        Change::LibvirtNodes { domain, pid, start_time, nodes } => {
            let before = set_libvirt_nodes(root, &what, domain, (*pid, *start_time), nodes)?;
            let (domain, pid, start_time) = (domain.clone(), *pid, *start_time);
            Ok(Change::LibvirtNodes { domain, pid, start_time, nodes: before })
        }
        Change::VirtualFunctions { function, count } => set_functions(root, *function, *count, &what),
        _ => Err(ControlError::Refused { what, why: "not a change of a guest".to_owned() }),
    }
}

fn refused(what: &str, why: impl ToString) -> ControlError {
    ControlError::Refused { what: what.to_owned(), why: why.to_string() }
}

/// A thread that is identified by its id and start time.
struct RunningThread<'a> {
    root: &'a Root,
    pid: u32,
    tid: u32,
    start_time: u64,
    what: &'a str,
}

impl RunningThread<'_> {
    fn ended(&self) -> ControlError {
        ControlError::Ended { what: self.what.to_owned() }
    }

    /// Returns whether the thread id still refers to the same thread.
    fn is_running(&self) -> bool {
        let text = self.root.optional(&format!("/proc/{}/task/{}/stat", self.pid, self.tid));
        let stat = text.as_deref().and_then(process::parse_stat);
        stat.is_some_and(|stat| stat.start_time == self.start_time && !matches!(stat.state, 'Z' | 'X' | 'x'))
    }

    fn cpus(&self) -> Result<CpuSet, ControlError> {
        let found = process::allowed_cpus(self.root, self.pid, self.tid);
        found.filter(|_| self.is_running()).ok_or_else(|| self.ended())
    }

    /// Changes the CPUs of the thread, verifies them, and returns the previous ones. The kernel
    /// silently removes CPUs outside the cpuset: then the previous CPUs are restored. It also
    /// omits CPUs that were taken offline: that succeeds.
    fn change_cpus(
        &self,
        cpus: &CpuSet,
        change: &dyn Fn(&CpuSet) -> Result<(), ControlError>,
    ) -> Result<CpuSet, ControlError> {
        let before = self.cpus()?;
        if cpus.is_empty() {
            return Err(refused(self.what, "no CPU"));
        }
        change(cpus)?;
        let after = self.cpus()?;
        if after != *cpus && after != cpus.difference(&offline_cpus(self.root)) {
            let _ = change(&before);
            return Err(refused(
                self.what,
                format!("the kernel set CPUs {after} instead; its cpuset may not allow the others"),
            ));
        }
        Ok(before)
    }

    fn error(&self, error: &io::Error) -> ControlError {
        match error.raw_os_error() {
            Some(libc::ESRCH) => self.ended(),
            Some(libc::EPERM) => ControlError::Denied { what: self.what.to_owned(), why: error.to_string() },
            _ if !self.is_running() => self.ended(),
            _ => refused(self.what, error),
        }
    }
}

/// Returns the CPUs that exist and are offline; none if the kernel does not list them.
fn offline_cpus(root: &Root) -> CpuSet {
    let list = |name: &str| {
        let text = root.optional(&format!("/sys/devices/system/cpu/{name}"))?;
        CpuSet::parse_list(text.trim()).ok()
    };
    list("offline").zip(list("present")).map(|(off, present)| off.intersection(&present)).unwrap_or_default()
}

/// Pins a thread by virsh(1), which also records it for a later migration of the guest.
fn virsh_pin(what: &str, domain: &str, thread: LibvirtThread, cpus: &CpuSet) -> Result<(), ControlError> {
    let mut args = match thread {
        LibvirtThread::Vcpu { number } => vec!["vcpupin".to_owned(), format!("--vcpu={number}")],
        LibvirtThread::Emulator => vec!["emulatorpin".to_owned()],
        LibvirtThread::IoThread { number } => vec!["iothreadpin".to_owned(), format!("--iothread={number}")],
    };
    args.push(format!("--cpulist={cpus}"));
    virsh(what, domain, args)
}

/// Confines a guest to nodes by virsh(1), and returns the previous ones.
fn set_libvirt_nodes(
    root: &Root,
    what: &str,
    domain: &str,
    (pid, start_time): (u32, u64),
    nodes: &NodeSet,
) -> Result<NodeSet, ControlError> {
    let allowed = || {
        let status = root.optional(&format!("/proc/{pid}/status"));
        let found = status.and_then(|status| parse_status(&status).nodes_allowed);
        let is_running = process::start_time(root, pid) == Some(start_time);
        found.filter(|_| is_running).ok_or_else(|| ControlError::Ended { what: what.to_owned() })
    };
    let confine =
        |nodes: &NodeSet| virsh(what, domain, vec!["numatune".to_owned(), format!("--nodeset={nodes}")]);
    let before = allowed()?;
    confine(nodes)?;
    let after = allowed()?;
    if after != *nodes {
        let _ = confine(&before);
        return Err(refused(what, format!("the kernel allows memory on nodes {after} instead")));
    }
    Ok(before)
}

/// Runs virsh(1) for a running domain.
fn virsh(what: &str, domain: &str, mut args: Vec<String>) -> Result<(), ControlError> {
    args.extend([format!("--domain={domain}"), "--live".to_owned()]);
    let processes = vec![ToolProcess { args, cpus: CpuSet::new(), memory: None }];
    let workload =
        ToolWorkload { program: "virsh".into(), processes, time_limit_ms: VIRSH_LIMIT_MS, peer: None };
    let outcome = tool::run(&workload).map_err(|error| match error {
        ProbeError::Unsupported { .. } => refused(what, "virsh is not installed (package libvirt-clients)"),
        error => refused(what, error),
    })?;
    let Some(output) = outcome.processes.first() else { return Err(refused(what, "virsh did not run")) };
    match output.exit {
        ToolExit::Status(0) => Ok(()),
        ToolExit::TimeLimit => Err(refused(what, "virsh did not end within 30 s")),
        _ => {
            let message = output.stderr.trim().lines().next().unwrap_or("virsh failed").to_owned();
            let denied = message.contains("ermission denied") || message.contains("uthentication");
            Err(match denied {
                true => ControlError::Denied { what: what.to_owned(), why: message },
                false => refused(what, message),
            })
        }
    }
}

/// Sets the number of virtual functions. The kernel changes it only from or to 0.
fn set_functions(root: &Root, function: PciAddress, count: u32, what: &str) -> Result<Change, ControlError> {
    let path = format!("/sys/bus/pci/devices/{function}/sriov_numvfs");
    let read = || root.value::<u32>(&path).map_err(|error| refused(what, error.why));
    let before = read()?;
    let inverse = Change::VirtualFunctions { function, count: before };
    if before == count {
        return Ok(inverse);
    }
    if before > 0 && count > 0 {
        return Err(refused(
            what,
            format!("{before} are enabled, and the kernel changes the number only from 0"),
        ));
    }
    let write = || {
        let file = root.open_file(&path, OFlags::WRONLY | OFlags::TRUNC)?;
        rustix::io::write(&file, count.to_string().as_bytes()).map(drop)
    };
    write().map_err(|errno| match errno {
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM | rustix::io::Errno::ROFS => {
            ControlError::Denied { what: what.to_owned(), why: errno.to_string() }
        }
        rustix::io::Errno::BUSY => refused(what, "a virtual function is in use"),
        errno => refused(what, errno),
    })?;
    match read()? {
        after if after == count => Ok(inverse),
        after => Err(refused(what, format!("the kernel set {after} instead"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::CpuId;
    use std::fs;
    use std::process::{Child, Command, Stdio};

    /// A child that waits, and is killed when dropped.
    struct Waiting(Child);

    impl Waiting {
        fn start() -> Self {
            Self(Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat"))
        }

        fn affinity(&self, root: &Root, cpus: CpuSet) -> Change {
            let pid = self.0.id();
            let start_time = process::start_time(root, pid).expect("it runs");
            Change::ThreadAffinity { pid, tid: pid, start_time, cpus }
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    #[test]
    fn binds_a_thread_and_returns_the_inverse() {
        let root = Root::live().expect("a root");
        let child = Waiting::start();
        let pid = child.0.id();
        let before = process::allowed_cpus(&root, pid, pid).expect("its CPUs");
        let one = CpuSet::one(before.first().expect("a CPU"));
        let inverse = apply(&root, &child.affinity(&root, one.clone())).expect("a child of this test");
        assert_eq!(process::allowed_cpus(&root, pid, pid), Some(one));
        assert_eq!(inverse, child.affinity(&root, before.clone()));
        // The kernel would ignore the missing CPU.
        let beyond = before.union(&CpuSet::one(CpuId(8100)));
        let error = apply(&root, &child.affinity(&root, beyond)).expect_err("no such CPU");
        assert!(matches!(error, ControlError::Refused { .. }), "{error}");
        apply(&root, &inverse).expect("undone");
        assert_eq!(process::allowed_cpus(&root, pid, pid), Some(before));
    }

    #[test]
    fn reused_process_ids_are_not_changed() {
        let root = Root::live().expect("a root");
        let child = Waiting::start();
        let Change::ThreadAffinity { pid, tid, start_time, .. } = child.affinity(&root, CpuSet::new()) else {
            panic!()
        };
        let cpus = CpuSet::one(CpuId(0));
        let before = process::allowed_cpus(&root, pid, pid);
        let other = Change::ThreadAffinity { pid, tid, start_time: start_time + 1, cpus };
        assert!(matches!(apply(&root, &other), Err(ControlError::Ended { .. })));
        assert_eq!(process::allowed_cpus(&root, pid, pid), before);
    }

    #[test]
    fn enables_and_removes_virtual_functions() {
        let dir = std::env::temp_dir().join(format!("numaio-functions-{}", std::process::id()));
        let folder = dir.join("sys/bus/pci/devices/0000:3b:00.0");
        fs::create_dir_all(&folder).expect("directories");
        let file = folder.join("sriov_numvfs");
        fs::write(&file, "0\n").expect("a setting");
        let root = Root::open(&dir).expect("a root");
        let function: PciAddress = "0000:3b:00.0".parse().expect("an address");
        let to = |count| Change::VirtualFunctions { function, count };
        let enabled = apply(&root, &to(4));
        let more = apply(&root, &to(8));
        let removed = apply(&root, &to(0));
        let absent = apply(
            &root,
            &Change::VirtualFunctions { function: "0000:3c:00.0".parse().expect("an address"), count: 1 },
        );
        let last = fs::read_to_string(&file).expect("a setting");
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!((enabled, removed), (Ok(to(0)), Ok(to(4))));
        assert!(matches!(more, Err(ControlError::Refused { .. })), "{more:?}");
        assert!(matches!(absent, Err(ControlError::Refused { .. })), "{absent:?}");
        assert_eq!(last, "0");
    }
}
