//! Decoders of untrusted input, exposed for fuzzing without side effects.
//!
//! They cover control channels with a daemon's decisions, a daemon's configuration, events and
//! descriptions of other hosts, and stored files that may be damaged.

pub use crate::commands::copy::decode::{
    address, event, greeting, peer_reply, peer_request, remote_system, DecodedReply, DecodedRequest,
};
pub use crate::commands::copy::peer::Grants;
pub use crate::commands::serve::config::{Config, ConfigError};
pub use crate::commands::serve::decode::{admission_request, hello, Admitted};

use numaio_mover_linux::port::net::{PrivateKey, PublicKey};
use numaio_report::TextStyle;
use numaio_transfer::jobs;
use numaio_transfer::keys::{self, KnownDaemons};
use numaio_transfer::TransferError;
use std::ffi::OsString;
use std::path::Path;

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
