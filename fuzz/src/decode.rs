//! Decodes untrusted input as the transfer crate does, without side effects.

use numaio_linux::io::tcp::protocol::{self, Answer, Request};
use numaio_machine::units::BandwidthUnit;
use numaio_mover::source::Source;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::{PrivateKey, PublicKey};
use numaio_report::TextStyle;
use numaio_transfer::capacity::messages::{self, CapacityReply, CapacityRequest, PeerMessage};
use numaio_transfer::daemon::config::Config;
use numaio_transfer::daemon::hello::{self, DaemonGreeting};
use numaio_transfer::daemon::session;
use numaio_transfer::daemon::session_ipc::{SessionReport, MAX_REQUEST_BYTES};
use numaio_transfer::daemon_address::DaemonAddress;
use numaio_transfer::event::{self, Event};
use numaio_transfer::jobs;
use numaio_transfer::json_lines;
use numaio_transfer::keys::{self, KnownDaemons};
use numaio_transfer::line::{json_line, sanitize};
use numaio_transfer::options::Placement;
use numaio_transfer::peer::data_connections::{candidate_addresses, DataRoute};
use numaio_transfer::peer::messages::{receive, PeerReader, PeerReply, PeerRole, ReadyReply};
use numaio_transfer::peer::{receive_request, Grants};
use numaio_transfer::placement::KernelPlacer;
use numaio_transfer::remote::bootstrap::RemoteSystem;
use numaio_transfer::remote::first_reply::{self, FirstReply};
use numaio_transfer::remote::greeting::check_greeting;
use numaio_transfer::reporter::Notice;
use numaio_transfer::TransferError;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io::{BufReader, Cursor, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    let mut request = receive_request(&mut from, Some(grants)).map_err(|error| error.to_string())?;
    let text = json_line(&request).map_err(|error| error.to_string())?;
    let route = receive::<DataRoute>(&mut from).ok().and_then(|route| json_line(&route).ok());
    let (PeerRole::Source(transfer) | PeerRole::Sink(transfer, _)) = &mut request.role;
    // Placement reads only kernel files, and is slow.
    transfer.options.placement = Placement::None;
    let site = match &request.role {
        PeerRole::Source(transfer) => transfer.source(&KernelPlacer).and_then(|(site, options)| {
            Source::<Vec<u8>>::new(options)?;
            Ok(site)
        }),
        PeerRole::Sink(transfer, one_file) => transfer.sink(*one_file, &KernelPlacer).map(|(site, _)| site),
    };
    let directories = site.and_then(|site| site.roots.paths().map_err(TransferError::Io));
    Ok(DecodedRequest { request: text, directories: directories.map_err(|error| error.to_string()), route })
}

/// Decodes a daemon's greeting and returns the allowed number of data connections.
///
/// # Errors
/// The message that the user sees.
pub fn greeting(received: &[u8]) -> Result<u16, String> {
    let received: FirstReply<DaemonGreeting> =
        first_reply::receive(&mut stream(received), hello::MAX_LINE_BYTES);
    let welcome = check_greeting("host:1", Some(received)).and_then(|welcome| welcome);
    welcome.map(|welcome| welcome.streams).map_err(|error| error.to_string())
}

/// Decodes a request to a server of `numaio bench net`.
pub fn bench_request(line: &str) -> Option<Request> {
    protocol::parse(line).ok()
}

/// Decodes an answer of a server of `numaio bench net`.
pub fn bench_answer(line: &str) -> Option<Answer> {
    protocol::parse(line).ok()
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
        PeerReply::Ready(ReadyReply { endpoint: Some(Err(why)), .. }) => return Err(sanitize(&why)),
        PeerReply::Ready(ReadyReply { endpoint: Some(Ok(opened)), .. }) => {
            candidate_addresses(&opened, Some(at.to_string()))
        }
        PeerReply::Ready(ReadyReply { endpoint: None, .. }) => Vec::new(),
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
        Event::Entries(_) | Event::Placement(_) | Event::Alive {} => String::new(),
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

/// An admitted client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The user with the client's key.
    pub user: String,
    /// The requested root.
    pub root: String,
    /// Whether the client reads files from the root (the daemon is the source), or writes to it.
    pub is_source: bool,
}

