//! What is heard of another side before a transfer, decoded as it is there, and where it leads: see [`crate::decoders`].

use super::bootstrap::RemoteSystem;
use super::daemon_address::DaemonAddress;
use super::daemon_client;
use super::daemon_hello::{self, DaemonGreeting};
use super::data_connections::{candidate_addresses, DataRoute};
use super::event::{self, Event};
use super::first_reply::{self, FirstReply};
use super::peer::{receive, receive_request, Grants, PeerReply, PeerRole};
use super::peer_process::PeerReader;
use super::transfer_options::Placement;
use crate::commands::json_line;
use crate::failure::Failure;
use crate::output::harmless;
use numaio_machine::units::BandwidthUnit;
use numaio_mover::source::Source;
use std::io::{BufReader, Cursor};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

fn stream(received: &[u8]) -> PeerReader {
    BufReader::new(Box::new(Cursor::new(received.to_vec())))
}

/// What a session of a daemon makes of a call and of what follows it.
#[derive(Debug)]
pub struct DecodedRequest {
    /// The call as JSON, on the terms of the daemon.
    pub request: String,
    /// Where the directories are in which it begins, as the kernel tells; or why it does not begin.
    pub directories: Result<Vec<PathBuf>, String>,
    /// Which way was chosen for data, as JSON; none if that is not what follows.
    pub route: Option<String>,
}

/// A call to a daemon for one of its users, and perhaps a choice. Opens the directories that it is about, and makes the one
/// that a sink makes: so the base of the terms is below a directory.
///
/// # Errors
/// What the other side is told.
pub fn peer_request(received: &[u8], grants: &Grants) -> Result<DecodedRequest, String> {
    let mut from = stream(received);
    let mut request = receive_request(&mut from, Some(grants)).map_err(|failure| failure.message)?;
    let text = json_line(&request).map_err(|error| error.to_string())?;
    let route = receive::<DataRoute>(&mut from).ok().and_then(|route| json_line(&route).ok());
    let (PeerRole::Source(transfer) | PeerRole::Sink(transfer, _)) = &mut request.role;
    // Where threads run is found out from files of the kernel alone, and takes long.
    transfer.placement = Placement::None;
    let site = match &request.role {
        PeerRole::Source(transfer) => transfer.source().and_then(|(site, options)| {
            Source::<Vec<u8>>::new(options).map_err(Failure::new)?;
            Ok(site)
        }),
        PeerRole::Sink(transfer, one_file) => transfer.sink(*one_file).map(|(site, _)| site),
    };
    let directories = site.and_then(|site| site.roots.paths().map_err(Failure::new));
    Ok(DecodedRequest { request: text, directories: directories.map_err(|failure| failure.message), route })
}

/// How many data connections a daemon allows, by its greeting.
///
/// # Errors
/// Why it does not serve us, for people.
pub fn greeting(received: &[u8]) -> Result<u16, String> {
    let received: FirstReply<DaemonGreeting> =
        first_reply::receive(&mut stream(received), daemon_hello::MAX_LINE_BYTES);
    daemon_client::check_greeting("host:1", Some(received))
        .and_then(|welcome| welcome)
        .map_err(|failure| failure.message)
}

/// What a far side answers to a call.
#[derive(Debug)]
pub struct DecodedReply {
    /// The answer as JSON.
    pub reply: String,
    /// Where data connections are tried if ssh led there. Those to a daemon are made before it answers.
    pub addresses: Vec<SocketAddr>,
}

/// The answer of a far side at some address.
///
/// # Errors
/// What people are told of another answer.
pub fn peer_reply(received: &[u8], at: IpAddr) -> Result<DecodedReply, String> {
    let answer = match first_reply::receive(&mut stream(received), first_reply::MAX_REPLY_BYTES) {
        FirstReply::Reply(answer) => answer,
        FirstReply::Unexpected(beginning) => return Err(beginning),
        FirstReply::Closed => return Err(String::new()),
    };
    let text = json_line(&answer).map_err(|error| error.to_string())?;
    let addresses = match answer {
        PeerReply::Refused(why) => return Err(harmless(&why)),
        PeerReply::Ready { endpoint: Some(Err(why)), .. } => return Err(harmless(&why)),
        PeerReply::Ready { endpoint: Some(Ok(opened)), .. } => {
            candidate_addresses(&opened, Some(at.to_string()))
        }
        PeerReply::Ready { endpoint: None, .. } => Vec::new(),
    };
    Ok(DecodedReply { reply: text, addresses })
}

/// What another numaio tells of its transfer, as JSON; with that, what of it is shown to people, as JSON and as text. None if it is no event.
pub fn event(line: &[u8]) -> Option<(String, String, String)> {
    let event: Event = serde_json::from_slice(line).ok()?;
    let (text, shown) = (event.line(), event.harmless());
    let line = shown.line();
    let words = match &shown {
        Event::Did(change) | Event::Would(change) => format!("{}: {}", change.action, change.name),
        Event::Problem(problem) => {
            let told = event::to_job_problem(&event::from_job_problem(problem), problem.name.clone());
            format!("{}: {} ({}, {})", told.name.unwrap_or_default(), told.text, told.side, told.reason)
        }
        Event::Progress(progress) => {
            numaio_report::progress_text(&progress.totals, 0.5, BandwidthUnit::default())
        }
        Event::End(end) => {
            numaio_report::transfer_text(&end.totals, end.seconds, end.done, BandwidthUnit::default())
        }
        Event::Other => String::new(),
    };
    Some((text, line, words))
}

/// What a host without numaio tells of itself: its system, and where a copy of ours would be.
pub fn remote_system(text: &str) -> Option<(String, String)> {
    RemoteSystem::parse(text).map(|there| (there.system, there.file))
}

/// What follows the scheme of a daemon's address: the same as it is written, and under what its key is known.
///
/// # Errors
/// What is wrong with it.
pub fn address(text: &[u8]) -> Result<(Vec<u8>, String), &'static str> {
    let (address, path) = DaemonAddress::parse(text)?;
    Ok(([address.to_string().as_bytes(), &path].concat(), address.host_port()))
}
