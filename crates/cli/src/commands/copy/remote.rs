//! One side on another host, reached by the system's ssh.

use super::bootstrap;
use super::order::Order;
use super::peer::{Answer, Ask, LONGEST_LINE};
use super::place::Site;
use super::show::Show;
use super::{exit, CopyArgs};
use crate::args::Common;
use crate::failure::Failure;
use crate::ssh::{self, Started};
use numaio_linux::port::{Ends, FilePort, Slab};
use numaio_mover::drive::{drive, Core};
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the other side may take to end when we are done.
const LAST: Duration = Duration::from_secs(10);

/// From there to here.
pub fn pull(common: &Common, args: &CopyArgs, order: &Order, host: &str) -> Result<ExitCode, Failure> {
    let (far, ends, one_file) = start(args, host, &Ask::Source(order.clone()))?;
    let (site, options) = order.sink(one_file)?;
    through(common, args, Sink::new(options), site, ends, far)
}

/// From here to there.
pub fn push(common: &Common, args: &CopyArgs, order: &Order, host: &str) -> Result<ExitCode, Failure> {
    let (site, options) = order.source()?;
    let source = Source::new(options).map_err(Failure::new)?;
    let (far, ends, _) = start(args, host, &Ask::Sink(order.clone(), order.is_one_file()))?;
    through(common, args, source, site, ends, far)
}

fn through<C: Core<Slab>>(
    common: &Common,
    args: &CopyArgs,
    mut core: C,
    site: Site,
    ends: Ends,
    far: Started,
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

/// The numaio on the other host, its streams, and whether its source is a single file.
fn start(args: &CopyArgs, host: &str, ask: &Ask) -> Result<(Started, Ends, bool), Failure> {
    let program = ssh::program();
    let numaio = bootstrap::numaio(args, &program, host)?;
    let command = ssh::command(program, host, &numaio, &["peer", "--copy"]);
    let mut far = Started::begin(command, LAST, ssh::INSTALL)?;
    let (Some(mut to), Some(from)) = (far.stdin.take(), far.stdout.take()) else {
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
        Ok(Answer::Ready(one_file)) => Ok((far, Ends { from: Box::new(from), to: Box::new(to) }, one_file)),
        Ok(Answer::Refused(why)) => Err(Failure::new(format!("{host}: {why}"))),
        Err(_) => {
            drop(to);
            let failure = Failure::new(format!("no numaio answers on {host}"));
            Err(bootstrap::hinted(failure, host, far.status()))
        }
    }
}
