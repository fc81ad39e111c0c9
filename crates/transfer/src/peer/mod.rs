//! The remote side of a transfer: `numaio peer`, started by ssh, or a session of a daemon.
//!
//! The control channel (standard streams, or the connection to the daemon) carries the request.
//! Data uses separate connections or the same channel.

use super::daemon_limits::LimitedPort;
use super::data_connections::{open_listener, split_by_direction, DataEndpoint, DataPath, DataRoute, Offer};
use super::peer_process::{PeerReader, PeerWriter};
use super::placement::{Placer, SideSetup};
use super::request::{Capabilities, TransferRequest, VERSION};
use crate::failure::Failure;
use crate::output::json_line;
use clap::Args as ClapArgs;
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::report::TransferOutcome;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::{Reason, Side};
use numaio_mover_linux::files::Base;
use numaio_mover_linux::port::net::DataListener;
use numaio_mover_linux::port::{FilePort, StreamPair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum length of a request and of its reply.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// How long a transfer may continue after the control channel closes, which may overtake the last
/// packets.
const CLOSED_CHANNEL_GRACE: Duration = Duration::from_secs(3);

/// How long the last handshake message may take: the other side has sent all of them when it
/// chooses the route.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of the internal `numaio peer`.
#[derive(Debug, ClapArgs)]
pub struct PeerArgs {
    /// Run one side of numaio copy
    #[arg(long, required = true)]
    pub copy: bool,
}

/// Request to a peer: its role, and the offered data connections.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerRequest {
    #[serde(rename = "ask")]
    pub role: PeerRole,
    /// Offered data connections; without an offer, data uses the control channel.
    pub offer: Option<Offer>,
}

/// The role of a peer.
#[derive(Debug, Serialize, Deserialize)]
pub enum PeerRole {
    /// The source of the files.
    Source(TransferRequest),
    /// The destination of the files, and whether the source is a single file.
    Sink(TransferRequest, bool),
}

/// The reply of a peer, in one line.
#[derive(Debug, Serialize, Deserialize)]
pub enum PeerReply {
    /// The peer is ready.
    Ready {
        /// Whether the peer's source is a single file.
        #[serde(rename = "one_file")]
        is_one_file: bool,
        /// Where it accepts offered data connections, or why it cannot. A [`DataRoute`] follows an
        /// offer.
        #[serde(rename = "door")]
        endpoint: Option<Result<DataEndpoint, String>>,
        /// Whether it can compress and decompress; an older numaio omits this and the following
        /// fields.
        #[serde(default, rename = "packs")]
        can_decompress: bool,
        /// Its capabilities as a sink.
        #[serde(flatten)]
        capabilities: Capabilities,
    },
    /// The peer refuses, with the reason.
    Refused(String),
}

impl PeerRole {
    fn transfer(&self) -> &TransferRequest {
        match self {
            Self::Source(transfer) | Self::Sink(transfer, _) => transfer,
        }
    }

    /// Returns the side of the transfer.
    pub fn side(&self) -> Side {
        match self {
            Self::Source(_) => Side::Source,
            Self::Sink(..) => Side::Sink,
        }
    }
}

/// What a user of a daemon may request.
#[derive(Debug)]
pub struct Grants {
    /// Root of all paths.
    pub base: Base,
    pub side: Side,
    pub streams: u16,
    pub bytes_per_second: Option<u64>,
    /// Whether files may get set-ID bits.
    pub set_id: bool,
}

/// A daemon's service for one of its users.
#[derive(Debug)]
pub struct DaemonService {
    pub grants: Grants,
    /// Where data connections arrive.
    pub data_path: DataPath,
}

