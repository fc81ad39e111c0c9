//! numaio on another host, started by the system's ssh: its configuration, agent and jump hosts come free.

pub mod stderr_relay;

use crate::failure::Failure;
use numaio_linux::child_group::ChildGroup;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use stderr_relay::StderrRelay;

/// Exit status of ssh itself.
pub const SSH_FAILED: i32 = 255;
/// Exit status of shells that found no such program.
pub const NOT_FOUND: i32 = 127;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The variable that names another program than ssh.
const PROGRAM_VARIABLE: &str = "NUMAIO_SSH";

/// The program that gets to other hosts, and options of it. `NUMAIO_SSH` names another one than ssh, as `RSYNC_RSH` does for rsync.
pub fn program() -> OsString {
    let other = std::env::var_os(PROGRAM_VARIABLE).filter(|other| !other.as_bytes().trim_ascii().is_empty());
    other.unwrap_or_else(|| "ssh".into())
}

/// That program with its options, which come after blanks; there are no quotes.
pub fn base_command(program: &OsStr) -> Command {
    let words = program.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut words = words.map(OsStr::from_bytes);
    let mut command = Command::new(words.next().unwrap_or("ssh".as_ref()));
    command.args(words);
    command
}

/// What to do if there is no such program.
pub fn missing_program_hint() -> &'static str {
    match std::env::var_os(PROGRAM_VARIABLE) {
        Some(_) => "NUMAIO_SSH names it: a program, and its options after blanks, without quotes",
        None => "it is Debian's openssh-client",
    }
}

/// The path of a program on another host, where no shell reads it: a session begins at home.
pub fn remote_path(typed: &str) -> Result<String, Infallible> {
    let below = typed.strip_prefix("~/").map(|path| format!("./{}", path.trim_start_matches('/')));
    Ok(below.unwrap_or_else(|| typed.to_owned()))
}

/// The numaio of another host with some arguments; `ssh` is the program that gets there.
pub fn numaio_command(ssh: impl AsRef<OsStr>, host: &str, numaio: &str, args: &[&str]) -> Command {
    let mut line = quoted(numaio.as_ref());
    for arg in args {
        line.push(" ");
        line.push(arg);
    }
    session_command(ssh, host, &line, AgentForwarding::Off)
}

/// Whether programs on the other host may use our ssh agent, and so go on to further hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentForwarding {
    Off,
    On,
}

/// A line for the shell of another host, which goes on as long as we do. A connection of ssh that is there is used (ssh_config(5),
/// `ControlPath`), and this one is for nobody else: it ends with us.
pub fn session_command(ssh: impl AsRef<OsStr>, host: &str, line: &OsStr, agent: AgentForwarding) -> Command {
    let mut command = base_command(ssh.as_ref());
    command.args(["-o", "ControlMaster=no"]);
    if agent == AgentForwarding::On {
        command.arg("-A");
    }
    with_host(command, host, line)
}

/// One that ends soon, and may leave a connection for the next one.
pub fn step_command(ssh: &OsStr, host: &str, line: &OsStr) -> Command {
    with_host(base_command(ssh), host, line)
}

fn with_host(mut ssh: Command, host: &str, line: &OsStr) -> Command {
    ssh.args(["-T", "-o", "ConnectTimeout=15", "--", host]).arg(line);
    ssh
}

/// A word that a shell takes as it is. Between quotes a backslash is one to sh, and not always to fish.
pub fn quoted(word: &OsStr) -> OsString {
    let mut bytes = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' | b'\\' => bytes.extend([b'\'', b'\\', *byte, b'\'']),
            byte => bytes.push(*byte),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}

/// Words as a line for a shell.
pub fn joined(words: impl IntoIterator<Item = OsString>) -> OsString {
    let words: Vec<OsString> = words.into_iter().map(|word| quoted(&word)).collect();
    words.join(OsStr::new(" "))
}

/// A numaio that we started, here or there. It is ended when this is dropped, if it does not end by itself once its
/// standard input does. Its words for people are passed on, those that were kept back when this is dropped.
pub struct ManagedProcess {
    group: ChildGroup,
    exit_timeout: Duration,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    stderr: Option<StderrRelay>,
}

impl ManagedProcess {
    /// Starts it; it has `exit_timeout` to end by itself.
    ///
    /// # Errors
    /// If the program cannot be started; `hint` says what to do about that.
    pub fn start(command: Command, exit_timeout: Duration, hint: &str) -> Result<Self, Failure> {
        Self::spawn(command, exit_timeout, hint, (None, false))
    }

