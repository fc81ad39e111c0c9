//! Where files come from and go to, as it was typed.

use super::address::{Address, SCHEME};
use crate::failure::Failure;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// One path of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The other host; none for this one.
    pub host: Option<Host>,
    /// The path there.
    pub path: Vec<u8>,
}

/// Another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// As for ssh.
    Ssh(String),
    /// A root of a daemon.
    Daemon(Address),
}

impl Host {
    /// How it is called in messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Ssh(host) => host.clone(),
            Self::Daemon(address) => address.place(),
        }
    }
}

impl End {
    /// A colon before the first slash ends the name of a host, as for rsync and scp: `./a:b` is a file. What begins with
    /// `numaio://` is at a daemon.
    pub fn of(text: &OsStr) -> Result<Self, Failure> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(Failure::usage("a path is empty").hint("the present directory is ."));
        }
        if let Some(rest) = bytes.strip_prefix(SCHEME) {
            let (address, path) = Address::parse(rest).map_err(|why| {
                Failure::usage(format!("{}: {why}", text.to_string_lossy()))
                    .hint("write numaio://[USER@]HOST[:PORT]/ROOT/PATH")
            })?;
            return Ok(Self { host: Some(Host::Daemon(address)), path });
        }
        let first = bytes.split(|&byte| byte == b'/').next().unwrap_or_default();
        let Some(colon) = first.iter().position(|&byte| byte == b':') else {
            return Ok(Self { host: None, path: bytes.to_vec() });
        };
        let shown = text.to_string_lossy();
        let host = std::str::from_utf8(&bytes[..colon]).unwrap_or_default();
        // ssh would take it for an option.
        if host.is_empty() || host.starts_with('-') || host.chars().any(|c| c.is_control() || c == ' ') {
            return Err(Failure::usage(format!("{shown:?} names no host"))
                .hint(format!("write ./{shown} for a file with a colon in its name")));
        }
        let path = match &bytes[colon + 1..] {
            b"" => b".".to_vec(),
            [b':', ..] => {
                return Err(Failure::usage(format!("{shown:?} names a module of an rsync daemon"))
                    .hint("numaio copy reaches other hosts by ssh: HOST:PATH, and daemons of numaio: numaio://HOST/ROOT/PATH"));
            }
            path => path.to_vec(),
        };
        Ok(Self { host: Some(Host::Ssh(host.to_owned())), path })
    }

    /// Whether it is in a root of a daemon.
    pub fn is_at_daemon(&self) -> bool {
        matches!(self.host, Some(Host::Daemon(_)))
    }

    /// The host of all of them.
    pub fn same_host(ends: &[Self]) -> Result<Option<Host>, Failure> {
        let host = ends.first().and_then(|end| end.host.clone());
        match ends.iter().all(|end| end.host == host) {
            true => Ok(host),
            false => Err(Failure::usage("the sources are on different hosts, or in different roots of one")
                .hint("copy from one after the other")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_a_slash_ends_a_host() {
        let end = |text: &str| {
            let end = End::of(OsStr::new(text)).ok()?;
            Some((end.host.map(|host| host.shown()), String::from_utf8(end.path).ok()?))
        };
        assert_eq!(end("a/b:c"), Some((None, "a/b:c".into())));
        assert_eq!(end("./b:c"), Some((None, "./b:c".into())));
        assert_eq!(end("h:b"), Some((Some("h".into()), "b".into())));
        assert_eq!(end("u@h:"), Some((Some("u@h".into()), ".".into())));
        assert_eq!(end("numaio://h/r/a"), Some((Some("h:6862".into()), "a".into())));
        assert_eq!(end("numaio:a"), Some((Some("numaio".into()), "a".into())));
        assert_eq!(end("./numaio://h/r"), Some((None, "./numaio://h/r".into())));
        for bad in ["", "numaio://", "numaio://h", ":a", "-oProxyCommand=x:a", "h::m", "a b:c"] {
            assert_eq!(end(bad), None, "{bad}");
        }
    }
}
