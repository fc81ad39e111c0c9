//! Decoders of a peer's messages before a transfer, for fuzzing: see [`crate::decoders`].

use super::bootstrap::RemoteSystem;
use super::daemon_address::DaemonAddress;
use super::daemon_client;
use super::daemon_hello::{self, DaemonGreeting};
use super::data_connections::{candidate_addresses, DataRoute};
use super::event::{self, Event};
use super::first_reply::{self, FirstReply};
use super::options::Placement;
use super::peer::{receive, receive_request, Grants, PeerReply, PeerRole};
use super::peer_process::PeerReader;
use super::placement::KernelPlacer;
use crate::failure::Failure;
use crate::output::json_line;
use crate::output::sanitize;
use numaio_machine::units::BandwidthUnit;
use numaio_mover::source::Source;
use std::io::{BufReader, Cursor};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

fn stream(received: &[u8]) -> PeerReader {
    BufReader::new(Box::new(Cursor::new(received.to_vec())))
}

/// A decoded request to a daemon, with the data route that may follow it.
#[derive(Debug)]
pub struct DecodedRequest {
    /// The request as JSON, limited to the user's grants.
    pub request: String,
    /// Canonical paths of the directories that the transfer opens, or the error.
    pub directories: Result<Vec<PathBuf>, String>,
    /// The data route as JSON, if one follows.
    pub route: Option<String>,
}

/// Decodes a user's request to a daemon and the data route after it.
///
/// Opens the directories of the request and creates the destination of a sink, so `grants` must
/// confine them.
///
/// # Errors
/// The error that the daemon replies.
pub fn peer_request(received: &[u8], grants: &Grants) -> Result<DecodedRequest, String> {
    let mut from = stream(received);
    let mut request = receive_request(&mut from, Some(grants)).map_err(|failure| failure.message)?;
    let text = json_line(&request).map_err(|error| error.to_string())?;
    let route = receive::<DataRoute>(&mut from).ok().and_then(|route| json_line(&route).ok());
    let (PeerRole::Source(transfer) | PeerRole::Sink(transfer, _)) = &mut request.role;
    // Placement reads only kernel files, and is slow.
    transfer.options.placement = Placement::None;
    let site = match &request.role {
        PeerRole::Source(transfer) => transfer.source(&KernelPlacer).and_then(|(site, options)| {
            Source::<Vec<u8>>::new(options).map_err(Failure::new)?;
            Ok(site)
        }),
        PeerRole::Sink(transfer, one_file) => transfer.sink(*one_file, &KernelPlacer).map(|(site, _)| site),
    };
    let directories = site.and_then(|site| site.roots.paths().map_err(Failure::new));
    Ok(DecodedRequest { request: text, directories: directories.map_err(|failure| failure.message), route })
}

/// Decodes a daemon's greeting and returns the allowed number of data connections.
///
/// # Errors
/// The message that the user sees.
pub fn greeting(received: &[u8]) -> Result<u16, String> {
    let received: FirstReply<DaemonGreeting> =
        first_reply::receive(&mut stream(received), daemon_hello::MAX_LINE_BYTES);
    daemon_client::check_greeting("host:1", Some(received))
        .and_then(|welcome| welcome)
        .map_err(|failure| failure.message)
}

/// A decoded reply of a peer.
#[derive(Debug)]
pub struct DecodedReply {
    /// The reply as JSON.
    pub reply: String,
    /// Addresses for data connections to a peer behind ssh; those to a daemon start before its
    /// reply.
    pub addresses: Vec<SocketAddr>,
}

/// Decodes the reply of a peer at an address.
///
/// # Errors
/// The message that the user sees.
pub fn peer_reply(received: &[u8], at: IpAddr) -> Result<DecodedReply, String> {
    let answer = match first_reply::receive(&mut stream(received), first_reply::MAX_REPLY_BYTES) {
        FirstReply::Reply(answer) => answer,
        FirstReply::Unexpected(beginning) => return Err(beginning),
        FirstReply::Closed => return Err(String::new()),
    };
    let text = json_line(&answer).map_err(|error| error.to_string())?;
    let addresses = match answer {
        PeerReply::Refused(why) => return Err(sanitize(&why)),
        PeerReply::Ready { endpoint: Some(Err(why)), .. } => return Err(sanitize(&why)),
        PeerReply::Ready { endpoint: Some(Ok(opened)), .. } => {
            candidate_addresses(&opened, Some(at.to_string()))
        }
        PeerReply::Ready { endpoint: None, .. } => Vec::new(),
    };
    Ok(DecodedReply { reply: text, addresses })
}

/// Decodes an event of another numaio.
///
/// Returns it as JSON, then sanitized as JSON and as text; `None` if it is not an event.
pub fn event(line: &[u8]) -> Option<(String, String, String)> {
    let event: Event = serde_json::from_slice(line).ok()?;
    let (text, shown) = (event.line(), event.sanitize());
    let line = shown.line();
    let words = match &shown {
        Event::Did(change) | Event::Would(change) => format!("{}: {}", change.action, change.name),
        Event::Problem(problem) => {
            let problem = event::to_job_problem(&event::from_job_problem(problem), problem.name.clone());
            format!(
                "{}: {} ({}, {})",
                problem.name.unwrap_or_default(),
                problem.text,
                problem.side,
                problem.reason
            )
        }
        Event::Progress(progress) => {
            numaio_report::progress_text(&progress.totals, 0.5, BandwidthUnit::default())
        }
        Event::End(end) => {
            numaio_report::transfer_text(&end.totals, end.seconds, end.done, BandwidthUnit::default())
        }
        Event::Placement(_) | Event::Other => String::new(),
    };
    Some((text, line, words))
}

/// Decodes the description of a host without numaio: its system, and the path of a copy of this
/// program.
pub fn remote_system(text: &str) -> Option<(String, String)> {
    RemoteSystem::parse(text).map(|there| (there.system, there.file))
}

/// Decodes a daemon's address without its scheme, and returns it as text and as HOST:PORT.
///
/// # Errors
/// Why the address is invalid.
pub fn address(text: &[u8]) -> Result<(Vec<u8>, String), &'static str> {
    let (address, path) = DaemonAddress::parse(text)?;
    Ok(([address.to_string().as_bytes(), &path].concat(), address.host_port()))
}
