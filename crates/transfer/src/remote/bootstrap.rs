//! `--bootstrap`: copies this program through ssh to a host without numaio.

use crate::line::sanitize;
use crate::remote::peer_wait::PeerWait;
use crate::reporter::{Notice, Observation, Observer, Reporter};
use crate::ssh::stderr_relay::LineSink;
use crate::ssh::{self, ManagedProcess};
use crate::transfer::RemoteOptions;
use crate::TransferError;
use flate2::write::GzEncoder;
use flate2::Compression;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::time::Duration;

/// How long the remote process may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum output of a script that is read.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// Prefix of the scripts' output lines, which separates them from output of the login shell.
const OUTPUT_MARK: &str = "@numaio ";

/// Probes the host: $1 is the path of numaio, $2 the name of this program's copy.
///
/// The scripts contain no single quotes, so that any login shell passes them to sh.
const PROBE_SCRIPT: &str = "f=$HOME/.cache/numaio/$2; echo \"@numaio system $(uname -s) $(uname -m)\"; \
    command -v \"$1\" >/dev/null 2>&1 && echo \"@numaio there\"; \
    command -v gzip >/dev/null 2>&1 && echo \"@numaio gzip\"; \
    sum() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || openssl dgst -sha256 -r; }; \
    [ -x \"$f\" ] && s=$(sum <\"$f\") && echo \"@numaio sum ${s%% *}\"; echo \"@numaio file $f\"";

/// Installs the program from stdin: $1 is the name of the copy, $2 its hash, $3 the command that
/// unpacks it. The copy gets its name once it has run.
const INSTALL_SCRIPT: &str = "umask 077; d=$HOME/.cache/numaio; f=$d/$1; t=$d/.$1.$$; \
    fail() { echo \"@numaio failed $1\"; rm -f \"$t\"; exit 1; }; \
    sum() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || openssl dgst -sha256 -r; }; \
    mkdir -p \"$d\" && chmod 700 \"$d\" || fail \"make the folder $d\"; \
    $3 >\"$t\" || fail \"write $t\"; \
    s=$(sum <\"$t\"); [ \"${s%% *}\" = \"$2\" ] || fail \"hash it: it differs, or there is no sha256sum\"; \
    chmod 700 \"$t\" && \"$t\" --version >/dev/null || fail \"run it: $t\"; \
    mv -f \"$t\" \"$f\" || fail \"name it $f\"; echo \"@numaio ready\"";

/// Returns the command that starts numaio on a host; with `--bootstrap`, copies this program there
/// if the command's program is missing.
pub fn ensure_numaio(
    options: &RemoteOptions,
    program: &OsStr,
    wait: PeerWait<'_, '_>,
) -> Result<String, TransferError> {
    if !options.bootstrap {
        return Ok(options.numaio.clone());
    }
    let local = LocalProgram::read()?;
    let host = wait.host;
    let mut shell = RemoteShell { program, wait, stderr: &options.stderr };
    let command = options.numaio.split(' ').next().unwrap_or_default();
    let remote = shell.probe(command, &local)?;
    if remote.has_numaio {
        return Ok(options.numaio.clone());
    }
    let ours = format!("Linux {}", std::env::consts::ARCH);
    if remote.system != ours {
        return Err(TransferError::OtherSystem { host: host.to_owned(), theirs: remote.system, ours });
    }
    if remote.sum.as_deref() != Some(&local.sum) {
        shell.install(&local, remote.has_gzip)?;
    }
    Ok(remote.file)
}

/// Copies this program to a host, if that of the command is missing there; returns the command with
/// the copy's path. The program is the last word, as in `env A=1 numaio`. A long wait is reported
/// to `notify`.
///
/// # Errors
/// [`TransferError`]: the host does not answer, or cannot run this program.
pub fn bootstrapped_command(
    host: &str,
    command: &str,
    (stderr, limit): (LineSink, Option<Duration>),
    notify: &mut dyn FnMut(&Notice),
) -> Result<String, TransferError> {
    let (prefix, numaio) = split_program(command);
    let options = RemoteOptions {
        numaio: numaio.to_owned(),
        bootstrap: true,
        forward_agent: false,
        options: Vec::new(),
        local_files: Vec::new(),
        stderr,
    };
    let mut observer = NoticeObserver(notify);
    let mut reporter = Reporter::new(&mut observer, false);
    let wait = PeerWait { reporter: &mut reporter, host, limit };
    let found = ensure_numaio(&options, &ssh::program(), wait)?;
    Ok(format!("{prefix}{found}"))
}

/// Splits a command before its last word.
fn split_program(command: &str) -> (&str, &str) {
    command.split_at(command.rfind(' ').map_or(0, |blank| blank + 1))
}

/// An observer of notices alone: there is no transfer.
struct NoticeObserver<'a>(&'a mut dyn FnMut(&Notice));

impl Observer for NoticeObserver<'_> {
    fn observe(&mut self, observation: Observation<'_>) {
        if let Observation::Notice(notice) = observation {
            (self.0)(notice);
        }
    }
}

/// Runs scripts on a host.
struct RemoteShell<'a, 'b> {
    program: &'a OsStr,
    wait: PeerWait<'a, 'b>,
    stderr: &'a LineSink,
}

/// This program's file.
struct LocalProgram {
    content: Vec<u8>,
    sum: String,
    /// Name on other hosts, which differs for each build.
    name: String,
}

