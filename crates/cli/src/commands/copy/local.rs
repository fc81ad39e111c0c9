//! Both sides on this machine.

use super::order::Order;
use super::show::Show;
use super::CopyArgs;
use crate::args::Common;
use crate::failure::Failure;
use numaio_linux::port::FilePort;
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::compression::CompressMode;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

pub fn run(common: &Common, args: &CopyArgs, order: &Order) -> Result<ExitCode, Failure> {
    if let Some((path, why)) = order.lost() {
        return Err(Failure::usage(format!("{} is source and destination", path.display())).hint(why));
    }
    let (from, mut source) = order.source()?;
    // Buffers are handed over: there is no way that could be slow.
    source.compress = CompressMode::None;
    let (to, mut sink) = order.sink(order.is_one_file())?;
    sink.protected = order.read_here();
    (source.skip_directory, source.links) = (order.target(), order.has_links());
    let mut source = Source::new(source).map_err(Failure::new)?;
    let mut sink = Sink::new(sink);
    let (mut from, mut to) = FilePort::pair(from.setting(None)?, to.setting(None)?).map_err(Failure::new)?;
    let began = Instant::now();
    let clock = || began.elapsed();
    let mut show = Show::new(common, args);
    let moved: io::Result<()> = thread::scope(|scope| {
        thread::Builder::new().name("source".to_owned()).spawn_scoped(scope, move || {
            // What happens is told by the sink, which hears of everything.
            drive(&mut source, &mut from, clock, |source| drop(source.reports()));
        })?;
        drive(&mut sink, &mut to, clock, |sink| show.look(sink));
        show.look(&mut sink);
        drop(to);
        Ok(())
    });
    moved.map_err(Failure::new)?;
    super::end(show, &sink.totals())
}
