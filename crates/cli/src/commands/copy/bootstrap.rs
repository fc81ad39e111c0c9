//! numaio for a host that has none: this program, copied there through ssh.

use super::first::{cut_short, patiently};
use super::CopyArgs;
use crate::failure::Failure;
use crate::output::harmless;
use crate::ssh::{self, Started};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::time::Duration;

/// How long the other side may take to end when we are done.
const LAST: Duration = Duration::from_secs(10);
/// Most that is read of what the other side answers.
const LONGEST: u64 = 64 << 10;
/// Before every line that is an answer: what a shell prints when it begins is none.
const MARK: &str = "@numaio ";

/// Tells what is there: $1 is the numaio that is looked for, $2 the name of our copy. Neither script has a single quote, so
/// that any shell hands it on to sh.
const LOOK: &str = "f=$HOME/.cache/numaio/$2; echo \"@numaio system $(uname -s) $(uname -m)\"; \
    command -v \"$1\" >/dev/null 2>&1 && echo \"@numaio there\"; \
    sum() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || openssl dgst -sha256 -r; }; \
    [ -x \"$f\" ] && s=$(sum <\"$f\") && echo \"@numaio sum ${s%% *}\"; echo \"@numaio file $f\"";

/// Takes the program from standard input: $1 is the name of our copy, $2 its hash. It gets its name when it is whole, and
/// has run.
const TAKE: &str = "umask 077; d=$HOME/.cache/numaio; f=$d/$1; t=$d/.$1.$$; \
    fail() { echo \"@numaio failed $1\"; rm -f \"$t\"; exit 1; }; \
    sum() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || openssl dgst -sha256 -r; }; \
    mkdir -p \"$d\" && chmod 700 \"$d\" || fail \"make the folder $d\"; \
    cat >\"$t\" || fail \"write $t\"; \
    s=$(sum <\"$t\"); [ \"${s%% *}\" = \"$2\" ] || fail \"hash it: it differs, or there is no sha256sum\"; \
    chmod 700 \"$t\" && \"$t\" --version >/dev/null || fail \"run it: $t\"; \
    mv -f \"$t\" \"$f\" || fail \"name it $f\"; echo \"@numaio ready\"";

/// The numaio to start on a host: the one that was named, or, if there is none and it was asked for, a copy of this program,
/// which is brought there first.
pub fn numaio(args: &CopyArgs, program: &OsStr, host: &str) -> Result<String, Failure> {
    if !args.bootstrap {
        return Ok(args.remote_numaio.clone());
    }
    let own = Own::read()?;
    let there = look(program, host, &args.remote_numaio, &own)?;
    if there.has_numaio {
        return Ok(args.remote_numaio.clone());
    }
    let ours = format!("Linux {}", std::env::consts::ARCH);
    if there.system != ours {
        let theirs = &there.system;
        return Err(Failure::new(format!("{host} is {theirs}, and this numaio is for {ours}"))
            .hint("copy a numaio for it there, and name it by --remote-numaio"));
    }
    if there.sum.as_deref() != Some(&own.sum) {
        bring(program, host, &own)?;
    }
    Ok(there.file)
}

/// Why no numaio answers, with what to do about it.
pub fn hinted(failure: Failure, host: &str, status: Option<i32>) -> Failure {
    match status {
        Some(ssh::NOT_FOUND) => failure.hint(
            "there is no numaio there, or not on the PATH of an ssh session: --bootstrap copies this one there, \
             --remote-numaio names another one",
        ),
        _ => ssh::hinted(failure, host, status, ""),
    }
}

/// This program.
struct Own {
    content: Vec<u8>,
    sum: String,
    /// Under which it is kept on other hosts: another build has another name.
    name: String,
}

impl Own {
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
pub struct There {
    /// `Linux x86_64`, as uname(1) says.
    pub system: String,
    has_numaio: bool,
    /// Hash of our copy, if it is there.
    sum: Option<String>,
    /// Where our copy is, or would be.
    pub file: String,
}

impl There {
    /// None if the host did not answer all.
    pub fn parse(text: &str) -> Option<Self> {
        let mut there = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
            match line.split_once(' ') {
                Some(("system", system)) => there.system = harmless(system),
                Some(("sum", sum)) => there.sum = Some(sum.to_owned()),
                Some(("file", file)) => there.file = file.to_owned(),
                _ => there.has_numaio |= line == "there",
            }
        }
        (!there.system.is_empty() && there.file.starts_with('/')).then_some(there)
    }
}

fn look(program: &OsStr, host: &str, numaio: &str, own: &Own) -> Result<There, Failure> {
    let (text, status) = shell(program, host, LOOK, [numaio, &own.name], &[])?;
    There::parse(&text).ok_or_else(|| {
        let failure = Failure::new(format!("{host} does not tell what it is"));
        match status {
            Some(ssh::SSH_FAILED) => ssh::hinted(failure, host, status, ""),
            _ => failure.hint("--bootstrap needs a shell there, and a home"),
        }
    })
}

fn bring(program: &OsStr, host: &str, own: &Own) -> Result<(), Failure> {
    let (text, _) = shell(program, host, TAKE, [&own.name, &own.sum], &own.content)?;
    let mut answers = text.lines().filter_map(|line| line.strip_prefix(MARK));
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
fn shell(
    program: &OsStr,
    host: &str,
    script: &str,
    words: [&str; 2],
    input: &[u8],
) -> Result<(String, Option<i32>), Failure> {
    let words = ["sh", "-c", script, "sh", words[0], words[1]];
    let command = ssh::step(program, host, &ssh::joined(words.map(OsString::from)));
    let mut far = Started::begin(command, LAST, ssh::install())?;
    let (to, from, input) = (far.stdin.take(), far.stdout.take(), input.to_vec());
    let answer = patiently(Duration::MAX, move || {
        // Who does not take it says why.
        to.map(|mut to| to.write_all(&input));
        let mut answer = Vec::new();
        // What came before an error counts.
        from.map(|from| from.take(LONGEST).read_to_end(&mut answer));
        answer
    });
    let Some(answer) = answer else {
        far.hurry();
        return Err(cut_short(host));
    };
    Ok((String::from_utf8_lossy(&answer).into_owned(), far.status()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_among_what_shells_print() {
        let text = "Welcome!\n@numaio system Linux x86_64\n@numaio sum abc\n@numaio file /home/a/.cache/x\n";
        let there = There::parse(text).expect("an answer");
        assert_eq!((there.system.as_str(), there.sum.as_deref()), ("Linux x86_64", Some("abc")));
        assert!(!there.has_numaio && there.file == "/home/a/.cache/x");
        assert!(There::parse(&text.replace("sum abc", "there")).is_some_and(|there| there.has_numaio));
        assert_eq!(There::parse("This account is closed.\n"), None);
        let hostile = There::parse(&text.replace("Linux", "\u{1b}[2JLinux")).expect("an answer");
        assert_eq!(hostile.system, "\u{fffd}[2JLinux x86_64", "a terminal obeys none of it");
    }

    #[test]
    fn scripts_go_through_any_shell() {
        assert!([LOOK, TAKE].iter().all(|script| !script.contains(['\'', '!', '\n'])));
    }
}
