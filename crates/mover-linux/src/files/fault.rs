//! Conversion of kernel errors to faults.

use numaio_mover::port::{Fault, FaultKind};
use rustix::io::Errno;

/// Returns a converter from an errno to a fault: `cannot {action}: {error}`.
pub fn fault(action: &str) -> impl Fn(Errno) -> Fault + '_ {
    move |errno| Fault::new(why(errno), format_args!("cannot {action}: {}", words(errno)))
}

/// Returns the fault of a read without a buffer.
pub(crate) fn no_buffer() -> Fault {
    Fault::new(FaultKind::Other, "no buffer available")
}

fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    // The standard library appends the error number.
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn why(errno: Errno) -> FaultKind {
    match errno {
        Errno::NOENT => FaultKind::NotFound,
        Errno::ACCESS | Errno::PERM => FaultKind::Permission,
        Errno::NOSPC => FaultKind::NoSpace,
        Errno::DQUOT => FaultKind::Quota,
        Errno::ROFS => FaultKind::ReadOnly,
        Errno::NAMETOOLONG => FaultKind::NameTooLong,
        Errno::LOOP | Errno::XDEV => FaultKind::Link,
        Errno::EXIST | Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY => FaultKind::Exists,
        Errno::NOTSUP | Errno::NOSYS | Errno::FBIG => FaultKind::Unsupported,
        Errno::IO | Errno::NXIO | Errno::NODEV => FaultKind::Device,
        _ => FaultKind::Other,
    }
}
