//! Keys that authenticate users and daemons: private key files, and the list of known daemons,
//! similar to ssh's.

use crate::TransferError;
use numaio_linux::user_files::{self, Durable};
use numaio_mover_linux::port::net::{PrivateKey, PublicKey};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum size of a key file.
const MAX_KEY_BYTES: u64 = 4 << 10;
/// Maximum size of the list of known daemons.
const MAX_KNOWN_BYTES: u64 = 4 << 20;

/// Returns the named file of a user's key, or the default one in the configuration directory.
pub fn path(named: Option<&Path>) -> Result<PathBuf, TransferError> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => Ok(folder()?.join("key")),
    }
}

/// Returns the directory of keys.
pub fn folder() -> Result<PathBuf, TransferError> {
    user_files::config_dir().ok_or(TransferError::NoKeyDirectory)
}

/// Reads a private key, whose file other users must not be able to read.
pub fn read(path: &Path) -> Result<PrivateKey, TransferError> {
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => TransferError::KeyNotFound { path: path.to_owned(), error },
        _ => TransferError::File { path: path.to_owned(), error },
    };
    let file = user_files::open_stored(path).map_err(unread)?;
    let mode = file.metadata().map_err(unread)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(TransferError::KeyNotPrivate { path: path.to_owned(), mode });
    }
    parse(path, &user_files::read_limited(file, MAX_KEY_BYTES).and_then(user_files::text).map_err(unread)?)
}

/// Parses the text of a key file.
pub fn parse(path: &Path, text: &str) -> Result<PrivateKey, TransferError> {
    let lines: Vec<&str> = lines(text).map(|(_, line)| line).collect();
    match lines[..] {
        [line] => line.parse().map_err(|error| TransferError::InvalidKey { path: path.to_owned(), error }),
        _ => Err(TransferError::NotAKey { path: path.to_owned() }),
    }
}

/// Returns the public key.
pub fn public(key: &PrivateKey) -> Result<PublicKey, TransferError> {
    let keys = key.keys().map_err(TransferError::Io)?;
    PublicKey::from_der(keys.public()).ok_or(TransferError::NoPublicKey)
}

/// Generates a key in a new file.
pub fn generate(path: &Path) -> Result<PublicKey, TransferError> {
    let key = PrivateKey::generate().map_err(TransferError::Io)?;
    let public = public(&key)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_private_folder(folder)?;
    }
    let text = format!("# Keep this private key secret. Its public key:\n# {public}\n{}\n", key.text());
    match user_files::create_private(path, text.as_bytes()) {
        Ok(true) => Ok(public),
        Ok(false) => Err(TransferError::KeyExists { path: path.to_owned() }),
        Err(error) => Err(TransferError::CannotWrite { path: path.to_owned(), error }),
    }
}

/// The list of known daemons: lines of HOST:PORT and a key.
#[derive(Debug)]
pub struct KnownDaemons {
    /// Path of the list.
    pub path: PathBuf,
    text: String,
}

impl KnownDaemons {
    /// Reads the list; it is empty if the file does not exist.
    pub fn read() -> Result<Self, TransferError> {
        let path = folder()?.join("known_hosts");
        let text = Self::read_or_empty(&path)?;
        Ok(Self { path, text })
    }

    fn read_or_empty(path: &Path) -> Result<String, TransferError> {
        match user_files::read_trusted_text(path, MAX_KNOWN_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            text => text.map_err(|error| TransferError::File { path: path.to_owned(), error }),
        }
    }

    /// Makes a list of a text.
    pub fn parse(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns the keys of a host with its port.
    pub fn keys(&self, host: &str) -> Result<Vec<PublicKey>, TransferError> {
        let mut keys = Vec::new();
        for (number, line) in lines(&self.text) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = || TransferError::InvalidKnownDaemon { path: self.path.clone(), line: number };
            let [name, key] = words[..] else { return Err(wrong()) };
            let key = key.parse().map_err(|_| wrong())?;
            if name == host {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Returns the text with another key.
    pub fn with_key(&self, host: &str, key: PublicKey) -> String {
        let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        format!("{}{end}{host} {key}\n", self.text)
    }

    /// Adds a key of a host, and keeps what other processes have added since the file was read.
    pub fn add(&mut self, host: &str, key: PublicKey) -> Result<(), TransferError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        create_private_folder(folder)?;
        // Only one process at a time, if the file system has locks (flock(2)).
        let lock = user_files::lock_directory(folder).ok();
        self.text = Self::read_or_empty(&self.path)?;
        self.text = self.with_key(host, key);
        let written = user_files::replace_file(&self.path, self.text.as_bytes(), Durable(true));
        drop(lock);
        written.map_err(|error| TransferError::CannotWrite { path: self.path.clone(), error })
    }
}

/// Creates a directory that only its owner can access, unless it exists.
fn create_private_folder(folder: &Path) -> Result<(), TransferError> {
    let made = user_files::create_directory(folder, 0o700);
    made.map_err(|error| TransferError::CannotWrite { path: folder.to_owned(), error })
}

/// Returns the lines that are not empty or comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
