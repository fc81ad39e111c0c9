//! Conversion of kernel errors to faults.

use numaio_machine::port::{Fault, Why};
use rustix::io::Errno;

/// Returns a converter from an errno to a fault: `cannot {action}: {error}`.
pub fn fault(action: &str) -> impl Fn(Errno) -> Fault + '_ {
    move |errno| Fault::new(why(errno), format_args!("cannot {action}: {}", words(errno)))
}

fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    // The standard library appends the error number.
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn why(errno: Errno) -> Why {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::STALE => Why::NotFound,
        Errno::ACCESS | Errno::PERM => Why::Permission,
        Errno::NOSPC => Why::NoSpace,
        Errno::DQUOT => Why::Quota,
        Errno::ROFS => Why::ReadOnly,
        Errno::NAMETOOLONG => Why::NameTooLong,
        Errno::LOOP | Errno::XDEV => Why::Link,
        Errno::EXIST | Errno::ISDIR | Errno::NOTEMPTY => Why::Exists,
        Errno::NOTSUP | Errno::NOSYS | Errno::FBIG => Why::Unsupported,
        Errno::IO | Errno::NXIO | Errno::NODEV => Why::Device,
        _ => Why::Other,
    }
}
