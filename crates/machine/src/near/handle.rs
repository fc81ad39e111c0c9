//! What people type to name something near which they want to be.

use crate::devices::PciAddress;
use std::fmt;
use std::str::FromStr;

/// Longest handle, in bytes: a path may have 4,096 of them (`PATH_MAX`).
const MAX_HANDLE_BYTES: usize = 4096;
/// Longest name of a host (RFC 1035), and more than any address.
const MAX_HOST_BYTES: usize = 255;

/// Something that people hold, and near which a program can be put.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle {
    /// A PCI function: `0000:3b:00.0`, or `3b:00.0` in domain 0.
    Pci(PciAddress),
    /// A name: of a network interface, a block device, an RDMA device or another device.
    Name(String),
    /// A file, a directory or a device file: `file:PATH`, or whatever has a slash.
    Path(String),
    /// Another machine: `host:NAME`, `host:NAME:PORT`, `host:[fd00::1]:443`.
    Host {
        /// Its name or address.
        name: String,
        /// The port, for people: routes do not depend on it.
        port: Option<u16>,
    },
    /// A GPU by CUDA's number in the order of PCI addresses: `cuda:0`.
    Cuda(u32),
    /// A GPU by its UUID, or by the beginning of it: `GPU-8f4bd4c1`.
    Gpu(String),
    /// What a process has open: `pid:4711`.
    Process(u32),
}

/// Text that is no handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no handle: {expected}")]
pub struct InvalidHandle {
    /// What was typed, its beginning if it is long.
    pub text: String,
    /// What was expected.
    pub expected: &'static str,
}

const ANY: &str = "a device's name or PCI address was expected, a path, host:NAME, cuda:N, GPU-UUID or pid:N";
const PORT: &str =
    "after the host a port from 1 to 65535 was expected, as in host:store1:2049 or host:[fd00::1]:443";

impl FromStr for Handle {
    type Err = InvalidHandle;

    fn from_str(text: &str) -> Result<Self, InvalidHandle> {
        let bad = |expected| InvalidHandle { text: text.chars().take(80).collect(), expected };
        if text.len() > MAX_HANDLE_BYTES {
            return Err(bad("at most 4096 bytes were expected"));
        }
        if text.contains('\0') {
            return Err(bad("no NUL was expected in it"));
        }
        if let Some(path) = text.strip_prefix("file:") {
            let path = (!path.is_empty()).then(|| path.to_owned());
            return path.map(Self::Path).ok_or_else(|| bad("a path was expected after file:"));
        }
        if let Some(host) = text.strip_prefix("host:") {
            return parse_host(host).map_err(bad);
        }
        if let Some(number) = text.strip_prefix("pid:") {
            let number = number.parse().ok().filter(|number| *number > 0);
            return number
                .map(Self::Process)
                .ok_or_else(|| bad("the number of a process was expected after pid:"));
        }
        if let Some(number) = text.strip_prefix("cuda:") {
            return number.parse().map(Self::Cuda).map_err(|_| bad("a number was expected after cuda:"));
        }
        if text.contains('/') {
            return Ok(Self::Path(text.to_owned()));
        }
        if text.starts_with("GPU-") && text.len() > "GPU-".len() {
            return Ok(Self::Gpu(text.to_owned()));
        }
        let pci = text.parse().or_else(|_| format!("0000:{text}").parse());
        pci.map(Self::Pci).or_else(|_| {
            if is_name(text) {
                Ok(Self::Name(text.to_owned()))
            } else {
                Err(bad(ANY))
            }
        })
    }
}

/// Whether a name of the kernel's can look so; `.` and `..` would lead elsewhere.
fn is_name(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !c.is_whitespace();
    !matches!(text, "" | "." | "..") && text.chars().all(plain)
}

fn parse_host(text: &str) -> Result<Handle, &'static str> {
    let (name, port) = split_port(text).ok_or(PORT)?;
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '/' | '[' | ']');
    if name.is_empty() || name.len() > MAX_HOST_BYTES || !name.chars().all(plain) {
        return Err("a name or an address was expected after host:");
    }
    Ok(Handle::Host { name: name.to_owned(), port })
}

