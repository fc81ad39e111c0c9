//! Transfers within this machine.

use crate::capacity::link::CurrentRate;
use crate::capacity::paced_port::{PacedPort, PortLimits};
use crate::event::job_totals;
use crate::keep_alive::LinkMonitor;
use crate::options::Reflink;
use crate::placement::Placer;
use crate::reporter::{Reporter, TransferEnd};
use crate::request::TransferRequest;
use crate::TransferError;
use numaio_mover::compression::CompressMode;
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::sink::{CloneSources, Sink};
use numaio_mover::source::{LocalDestination, ReadMode, Source};
use numaio_mover_linux::port::FilePort;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Runs a transfer with both sides in this process.
pub fn run(
    request: &TransferRequest,
    mut reporter: Reporter<'_>,
    placer: &dyn Placer,
    lent: Option<Arc<CurrentRate>>,
) -> Result<TransferEnd, TransferError> {
    if let Some((path, why)) = request.source_loss() {
        return Err(TransferError::SourceIsDestination { path, why });
    }
    let mut markers = request.mark_destination()?;
    request.check_not_marked(true)?;
    markers.confirm()?;
    let (mut from, mut source) = request.source(placer)?;
    // Both sides share buffers, so that compression would save nothing.
    source.compress = CompressMode::None;
    let (mut to, mut sink) = request.sink(request.is_one_file(), placer)?;
    request.mark_created(&mut markers);
    sink.protected = request.protected_paths();
    // Sources that are known to be inside the destination are protected by their numbers.
    let source_markers = match sink.protected.inside_destination {
        true => Vec::new(),
        false => request.mark_sources()?,
    };
    if sink.in_order {
        source.mode = ReadMode::Pipeline;
    }
    (source.skip_directory, source.links) = (request.destination_identity(), request.has_links());
    if source.remove_stored {
        // Files that are copied onto themselves must stay.
        let root = from.roots.add_first_of(&to.roots).map_err(TransferError::Io)?;
        source.local_destination = root.map(|root| LocalDestination { root, alias: sink.alias.clone() });
    }
    if request.options.reflink != Reflink::Never && !sink.dry_run {
        let roots = to.roots.add(&from.roots).map_err(TransferError::Io)?;
        let only = sink.alias.as_ref().and_then(|_| source.origins.first()?.only.clone());
        let must_clone = request.options.reflink == Reflink::Always;
        sink.clones = Some(CloneSources { roots, only, must_clone });
    }
    let mut source = Source::new(source)?;
    let mut sink = Sink::new(sink);
    let settings = (from.setting(None, Some(&mut reporter)), to.setting(None, Some(&mut reporter)));
    let (from, mut to) = FilePort::pair(settings.0, settings.1).map_err(TransferError::Io)?;
    // What is read is written.
    let mut from = PacedPort::new(from, LinkMonitor::new(None), PortLimits::lent(lent.clone()));
    let began = Instant::now();
    let clock = || began.elapsed();
    let moved: io::Result<()> = thread::scope(|scope| {
        thread::Builder::new().name("source".to_owned()).spawn_scoped(scope, move || {
            // The sink reports everything, also what the source reports to it.
            drive(&mut source, &mut from, clock, |source| drop(source.reports()));
        })?;
        drive(&mut sink, &mut to, clock, |sink| {
            reporter.update(sink);
            reporter.lent(lent.as_deref());
        });
        reporter.update(&mut sink);
        drop(to);
        Ok(())
    });
    drop((markers, source_markers));
    moved.map_err(TransferError::Io)?;
    Ok(reporter.end(job_totals(sink.totals())))
}
