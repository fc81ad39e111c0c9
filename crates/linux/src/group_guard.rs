//! A process that kills the process group of a started program if this process dies.

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Signal of the kernel to the guard when its parent dies (prctl(2), `PR_SET_PDEATHSIG`).
const PARENT_DIED: libc::c_int = libc::SIGUSR1;

/// A running guard; dropping it ends the guard, not the group.
///
/// The kernel signals only direct children of a process that dies, so without a guard the children
/// of a program would survive this process when it is killed.
#[derive(Debug)]
pub(crate) struct GroupGuard {
    pid: libc::pid_t,
}

impl GroupGuard {
    /// Starts the guard of a process group, from the thread that started the program.
    ///
    /// # Errors
    /// The kernel's error of fork(2).
    pub fn start(group: u32) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child makes only system calls, which fork(2) allows with several threads.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => watch(parent, group as libc::pid_t),
            pid => Ok(Self { pid }),
        }
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        // SAFETY: no memory is involved, and the child has not been waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, null_mut(), 0);
        }
    }
}

/// Waits for the death of the parent, and kills the group.
fn watch(parent: libc::pid_t, group: libc::pid_t) -> ! {
    // SAFETY: the signal sets are plain C structs that sigemptyset and sigfillset initialize and
    // that live through the calls; the other calls access no memory.
    unsafe {
        let mut all: libc::sigset_t = zeroed();
        let mut only: libc::sigset_t = zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, PARENT_DIED);
        // Signals to the parent's group, as by Ctrl-C, end the parent in order, and must not end
        // the guard before it.
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, null_mut());
        libc::setpgid(0, 0);
        let is_armed = libc::prctl(libc::PR_SET_PDEATHSIG, PARENT_DIED) == 0;
        // The parent may have died before the request.
        while is_armed && libc::getppid() == parent {
            if libc::sigwaitinfo(&raw const only, null_mut()) == PARENT_DIED {
                break;
            }
        }
        if is_armed {
            libc::kill(-group, libc::SIGKILL);
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Starts a program of its own group, with a child that ignores SIGTERM.
    fn group() -> std::process::Child {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & trap '' TERM; wait"]).process_group(0);
        command.spawn().expect("a shell")
    }

    fn is_group_alive(group: u32) -> bool {
        // SAFETY: no memory is involved; signal 0 only checks for existence.
        unsafe { libc::kill(-(group as libc::pid_t), 0) == 0 }
    }

    #[test]
    fn dropped_guard_leaves_the_group_alone() {
        let mut child = group();
        drop(GroupGuard::start(child.id()).expect("a guard"));
        assert!(is_group_alive(child.id()) && child.try_wait().expect("asked").is_none());
        // SAFETY: no memory is involved.
        unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
        child.wait().expect("ended");
    }

    /// The parent of the guard is a fork of the test that is killed.
    #[test]
    fn kills_the_group_if_the_parent_is_killed() {
        let mut child = group();
        // SAFETY: the fork makes only system calls, since the guard itself makes no others.
        match unsafe { libc::fork() } {
            0 => {
                let guard = GroupGuard::start(child.id());
                // SAFETY: no memory is involved.
                unsafe { libc::raise(libc::SIGKILL) };
                drop(guard);
            }
            parent => {
                // SAFETY: no status is requested.
                unsafe { libc::waitpid(parent, null_mut(), 0) };
                let patience = Instant::now() + Duration::from_secs(60);
                while child.try_wait().expect("asked").is_none() && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let killed = child.try_wait().expect("asked");
                assert!(killed.is_some_and(|status| !status.success()), "{killed:?}");
                while is_group_alive(child.id()) && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(5));
                }
                assert!(!is_group_alive(child.id()), "a child of the program survived");
            }
        }
    }
}