impl Grants {
    fn apply(&self, request: &mut PeerRequest) -> Result<(), Failure> {
        if request.role.side() != self.side {
            return Err(Failure::new("the request is for another side than the hello"));
        }
        let (PeerRole::Source(transfer) | PeerRole::Sink(transfer, _)) = &mut request.role;
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

/// Runs the peer that ssh has started.
pub fn run(placer: &dyn Placer) -> Result<ExitCode, Failure> {
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    let ends = StreamPair { from: Box::new(io::stdin()), to: Box::new(io::stdout()) };
    // The other side has received the failure and reports it.
    Ok(match serve(ends, None, placer) {
        Ok((TransferOutcome::Done, _)) => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}

/// Receives a request and runs the transfer, with the limits of a daemon's service if there is one.
///
/// Returns how the transfer ended, and the number of failures.
///
/// # Errors
/// Why the transfer did not begin; the other side has received the failure.
pub fn serve(
    ends: StreamPair,
    service: Option<&DaemonService>,
    placer: &dyn Placer,
) -> Result<(TransferOutcome, u64), Failure> {
    let (grants, data_path) = service.map(|service| (&service.grants, &service.data_path)).unzip();
    let mut streams = ControlStreams { from: BufReader::new(ends.from), to: ends.to };
    let request = receive_request(&mut streams.from, grants);
    let mut request = streams.report_failure(request)?;
    match &mut request.role {
        PeerRole::Source(transfer) => {
            let (site, options) = streams.report_failure(transfer.source(placer))?;
            let source = streams.report_failure(Source::new(options).map_err(Failure::new))?;
            let channel = DataChannel::negotiate(
                request.offer.as_ref(),
                data_path,
                (transfer.is_one_file(), transfer.capabilities),
                streams,
            )?;
            run_transfer(source, channel.into_port(site, true)?, grants)
        }
        PeerRole::Sink(transfer, is_one_file) => {
            transfer.inspect_destination();
            let (site, options) = streams.report_failure(transfer.sink(*is_one_file, placer))?;
            let channel = DataChannel::negotiate(
                request.offer.as_ref(),
                data_path,
                (*is_one_file, transfer.capabilities),
                streams,
            )?;
            run_transfer(Sink::new(options), channel.into_port(site, false)?, grants)
        }
    }
}

/// Receives a request, and applies the user's grants.
pub fn receive_request(from: &mut PeerReader, grants: Option<&Grants>) -> Result<PeerRequest, Failure> {
    let mut request: PeerRequest =
        receive(from).map_err(|error| Failure::new(format!("expected a request of numaio copy: {error}")))?;
    let theirs = request.role.transfer().numaio_copy;
    if theirs != VERSION {
        return Err(Failure::new(format!(
            "the other numaio speaks version {theirs}, and this one {VERSION}"
        )));
    }
    grants.map_or(Ok(()), |grants| grants.apply(&mut request))?;
    Ok(request)
}

/// Receives a line of JSON.
pub fn receive<T: DeserializeOwned>(from: &mut PeerReader) -> io::Result<T> {
    let mut line = String::new();
    from.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

impl ControlStreams {
    fn reply(&mut self, reply: &PeerReply) -> Result<(), Failure> {
        let line = json_line(reply).map_err(Failure::new)?;
        self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush()).map_err(Failure::new)
    }

    /// Sends a failure to the other side, which reports it.
    fn report_failure<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done {
            self.reply(&PeerReply::Refused(failure.message.clone()))?;
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
        (is_one_file, capabilities): (bool, Capabilities),
        mut streams: ControlStreams,
    ) -> Result<Self, Failure> {
        let (door, opened) = match offer.map(|offer| open_listener(offer, data_path)) {
            None => (None, None),
            Some(Ok((door, opened))) => (Some(door), Some(Ok(opened))),
            Some(Err(why)) => (None, Some(Err(why))),
        };
        streams.reply(&PeerReply::Ready {
            is_one_file,
            endpoint: opened,
            can_decompress: true,
            capabilities,
        })?;
        if offer.is_none() {
            return Ok(Self::ControlChannel(streams));
        }
        match (receive(&mut streams.from), door) {
            (Ok(DataRoute::ControlChannel), _) => Ok(Self::ControlChannel(streams)),
            (Ok(DataRoute::DataConnections), Some(door)) => Ok(Self::DataConnections(door, streams)),
            (Ok(DataRoute::DataConnections), None) => {
                Err(Failure::new("data connections were chosen, but there is no listener"))
            }
            (Err(_), _) => Err(Failure::new("the other side disconnected before the transfer began")),
        }
    }

    /// Returns a port that uses this channel.
    fn into_port(self, site: SideSetup<'_>, is_source: bool) -> Result<LinkedPort, Failure> {
        let left = Arc::new(OnceLock::new());
        let (port, to) = match self {
            Self::ControlChannel(ControlStreams { from, to }) => {
                (FilePort::over(site.setting(None, None), StreamPair { from: Box::new(from), to }), None)
            }
            Self::DataConnections(door, ControlStreams { mut from, to }) => {
                let connections = split_by_direction(
                    door.into_streams(HANDSHAKE_TIMEOUT).map_err(Failure::new)?,
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
        Ok(LinkedPort { port: port.map_err(Failure::new)?, left, to })
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
    grants: Option<&Grants>,
) -> Result<(TransferOutcome, u64), Failure> {
    let (limit, set_id) = grants.map_or((None, true), |grants| (grants.bytes_per_second, grants.set_id));
    let mut port = LimitedPort::new(port, limit, set_id);
    let began = Instant::now();
    let clock = || began.elapsed();
    drive(&mut core, &mut port, clock, |core| {
        // The other side receives the reports over the link.
        drop(core.reports());
        if numaio_linux::interrupt::interrupted() {
            core.stop(Reason::Cancelled, "it was interrupted");
        }
        if left.get().is_some_and(|left| left.elapsed() > CLOSED_CHANNEL_GRACE) {
            core.stop(Reason::Cancelled, "the control channel was closed");
        }
    });
    drop(port);
    drop(to);
    Ok((core.outcome().cloned().unwrap_or(TransferOutcome::Failed), core.totals().failed))
}
