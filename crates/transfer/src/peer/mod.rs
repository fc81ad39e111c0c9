//! The remote side of a transfer: `numaio peer`, started by ssh, or a session of a daemon.
//!
//! The control channel (standard streams, or the connection to the daemon) carries the request.
//! Data uses separate connections or the same channel.

pub mod data_connections;
pub mod messages;
mod served_transfer;

pub use served_transfer::ServedTransfer;

use crate::capacity::link::CapacityLink;
use crate::capacity::paced_port::{PacedPort, PortLimits};
use crate::capacity::share_as_far_side;
use crate::daemon::hello::CapacityExchange;
use crate::keep_alive::LinkMonitor;
use crate::line::json_line;
use crate::placement::{Placer, SideSetup};
use crate::request::{Capabilities, DestinationMarkers, VERSION};
use crate::TransferError;
use data_connections::{open_listener, split_by_direction, DataPath, DataRoute, Offer};
use messages::{
    receive, receive_line, request_version, PeerReader, PeerReply, PeerRequest, PeerRole, PeerWriter,
    ReadyReply,
};
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::{Reason, Side};
use numaio_mover_linux::files::Base;
use numaio_mover_linux::port::net::DataListener;
use numaio_mover_linux::port::{FilePort, StreamPair};
use numaio_schema::TransferDirection;
use served_transfer::EndReason;
use std::io::{self, BufReader, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long a transfer may continue after the control channel closes, which may overtake the last
/// packets.
const CLOSED_CHANNEL_GRACE: Duration = Duration::from_secs(3);

/// How long the last handshake message may take: the other side has sent all of them when it
/// chooses the route.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The requests that the user of a confined peer may make.
#[derive(Debug)]
pub struct Grants {
    /// Root of all paths.
    pub base: Base,
    /// Who granted it, and the sides that the peer may take.
    pub kind: GrantKind,
    /// Maximum number of data connections from the source to the sink.
    pub streams: u16,
    /// Maximum bytes of data per second.
    pub bytes_per_second: Option<u64>,
    /// Whether files may get set-ID bits.
    pub set_id: bool,
    /// The capacity that the daemon lends.
    pub capacity: Option<CapacityLink>,
    /// The exchange with the client about it.
    pub exchange: CapacityExchange,
}

/// Why a peer is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantKind {
    /// It serves a user of a daemon, who announced the side.
    Daemon(Side),
    /// It serves the owner of an ssh key; `None` allows both sides.
    SshKey(Option<Side>),
}

impl Grants {
    /// Returns the limits of the port.
    fn port_limits(&self) -> PortLimits {
        PortLimits {
            lent: self.capacity.as_ref().map(CapacityLink::current),
            has_peer: self.exchange != CapacityExchange::None,
            writes_per_second: self.bytes_per_second,
            set_id: self.set_id,
        }
    }

    fn apply(&self, request: &mut PeerRequest) -> Result<(), TransferError> {
        let side = request.role.side();
        let (PeerRole::Source(transfer) | PeerRole::Sink(transfer, _)) = &mut request.role;
        // A session that serves files cannot write.
        let is_read_only = !matches!(self.kind, GrantKind::SshKey(None));
        if is_read_only && side == Side::Source && transfer.options.entries.remove_source_files {
            return Err(TransferError::SourceNotRemovable);
        }
        if transfer.options.entries.remote_plan.is_some() {
            return Err(TransferError::RemotePlanNotAllowed);
        }
        match self.kind {
            GrantKind::Daemon(announced) if announced != side => return Err(TransferError::OtherSide),
            GrantKind::SshKey(Some(allowed)) if allowed != side => {
                return Err(TransferError::SideNotAllowed { allowed });
            }
            GrantKind::Daemon(_) => {}
            // Users of a key cannot know the directory; they write paths as for an unconfined peer.
            GrantKind::SshKey(_) => transfer.make_paths_relative(),
        }
        transfer.restrict(self.base.clone(), self.bytes_per_second, self.set_id);
        // Otherwise users could map all numbers to names: they may set any ACL on a file and read
        // it back.
        transfer.capabilities.named_acls &= self.set_id;
        if let Some(offer) = &mut request.offer {
            offer.limit(self.streams);
        }
        Ok(())
    }
}

/// The streams of the control channel.
struct ControlStreams {
    from: PeerReader,
    to: PeerWriter,
}

