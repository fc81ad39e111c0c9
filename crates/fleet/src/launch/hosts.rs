//! Names of hosts: Slurm's node names and ssh's destinations.

/// Maximum length of a name in bytes: reports are files of this name.
const MAX_NAME_BYTES: usize = 200;
/// Maximum number of hosts of a run.
pub const MAX_HOSTS: usize = 200_000;

/// Checks a name of a host, which is also the name of a file and an argument of ssh.
///
/// # Errors
/// What is wrong.
pub fn check_host(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err("expected a name of 1 to 200 characters");
    }
    if name.starts_with(['-', '.']) {
        return Err("a name of a host does not start with '-' or '.'");
    }
    let is_bad = |c: char| !c.is_ascii_graphic() || c == '/';
    if name.contains(is_bad) {
        return Err("expected ASCII characters without blanks and '/'");
    }
    Ok(())
}

/// Parses a list of hosts: one on each line; `#` starts a comment. Duplicates are removed.
///
/// # Errors
/// What is wrong, with the number of the line.
pub fn parse_hosts(text: &str) -> Result<Vec<String>, String> {
    let mut hosts: Vec<String> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        check_host(name)
            .map_err(|why| format!("line {}: invalid host '{}': {why}", index + 1, name.escape_debug()))?;
        if known.insert(name) {
            hosts.push(name.to_owned());
        }
        if hosts.len() > MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} hosts"));
        }
    }
    match hosts.is_empty() {
        true => Err("it lists no hosts".to_owned()),
        false => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hosts_without_comments_and_duplicates() {
        let text = "# storage\nn1\n  root@n2.example # slow\r\n\nn1\nfe80::1%eth0\n";
        assert_eq!(parse_hosts(text).expect("hosts"), ["n1", "root@n2.example", "fe80::1%eth0"]);
    }

    #[test]
    fn rejects_names_that_are_options_or_paths() {
        for (text, why) in [
            ("n1\n-oProxyCommand=x", "line 2: invalid host '-oProxyCommand=x'"),
            ("../x", "invalid host '../x'"),
            ("a/b", "without blanks and '/'"),
            ("n1 n2", "without blanks"),
            ("\u{e9}", "expected ASCII"),
            ("# none\n", "it lists no hosts"),
        ] {
            let error = parse_hosts(text).expect_err("an error");
            assert!(error.contains(why), "{error}");
        }
    }
}
