//! Parsing of handles: user-supplied names of devices, paths, hosts and processes.

use crate::devices::PciAddress;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a handle in bytes, that of a path (`PATH_MAX`).
const MAX_HANDLE_BYTES: usize = 4096;
/// Maximum length of a host name (RFC 1035), longer than any address.
const MAX_HOST_BYTES: usize = 255;

/// A user-supplied name of something near which a program can be placed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle {
    /// A PCI function: `0000:3b:00.0`, or `3b:00.0` in domain 0.
    Pci(PciAddress),
    /// A name of a network interface, a block device, an RDMA device or another device.
    Name(String),
    /// A file, a directory or a device file: `file:PATH`, or any text with a slash.
    Path(String),
    /// Another machine: `host:NAME`, `host:NAME:PORT`, `host:[fd00::1]:443`.
    Host {
        /// Host name or address.
        name: String,
        /// The port, for display only: routes do not depend on it.
        port: Option<u16>,
    },
    /// A GPU by its CUDA index in the order of PCI addresses: `cuda:0`.
    Cuda(u32),
    /// A GPU by its UUID or a prefix of it: `GPU-8f4bd4c1`.
    Gpu(String),
    /// The open files of a process: `pid:4711`.
    Process(u32),
}

/// Text that is not a valid handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid handle {text:?}: {expected}")]
pub struct InvalidHandle {
    /// The rejected text, truncated if it is long.
    pub text: String,
    /// The expected form.
    pub expected: &'static str,
}

const ANY: &str = "expected a device name, PCI address, path, host:NAME, cuda:N, GPU-UUID or pid:N";
const PORT: &str =
    "expected a port from 1 to 65535 after the host, as in host:store1:2049 or host:[fd00::1]:443";

impl FromStr for Handle {
    type Err = InvalidHandle;

    fn from_str(text: &str) -> Result<Self, InvalidHandle> {
        let bad = |expected| InvalidHandle { text: text.chars().take(80).collect(), expected };
        if text.len() > MAX_HANDLE_BYTES {
            return Err(bad("expected at most 4096 bytes"));
        }
        if text.contains('\0') {
            return Err(bad("expected text without NUL"));
        }
        if let Some(path) = text.strip_prefix("file:") {
            let path = (!path.is_empty()).then(|| path.to_owned());
            return path.map(Self::Path).ok_or_else(|| bad("expected a path after file:"));
        }
        if let Some(host) = text.strip_prefix("host:") {
            return parse_host(host).map_err(bad);
        }
        if let Some(number) = text.strip_prefix("pid:") {
            let number = number.parse().ok().filter(|number| *number > 0);
            return number.map(Self::Process).ok_or_else(|| bad("expected a process number after pid:"));
        }
        if let Some(number) = text.strip_prefix("cuda:") {
            return number.parse().map(Self::Cuda).map_err(|_| bad("expected a number after cuda:"));
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

/// Returns whether the text can be a kernel name; `.` and `..` would leave the directory.
fn is_name(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !c.is_whitespace();
    !matches!(text, "" | "." | "..") && text.chars().all(plain)
}

fn parse_host(text: &str) -> Result<Handle, &'static str> {
    let (name, port) = split_port(text).ok_or(PORT)?;
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '/' | '[' | ']');
    if name.is_empty() || name.len() > MAX_HOST_BYTES || !name.chars().all(plain) {
        return Err("expected a name or an address after host:");
    }
    Ok(Handle::Host { name: name.to_owned(), port })
}

/// Splits a host from its port, in the syntax of URLs (RFC 3986): `name`, `name:1`, `10.0.0.1:1`,
/// `[fd00::1]:1`; an IPv6 address without port needs no brackets.
///
/// Returns `None` if the text after the host is not a port.
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

/// Returns whether a path without prefix would parse as another handle.
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
    fn parses_every_form() {
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
    fn errors_name_the_expected_form() {
        for (text, part) in [
            ("", "a device name"),
            ("..", "a device name"),
            ("eth0\n", "a device name"),
            ("two words", "a device name"),
            ("a\0b", "NUL"),
            ("file:", "a path"),
            ("host:", "a name or an address"),
            ("host:a:b", "a port"),
            ("host:a:0", "a port"),
            ("host:[fd00::1", "a port"),
            ("host:[fd00::1]80", "a port"),
            ("pid:0", "process number"),
            ("pid:-1", "process number"),
            ("cuda:x", "a number"),
        ] {
            let error = text.parse::<Handle>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!("x".repeat(MAX_HANDLE_BYTES + 1).parse::<Handle>().is_err());
    }

    proptest! {
        #[test]
        fn displayed_handle_parses_to_itself(text in "(file:|host:|pid:|cuda:|GPU-)?[a-z0-9:/.\\[\\]%-]{0,20}|\\PC{0,20}") {
            if let Ok(handle) = text.parse::<Handle>() {
                prop_assert_eq!(handle.to_string().parse::<Handle>(), Ok(handle));
            }
        }
    }
}
