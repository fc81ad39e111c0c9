//! numaio for a host that has none: this program, copied there through ssh.

use super::first_reply::{interrupted_before_reply, run_interruptible};
use super::CopyArgs;
use crate::failure::Failure;
use crate::output::harmless;
use crate::ssh::{self, ManagedProcess};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::time::Duration;

/// How long the other side may take to end when we are done.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most that is read of what the other side answers.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// Before every line that is an answer: what a shell prints when it begins is none.
const OUTPUT_MARK: &str = "@numaio ";

/// Tells what is there: $1 is the numaio that is looked for, $2 the name of our copy. Neither script has a single quote, so
/// that any shell hands it on to sh.
const PROBE_SCRIPT: &str = "f=$HOME/.cache/numaio/$2; echo \"@numaio system $(uname -s) $(uname -m)\"; \
    command -v \"$1\" >/dev/null 2>&1 && echo \"@numaio there\"; \
    sum() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || openssl dgst -sha256 -r; }; \
    [ -x \"$f\" ] && s=$(sum <\"$f\") && echo \"@numaio sum ${s%% *}\"; echo \"@numaio file $f\"";

/// Takes the program from standard input: $1 is the name of our copy, $2 its hash. It gets its name when it is whole, and
/// has run.
const INSTALL_SCRIPT: &str = "umask 077; d=$HOME/.cache/numaio; f=$d/$1; t=$d/.$1.$$; \
    fail() { echo \"@numaio failed $1\"; rm -f \"$t\"; exit 1; }; \
    sum() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || openssl dgst -sha256 -r; }; \
    mkdir -p \"$d\" && chmod 700 \"$d\" || fail \"make the folder $d\"; \
    cat >\"$t\" || fail \"write $t\"; \
    s=$(sum <\"$t\"); [ \"${s%% *}\" = \"$2\" ] || fail \"hash it: it differs, or there is no sha256sum\"; \
    chmod 700 \"$t\" && \"$t\" --version >/dev/null || fail \"run it: $t\"; \
    mv -f \"$t\" \"$f\" || fail \"name it $f\"; echo \"@numaio ready\"";

/// The numaio to start on a host: the one that was named, or, if there is none and it was asked for, a copy of this program,
/// which is brought there first.
pub fn ensure_numaio(args: &CopyArgs, program: &OsStr, host: &str) -> Result<String, Failure> {
    if !args.bootstrap {
        return Ok(args.remote_numaio.clone());
    }
    let local = LocalProgram::read()?;
    let remote = probe(program, host, &args.remote_numaio, &local)?;
    if remote.has_numaio {
        return Ok(args.remote_numaio.clone());
    }
    let ours = format!("Linux {}", std::env::consts::ARCH);
    if remote.system != ours {
        let theirs = &remote.system;
        return Err(Failure::new(format!("{host} is {theirs}, and this numaio is for {ours}"))
            .hint("copy a numaio for it there, and name it by --remote-numaio"));
    }
    if remote.sum.as_deref() != Some(&local.sum) {
        install(program, host, &local)?;
    }
    Ok(remote.file)
}

/// Why no numaio answers, with what to do about it.
pub fn with_hint(failure: Failure, host: &str, status: Option<i32>) -> Failure {
    match status {
        Some(ssh::NOT_FOUND) => failure.hint(
            "there is no numaio there, or not on the PATH of an ssh session: --bootstrap copies this one there, \
             --remote-numaio names another one",
        ),
        _ => ssh::with_hint(failure, host, status, ""),
    }
}

/// This program.
struct LocalProgram {
    content: Vec<u8>,
    sum: String,
    /// Under which it is kept on other hosts: another build has another name.
    name: String,
}

impl LocalProgram {
    fn read() -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("this program cannot be read, to copy it: {error}"));
        let content = std::env::current_exe().and_then(std::fs::read).map_err(failed)?;
        let sum: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("numaio-{}-{}", env!("CARGO_PKG_VERSION"), &sum[..16]);
        Ok(Self { content, sum, name })
    }
}

/// What a host tells of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RemoteSystem {
    /// `Linux x86_64`, as uname(1) says.
    pub system: String,
    has_numaio: bool,
    /// Hash of our copy, if it is there.
    sum: Option<String>,
    /// Where our copy is, or would be.
    pub file: String,
}