/// Decodes a hello of a client with a key, and decides whether the daemon serves it.
///
/// # Errors
/// The refusal that the daemon replies, as one line.
pub fn client_hello(config: &Config, key: PublicKey, received: &str) -> Result<Admitted, String> {
    match session::admit(config, key, received) {
        Ok((it, _)) => Ok(Admitted {
            user: it.user.to_owned(),
            root: it.root.to_owned(),
            is_source: it.side == Side::Source,
        }),
        Err(why) => Err(json_line(&DaemonGreeting::refused(&why)).unwrap_or_default()),
    }
}

/// Decodes a session's admission request and returns its user; `None` if it is invalid.
///
/// `received` is limited to the buffer of a local socket.
pub fn admission_request(received: &[u8]) -> Option<String> {
    match local_message(received, MAX_REQUEST_BYTES)? {
        SessionReport::Admission(request) => Some(request.user),
        SessionReport::Unauthenticated(_) | SessionReport::DataConnections(_) | SessionReport::End(_) => None,
    }
}

/// Decodes a message of a local transfer to its daemon; `None` if it is invalid.
pub fn capacity_request(received: &[u8]) -> Option<CapacityRequest> {
    local_message(received, messages::MAX_REQUEST_BYTES)
}

/// Decodes what a daemon lends to a local transfer, and returns the notice about it; `None` if it
/// is invalid.
pub fn capacity_reply(received: &[u8]) -> Option<String> {
    match local_message::<CapacityReply>(received, messages::MAX_REPLY_BYTES)?.sanitized() {
        CapacityReply::Lent(lent) => Some(Notice::Lent(lent).to_string()),
        CapacityReply::Refused(why) => Some(Notice::NoCapacity { why }.to_string()),
        CapacityReply::ForPeer(PeerMessage::Lent(lent)) => Some(Notice::PeerLent(lent).to_string()),
        CapacityReply::Order { host, .. } => Some(host),
        CapacityReply::ForPeer(_) | CapacityReply::Transfers(_) => None,
    }
}

/// Decodes a line from a Unix socket, whose buffer limits it.
fn local_message<T: DeserializeOwned>(received: &[u8], most: usize) -> Option<T> {
    let (mut sender, receiver) = UnixStream::pair().ok()?;
    sender.set_nonblocking(true).ok()?;
    sender.write_all(received).ok()?;
    sender.shutdown(Shutdown::Write).ok()?;
    json_lines::receive(&receiver, most, Some(Duration::from_secs(1))).ok()?
}

/// Returns a daemon's keys in a list of known daemons, by HOST:PORT.
///
/// # Errors
/// The message about an invalid list.
pub fn known_keys(list: &str, place: &str) -> Result<Vec<PublicKey>, String> {
    message(KnownDaemons::parse(Path::new("list"), list).keys(place))
}

/// Returns the list with another key.
pub fn with_known_key(list: &str, place: &str, key: PublicKey) -> String {
    KnownDaemons::parse(Path::new("list"), list).with_key(place, key)
}

/// Parses a key file, and returns the key with its public key.
///
/// # Errors
/// The message about an invalid file.
pub fn private_key(text: &str) -> Result<(PrivateKey, PublicKey), String> {
    message(
        keys::parse(Path::new("key"), text).and_then(|key| keys::public(&key).map(|public| (key, public))),
    )
}

/// Parses a job record; returns its JSON, its text alone and in a list, and its command.
///
/// # Errors
/// The message about an invalid record.
pub fn job(text: &str) -> Result<(String, [String; 2], Vec<OsString>), String> {
    let job = message(jobs::parse(Path::new("job"), text))?;
    let again = jobs::json(&job).map_err(|error| error.to_string())?;
    let style = TextStyle::default();
    let shown =
        [numaio_report::job_text(&job, &style), numaio_report::jobs_text(std::slice::from_ref(&job), &style)];
    let command = job.command.iter().map(jobs::to_os_string).collect();
    Ok((String::from_utf8_lossy(&again).into_owned(), shown, command))
}

fn message<T>(done: Result<T, TransferError>) -> Result<T, String> {
    done.map_err(|error| error.to_string())
}
