//! A peer for the owner of an ssh key, confined to one directory: `command=` in authorized_keys.

use crate::daemon::hello::CapacityExchange;
use crate::line::sanitize;
use crate::peer::{self, GrantKind, Grants, ServedTransfer};
use crate::placement::Placer;
use crate::TransferError;
use numaio_linux::interrupt;
use numaio_mover::wire::Side;
use numaio_mover_linux::confine::confine;
use numaio_mover_linux::files::{Base, Rights};
use numaio_mover_linux::port::net::MAX_STREAMS;
use numaio_mover_linux::port::StreamPair;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Environment variable with the command that the client of sshd requested (ssh(1)).
pub const COMMAND_VARIABLE: &str = "SSH_ORIGINAL_COMMAND";

/// Last words of the command by which numaio starts its remote side.
const PEER_COMMAND: [&[u8]; 2] = [b"peer", b"--copy"];

/// Runs the remote side of one transfer on the standard streams, with paths below a directory, if
/// that is the command that the client requested. `side` is the only side that it may take.
///
/// # Errors
/// Another command was requested, or the transfer did not begin.
pub fn serve(
    directory: &Path,
    side: Option<Side>,
    command: Option<&OsStr>,
    placer: &dyn Placer,
) -> Result<ServedTransfer, TransferError> {
    let command = command.ok_or(TransferError::NoForcedCommand { variable: COMMAND_VARIABLE })?;
    if !is_peer_command(command) {
        let command = sanitize(&command.to_string_lossy());
        return Err(TransferError::CommandNotAllowed { command });
    }
    interrupt::install().map_err(TransferError::Io)?;
    let cannot_open = |error| TransferError::File { path: directory.to_owned(), error };
    let base = Base::below(directory).map_err(cannot_open)?;
    let rights = if side == Some(Side::Source) { Rights::Read } else { Rights::Write };
    // Without Landlock, the resolution of paths alone confines the peer.
    let rules: Vec<_> = base.directory().into_iter().map(|directory| (directory, rights)).collect();
    confine(&rules).map_err(TransferError::Io)?;
    let grants = Grants {
        base,
        kind: GrantKind::SshKey(side),
        streams: MAX_STREAMS as u16,
        bytes_per_second: None,
        capacity: None,
        exchange: CapacityExchange::None,
        // A program with set-ID bits would grant the rights of this account to other users.
        set_id: false,
    };
    let ends = StreamPair { from: Box::new(io::stdin()), to: Box::new(io::stdout()) };
    peer::serve(ends, Some(&grants), None, placer)
}

/// Returns whether a command starts the remote side of a transfer. It is not run, so that its first
/// words, the path of numaio, do not matter.
fn is_peer_command(command: &OsStr) -> bool {
    let words = command.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Vec<&[u8]> = words.collect();
    words.len() > PEER_COMMAND.len() && words.ends_with(&PEER_COMMAND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_of_the_remote_side_is_allowed() {
        for command in ["'numaio' peer --copy", "'sudo' '/opt/my numaio' peer  --copy\n"] {
            assert!(is_peer_command(command.as_ref()), "{command}");
        }
        for command in ["", "ls", "peer --copy", "'numaio' peer --copy; ls", "'numaio' 'copy' '--attached'"] {
            assert!(!is_peer_command(command.as_ref()), "{command}");
        }
    }
}