/// Receives a request and runs the transfer, within the user's grants if there are any.
///
/// At a daemon, data connections arrive by its `data_path`.
///
/// Returns how the transfer ended, and what it transferred.
///
/// # Errors
/// Why the transfer did not begin; the other side has received the failure.
pub fn serve(
    ends: StreamPair,
    grants: Option<&Grants>,
    data_path: Option<&DataPath>,
    placer: &dyn Placer,
) -> Result<ServedTransfer, TransferError> {
    let mut streams = ControlStreams { from: BufReader::new(ends.from), to: ends.to };
    let request = receive_request(&mut streams.from, grants);
    let mut request = streams.report_failure(request)?;
    let monitor = LinkMonitor::new(request.silence_limit());
    let (series, is_retry) = request.role.transfer().attempt();
    // A session of a daemon has its share already.
    let shared = if grants.is_none() { share_devices(&request.role) } else { None };
    let limits = match grants {
        Some(grants) => grants.port_limits(),
        None => PortLimits::lent(shared.as_ref().map(CapacityLink::current)),
    };
    let served = match &mut request.role {
        PeerRole::Source(transfer) => {
            streams.report_failure(transfer.check_not_marked(false))?;
            let _markers = streams.report_failure(transfer.mark_sources())?;
            streams.report_failure(transfer.read_remote_plan(Side::Source, placer))?;
            let (site, options) = streams.report_failure(transfer.source(placer))?;
            let source = streams.report_failure(Source::new(options).map_err(TransferError::ChunkPolicy))?;
            let channel = DataChannel::negotiate(
                request.offer.as_ref(),
                data_path,
                (transfer.is_one_file(), transfer.capabilities, Vec::new()),
                streams,
            )?;
            run_transfer(
                source,
                channel.into_port(site, true)?,
                monitor,
                (limits, DestinationMarkers::default()),
            )
        }
        PeerRole::Sink(transfer, is_one_file) => {
            transfer.inspect_destination();
            transfer.choose_block();
            streams.report_failure(transfer.read_remote_plan(Side::Sink, placer))?;
            let mut markers = streams.report_failure(transfer.mark_destination())?;
            let (mut site, options) = streams.report_failure(transfer.sink(*is_one_file, placer))?;
            transfer.mark_created(&mut markers);
            let capabilities = Capabilities { in_order: options.in_order, ..transfer.capabilities };
            let channel = DataChannel::negotiate(
                request.offer.as_ref(),
                data_path,
                (*is_one_file, capabilities, std::mem::take(&mut site.remarks)),
                streams,
            )?;
            run_transfer(Sink::new(options), channel.into_port(site, false)?, monitor, (limits, markers))
        }
    };
    Ok(ServedTransfer { series, is_retry, ..served? })
}

/// Shares the devices of this host that a transfer uses; `None` without a broker.
fn share_devices(role: &PeerRole) -> Option<CapacityLink> {
    match role {
        PeerRole::Source(transfer) => {
            let paths: Vec<&[u8]> = transfer.from.iter().map(Vec::as_slice).collect();
            share_as_far_side(&paths, TransferDirection::Read)
        }
        PeerRole::Sink(transfer, _) => share_as_far_side(&[&transfer.to], TransferDirection::Write),
    }
}

/// Receives a request, and applies the user's grants.
pub fn receive_request(from: &mut PeerReader, grants: Option<&Grants>) -> Result<PeerRequest, TransferError> {
    let line = receive_line(from).map_err(TransferError::NotARequest)?;
    let request: Result<PeerRequest, _> = serde_json::from_str(&line);
    let theirs = match &request {
        Ok(request) => Some(request.role.transfer().numaio_copy),
        Err(_) => request_version(&line),
    };
    if let Some(theirs) = theirs.filter(|theirs| *theirs != VERSION) {
        return Err(TransferError::OtherVersion { theirs, ours: VERSION });
    }
    let mut request = request.map_err(|error| TransferError::NotARequest(error.into()))?;
    grants.map_or(Ok(()), |grants| grants.apply(&mut request))?;
    Ok(request)
}

impl ControlStreams {
    fn reply(&mut self, reply: &PeerReply) -> Result<(), TransferError> {
        let line = json_line(reply).map_err(TransferError::Io)?;
        self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush()).map_err(TransferError::Io)
    }

    /// Sends an error to the other side, which reports it.
    fn report_failure<T>(&mut self, done: Result<T, TransferError>) -> Result<T, TransferError> {
        if let Err(error) = &done {
            self.reply(&PeerReply::Refused(error.to_string()))?;
        }
        done
    }
}

