//! Command lines that start numaio on another host by the system's ssh, with the user's
//! configuration, agent and jump hosts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

/// Exit status of ssh itself.
pub const SSH_FAILED: i32 = 255;
/// Exit status of shells that found no such program.
pub const NOT_FOUND: i32 = 127;

/// Environment variable that names another program than ssh.
pub const PROGRAM_VARIABLE: &str = "NUMAIO_SSH";

/// Returns the ssh program with its options. `NUMAIO_SSH` names another one, as `RSYNC_RSH` does
/// for rsync.
pub fn program() -> OsString {
    let other = std::env::var_os(PROGRAM_VARIABLE).filter(|other| !other.as_bytes().trim_ascii().is_empty());
    other.unwrap_or_else(|| "ssh".into())
}

/// Returns the command of the program with its options, which have quotes as in a shell. A word
/// whose quote is not closed is left out: callers check with [`check_program`].
pub fn base_command(program: &OsStr) -> Command {
    let words: Vec<Vec<u8>> = shlex::bytes::Shlex::new(program.as_bytes()).collect();
    let mut words = words.iter().map(|word| OsStr::from_bytes(word));
    let mut command = Command::new(words.next().unwrap_or("ssh".as_ref()));
    command.args(words);
    command
}

/// Checks the text of a program with its options.
///
/// # Errors
/// There is no word, or a quote is not closed.
pub fn check_program(text: &str) -> Result<(), String> {
    match shlex::split(text).as_deref() {
        None => Err("a quote is not closed".to_owned()),
        Some([]) => Err("expected a program".to_owned()),
        Some(_) => Ok(()),
    }
}

/// Parses the command that starts numaio on another host: words separated by blanks. No shell
/// expands `~` there: sessions start in the home directory.
///
/// # Errors
/// There are no words.
pub fn remote_command(typed: &str) -> Result<String, String> {
    let word = |word: &str| match word.strip_prefix("~/") {
        Some(path) => format!("./{}", path.trim_start_matches('/')),
        None => word.to_owned(),
    };
    let words: Vec<String> = typed.split_ascii_whitespace().map(word).collect();
    match words.is_empty() {
        true => Err("expected a path, or a command such as 'sudo numaio'".to_owned()),
        false => Ok(words.join(" ")),
    }
}

/// Returns the words of a command for another host.
pub fn command_words(command: &str) -> impl Iterator<Item = OsString> + '_ {
    command.split_ascii_whitespace().map(OsString::from)
}

/// Returns the command that runs numaio with arguments on another host; `ssh` is the ssh program.
pub fn numaio_command(ssh: impl AsRef<OsStr>, host: &str, numaio: &str, args: &[&str]) -> Command {
    let mut line = joined(command_words(numaio));
    for arg in args {
        line.push(" ");
        line.push(arg);
    }
    session_command(ssh, host, &line, AgentForwarding::Off)
}

/// Options of a command that does not create a shared connection.
const NO_MASTER: [&str; 2] = ["-o", "ControlMaster=no"];

/// Whether programs on the other host may use the local ssh agent to connect to further hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentForwarding {
    /// They have no access to it.
    Off,
    /// They may use it.
    On,
}

/// Returns a command that runs a shell line on another host for the duration of this process.
///
/// It may use an existing shared connection (ssh_config(5), `ControlPath`), but does not create
/// one.
pub fn session_command(ssh: impl AsRef<OsStr>, host: &str, line: &OsStr, agent: AgentForwarding) -> Command {
    let mut command = base_command(ssh.as_ref());
    command.args(NO_MASTER);
    if agent == AgentForwarding::On {
        command.arg("-A");
    }
    with_host(command, host, line)
}

/// As [`session_command`] without agent, for a host among many: prompts fail, and a
/// connection that is lost ends within a minute.
pub fn unattended_command(ssh: impl AsRef<OsStr>, host: &str, line: &OsStr) -> Command {
    let mut command = base_command(ssh.as_ref());
    command.args(NO_MASTER).args(["-o", "BatchMode=yes"]);
    command.args(["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]);
    with_host(command, host, line)
}

/// Returns a short command that may leave a shared connection for the next one.
pub fn step_command(ssh: &OsStr, host: &str, line: &OsStr) -> Command {
    with_host(base_command(ssh), host, line)
}

fn with_host(mut ssh: Command, host: &str, line: &OsStr) -> Command {
    ssh.args(["-T", "-o", "ConnectTimeout=15", "--", host]).arg(line);
    ssh
}

/// Quotes an argument for a shell. In single quotes, fish treats a backslash differently from sh.
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

/// Joins arguments to a line for a shell.
pub fn joined(words: impl IntoIterator<Item = OsString>) -> OsString {
    let words: Vec<OsString> = words.into_iter().map(|word| quoted(&word)).collect();
    words.join(OsStr::new(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_options_are_words_of_a_shell() {
        let words = |program: &str| {
            let command = session_command(program, "h", "numaio".as_ref(), AgentForwarding::Off);
            let args = command.get_args().map(OsStr::to_os_string).collect::<Vec<_>>();
            [vec![command.get_program().to_os_string()], args].concat().join(OsStr::new(" "))
        };
        let rest = "-o ControlMaster=no -T -o ConnectTimeout=15 -- h numaio";
        assert_eq!(words("ssh"), *format!("ssh {rest}"));
        assert_eq!(words(" /bin/ssh  -p\t2222 "), *format!("/bin/ssh -p 2222 {rest}"));
        assert_eq!(words(" "), *format!("ssh {rest}"));
        let proxy =
            session_command("ssh -o 'ProxyCommand=nc %h %p'", "h", "numaio".as_ref(), AgentForwarding::Off);
        let options: Vec<&OsStr> = proxy.get_args().take(2).collect();
        assert_eq!(options, ["-o", "ProxyCommand=nc %h %p"]);
        assert!(check_program("ssh -p 2222").is_ok());
        assert!(check_program("ssh 'x").is_err() && check_program(" ").is_err());
    }

    #[test]
    fn remote_command_starts_in_the_home_directory() {
        let cases = [
            ("~/bin/numaio", "./bin/numaio"),
            ("~//n", "./n"),
            ("numaio", "numaio"),
            ("/n", "/n"),
            (" sudo  -u ~/x ~/numaio ", "sudo -u ./x ./numaio"),
        ];
        for (typed, wanted) in cases {
            assert_eq!(remote_command(typed).as_deref(), Ok(wanted));
        }
        assert!(remote_command(" ").is_err());
        let command = numaio_command("ssh", "h", "sudo n&m", &["peer"]);
        assert_eq!(command.get_args().last(), Some(OsStr::new("'sudo' 'n&m' peer")));
    }

    #[test]
    fn shells_pass_quoted_arguments_unchanged() {
        let words = ["a b", "it's", "$HOME `x` \\ \"", "", "*", r"a\\b", r"\'", r"ends\"].map(OsString::from);
        let mut line = OsString::from("printf '%s\\n' ");
        line.push(joined(words.clone()));
        let wanted = words.join(OsStr::new("\n"));
        let printed = |shell| Command::new(shell).arg("-c").arg(&line).output().map(|output| output.stdout);
        let sh = printed("sh").expect("a shell");
        assert_eq!(sh.strip_suffix(b"\n"), Some(wanted.as_bytes()));
        // fish is rarely installed.
        let fish = printed("fish").unwrap_or_else(|_| sh.clone());
        assert_eq!(fish, sh);
    }
}