impl RemoteSystem {
    /// None if the host did not answer all.
    pub fn parse(text: &str) -> Option<Self> {
        let mut remote = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix(OUTPUT_MARK)) {
            match line.split_once(' ') {
                Some(("system", system)) => remote.system = harmless(system),
                Some(("sum", sum)) => remote.sum = Some(sum.to_owned()),
                Some(("file", file)) => remote.file = file.to_owned(),
                _ => remote.has_numaio |= line == "there",
            }
        }
        (!remote.system.is_empty() && remote.file.starts_with('/')).then_some(remote)
    }
}

fn probe(program: &OsStr, host: &str, numaio: &str, local: &LocalProgram) -> Result<RemoteSystem, Failure> {
    let (text, status) = run_script(program, host, PROBE_SCRIPT, [numaio, &local.name], &[])?;
    RemoteSystem::parse(&text).ok_or_else(|| {
        let failure = Failure::new(format!("{host} does not tell what it is"));
        match status {
            Some(ssh::SSH_FAILED) => ssh::with_hint(failure, host, status, ""),
            _ => failure.hint("--bootstrap needs a shell there, and a home"),
        }
    })
}

fn install(program: &OsStr, host: &str, local: &LocalProgram) -> Result<(), Failure> {
    let (text, _) = run_script(program, host, INSTALL_SCRIPT, [&local.name, &local.sum], &local.content)?;
    let mut answers = text.lines().filter_map(|line| line.strip_prefix(OUTPUT_MARK));
    match answers.next() {
        Some("ready") => Ok(()),
        Some(failed) => {
            let what = harmless(failed.strip_prefix("failed ").unwrap_or(failed));
            let failure = Failure::new(format!("numaio was not copied to {host}: it could not {what}"));
            Err(match what.starts_with("run it") {
                true => failure
                    .hint("a static one runs everywhere (make static); a home may also be mounted noexec"),
                false => failure.hint("copy it by hand, and name it by --remote-numaio"),
            })
        }
        None => Err(Failure::new(format!("numaio was not copied to {host}: the connection ended"))),
    }
}

/// Runs a script on a host, gives it something to read, and tells what it printed and its exit status.
fn run_script(
    program: &OsStr,
    host: &str,
    script: &str,
    words: [&str; 2],
    input: &[u8],
) -> Result<(String, Option<i32>), Failure> {
    let words = ["sh", "-c", script, "sh", words[0], words[1]];
    let command = ssh::step_command(program, host, &ssh::joined(words.map(OsString::from)));
    let mut process = ManagedProcess::start(command, EXIT_TIMEOUT, ssh::missing_program_hint())?;
    let (to, from, input) = (process.stdin.take(), process.stdout.take(), input.to_vec());
    let answer = run_interruptible(Duration::MAX, move || {
        // Who does not take it says why.
        to.map(|mut to| to.write_all(&input));
        let mut answer = Vec::new();
        // What came before an error counts.
        from.map(|from| from.take(MAX_OUTPUT_BYTES).read_to_end(&mut answer));
        answer
    });
    let Some(answer) = answer else {
        process.terminate_on_drop();
        return Err(interrupted_before_reply(host));
    };
    Ok((String::from_utf8_lossy(&answer).into_owned(), process.status()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_among_what_shells_print() {
        let text = "Welcome!\n@numaio system Linux x86_64\n@numaio sum abc\n@numaio file /home/a/.cache/x\n";
        let remote = RemoteSystem::parse(text).expect("an answer");
        assert_eq!((remote.system.as_str(), remote.sum.as_deref()), ("Linux x86_64", Some("abc")));
        assert!(!remote.has_numaio && remote.file == "/home/a/.cache/x");
        assert!(
            RemoteSystem::parse(&text.replace("sum abc", "there")).is_some_and(|remote| remote.has_numaio)
        );
        assert_eq!(RemoteSystem::parse("This account is closed.\n"), None);
        let hostile = RemoteSystem::parse(&text.replace("Linux", "\u{1b}[2JLinux")).expect("an answer");
        assert_eq!(hostile.system, "\u{fffd}[2JLinux x86_64", "a terminal obeys none of it");
    }

    #[test]
    fn scripts_go_through_any_shell() {
        assert!([PROBE_SCRIPT, INSTALL_SCRIPT].iter().all(|script| !script.contains(['\'', '!', '\n'])));
    }
}
