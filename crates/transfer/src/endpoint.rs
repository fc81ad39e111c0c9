//! Endpoints of a transfer, as typed on the command line.

use crate::daemon_address::{DaemonAddress, SCHEME};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A path of the command line with its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The remote host; `None` for this one.
    pub host: Option<Host>,
    /// The path on that host.
    pub path: Vec<u8>,
}

/// A remote host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A host name for ssh.
    Ssh(String),
    /// A root of a daemon.
    Daemon(DaemonAddress),
}

impl Host {
    /// Returns the name for messages.
    pub fn display_name(&self) -> String {
        match self {
            Self::Ssh(host) => host.clone(),
            Self::Daemon(address) => address.host_port(),
        }
    }
}

/// URL schemes of other programs.
const FOREIGN_SCHEMES: [&str; 12] =
    ["file", "ftp", "ftps", "gsiftp", "http", "https", "rsync", "s3", "scp", "sftp", "smb", "ssh"];

/// Why a text is not a path with or without a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is empty.
    #[error("a path is empty")]
    Empty,
    /// It begins like the address of a daemon.
    #[error("{text}: {why}")]
    InvalidDaemonAddress {
        /// The text.
        text: String,
        /// Its fault.
        why: &'static str,
    },
    /// The part before its first colon cannot be a host.
    #[error("{text:?} names no host")]
    NoHost {
        /// The text.
        text: String,
    },
    /// It begins like an IPv6 address in brackets.
    #[error("{text:?} begins with a bracket, and is not [ADDRESS]:PATH")]
    InvalidBrackets {
        /// The text.
        text: String,
    },
    /// It is a URL of another program.
    #[error("{text:?} is a URL, and numaio does not support {scheme}")]
    Url {
        /// The text.
        text: String,
        /// Scheme of the URL.
        scheme: String,
    },
    /// It has two colons, as rsync's modules.
    #[error("{text:?} names a module of an rsync daemon")]
    RsyncModule {
        /// The text.
        text: String,
    },
    /// It has `~NAME` after the host.
    #[error("{text:?} is in the home directory of another user, which cannot be resolved here")]
    OtherHome {
        /// The text.
        text: String,
    },
    /// The sources are not on one host.
    #[error("the sources are on different hosts, or in different roots of a daemon")]
    DifferentHosts,
}

impl Endpoint {
    /// Parses an argument. A colon before the first slash ends a host name, as for rsync and scp.
    pub fn parse(text: &OsStr) -> Result<Self, EndpointError> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(EndpointError::Empty);
        }
        if let Some(rest) = bytes.strip_prefix(SCHEME) {
            let text = text.to_string_lossy().into_owned();
            let invalid = |why| EndpointError::InvalidDaemonAddress { text, why };
            let (address, path) = DaemonAddress::parse(rest).map_err(invalid)?;
            return Ok(Self { host: Some(Host::Daemon(address)), path });
        }
        let first = bytes.split(|&byte| byte == b'/').next().unwrap_or_default();
        if has_invalid_brackets(first) {
            return Err(EndpointError::InvalidBrackets { text: text.to_string_lossy().into_owned() });
        }
        let Some((host, path)) = bracketed(first).or_else(|| {
            let colon = first.iter().position(|&byte| byte == b':')?;
            Some((first[..colon].to_vec(), colon + 1))
        }) else {
            return Ok(Self { host: None, path: bytes.to_vec() });
        };
        let text = text.to_string_lossy().into_owned();
        let host = String::from_utf8(host).unwrap_or_default();
        // ssh would take such a name for an option.
        if host.is_empty()
            || host.ends_with('@')
            || host.starts_with('-')
            || host.chars().any(|c| c.is_control() || c == ' ')
        {
            return Err(EndpointError::NoHost { text });
        }
        let path = match &bytes[path..] {
            [b'/', b'/', ..] if FOREIGN_SCHEMES.contains(&&*host) => {
                return Err(EndpointError::Url { text, scheme: host });
            }
            [b':', ..] => {
                return Err(EndpointError::RsyncModule { text });
            }
            // Sessions start in the home directory.
            b"" | b"~" => b"".to_vec(),
            [b'~', b'/', path @ ..] => path.iter().skip_while(|&&byte| byte == b'/').copied().collect(),
            [b'~', ..] => {
                return Err(EndpointError::OtherHome { text });
            }
            path => path.to_vec(),
        };
        let path = if path.is_empty() { b".".to_vec() } else { path };
        Ok(Self { host: Some(Host::Ssh(host)), path })
    }

    /// Whether the endpoint is in a root of a daemon.
    pub fn is_at_daemon(&self) -> bool {
        matches!(self.host, Some(Host::Daemon(_)))
    }

    /// Whether the path is remote and has wildcards, which no shell expands.
    pub fn has_remote_wildcards(&self) -> bool {
        self.host.is_some() && self.path.iter().any(|byte| b"*?[".contains(byte))
    }

    /// Returns the host of all endpoints.
    pub fn common_host(ends: &[Self]) -> Result<Option<Host>, EndpointError> {
        let host = ends.first().and_then(|end| end.host.clone());
        match ends.iter().all(|end| end.host == host) {
            true => Ok(host),
            false => Err(EndpointError::DifferentHosts),
        }
    }
}

