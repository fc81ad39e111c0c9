//! The address of a daemon: `numaio://[USER@]HOST[:PORT]/ROOT/PATH`.

use std::fmt;

/// The default port of daemons: NUMA on a telephone keypad.
pub const DEFAULT_PORT: u16 = 6862;

/// Prefix of an address.
pub const SCHEME: &[u8] = b"numaio://";

/// The address of a daemon's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonAddress {
    /// The claimed user; the key decides.
    pub user: Option<String>,
    /// A host name, or an address without the brackets of IPv6.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Name of the root.
    pub root: String,
}

impl DaemonAddress {
    /// Parses the text after the scheme to an address and a path below the root.
    ///
    /// # Errors
    /// Why the address is invalid.
    pub fn parse(text: &[u8]) -> Result<(Self, Vec<u8>), &'static str> {
        let (authority, rest) = split(text, b'/').ok_or("it names no root")?;
        let (root, path) = split(rest, b'/').unwrap_or((rest, b""));
        let word = |bytes: &[u8]| {
            let word = std::str::from_utf8(bytes).ok()?;
            let is_plain = !word.is_empty() && !word.chars().any(|c| c.is_control() || c.is_whitespace());
            is_plain.then(|| word.to_owned())
        };
        let root = word(root).ok_or("it names no root")?;
        let authority = word(authority).ok_or("it names no host")?;
        let (user, place) = match authority.rsplit_once('@') {
            Some(("", _)) => return Err("it names no user before @"),
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, authority.as_str()),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(place) => place.split_once(']').ok_or("a bracket is missing")?,
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => DEFAULT_PORT,
            digits => digits
                .and_then(|digits| digits.parse().ok())
                .filter(|port| *port > 0)
                .ok_or("a port is a number from 1 to 65535")?,
        };
        // Brackets are valid only around IPv6 addresses; # begins a comment in the list of known
        // daemons.
        if host.is_empty() || host.contains(['[', ']']) || host.starts_with('#') {
            return Err("it names no host");
        }
        // Host names ignore case (RFC 4343) but musl's lookup in /etc/hosts does not; interface
        // names are case-sensitive.
        let host = match host.split_once('%') {
            Some((address, interface)) => format!("{}%{interface}", address.to_ascii_lowercase()),
            None => host.to_ascii_lowercase(),
        };
        let begin = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
        let path = if begin == path.len() { b"." } else { &path[begin..] };
        Ok((Self { user, host, port, root }, path.to_vec()))
    }

    /// Returns HOST:PORT, under which the list of known daemons has its key.
    pub fn host_port(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for DaemonAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        write!(f, "numaio://{user}{}/{}/", self.host_port(), self.root)
    }
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let found = text.iter().position(|&byte| byte == at)?;
    Some((&text[..found], &text[found + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses_and_formats_them_canonically() {
        let parsed = |text: &str| {
            let (address, path) = DaemonAddress::parse(text.as_bytes()).ok()?;
            Some((address.to_string(), String::from_utf8(path).ok()?))
        };
        for (text, address, path) in [
            ("h/r", "h:6862/r/", "."),
            ("h/r/", "h:6862/r/", "."),
            ("Host.Example/R", "host.example:6862/R/", "."),
            ("[FE80::1%Eth0]/r", "[fe80::1%Eth0]:6862/r/", "."),
            ("me@h:70/r//a/b/", "me@h:70/r/", "a/b/"),
            ("a@b@[::1]:7/r/../x", "a@b@[::1]:7/r/", "../x"),
            ("[2001:db8::1]/r/a b", "[2001:db8::1]:6862/r/", "a b"),
        ] {
            let wanted = (format!("numaio://{address}"), path.to_owned());
            assert_eq!(parsed(text), Some(wanted.clone()), "{text}");
            let again = format!("{}{}", &wanted.0[SCHEME.len()..], wanted.1);
            assert_eq!(parsed(&again), Some(wanted), "{text}");
        }
        for bad in [
            "",
            "h",
            "h/",
            "/r",
            "h//p",
            "@h/r",
            ":70/r",
            "h:0/r",
            "h:x/r",
            "h:/r",
            "[::1/r",
            "[::1]7/r",
            "a b/r",
            "#h/r",
            "me@[#h]/r",
            "[[h]/r",
            "a]b/r",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
