//! One side on another host, reached by the system's ssh.

use super::order::Order;
use super::peer::{Answer, Ask, LONGEST_LINE};
use super::place::Site;
use super::show::Show;
use super::{exit, CopyArgs};
use crate::args::Common;
use crate::failure::Failure;
use numaio_linux::port::{Ends, FilePort, Slab};
use numaio_mover::drive::{drive, Core};
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Exit statuses of ssh and of shells that found no such program.
const SSH_FAILED: i32 = 255;
const NOT_FOUND: i32 = 127;
/// How long the other side may take to end when we are done.
const LAST: Duration = Duration::from_secs(10);

/// From there to here.
pub fn pull(common: &Common, args: &CopyArgs, order: &Order, host: &str) -> Result<ExitCode, Failure> {
    let (far, ends, one_file) = Far::start(args, host, &Ask::Source(order.clone()))?;
    let (site, options) = order.sink(one_file)?;
    through(common, args, Sink::new(options), site, ends, far)
}

/// From here to there.
pub fn push(common: &Common, args: &CopyArgs, order: &Order, host: &str) -> Result<ExitCode, Failure> {
    let (site, options) = order.source()?;
    let source = Source::new(options).map_err(Failure::new)?;
    let (far, ends, _) = Far::start(args, host, &Ask::Sink(order.clone(), order.is_one_file()))?;
    through(common, args, source, site, ends, far)
}

fn through<C: Core<Slab>>(
    common: &Common,
    args: &CopyArgs,
    mut core: C,
    site: Site,
    ends: Ends,
    far: Far,
) -> Result<ExitCode, Failure> {
    let mut port = FilePort::over(site.setting(), ends).map_err(Failure::new)?;
    let mut show = Show::new(common, args);
    let began = Instant::now();
    drive(&mut core, &mut port, || began.elapsed(), |core| show.look(core));
    show.look(&mut core);
    drop(port);
    drop(far);
    let (failed, given_up) = show.end(&core.totals())?;
    Ok(exit(failed, given_up))
}

/// The numaio on the other host. It is ended when this is dropped, if it does not end by itself.
struct Far(Child);

impl Far {
    fn start(args: &CopyArgs, host: &str, ask: &Ask) -> Result<(Self, Ends, bool), Failure> {
        let mut command = over_ssh(host, &args.remote_numaio);
        // A group of its own: Ctrl-C is ours, and the other side ends when we say so.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            Failure::new(format!("cannot start {program}: {error}")).hint("it is Debian's openssh-client")
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut far = Self(child);
        let (Some(mut to), Some(from)) = (stdin, stdout) else {
            return Err(Failure::new("the other side has no streams"));
        };
        let mut line = serde_json::to_string(ask).map_err(Failure::new)?;
        line.push('\n');
        // Who cannot take it says why by its exit status.
        let _ = to.write_all(line.as_bytes());
        let mut from = BufReader::new(from);
        let mut line = String::new();
        let _ = from.by_ref().take(LONGEST_LINE).read_line(&mut line);
        match serde_json::from_str(&line) {
            Ok(Answer::Ready(one_file)) => {
                Ok((far, Ends { from: Box::new(from), to: Box::new(to) }, one_file))
            }
            Ok(Answer::Refused(why)) => Err(Failure::new(format!("{host}: {why}"))),
            Err(_) => {
                drop(to);
                Err(not_there(host, far.status()))
            }
        }
    }

    /// Its exit status, if it ends soon.
    fn status(&mut self) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < LAST {
            if let Ok(Some(status)) = self.0.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if self.status().is_none() {
            drop(self.0.kill());
        }
        drop(self.0.wait());
    }
}

/// `NUMAIO_SSH` names another program than ssh, as `RSYNC_RSH` does for rsync.
fn over_ssh(host: &str, numaio: &str) -> Command {
    let mut command = Command::new(std::env::var_os("NUMAIO_SSH").unwrap_or_else(|| "ssh".into()));
    // The words are joined and given to a shell there.
    let numaio = format!("'{}'", numaio.replace('\'', r"'\''"));
    command.args(["-T", "-o", "ConnectTimeout=15", "--", host]);
    command.args([&numaio, "peer", "--copy"]);
    command
}

/// Why the other side did not answer; ssh's own words stand on standard error.
fn not_there(host: &str, status: Option<i32>) -> Failure {
    let failure = Failure::new(format!("no numaio answers on {host}"));
    match status {
        Some(SSH_FAILED) => failure.hint(format!("ssh could not get there: try ssh {host} true")),
        Some(NOT_FOUND) => failure.hint(
            "there is no numaio there, or not on the PATH of an ssh session: copy it, and name it by --remote-numaio",
        ),
        _ => failure.hint("the numaio there may be older: use the same one at both ends"),
    }
}
