//! Transfers with one side on another host.

mod attempts;
pub mod bootstrap;
mod daemon_client;
pub mod first_reply;
pub mod greeting;
pub mod host_to_host;
mod peer_process;
mod peer_target;
mod peer_wait;
mod retry;
mod silence_clock;
pub mod ssh_hostname;

use crate::capacity::link::CurrentRate;
use crate::capacity::messages::CapacityRequest;
use crate::capacity::paced_port::{PacedPort, PortLimits};
use crate::capacity::Borrowed;
use crate::daemon::hello::{CapacityExchange, HelloCapacity};
use crate::endpoint::Host;
use crate::event::job_totals;
use crate::keep_alive::LinkMonitor;
use crate::line::sanitize;
use crate::peer::data_connections::{split_by_direction, DataRoute, LocalOffer};
use crate::peer::messages::{PeerReader, PeerReply, PeerRequest, PeerRole, PeerWriter, ReadyReply};
use crate::placement::{Placer, SideSetup};
use crate::reporter::{Notice, Reporter, TransferEnd};
use crate::request::{Capabilities, TransferRequest};
use crate::transfer::Transfer;
use crate::TransferError;
use attempts::AttemptOutcome;
use greeting::Welcome;
use numaio_linux::interrupt::interrupted;
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::DataStream;
use numaio_mover_linux::port::{FilePort, Slab, StreamPair, StreamSet};
use numaio_schema::JobTotals;
use peer_process::{PeerConnection, PeerProcess};
use peer_target::PeerTarget;
use peer_wait::{PeerWait, WaitFailure};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Maximum remarks of a peer that are shown.
const MAX_REMARKS: usize = 20;

/// A transfer with one side on another host.
pub struct RemoteTransfer<'a> {
    /// The request of the user.
    pub transfer: &'a Transfer,
    /// The request for both sides.
    pub request: &'a TransferRequest,
    /// The other host.
    pub host: &'a Host,
    /// Whether this host has the source.
    pub is_source: bool,
    /// Decides what needs a model of the machine.
    pub placer: &'a dyn Placer,
    /// The capacity that this host's broker lends.
    pub capacity: Option<&'a Borrowed>,
}

/// A peer that waits for the first packet.
struct ReadyPeer {
    /// Dropped before the connection, which closes when its streams are unused.
    link: DataLink,
    connection: PeerConnection,
    /// Whether the peer's source is a single file.
    is_one_file: bool,
    /// The peer's capabilities as a sink.
    capabilities: Capabilities,
    /// Time limit of the peer's silence; `None` without one.
    silence_limit: Option<Duration>,
    /// The exchange of capacity.
    exchange: CapacityExchange,
}

/// How data is sent. The control channel stays open beside data connections, because closing it
/// stops the transfer.
enum DataLink {
    ControlChannel(StreamPair),
    DataConnections(StreamSet, PeerWriter, PeerReader),
}

