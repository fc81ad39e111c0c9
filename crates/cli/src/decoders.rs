//! What numaio reads of others, decoded as its commands do, and nothing done about it: for who tries it with any bytes.
//!
//! Lines of a control channel, with what a daemon makes of them; the file of a daemon; what another numaio or another host
//! tells; files that are kept here and may be damaged.

pub use crate::commands::copy::decode::{
    address, event, greeting, peer_reply, peer_request, remote_system, DecodedReply, DecodedRequest,
};
pub use crate::commands::copy::peer::Grants;
pub use crate::commands::serve::config::{Config, ConfigError};
pub use crate::commands::serve::decode::{admission_request, hello, Admitted};

use crate::failure::Failure;
use crate::jobs;
use crate::keys::{self, KnownDaemons};
use numaio_linux::port::net::{PrivateKey, PublicKey};
use numaio_report::TextStyle;
use std::ffi::OsString;
use std::path::Path;

/// Keys of a daemon in a list of those that are known, by its host and port.
///
/// # Errors
/// What is wrong in the list, for people.
pub fn known_keys(list: &str, place: &str) -> Result<Vec<PublicKey>, String> {
    message(KnownDaemons::parse(Path::new("list"), list).keys(place))
}

/// The list with one more key.
pub fn with_known_key(list: &str, place: &str, key: PublicKey) -> String {
    KnownDaemons::parse(Path::new("list"), list).with_key(place, key)
}

/// The key in a file of one, and its public half.
///
/// # Errors
/// What is wrong with the file, for people.
pub fn private_key(text: &str) -> Result<(PrivateKey, PublicKey), String> {
    message(
        keys::parse(Path::new("key"), text).and_then(|key| keys::public(&key).map(|public| (key, public))),
    )
}

/// A job that was noted: as it is noted again, as it is shown alone and in a list, and its command.
///
/// # Errors
/// Why it is none, for people.
pub fn job(text: &str) -> Result<(String, [String; 2], Vec<OsString>), String> {
    let job = message(jobs::parse(Path::new("job"), text))?;
    let again = jobs::json(&job).map_err(|error| error.to_string())?;
    let style = TextStyle::default();
    let shown =
        [numaio_report::job_text(&job, &style), numaio_report::jobs_text(std::slice::from_ref(&job), &style)];
    let command = job.command.iter().map(jobs::to_os_string).collect();
    Ok((String::from_utf8_lossy(&again).into_owned(), shown, command))
}

fn message<T>(done: Result<T, Failure>) -> Result<T, String> {
    done.map_err(|failure| failure.message)
}
