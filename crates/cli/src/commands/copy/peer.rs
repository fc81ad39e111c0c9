//! The side of a transfer on another host: `numaio peer`, which ssh starts, or a session of a daemon. It hears on its control
//! channel (its standard streams, or the connection to the daemon) what to do, and data goes over connections of its own, or
//! over the same channel.

use super::daemon_limits::LimitedPort;
use super::data_connections::{open_listener, split_by_direction, DataEndpoint, DataPath, DataRoute, Offer};
use super::peer_process::{PeerReader, PeerWriter};
use super::request::{Capabilities, TransferRequest, VERSION};
use super::side_placement::SideSetup;
use crate::commands::json_line;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use numaio_linux::files::Base;
use numaio_linux::port::net::DataListener;
use numaio_linux::port::{StreamPair, FilePort};
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::report::TransferOutcome;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::{Reason, Side};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Longest order, and longest answer to one.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// How long a transfer may go on when the one who asked for it has closed the control channel: at the end of a transfer
/// that overtakes the last packets.
const CLOSED_CHANNEL_GRACE: Duration = Duration::from_secs(3);

/// How long the last message that opens a data connection may be under way: the other side has sent all when it chooses them.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, ClapArgs)]
pub struct PeerArgs {
    /// A side of numaio copy
    #[arg(long, required = true)]
    pub copy: bool,
}

/// What a peer is asked to be, and how data is to get to it.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerRequest {
    #[serde(rename = "ask")]
    pub role: PeerRole,
    /// Data connections; without it data goes over the standard streams.
    pub offer: Option<Offer>,
}

/// What a peer is asked to be.
#[derive(Debug, Serialize, Deserialize)]
pub enum PeerRole {
    /// The side with the files.
    Source(TransferRequest),
    /// The side where they go; whether the source is a single file.
    Sink(TransferRequest, bool),
}

/// What a peer answers, in one line.
#[derive(Debug, Serialize, Deserialize)]
pub enum PeerReply {
    /// It is ready.
    Ready {
        /// Whether its source is a single file.
        #[serde(rename = "one_file")]
        is_one_file: bool,
        /// Where it waits for data connections, if it was offered some; or why it cannot. Then it waits for a [`DataRoute`].
        #[serde(rename = "door")]
        endpoint: Option<Result<DataEndpoint, String>>,
        /// Whether it can pack and unpack data; an older one does not say so, nor what follows.
        #[serde(default, rename = "packs")]
        can_decompress: bool,
        /// What it takes as a sink.
        #[serde(flatten)]
        capabilities: Capabilities,
    },
    /// It is not, and why.
    Refused(String),
}

impl PeerRole {
    fn transfer(&self) -> &TransferRequest {
        match self {
            Self::Source(transfer) | Self::Sink(transfer, _) => transfer,
        }
    }

    /// The side that a peer is to be.
    pub fn side(&self) -> Side {
        match self {
            Self::Source(_) => Side::Source,
            Self::Sink(..) => Side::Sink,
        }
    }
}

/// What one of its users may ask a daemon for.
#[derive(Debug)]
pub struct Grants {
    /// Where paths begin.
    pub base: Base,
    pub side: Side,
    pub streams: u16,
    pub bytes_per_second: Option<u64>,
    /// Whether files may be made that run with the rights of their owner.
    pub set_id: bool,
}

/// A daemon, for one of its users.
#[derive(Debug)]
pub struct DaemonService {
    pub grants: Grants,
    /// Where data connections come.
    pub data_path: DataPath,
}

impl Grants {
    fn apply(&self, request: &mut PeerRequest) -> Result<(), Failure> {
        if request.role.side() != self.side {
            return Err(Failure::new("another direction was asked for than at first"));
        }
        let (PeerRole::Source(transfer) | PeerRole::Sink(transfer, _)) = &mut request.role;
        transfer.restrict(self.base.clone(), self.bytes_per_second, self.set_id);
        // Else its users would learn whose each number is: they may give files any ACL, and take them back.
        transfer.capabilities.named_acls &= self.set_id;
        if let Some(offer) = &mut request.offer {
            offer.limit(self.streams);
        }
        Ok(())
    }
}

/// What the one who calls says, and what it hears.
struct ControlStreams {
    from: PeerReader,
    to: PeerWriter,
}

