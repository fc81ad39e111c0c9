//! Errors of transfers.
//!
//! [`TransferError`] has the message: what failed, on which object, and why. The `cli` crate adds
//! the hint and the exit status (`cli/src/failure/transfer.rs`), which it chooses by variant and
//! fields.

use crate::endpoint::EndpointError;
use crate::line::sanitize;
use crate::ssh::SSH_FAILED;
use numaio_mover::chunk::ChunkPolicyError;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::{InvalidPrivateKey, PublicKey};
use numaio_schema::DocumentError;
use std::io;
use std::path::PathBuf;

/// Why a transfer, or an operation on its keys and job records, failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// An operation on a file failed.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("{path}: {error}")]
    CannotWrite {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// An operation failed whose error needs no context.
    #[error(transparent)]
    Io(io::Error),

    /// A program cannot be started.
    #[error("cannot start {program}: {error}")]
    CannotStart {
        /// Name or path of the program.
        program: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The process on another host exited without a reply; its stderr was relayed.
    #[error("no numaio answers on {host}")]
    NoAnswer {
        /// Name of the host.
        host: String,
        /// Exit status; `None` if the process was killed or has not exited.
        status: Option<i32>,
    },
    /// The process that identifies another host exited without a description of it.
    #[error("cannot identify the system of {host}")]
    UnidentifiedSystem {
        /// Name of the host.
        host: String,
        /// Exit status; `None` if the process was killed or has not exited.
        status: Option<i32>,
    },

    /// Keys have no directory.
    #[error("there is no directory for keys: neither HOME nor XDG_CONFIG_HOME is set")]
    NoKeyDirectory,
    /// The file of a private key does not exist.
    #[error("{path}: {error}")]
    KeyNotFound {
        /// Path of the key.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// Other users can read or write a private key.
    #[error("{path}: other users may access this key: its mode is {mode:03o}")]
    KeyNotPrivate {
        /// Path of the key.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// A key file does not have exactly one line besides comments.
    #[error("{path}: not a key of numaio")]
    NotAKey {
        /// Path of the file.
        path: PathBuf,
    },
    /// The line of a key file is not a private key.
    #[error("{path}: {error}")]
    InvalidKey {
        /// Path of the file.
        path: PathBuf,
        /// Expected format of a key.
        error: InvalidPrivateKey,
    },
    /// A private key has no Ed25519 public key.
    #[error("the key has no public half")]
    NoPublicKey,
    /// A new key would replace an existing file.
    #[error("{path}: the file already exists")]
    KeyExists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A line of the list of known daemons is invalid.
    #[error("{path}: line {line} is not 'HOST:PORT KEY'")]
    InvalidKnownDaemon {
        /// Path of the list.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },

    /// Job records have no directory.
    #[error("no state directory")]
    NoStateDirectory,
    /// No job has this number.
    #[error("job {id} not found")]
    JobNotFound {
        /// Number of the job.
        id: u32,
    },
    /// A file is not a job record.
    #[error("{path}: {}", job_record_text(.error))]
    InvalidJob {
        /// Path of the file.
        path: PathBuf,
        /// Error of the JSON text, which may quote the file.
        error: DocumentError,
    },
    /// The job with the highest possible number exists.
    #[error("{path}: the highest job number is taken")]
    NoJobNumber {
        /// Path of the job with the highest number.
        path: PathBuf,
    },

    /// A pattern of a filter rule is invalid.
    #[error("pattern {pattern:?}: {why}")]
    InvalidPattern {
        /// The pattern, lossy.
        pattern: String,
        /// Its fault.
        why: String,
    },
    /// There are fewer data connections than addresses.
    #[error("--streams {streams} are too few for {addresses} addresses")]
    TooFewStreams {
        /// Number of data connections.
        streams: u16,
        /// Number of addresses of the other host.
        addresses: usize,
    },
    /// An additional address of the other host has no address.
    #[error("--via {name}: {why}")]
    UnresolvedAddress {
        /// The name, as typed.
        name: String,
        /// Why it has no address.
        why: String,
    },
    /// A source or destination is not a path with or without a host, or the sources have
    /// different hosts.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The sizes of chunks are out of range.
    #[error(transparent)]
    ChunkPolicy(#[from] ChunkPolicyError),
    /// Both ends are remote, and the sources are at a daemon.
    #[error("a daemon cannot send to another remote host")]
    FromDaemonToHost,
    /// An option names a file here, and the transfer runs on another host.
    #[error("{option} names a local file, but the transfer runs on {host}")]
    LocalFile {
        /// The option.
        option: String,
        /// Name of the host.
        host: String,
    },
    /// A path has no last component that could be the name of a file.
    #[error("{path} does not end with a name: append the name of the file or directory")]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// The transfer would destroy a source.
    #[error("'{path}' is source and destination")]
    SourceIsDestination {
        /// Path of the source.
        path: PathBuf,
        /// How it would be destroyed.
        why: &'static str,
    },

    /// A source is inside a directory where the transfer would destroy it.
    #[error("'{path}' is inside {outer}, and this transfer could destroy it")]
    SourceInside {
        /// Path of the source.
        path: PathBuf,
        /// The directory that contains it.
        outer: &'static str,
    },
    /// A directory of the destination cannot be marked, to prove that it is not the source.
    #[error("cannot prove that '{path}' is not the source: no marker file there: {error}")]
    NotMarked {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },

    /// A run that completes the work of shards found one that has not ended.
    #[error("shard {number} is still running into '{path}'")]
    ShardRunning {
        /// Number of the shard, from 1.
        number: u32,
        /// The destination.
        path: PathBuf,
    },

    /// The destination exists and is not a directory.
    #[error("'{path}' is not a directory")]
    NotADirectory {
        /// The destination.
        path: PathBuf,
    },
    /// The directory of the destination does not exist. The message has the remedy, because hints
    /// are not sent to another host.
    #[error(
        "{path}: directory '{parent}' does not exist, and only the last one is created; --mkpath creates all"
    )]
    NoParentDirectory {
        /// The destination.
        path: PathBuf,
        /// Its parent directory.
        parent: PathBuf,
    },
    /// The root directory of a side cannot be opened.
    #[error("{path}: {error} ({side})")]
    CannotOpenRoot {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
        /// `source` or `destination`.
        side: &'static str,
    },
    /// Attributes cannot be accessed, and would look absent.
    #[error("cannot access modes and extended attributes: /proc is not mounted")]
    ProcNotMounted,
    /// The kernel has no random numbers.
    #[error("cannot get random numbers: {0}")]
    NoRandomNumbers(io::Error),

    /// A child process was started without pipes.
    #[error("the {process} process has no streams")]
    NoStreams {
        /// `ssh` or `remote`.
        process: &'static str,
    },
    /// The request is longer than a peer accepts.
    #[error("the name and rule lists are too long for a remote transfer")]
    RequestTooLong,
    /// An interrupt arrived before the peer answered.
    #[error("interrupted before {host} answered")]
    InterruptedBeforeReply {
        /// Name of the host.
        host: String,
    },
    /// The peer did not answer in time.
    #[error("{host} did not answer within {seconds} s")]
    PeerTimedOut {
        /// Name of the host, or HOST:PORT of a daemon.
        host: String,
        /// Time limit in seconds.
        seconds: u64,
    },
    /// The peer's first line is not a reply of numaio.
    #[error("the program on {host} is not numaio: {beginning}")]
    NotNumaio {
        /// Name of the host.
        host: String,
        /// Sanitized beginning of the line.
        beginning: String,
    },
    /// A daemon closed the session without a reply.
    #[error("no numaio answers on {host}")]
    SessionClosed {
        /// HOST:PORT of the daemon.
        host: String,
    },
    /// The peer refuses the request.
    #[error("{host}: {why}")]
    Refused {
        /// Name of the host, or HOST:PORT of a daemon.
        host: String,
        /// Sanitized reason.
        why: String,
    },
    /// No data connection could be opened, and other ways were excluded.
    #[error("no data connection to {host}: {why}")]
    NoDataConnection {
        /// Name of the host.
        host: String,
        /// Why.
        why: String,
        /// Name of the channel that could carry the data.
        channel: &'static str,
    },

    /// A daemon cannot be reached.
    #[error("no numaio daemon answers at {host}: {error}")]
    DaemonUnreachable {
        /// HOST:PORT.
        host: String,
        /// Error of the connection.
        error: io::Error,
    },
    /// A daemon has no slot for another connection.
    #[error("the daemon at {host} is full: {why}")]
    DaemonFull {
        /// HOST:PORT.
        host: String,
        /// The limit that it has reached.
        why: String,
    },
    /// Something answers at the address of a daemon, and opens no channel.
    #[error("no numaio daemon answers at {host}: {why}")]
    NoDaemonChannel {
        /// HOST:PORT.
        host: String,
        /// Error of the channel.
        why: String,
    },
    /// A daemon has another key than the passed one.
    #[error("the daemon at {host} has the key {key}, not {expected} of --trust")]
    OtherDaemonKey {
        /// HOST:PORT.
        host: String,
        /// The daemon's key.
        key: PublicKey,
        /// The passed key.
        expected: PublicKey,
    },
    /// A daemon is not in the list of known daemons.
    #[error("the daemon at {host} is not known; it has the key {key}")]
    UnknownDaemon {
        /// HOST:PORT.
        host: String,
        /// The daemon's key.
        key: PublicKey,
    },
    /// A daemon has another key than the list of known daemons.
    #[error(
        "THE KEY OF {host} HAS CHANGED: it is {key}, and was {known}. Either the connection is intercepted, or \
         the daemon has a new key"
    )]
    DaemonKeyChanged {
        /// HOST:PORT.
        host: String,
        /// The daemon's key.
        key: PublicKey,
        /// The key in the list.
        known: PublicKey,
        /// Path of the list.
        list: PathBuf,
    },

    /// A host without numaio has another system or architecture.
    #[error("{host} is {theirs}, and this numaio is for {ours}")]
    OtherSystem {
        /// Name of the host.
        host: String,
        /// System and architecture of the host.
        theirs: String,
        /// System and architecture of this program.
        ours: String,
    },
    /// This program's file cannot be read.
    #[error("cannot read this program to copy it: {0}")]
    CannotReadProgram(io::Error),
    /// This program cannot be copied to a host.
    #[error("cannot copy numaio to {host}: it could not {what}")]
    CannotInstall {
        /// Name of the host.
        host: String,
        /// The failed step, sanitized.
        what: String,
    },
    /// The connection was closed while this program was copied to a host.
    #[error("cannot copy numaio to {host}: the connection was closed")]
    InstallInterrupted {
        /// Name of the host.
        host: String,
    },

    /// Another numaio sent something else than an event.
    #[error("expected an event from the other side: {0}")]
    NotAnEvent(serde_json::Error),
    /// The numaio on the source host reported its failure on stderr, which was relayed.
    #[error("numaio on {host} failed")]
    RemoteFailed {
        /// Name of the host.
        host: String,
        /// Its exit status.
        status: u8,
    },
    /// The numaio on the source host disappeared.
    #[error("numaio on {host} was killed")]
    RemoteKilled {
        /// Name of the host.
        host: String,
    },
    /// The transfer was interrupted on the source host.
    #[error("the transfer was interrupted on {host}")]
    RemoteInterrupted {
        /// Name of the host.
        host: String,
    },

    /// The first line of a client is not a request.
    #[error("expected a request of numaio copy: {0}")]
    NotARequest(io::Error),
    /// The other numaio speaks another version of the protocol.
    #[error("the other numaio speaks version {theirs}, and this one {ours}")]
    OtherVersion {
        /// Version of the request.
        theirs: u32,
        /// Version of this program.
        ours: u32,
    },
    /// Changes of modes are invalid.
    #[error("invalid value for --chmod: {why}")]
    InvalidModes {
        /// Expected syntax.
        why: String,
    },
    /// The destination does not know a user or group.
    #[error("the destination has no {kind} '{name}'")]
    UnknownAccount {
        /// `user` or `group`.
        kind: &'static str,
        /// Name or ID.
        name: String,
    },
    /// The process at the destination cannot set an owner.
    #[error("cannot set the {kind} '{name}': numaio does not run as root at the destination")]
    OwnerNotPermitted {
        /// `user` or `group`.
        kind: &'static str,
        /// Name or ID.
        name: String,
    },
    /// A client of a daemon wants to remove what it reads.
    #[error("a daemon does not remove the files that it sends")]
    SourceNotRemovable,
    /// The plan for the threads of the peer does not hold there, with the reason.
    #[error("--remote-plan cannot be used: {0}")]
    RemotePlan(String),
    /// A restricted user wants to place the threads of the peer.
    #[error("a daemon or restricted peer places its threads itself: omit --remote-plan")]
    RemotePlanNotAllowed,
    /// A client of a daemon requests another side than it announced.
    #[error("the request is for another side than the hello")]
    OtherSide,
    /// The owner of an ssh key requests a side that the key does not allow.
    #[error("this key only allows numaio copy to {}", if *.allowed == Side::Source { "read here" } else { "write here" })]
    SideNotAllowed {
        /// The side that the key allows here.
        allowed: Side,
    },
    /// A forced command of sshd was started without a command of a client.
    #[error("{variable} is not set")]
    NoForcedCommand {
        /// Name of the variable.
        variable: &'static str,
    },
    /// The owner of an ssh key requests another command than numaio's.
    #[error("this key only allows numaio copy, not '{command}'")]
    CommandNotAllowed {
        /// The command, sanitized.
        command: String,
    },
    /// A client chose data connections that were not offered.
    #[error("data connections were chosen, but there is no listener")]
    NoListener,
    /// The other side disconnected before the transfer began.
    #[error("the other side disconnected before the transfer began")]
    Disconnected,
}

impl TransferError {
    /// Whether a connection that failed by this error may succeed later, without a change by a
    /// user.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::NoAnswer { status, .. } | Self::UnidentifiedSystem { status, .. } => {
                status.is_none_or(|status| status == SSH_FAILED)
            }
            Self::DaemonFull { .. }
            | Self::DaemonUnreachable { .. }
            | Self::NoDaemonChannel { .. }
            | Self::NoDataConnection { .. }
            | Self::PeerTimedOut { .. }
            | Self::SessionClosed { .. }
            | Self::InstallInterrupted { .. }
            | Self::UnresolvedAddress { .. }
            | Self::Refused { .. } => true,
            _ => false,
        }
    }
}

/// Describes an invalid job record without the control characters that the file may contain.
fn job_record_text(error: &DocumentError) -> String {
    sanitize(&format!("not a job record: {error}"))
}