/// How data reaches the other side.
enum DataChannel {
    ControlChannel(ControlStreams),
    DataConnections(DataListener, ControlStreams),
}

impl DataChannel {
    /// Replies that the peer is ready, and receives the chosen data route.
    fn negotiate(
        offer: Option<&Offer>,
        data_path: Option<&DataPath>,
        (is_one_file, capabilities, remarks): (bool, Capabilities, Vec<String>),
        mut streams: ControlStreams,
    ) -> Result<Self, TransferError> {
        let (door, opened) = match offer.map(|offer| open_listener(offer, data_path)) {
            None => (None, None),
            Some(Ok((door, opened))) => (Some(door), Some(Ok(opened))),
            Some(Err(why)) => (None, Some(Err(why))),
        };
        streams.reply(&PeerReply::Ready(ReadyReply {
            is_one_file,
            endpoint: opened,
            remarks,
            capabilities,
        }))?;
        if offer.is_none() {
            return Ok(Self::ControlChannel(streams));
        }
        match (receive(&mut streams.from), door) {
            (Ok(DataRoute::ControlChannel), _) => Ok(Self::ControlChannel(streams)),
            (Ok(DataRoute::DataConnections), Some(door)) => Ok(Self::DataConnections(door, streams)),
            (Ok(DataRoute::DataConnections), None) => Err(TransferError::NoListener),
            (Err(_), _) => Err(TransferError::Disconnected),
        }
    }

    /// Returns a port that uses this channel.
    fn into_port(self, site: SideSetup<'_>, is_source: bool) -> Result<LinkedPort, TransferError> {
        let left = Arc::new(OnceLock::new());
        let (port, to) = match self {
            Self::ControlChannel(ControlStreams { from, to }) => {
                (FilePort::over(site.setting(None, None), StreamPair { from: Box::new(from), to }), None)
            }
            Self::DataConnections(door, ControlStreams { mut from, to }) => {
                let connections = split_by_direction(
                    door.into_streams(HANDSHAKE_TIMEOUT)
                        .map_err(io::Error::other)
                        .map_err(TransferError::Io)?,
                    is_source,
                );
                let left = left.clone();
                // No messages follow on the control channel; its end means that the other side has
                // exited.
                thread::spawn(move || {
                    drop(io::copy(&mut from, &mut io::sink()));
                    left.get_or_init(Instant::now);
                });
                (FilePort::over_streams(site.setting(Some(&connections), None), connections), Some(to))
            }
        };
        Ok(LinkedPort { port: port.map_err(TransferError::Io)?, left, to })
    }
}

/// A port that is linked to the other side.
struct LinkedPort {
    port: FilePort,
    /// When the control channel closed, if data has its own connections.
    left: Arc<OnceLock<Instant>>,
    /// The control channel, which closes when the transfer is done.
    to: Option<PeerWriter>,
}

fn run_transfer<C: TransferCore<numaio_mover_linux::port::Slab>>(
    mut core: C,
    LinkedPort { port, left, to }: LinkedPort,
    monitor: LinkMonitor,
    (limits, mut markers): (PortLimits, DestinationMarkers),
) -> Result<ServedTransfer, TransferError> {
    let (storage, activity) = (monitor.storage(), port.activity());
    let mut end_reason = EndReason::default();
    let lent = limits.lent.clone();
    let mut port = PacedPort::new(port, monitor, limits);
    let began = Instant::now();
    let clock = || began.elapsed();
    drive(&mut core, &mut port, clock, |core| {
        // The other side receives the reports over the link.
        end_reason.record(&core.reports());
        // The source sends entries only after it has looked for the markers.
        if core.totals().entries > 0 {
            if let Err(error) = markers.confirm() {
                core.stop(Reason::Other, &error.to_string());
            }
        }
        if let Some(lent) = &lent {
            lent.report_to_peer();
        }
        storage.stop(core);
        if numaio_linux::interrupt::interrupted() {
            core.stop(Reason::Cancelled, "it was interrupted");
        }
        if left.get().is_some_and(|left| left.elapsed() > CLOSED_CHANNEL_GRACE) {
            core.stop(Reason::Cancelled, "the control channel was closed");
        }
    });
    let is_closed = port.is_closed();
    // Sends the last packets, which are counted too.
    drop(port);
    drop(to);
    drop(markers);
    Ok(ServedTransfer::new(&core, end_reason, is_closed, &activity))
}
