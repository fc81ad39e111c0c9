//! Accounts of directory services (SSSD, LDAP, winbind) for a static binary, whose C library reads
//! only the files in `/etc`: the system's getent(1) as a child.

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Maximum wait for an answer; a directory server may be unreachable.
const ANSWER_LIMIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Maximum bytes of an answer: a group may have very many members.
const MAX_ANSWER: usize = 16 << 20;
/// Services of nsswitch.conf that need no child: the C library reads the files, and systemd's
/// accounts are temporary ones of services.
const LOCAL_SERVICES: [&str; 3] = ["files", "compat", "systemd"];
/// Answers each request, `DATABASE KEY`, with one line, empty if there is no such entry.
const ANSWER_LOOP: &str = r#"while read -r database key; do
    printf '%s\n' "$(getent "$database" "$key" 2>/dev/null | head -n 1)"
done"#;

/// A database of getent(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// Users.
    Passwd,
    /// Groups.
    Group,
}

/// A shell that answers requests until its input is closed, which the end of this process does.
struct NameService {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

/// The service of this process: `None` if it is not needed, or has failed.
static SERVICE: OnceLock<Mutex<Option<NameService>>> = OnceLock::new();

/// Starts the child if this binary is static and the system has accounts of other services. Call it
/// before this process is confined: the child reaches what a confined process cannot.
pub fn start() {
    SERVICE.get_or_init(|| {
        let configuration = std::fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
        let is_needed = cfg!(target_feature = "crt-static") && has_directory_service(&configuration);
        Mutex::new(is_needed.then(|| NameService::start("sh")).flatten())
    });
}

/// Returns name and id of an entry by name or by id.
pub fn entry(database: Database, key: &[u8]) -> Option<(Vec<u8>, u32)> {
    start();
    let mut service = SERVICE.get()?.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = service.as_mut()?.ask(database, key);
    if answer.is_none() {
        *service = None;
    }
    parse_entry(&answer?)
}

/// Whether users or groups come from other services than the files of this machine.
fn has_directory_service(configuration: &str) -> bool {
    let services = configuration.lines().filter_map(|line| {
        let (database, services) = line.split('#').next()?.split_once(':')?;
        ["passwd", "group"].contains(&database.trim()).then_some(services)
    });
    // Actions such as [NOTFOUND=return] are no services.
    let mut names = services.flat_map(str::split_whitespace).filter(|name| !name.starts_with('['));
    names.any(|name| !LOCAL_SERVICES.contains(&name))
}

/// Parses `name:password:id:...`.
fn parse_entry(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut fields = line.split(|byte| *byte == b':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let id = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    Some((name.to_vec(), id))
}

impl NameService {
    fn start(shell: &str) -> Option<Self> {
        let mut command = Command::new(shell);
        command.args(["-c", ANSWER_LOOP]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let (to, from) = (child.stdin.take()?, child.stdout.take()?);
        Some(Self { child, to, from })
    }

    /// Returns the line of an entry, empty if there is none; `None` if the child does not answer.
    fn ask(&mut self, database: Database, key: &[u8]) -> Option<Vec<u8>> {
        // A line per request; getent takes a leading hyphen for an option.
        if key.is_empty() || key[0] == b'-' || key.iter().any(|byte| byte.is_ascii_control() || *byte == b' ')
        {
            return Some(Vec::new());
        }
        let name: &[u8] = match database {
            Database::Passwd => b"passwd ",
            Database::Group => b"group ",
        };
        self.to.write_all(&[name, key, b"\n"].concat()).ok()?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while answer.last() != Some(&b'\n') {
            let mut ready = [PollFd::new(&self.from, PollFlags::IN)];
            let is_ready = poll(&mut ready, Some(&ANSWER_LIMIT)).is_ok_and(|count| count > 0);
            let count = if is_ready { self.from.read(&mut buffer).ok()? } else { 0 };
            if count == 0 || answer.len() > MAX_ANSWER {
                return None;
            }
            answer.extend_from_slice(&buffer[..count]);
        }
        answer.pop();
        Some(answer)
    }
}

impl Drop for NameService {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_directory_services_need_a_child() {
        for local in [
            "",
            "passwd: files systemd\ngroup: files",
            "passwd: compat [NOTFOUND=return] # sss",
            "hosts: dns",
        ] {
            assert!(!has_directory_service(local), "{local}");
        }
        for remote in ["passwd: files sss", "passwd: files\ngroup: files ldap", "passwd:winbind"] {
            assert!(has_directory_service(remote), "{remote}");
        }
    }

    #[test]
    fn entries_are_asked_by_name_and_id() {
        let folder = std::env::temp_dir().join(format!("numaio-getent-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let getent = folder.join("getent");
        let script = "#!/bin/sh\ncase \"$1 $2\" in\n'passwd ada'|'passwd 70001') echo 'ada:*:70001:70001::/:/bin/sh';;\n\
                      'group staff') echo 'staff:*:70002:ada,bob';;\n'passwd dies') kill $PPID;;\n*) exit 2;;\nesac\n";
        fs::write(&getent, script).expect("a script");
        fs::set_permissions(&getent, fs::Permissions::from_mode(0o755)).expect("executable");
        let shell = folder.join("sh");
        let start = format!("#!/bin/sh\nPATH={}:$PATH exec /bin/sh \"$@\"\n", folder.display());
        fs::write(&shell, start).expect("a script");
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("executable");
        let mut service = NameService::start(&shell.display().to_string()).expect("a child");
        let mut ask = |database, key: &[u8]| service.ask(database, key);
        let ada = Some((b"ada".to_vec(), 70_001));
        assert_eq!(parse_entry(&ask(Database::Passwd, b"ada").expect("an answer")), ada);
        assert_eq!(parse_entry(&ask(Database::Passwd, b"70001").expect("an answer")), ada);
        let staff = ask(Database::Group, b"staff").expect("an answer");
        assert_eq!(parse_entry(&staff), Some((b"staff".to_vec(), 70_002)));
        for absent in [&b"absent"[..], b"", b"-x", b"a b", b"a\nb"] {
            assert_eq!(ask(Database::Passwd, absent), Some(Vec::new()), "{absent:?}");
        }
        drop(service);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn malformed_entries_are_no_accounts() {
        for wrong in [&b""[..], b"ada", b"ada:x", b"ada:x:y", b":x:1", b"ada:x:-1", b"ada:x:4294967296"] {
            assert_eq!(parse_entry(wrong), None, "{wrong:?}");
        }
    }
}