impl RemoteTransfer<'_> {
    /// Returns the side of this host.
    fn local_side(&self) -> Side {
        if self.is_source {
            Side::Source
        } else {
            Side::Sink
        }
    }

    /// Runs the transfer, and retries after a lost connection.
    pub fn run(&self, mut reporter: Reporter<'_>) -> Result<TransferEnd, TransferError> {
        // Check the addresses before any process starts.
        self.transfer.network.check_extra_addresses()?;
        let limit = self.transfer.network.timeout;
        let target = PeerTarget::find(self.host, &self.transfer.remote, limit, &mut reporter)?;
        let host = (&*self.host.display_name(), self.local_side().other());
        attempts::run(self.transfer.network.retry, host, reporter, |reporter, earlier| {
            self.attempt(reporter, &target, earlier)
        })
    }

    /// Runs one attempt. An interrupt before its start hides other failures, which it may have
    /// caused.
    fn attempt(
        &self,
        reporter: &mut Reporter<'_>,
        target: &PeerTarget<'_>,
        earlier: Option<JobTotals>,
    ) -> Result<AttemptOutcome, TransferError> {
        match self.begin(reporter, target, earlier) {
            Err(_) | Ok(AttemptOutcome::Unreachable(_)) if interrupted() => {
                Ok(AttemptOutcome::Unreachable(WaitFailure::Interrupted.error(&self.host.display_name())))
            }
            tried => tried,
        }
    }

    /// Connects to the peer, and runs the transfer if it is ready.
    fn begin(
        &self,
        reporter: &mut Reporter<'_>,
        target: &PeerTarget<'_>,
        earlier: Option<JobTotals>,
    ) -> Result<AttemptOutcome, TransferError> {
        let mut request = self.request.for_attempt(earlier.is_some())?;
        if !self.is_source {
            request.inspect_destination();
            request.choose_block();
            let mut markers = request.mark_destination()?;
            let peer = match self.start(reporter, target, PeerRole::Source(request.clone()))? {
                Ok(peer) => peer,
                Err(failure) => return Ok(AttemptOutcome::Unreachable(failure)),
            };
            markers.confirm()?;
            // A daemon may limit it.
            request.capabilities.block = peer.capabilities.block;
            let (site, options) = request.sink(peer.is_one_file && request.may_be_one_file(), self.placer)?;
            request.mark_created(&mut markers);
            reporter.begin(earlier);
            return self.run_transfer(reporter, Sink::new(options), site, peer);
        }
        let (mut site, origins) = request.source_site(self.placer)?;
        let peer =
            match self.start(reporter, target, PeerRole::Sink(request.clone(), request.is_one_file()))? {
                Ok(peer) => peer,
                Err(failure) => return Ok(AttemptOutcome::Unreachable(failure)),
            };
        request.check_not_marked(false)?;
        let _markers = request.mark_sources()?;
        let options = request.source_options(&mut site, origins, peer.capabilities)?;
        reporter.begin(earlier);
        self.run_transfer(reporter, Source::new(options)?, site, peer)
    }

    fn run_transfer<C: TransferCore<Slab>>(
        &self,
        reporter: &mut Reporter<'_>,
        mut core: C,
        site: SideSetup<'_>,
        mut peer: ReadyPeer,
    ) -> Result<AttemptOutcome, TransferError> {
        let (port, streams) = match peer.link {
            DataLink::ControlChannel(ends) => {
                (FilePort::over(site.setting(None, Some(reporter)), ends), None)
            }
            DataLink::DataConnections(connections, to, from) => {
                let setting = site.setting(Some(&connections), Some(reporter));
                (FilePort::over_streams(setting, connections), Some((to, from)))
            }
        };
        let monitor = LinkMonitor::new(peer.silence_limit);
        // A user at a terminal can interrupt a transfer whose local storage does not respond.
        let storage = self.transfer.attached.then(|| monitor.storage());
        let has_peer = peer.exchange != CapacityExchange::None;
        let lent = self.capacity.map(Borrowed::current).or_else(|| has_peer.then(CurrentRate::of_peer));
        let limits = PortLimits { has_peer, ..PortLimits::lent(lent.clone()) };
        let mut port = PacedPort::new(port.map_err(TransferError::Io)?, monitor, limits);
        let began = Instant::now();
        let each = |core: &mut C| {
            reporter.update(core);
            reporter.lent(lent.as_deref());
            if let Some(storage) = &storage {
                storage.stop(core);
            }
        };
        drive(&mut core, &mut port, || began.elapsed(), each);
        reporter.update(&mut core);
        let closed = port.is_closed();
        let ours = self.local_side();
        if port.is_silent() {
            // The port would wait for its last packets to be written.
            peer.connection.abort();
        }
        drop(port);
        drop(streams);
        peer.connection.end();
        let totals = job_totals(core.totals());
        Ok(match reporter.is_lost(ours, closed) {
            true => AttemptOutcome::Lost { totals, reached: core.progress(), why: reporter.why() },
            false => AttemptOutcome::Over(totals),
        })
    }

    /// Returns the capacity that this host lends, for a daemon. An earlier connection is forgotten.
    fn hello_capacity(&self) -> HelloCapacity {
        let Some(borrowed) = self.capacity else { return HelloCapacity::default() };
        borrowed.current().request(&CapacityRequest::PeerRestarted);
        HelloCapacity { host: borrowed.host.clone(), offer: borrowed.current().offer() }
    }

    /// Informs this host's broker if the other host lends nothing.
    fn agree_on_exchange(&self, exchange: CapacityExchange) {
        if exchange != CapacityExchange::Negotiates {
            if let Some(borrowed) = self.capacity {
                borrowed.current().request(&CapacityRequest::NoPeer);
            }
        }
    }

    /// Starts the peer for a role; the inner error allows a retry.
    fn start(
        &self,
        reporter: &mut Reporter<'_>,
        target: &PeerTarget<'_>,
        role: PeerRole,
    ) -> Result<Result<ReadyPeer, TransferError>, TransferError> {
        let (network, host) = (&self.transfer.network, self.host.display_name());
        let others = match network.extra_addresses() {
            Ok(others) => others,
            // They were resolved before, and may be again.
            Err(failure) => return Ok(Err(failure)),
        };
        let mut process =
            match target.connect(reporter, (network, self.hello_capacity()), &others, role.side())? {
                Ok(process) => process,
                Err(failure) => return Ok(Err(failure)),
            };
        let streams = process.streams().unwrap_or(network.streams());
        let ours = (!network.tunnel).then(|| LocalOffer::new(network.data_security, streams));
        let ours = ours.transpose().map_err(TransferError::Io)?;
        let offer = ours.as_ref().map(|ours| process.offer(ours, network.data_port));
        let timeout = network.timeout.map(|limit| limit.as_secs() as u32);
        let mut wait = PeerWait { reporter: &mut *reporter, host: &host, limit: network.timeout };
        process.send(&mut wait, &PeerRequest { role, offer, timeout })?;
        let Welcome { streams: most_streams, capacity } = match process.receive_greeting(&mut wait)? {
            Ok(welcome) => welcome,
            Err(failure) => return Ok(Err(failure)),
        };
        self.agree_on_exchange(capacity);
        let ready = match process.receive_reply(&mut wait) {
            Some(PeerReply::Ready(ready)) => ready,
            Some(PeerReply::Refused(why)) => {
                return Err(TransferError::Refused { host, why: sanitize(&why) });
            }
            None => return target.no_reply(process.missing_reply(&host)),
        };
        let ReadyReply { is_one_file, endpoint, remarks, capabilities } = ready;
        for remark in remarks.iter().take(MAX_REMARKS) {
            reporter.notice(Notice::Remark(format!("{host}: {}", sanitize(remark))));
        }
        let connections = ours.map(|ours| {
            let opened = endpoint.unwrap_or_else(|| Err("the peer opened no port".to_owned()));
            let opened = opened.map_err(|why| sanitize(&why))?;
            let connections = process.connect_data(ours, most_streams, opened, &others)?;
            report_unused_addresses(reporter, &others, &connections);
            Ok(connections)
        });
        let (connection, link) = match self.choose_route(reporter, target, connections, process)? {
            Ok(agreed) => agreed,
            Err(failure) => return Ok(Err(failure)),
        };
        Ok(Ok(ReadyPeer {
            connection,
            link,
            is_one_file,
            capabilities,
            silence_limit: network.timeout,
            exchange: capacity,
        }))
    }

    /// Chooses the route of the data, and sends the choice. The inner error allows a retry.
    fn choose_route(
        &self,
        reporter: &mut Reporter<'_>,
        target: &PeerTarget<'_>,
        connections: Option<Result<Vec<Box<dyn DataStream>>, String>>,
        mut process: PeerProcess,
    ) -> Result<Result<(PeerConnection, DataLink), TransferError>, TransferError> {
        let host = self.host.display_name();
        let mut wait = PeerWait { reporter, host: &host, limit: self.transfer.network.timeout };
        match connections {
            None => {}
            Some(Ok(connections)) => {
                process.send(&mut wait, &DataRoute::DataConnections)?;
                let link = DataLink::DataConnections(
                    split_by_direction(connections, self.is_source),
                    process.to,
                    process.from,
                );
                return Ok(Ok((process.connection, link)));
            }
            Some(Err(why)) => match self.fall_back_to_control_channel(wait.reporter, target, &why) {
                None => process.send(&mut wait, &DataRoute::ControlChannel)?,
                Some(failure) => return Ok(Err(failure)),
            },
        }
        let ends = StreamPair { from: Box::new(process.from), to: process.to };
        Ok(Ok((process.connection, DataLink::ControlChannel(ends))))
    }

    /// Falls back to the control channel; returns a failure if a port was requested.
    fn fall_back_to_control_channel(
        &self,
        reporter: &mut Reporter<'_>,
        target: &PeerTarget<'_>,
        why: &str,
    ) -> Option<TransferError> {
        let (host, channel) = (self.host.display_name(), target.channel_name());
        if self.transfer.network.data_port.is_some() {
            return Some(TransferError::NoDataConnection { host, why: why.to_owned(), channel });
        }
        reporter.notice(Notice::NoDataConnection { host, why: why.to_owned(), channel });
        None
    }
}

/// Reports the additional addresses that are not in use.
fn report_unused_addresses(
    reporter: &mut Reporter<'_>,
    others: &[SocketAddr],
    connections: &[Box<dyn DataStream>],
) {
    let peers: Vec<IpAddr> = connections
        .iter()
        .filter_map(|connection| Some(connection.socket().peer_addr().ok()?.ip()))
        .collect();
    for other in others.iter().map(SocketAddr::ip).filter(|other| !peers.contains(other)) {
        reporter.notice(Notice::UnusedAddress { address: other.to_string() });
    }
}