impl LocalProgram {
    fn read() -> Result<Self, TransferError> {
        let content = std::env::current_exe().and_then(std::fs::read);
        let content = content.map_err(TransferError::CannotReadProgram)?;
        let sum: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("numaio-{}-{}", env!("CARGO_PKG_VERSION"), &sum[..16]);
        Ok(Self { content, sum, name })
    }

    /// Returns the sent bytes, and the command that unpacks them.
    ///
    /// ssh itself would not compress it on a shared connection that is not compressed.
    fn packed(&self, has_gzip: bool) -> (Cow<'_, [u8]>, &'static str) {
        let gzip = || {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&self.content).and_then(|()| gzip.finish()).ok()
        };
        match has_gzip.then(gzip).flatten() {
            Some(packed) => (packed.into(), "gzip -dc"),
            None => (Cow::Borrowed(&self.content), "cat"),
        }
    }
}

/// Description of a remote host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RemoteSystem {
    /// System and architecture as uname(1) reports them, for example `Linux x86_64`.
    pub system: String,
    has_numaio: bool,
    has_gzip: bool,
    /// Hash of this program's copy, if it exists.
    sum: Option<String>,
    /// Path of this program's copy.
    pub file: String,
}

impl RemoteSystem {
    /// Parses the output of the probe; `None` if it is incomplete.
    pub fn parse(text: &str) -> Option<Self> {
        let mut remote = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix(OUTPUT_MARK)) {
            match line.split_once(' ') {
                Some(("system", system)) => remote.system = sanitize(system),
                Some(("sum", sum)) => remote.sum = Some(sum.to_owned()),
                Some(("file", file)) => remote.file = file.to_owned(),
                _ => {
                    remote.has_numaio |= line == "there";
                    remote.has_gzip |= line == "gzip";
                }
            }
        }
        (!remote.system.is_empty() && remote.file.starts_with('/')).then_some(remote)
    }
}

impl RemoteShell<'_, '_> {
    fn probe(&mut self, numaio: &str, local: &LocalProgram) -> Result<RemoteSystem, TransferError> {
        let (text, status) = self.run_script(PROBE_SCRIPT, &[numaio, &local.name], &[])?;
        let unidentified = || TransferError::UnidentifiedSystem { host: self.wait.host.to_owned(), status };
        RemoteSystem::parse(&text).ok_or_else(unidentified)
    }

    fn install(&mut self, local: &LocalProgram, has_gzip: bool) -> Result<(), TransferError> {
        let (input, unpack) = local.packed(has_gzip);
        let (text, _) = self.run_script(INSTALL_SCRIPT, &[&local.name, &local.sum, unpack], &input)?;
        let mut answers = text.lines().filter_map(|line| line.strip_prefix(OUTPUT_MARK));
        match answers.next() {
            Some("ready") => Ok(()),
            Some(failed) => {
                let what = sanitize(failed.strip_prefix("failed ").unwrap_or(failed));
                Err(TransferError::CannotInstall { host: self.wait.host.to_owned(), what })
            }
            None => Err(TransferError::InstallInterrupted { host: self.wait.host.to_owned() }),
        }
    }

    /// Runs a script on a host with input, and returns its output and exit status.
    fn run_script(
        &mut self,
        script: &str,
        words: &[&str],
        input: &[u8],
    ) -> Result<(String, Option<i32>), TransferError> {
        let words = [&["sh", "-c", script, "sh"], words].concat();
        let line = ssh::joined(words.into_iter().map(OsString::from));
        let command = ssh::step_command(self.program, self.wait.host, &line);
        let mut process = ManagedProcess::start(command, EXIT_TIMEOUT, self.stderr.clone())?;
        let (to, from, input) = (process.stdin.take(), process.stdout.take(), input.to_vec());
        let answer = self.wait.run(move |progress| {
            // A process that does not read its input reports the reason itself.
            to.map(|mut to| progress.write_all(&mut to, &input));
            let mut answer = Vec::new();
            // The output before an error is valid.
            from.map(|from| from.take(MAX_OUTPUT_BYTES).read_to_end(&mut answer));
            answer
        });
        let answer = answer.map_err(|failure| {
            process.terminate_on_drop();
            failure.error(self.wait.host)
        })?;
        Ok((String::from_utf8_lossy(&answer).into_owned(), process.status()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_script_output_among_shell_output() {
        let text = "Welcome!\n@numaio system Linux x86_64\n@numaio sum abc\n@numaio file /home/a/.cache/x\n";
        let remote = RemoteSystem::parse(text).expect("a description");
        assert_eq!((remote.system.as_str(), remote.sum.as_deref()), ("Linux x86_64", Some("abc")));
        assert!(!remote.has_numaio && remote.file == "/home/a/.cache/x");
        assert!(
            RemoteSystem::parse(&text.replace("sum abc", "there")).is_some_and(|remote| remote.has_numaio)
        );
        assert_eq!(RemoteSystem::parse("This account is closed.\n"), None);
        let hostile = RemoteSystem::parse(&text.replace("Linux", "\u{1b}[2JLinux")).expect("a description");
        assert_eq!(hostile.system, "\u{fffd}[2JLinux x86_64", "control characters are replaced");
    }

    #[test]
    fn words_before_the_program_are_kept() {
        assert_eq!(split_program("env TOKEN=1 numaio"), ("env TOKEN=1 ", "numaio"));
        assert_eq!(split_program("numaio"), ("", "numaio"));
    }

    #[test]
    fn scripts_pass_through_any_login_shell() {
        assert!([PROBE_SCRIPT, INSTALL_SCRIPT].iter().all(|script| !script.contains(['\'', '!', '\n'])));
    }
}