/// A host and its port, in the forms of URLs (RFC 3986): `name`, `name:1`, `10.0.0.1:1`, `[fd00::1]:1`; an IPv6
/// address without port may stand without brackets. None if what follows the host is no port.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
    if let Some(rest) = text.strip_prefix('[') {
        let (name, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            None => rest.is_empty().then_some((name, None)),
            Some(number) => Some((name, Some(port(number)?))),
        };
    }
    match text.split_once(':') {
        Some((name, number)) if !number.contains(':') => Some((name, Some(port(number)?))),
        _ => Some((text, None)),
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(address) => address.fmt(f),
            Self::Name(name) | Self::Gpu(name) => f.write_str(name),
            Self::Path(path) if path.contains('/') && !has_prefix(path) => f.write_str(path),
            Self::Path(path) => write!(f, "file:{path}"),
            Self::Host { name, port: None } => write!(f, "host:{}", bracketed(name)),
            Self::Host { name, port: Some(port) } => write!(f, "host:{}:{port}", bracketed(name)),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Process(pid) => write!(f, "pid:{pid}"),
        }
    }
}

/// Whether a path, typed alone, would be taken for something else.
fn has_prefix(path: &str) -> bool {
    ["file:", "host:", "pid:", "cuda:"].iter().any(|prefix| path.starts_with(prefix))
}

fn bracketed(name: &str) -> String {
    if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Handle {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn host(name: &str, port: Option<u16>) -> Handle {
        Handle::Host { name: name.into(), port }
    }

    #[test]
    fn every_form_is_told_from_the_others() {
        let pci = Handle::Pci("0000:3b:00.0".parse().expect("an address"));
        assert_eq!((parse("0000:3b:00.0"), parse("3b:00.0")), (pci.clone(), pci));
        assert_eq!(parse("10000:01:00.0").to_string(), "10000:01:00.0");
        for name in ["eth0", "nvme0n1", "mlx5_0", "bond0.5", "vg-data", "eth0:1"] {
            assert_eq!(parse(name), Handle::Name(name.into()));
        }
        for path in ["/dev/mapper/x", "./data", "data/set1", "/"] {
            assert_eq!(parse(path), Handle::Path(path.into()));
        }
        assert_eq!(parse("file:set1"), Handle::Path("set1".into()));
        assert_eq!(parse("file:host:/x"), Handle::Path("host:/x".into()));
        assert_eq!(parse("host:store1"), host("store1", None));
        assert_eq!(parse("host:store1:2049"), host("store1", Some(2049)));
        assert_eq!(parse("host:10.0.0.1:80"), host("10.0.0.1", Some(80)));
        assert_eq!(parse("host:fd00::1"), host("fd00::1", None));
        assert_eq!(parse("host:[fd00::1]:443"), host("fd00::1", Some(443)));
        assert_eq!(parse("host:fe80::1%eth0"), host("fe80::1%eth0", None));
        assert_eq!((parse("cuda:3"), parse("pid:1")), (Handle::Cuda(3), Handle::Process(1)));
        assert_eq!(parse("GPU-8f4bd4c1"), Handle::Gpu("GPU-8f4bd4c1".into()));
    }

    #[test]
    fn what_is_none_says_what_was_expected() {
        for (text, part) in [
            ("", "a device's name"),
            ("..", "a device's name"),
            ("eth0\n", "a device's name"),
            ("two words", "a device's name"),
            ("a\0b", "NUL"),
            ("file:", "a path"),
            ("host:", "a name or an address"),
            ("host:a:b", "a port"),
            ("host:a:0", "a port"),
            ("host:[fd00::1", "a port"),
            ("host:[fd00::1]80", "a port"),
            ("pid:0", "number of a process"),
            ("pid:-1", "number of a process"),
            ("cuda:x", "a number"),
        ] {
            let error = text.parse::<Handle>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!("x".repeat(MAX_HANDLE_BYTES + 1).parse::<Handle>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(text in "(file:|host:|pid:|cuda:|GPU-)?[a-z0-9:/.\\[\\]%-]{0,20}|\\PC{0,20}") {
            if let Ok(handle) = text.parse::<Handle>() {
                prop_assert_eq!(handle.to_string().parse::<Handle>(), Ok(handle));
            }
        }
    }
}
