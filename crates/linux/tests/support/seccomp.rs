//! Seccomp filters for one thread and its children
//! (`Documentation/userspace-api/seccomp_filter.rst`).

use std::io;
use std::io::Write as _;

/// Returns one instruction of a filter.
pub fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Offset of the system call number in the filter's data (struct seccomp_data).
pub const NUMBER: u32 = 0;

/// Makes system calls fail with `errno` on this thread and its children.
pub fn refuse(calls: &[libc::c_long], errno: i32) -> io::Result<()> {
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0, 0)];
    for call in calls {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    confine(program)
}

/// Installs a filter for this thread and its children.
pub fn confine(mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through both calls and its length is correct; the kernel verifies
    // it. It affects only this thread and its children.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Runs `check` on a thread where `calls` fail; prints a message if no filter can be installed.
pub fn refused(calls: &'static [libc::c_long], errno: i32, check: fn(i32)) {
    confined(move || refuse(calls, errno), move || check(errno));
}

/// Runs `check` on a thread with a filter; prints a message if none can be installed.
pub fn confined(
    filter: impl FnOnce() -> io::Result<()> + Send + 'static,
    check: impl FnOnce() + Send + 'static,
) {
    let both = move || match filter() {
        Ok(()) => check(),
        Err(error) => report_skip(&format!("skipped: seccomp: {error}")),
    };
    std::thread::spawn(both).join().expect("no panic");
}

fn report_skip(why: &str) {
    // Bypasses the capture of the test harness, so that skips are visible and counted.
    let _ = writeln!(std::io::stderr(), "{why}");
}
