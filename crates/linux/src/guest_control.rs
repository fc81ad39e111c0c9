//! Changes of running guests: affinity of threads, nodes of pages, pins of libvirt, and virtual
//! functions of network cards.

use crate::affinity::Mask;
use crate::{tool, Root};
use numaio_machine::control::{Change, ControlError, LibvirtThread};
use numaio_machine::devices::PciAddress;
use numaio_machine::guests::{role, Hypervisor, ThreadRole};
use numaio_machine::probe::{ProbeError, ToolExit};
use numaio_machine::process;
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
            let before = thread
                .change_cpus(cpus, &|| Mask::of(cpus).apply_to(*tid).map_err(|error| thread.error(&error)))?;
            Ok(Change::ThreadAffinity { pid: *pid, tid: *tid, start_time: *start_time, cpus: before })
        }
        Change::LibvirtPin { domain, thread: name, pid, tid, start_time, cpus } => {
            let thread = RunningThread { root, pid: *pid, tid: *tid, start_time: *start_time, what: &what };
            let followers = match name {
                LibvirtThread::Emulator => thread.followers()?,
                LibvirtThread::Vcpu { .. } | LibvirtThread::IoThread { .. } => Vec::new(),
            };
            let before = thread.change_cpus(cpus, &|| virsh_pin(&what, domain, *name, cpus))?;
            if let Err(error) = thread.pin_followers(&followers, cpus) {
                let _ = thread.pin_followers(&followers, &before);
                let _ = virsh_pin(&what, domain, *name, &before);
                return Err(error);
            }
            let (domain, thread) = (domain.clone(), *name);
            let (pid, tid, start_time) = (*pid, *tid, *start_time);
            Ok(Change::LibvirtPin { domain, thread, pid, tid, start_time, cpus: before })
        }
        Change::ProcessNodes { pid, start_time, from, to } => {
            migrate(root, *pid, *start_time, from, to, &what)?;
            Ok(Change::ProcessNodes {
                pid: *pid,
                start_time: *start_time,
                from: to.clone(),
                to: from.clone(),
            })
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
        change: &dyn Fn() -> Result<(), ControlError>,
    ) -> Result<CpuSet, ControlError> {
        let before = self.cpus()?;
        if cpus.is_empty() {
            return Err(refused(self.what, "no CPU"));
        }
        change()?;
        let after = self.cpus()?;
        if after != *cpus && after != cpus.difference(&offline_cpus(self.root)) {
            let _ = Mask::of(&before).apply_to(self.tid);
            return Err(refused(
                self.what,
                format!("the kernel set CPUs {after} instead; its cpuset may not allow the others"),
            ));
        }
        Ok(before)
    }

    /// Returns the other threads of QEMU itself that share the CPUs of this main thread. Without
    /// control groups, libvirt pins the main thread alone.
    fn followers(&self) -> Result<Vec<u32>, ControlError> {
        let before = self.cpus()?;
        let is_service =
            |name: &str| matches!(role(Hypervisor::Qemu, name), ThreadRole::Emulator | ThreadRole::Vhost);
        let process = process::threads(self.root, self.pid).map_err(|_| self.ended())?;
        let others = process.threads.into_iter().filter(|thread| {
            thread.tid != self.tid && is_service(&thread.name) && thread.allowed.as_ref() == Some(&before)
        });
        Ok(others.map(|thread| thread.tid).collect())
    }

    /// Pins other threads of the process to CPUs, unless libvirt has done so. Those that have ended
    /// are omitted.
    fn pin_followers(&self, followers: &[u32], cpus: &CpuSet) -> Result<(), ControlError> {
        let online = cpus.difference(&offline_cpus(self.root));
        let is_elsewhere = |tid: &&u32| {
            let found = process::allowed_cpus(self.root, self.pid, **tid);
            found.is_some_and(|found| found != *cpus && found != online)
        };
        for tid in followers.iter().filter(is_elsewhere) {
            match Mask::of(cpus).apply_to(*tid) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(self.error(&error)),
                _ => {}
            }
        }
        Ok(())
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
    args.extend([format!("--domain={domain}"), format!("--cpulist={cpus}"), "--live".to_owned()]);
    let processes = vec![ToolProcess { args, cpus: CpuSet::new(), memory: None }];
    let workload =
        ToolWorkload { program: "virsh".into(), processes, time_limit_ms: VIRSH_LIMIT_MS, peer: None };
    let outcome = tool::run(&workload).map_err(|error| match error {
        ProbeError::Unsupported { .. } => refused(what, "virsh is not installed (package libvirt-clients)"),
        error => refused(what, error),
    })?;
    let Some(output) = outcome.processes.first() else { return Err(refused(what, "virsh did not run")) };
    match output.ended {
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

/// Words of a mask of nodes: Linux allows 1,024.
const NODE_WORDS: usize = 1024 / 64;

fn node_mask(nodes: &NodeSet) -> [u64; NODE_WORDS] {
    let mut mask = [0; NODE_WORDS];
    for node in nodes.iter() {
        if let Some(word) = mask.get_mut(node.0 as usize / 64) {
            *word |= 1 << (node.0 % 64);
        }
    }
    mask
}

/// Moves the pages of a process (migrate_pages(2)). Pages that the kernel cannot move stay, which
/// is not an error: the caller reads where they are.
fn migrate(
    root: &Root,
    pid: u32,
    start_time: u64,
    from: &NodeSet,
    to: &NodeSet,
    what: &str,
) -> Result<(), ControlError> {
    let ended = || ControlError::Ended { what: what.to_owned() };
    let is_running = || process::start_time(root, pid) == Some(start_time);
    if !is_running() {
        return Err(ended());
    }
    let (old, new) = (node_mask(from), node_mask(to));
    // One more than the bits, since the kernel reads one less.
    let bits = NODE_WORDS * 64 + 1;
    // SAFETY: both masks hold `bits - 1` bits and live through the call.
    let result = unsafe { libc::syscall(libc::SYS_migrate_pages, pid, bits, old.as_ptr(), new.as_ptr()) };
    if result >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Err(ended()),
        Some(libc::EPERM) => Err(ControlError::Denied { what: what.to_owned(), why: error.to_string() }),
        Some(libc::ENOSYS) => Err(refused(what, "this kernel has no NUMA page migration")),
        _ if !is_running() => Err(ended()),
        _ => Err(refused(what, error)),
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
    use numaio_machine::ids::{CpuId, NodeId};
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
        let (from, to) = (NodeSet::one(NodeId(0)), NodeSet::one(NodeId(0)));
        let pages = Change::ProcessNodes { pid, start_time: start_time + 1, from, to };
        assert!(matches!(apply(&root, &pages), Err(ControlError::Ended { .. })));
        assert_eq!(process::allowed_cpus(&root, pid, pid), before);
    }

    #[test]
    fn moving_pages_to_their_own_node_changes_nothing() {
        let root = Root::live().expect("a root");
        let child = Waiting::start();
        let pid = child.0.id();
        let start_time = process::start_time(&root, pid).expect("it runs");
        let node = NodeSet::one(NodeId(0));
        let change = Change::ProcessNodes { pid, start_time, from: node.clone(), to: node };
        match apply(&root, &change) {
            Ok(inverse) => assert_eq!(inverse, change),
            // A sandbox, or a kernel without NUMA.
            Err(error) => assert!(!matches!(error, ControlError::Ended { .. }), "{error}"),
        }
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