/// Returns whether a host begins with a bracket, after the user, and has a colon, but is not
/// `[ADDRESS]:`.
fn has_invalid_brackets(first: &[u8]) -> bool {
    let colon = first.iter().position(|&byte| byte == b':').unwrap_or(0);
    let host = first[..colon].rsplit(|&byte| byte == b'@').next().unwrap_or_default();
    host.starts_with(b"[") && bracketed(first).is_none()
}

/// Returns the host of `[ADDRESS]:` or `USER@[ADDRESS]:` without brackets, and the offset of the
/// path.
fn bracketed(first: &[u8]) -> Option<(Vec<u8>, usize)> {
    let open = first.iter().position(|&byte| byte == b'[')?;
    let close = open + first[open..].windows(2).position(|two| two == b"]:")?;
    let user = &first[..open];
    let is_address = first[open + 1..close].contains(&b':');
    (is_address && (user.is_empty() || user.ends_with(b"@") && !user.contains(&b':')))
        .then(|| ([user, &first[open + 1..close]].concat(), close + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_bracket_is_not_an_rsync_module() {
        for text in ["[::1:x", "me@[fe80::1%eth0:x", "[::1]x", "[::1]"] {
            let error = Endpoint::parse(OsStr::new(text)).expect_err(text);
            assert!(matches!(error, EndpointError::InvalidBrackets { .. }), "{text}: {error}");
        }
        for local in ["[a]", "[a]/b:c", "./[::1:x"] {
            assert_eq!(Endpoint::parse(OsStr::new(local)).expect(local).host, None);
        }
        let module = Endpoint::parse(OsStr::new("h::[x")).expect_err("a module");
        assert!(matches!(module, EndpointError::RsyncModule { .. }), "{module}");
    }

    #[test]
    fn parses_hosts_daemons_and_local_paths() {
        let end = |text: &str| {
            let end = Endpoint::parse(OsStr::new(text)).ok()?;
            Some((end.host.map(|host| host.display_name()), String::from_utf8(end.path).ok()?))
        };
        assert_eq!(end("a/b:c"), Some((None, "a/b:c".into())));
        assert_eq!(end("./b:c"), Some((None, "./b:c".into())));
        assert_eq!(end("h:b"), Some((Some("h".into()), "b".into())));
        assert_eq!(end("u@h:"), Some((Some("u@h".into()), ".".into())));
        assert_eq!(end("[fd09::1]:b/c"), Some((Some("fd09::1".into()), "b/c".into())));
        assert_eq!(end("u@[fe80::1%eth0]:"), Some((Some("u@fe80::1%eth0".into()), ".".into())));
        assert_eq!(end("a[b:c]:d"), Some((Some("a[b".into()), "c]:d".into())));
        for home in ["h:~", "h:~/", "h:~//"] {
            assert_eq!(end(home), Some((Some("h".into()), ".".into())));
        }
        assert_eq!(end("h:~//a/b"), Some((Some("h".into()), "a/b".into())));
        assert_eq!(end("h:./~"), Some((Some("h".into()), "./~".into())));
        assert_eq!(end("numaio://h/r/a"), Some((Some("h:6862".into()), "a".into())));
        assert_eq!(end("h://a"), Some((Some("h".into()), "//a".into())));
        assert_eq!(end("http:a"), Some((Some("http".into()), "a".into())));
        assert_eq!(end("numaio:a"), Some((Some("numaio".into()), "a".into())));
        assert_eq!(end("./numaio://h/r"), Some((None, "./numaio://h/r".into())));
        for bad in [
            "",
            "http://h/a",
            "rsync://h/m",
            "numaio://",
            "numaio://h",
            ":a",
            "-oProxyCommand=x:a",
            "h::m",
            "a b:c",
            "h:~u/a",
            "[-o::]:a",
            "[::1:a",
            "u@[::1:a",
            "[::1]a",
            "[h]:a",
        ] {
            assert_eq!(end(bad), None, "{bad}");
        }
    }
}