/// The side that ssh starts.
pub fn run() -> Result<ExitCode, Failure> {
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    let ends = StreamPair { from: Box::new(io::stdin()), to: Box::new(io::stdout()) };
    // The other side was told why not, and tells its user.
    Ok(match serve(ends, None) {
        Ok((TransferOutcome::Done, _)) => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}

/// Hears what to do, and does it; for a daemon, if there is one. Tells how it ended, and how many problems there were.
///
/// # Errors
/// Why it was not begun; the other side was told.
pub fn serve(ends: StreamPair, service: Option<&DaemonService>) -> Result<(TransferOutcome, u64), Failure> {
    let (grants, data_path) = service.map(|service| (&service.grants, &service.data_path)).unzip();
    let mut streams = ControlStreams { from: BufReader::new(ends.from), to: ends.to };
    let request = receive_request(&mut streams.from, grants);
    let mut request = streams.report_failure(request)?;
    match &mut request.role {
        PeerRole::Source(transfer) => {
            let (site, options) = streams.report_failure(transfer.source())?;
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
            let (site, options) = streams.report_failure(transfer.sink(*is_one_file))?;
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

/// What is asked for, and may be.
pub fn receive_request(from: &mut PeerReader, grants: Option<&Grants>) -> Result<PeerRequest, Failure> {
    let mut request: PeerRequest = receive(from)
        .map_err(|error| Failure::new(format!("this is not what numaio copy asks for: {error}")))?;
    let theirs = request.role.transfer().numaio_copy;
    if theirs != VERSION {
        return Err(Failure::new(format!(
            "the other numaio speaks version {theirs}, and this one {VERSION}"
        )));
    }
    grants.map_or(Ok(()), |grants| grants.apply(&mut request))?;
    Ok(request)
}

/// One line of the other side.
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

    /// The other side tells its user what failed.
    fn report_failure<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done {
            self.reply(&PeerReply::Refused(failure.message.clone()))?;
        }
        done
    }
}

/// How data gets to the other side.
enum DataChannel {
    ControlChannel(ControlStreams),
    DataConnections(DataListener, ControlStreams),
}

impl DataChannel {
    /// Says that all is ready, and hears which way was chosen.
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
                Err(Failure::new("there is no door for data connections"))
            }
            (Err(_), _) => Err(Failure::new("the other side left before the transfer began")),
        }
    }

    /// A port whose link is this way.
    fn into_port(self, site: SideSetup<'_>, is_source: bool) -> Result<LinkedPort, Failure> {
        let left = Arc::new(OnceLock::new());
        let (port, to) = match self {
            Self::ControlChannel(ControlStreams { from, to }) => {
                (FilePort::over(site.setting(None)?, StreamPair { from: Box::new(from), to }), None)
            }
            Self::DataConnections(door, ControlStreams { mut from, to }) => {
                let lanes =
                    split_by_direction(door.lanes(HANDSHAKE_TIMEOUT).map_err(Failure::new)?, is_source);
                let left = left.clone();
                // Nothing is said there any more; its end means that nobody waits for us.
                thread::spawn(move || {
                    drop(io::copy(&mut from, &mut io::sink()));
                    left.get_or_init(Instant::now);
                });
                (FilePort::over_streams(site.setting(Some(&lanes))?, lanes), Some(to))
            }
        };
        Ok(LinkedPort { port: port.map_err(Failure::new)?, left, to })
    }
}

/// A port with a link to the other side.
struct LinkedPort {
    port: FilePort,
    /// Since when the control channel is closed, if it is another one.
    left: Arc<OnceLock<Instant>>,
    /// That channel: when we are done it is ended, and the other side needs not ask for that.
    to: Option<PeerWriter>,
}

fn run_transfer<C: TransferCore<numaio_linux::port::Slab>>(
    mut core: C,
    LinkedPort { port, left, to }: LinkedPort,
    grants: Option<&Grants>,
) -> Result<(TransferOutcome, u64), Failure> {
    let (limit, set_id) = grants.map_or((None, true), |grants| (grants.bytes_per_second, grants.set_id));
    let mut port = LimitedPort::new(port, limit, set_id);
    let began = Instant::now();
    let clock = || began.elapsed();
    drive(&mut core, &mut port, clock, |core| {
        // What happens here is told over the link too.
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