    /// As [`begin`](Self::begin); its words are passed on as those of some host. Those of a quiet one are kept back until it is known
    /// whether they are needed.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn start_on(
        (host, quiet): (&str, bool),
        command: Command,
        exit_timeout: Duration,
        hint: &str,
    ) -> Result<Self, Failure> {
        Self::spawn(command, exit_timeout, hint, (Some(host.to_owned()), quiet))
    }

    /// Words that were kept back are not needed.
    pub fn discard_stderr(&mut self) {
        self.stderr = None;
    }

    fn spawn(
        mut command: Command,
        exit_timeout: Duration,
        hint: &str,
        (source, quiet): (Option<String>, bool),
    ) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is ours, and the other side ends when we say so.
        let mut group = ChildGroup::spawn(&mut command).map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            Failure::new(format!("cannot start {program}: {error}")).hint(hint)
        })?;
        let child = &mut group.child;
        let stderr = child.stderr.take().map(|from| StderrRelay::start(from, source, quiet));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { group, exit_timeout, stdin, stdout, stderr })
    }

    /// Its exit status, if it ends soon.
    pub fn status(&mut self) -> Option<i32> {
        self.stdin = None;
        let began = Instant::now();
        while began.elapsed() < self.exit_timeout {
            if let Ok(Some(status)) = self.group.ended() {
                self.drain_stderr();
                return status.code();
            }
            thread::sleep(POLL_INTERVAL);
        }
        None
    }

    /// Waits for its last words; it has ended.
    fn drain_stderr(&self) {
        if let Some(words) = &self.stderr {
            words.wait();
        }
    }

    /// It is ended as soon as this is dropped.
    pub fn terminate_on_drop(&mut self) {
        self.exit_timeout = Duration::ZERO;
    }
}

impl Drop for ManagedProcess {
    fn drop(&mut self) {
        // A connection that hangs is ended by us.
        let _ = self.status();
        drop(self.group.end());
        self.drain_stderr();
        if let Some(words) = self.stderr.take() {
            words.print_held();
        }
    }
}

/// Adds why what was started with some exit status does not answer; its own words stand on standard error. `instead`
/// goes on after "try ssh HOST true".
pub fn with_hint(failure: Failure, host: &str, status: Option<i32>, instead: &str) -> Failure {
    match status {
        Some(SSH_FAILED) => {
            let ssh = program();
            let ssh = ssh.to_string_lossy();
            failure.hint(format!("ssh could not get there: try {ssh} {host} true{instead}"))
        }
        Some(NOT_FOUND) => failure.hint(
            "there is no numaio there, or not on the PATH of an ssh session: copy it, and name it by --remote-numaio",
        ),
        Some(status @ 1..) => failure.hint(format!(
            "what was started there ended with status {status}; if it is an older numaio, use the same one at both ends"
        )),
        _ => failure.hint("the numaio there may be older: use the same one at both ends"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_program_come_after_blanks() {
        let words = |program: &str| {
            let command = session_command(program, "h", "numaio".as_ref(), AgentForwarding::Off);
            let args = command.get_args().map(OsStr::to_os_string).collect::<Vec<_>>();
            [vec![command.get_program().to_os_string()], args].concat().join(OsStr::new(" "))
        };
        let rest = "-o ControlMaster=no -T -o ConnectTimeout=15 -- h numaio";
        assert_eq!(words("ssh"), *format!("ssh {rest}"));
        assert_eq!(words(" /bin/ssh  -p\t2222 "), *format!("/bin/ssh -p 2222 {rest}"));
        assert_eq!(words(" "), *format!("ssh {rest}"));
    }

    #[test]
    fn a_path_there_begins_at_home() {
        let cases = [("~/bin/numaio", "./bin/numaio"), ("~//n", "./n"), ("numaio", "numaio"), ("/n", "/n")];
        for (typed, wanted) in cases {
            assert_eq!(remote_path(typed).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn a_shell_takes_every_word_as_it_is() {
        let words = ["a b", "it's", "$HOME `x` \\ \"", "", "*", r"a\\b", r"\'", r"ends\"].map(OsString::from);
        let mut line = OsString::from("printf '%s\\n' ");
        line.push(joined(words.clone()));
        let wanted = words.join(OsStr::new("\n"));
        let printed = |shell| Command::new(shell).arg("-c").arg(&line).output().map(|output| output.stdout);
        let sh = printed("sh").expect("a shell");
        assert_eq!(sh.strip_suffix(b"\n"), Some(wanted.as_bytes()));
        // Few have it.
        let fish = printed("fish").unwrap_or_else(|_| sh.clone());
        assert_eq!(fish, sh);
    }
}
