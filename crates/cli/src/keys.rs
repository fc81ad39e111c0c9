//! Keys by which users and daemons know each other: files that nobody else may read, and the keys of daemons that were
//! seen before, as ssh has them.

use crate::failure::{self, Failure};
use crate::store;
use numaio_linux::port::net::{PrivateKey, PublicKey};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of the file of a key.
const MAX_KEY_BYTES: u64 = 4 << 10;
/// Most bytes of the file of known daemons.
const MAX_KNOWN_BYTES: u64 = 4 << 20;

/// The file of a user's key: the one that was named, or that in the folder of what users decide.
pub fn path(named: Option<&Path>) -> Result<PathBuf, Failure> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => Ok(folder()?.join("key")),
    }
}

/// Where keys are kept.
pub fn folder() -> Result<PathBuf, Failure> {
    let none = || Failure::new("there is no folder for keys: neither HOME nor XDG_CONFIG_HOME is set");
    store::config_dir().ok_or_else(none)
}

/// Reads a key that nobody else can read.
pub fn read(path: &Path) -> Result<PrivateKey, Failure> {
    let unread = |error: io::Error| {
        let failure = Failure::file(path, &error);
        match error.kind() {
            io::ErrorKind::NotFound => failure.hint("numaio keygen makes a key"),
            _ => failure,
        }
    };
    let mut file = File::open(path).map_err(unread)?;
    let found = file.metadata().map_err(unread)?;
    if !found.is_dir() && found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return Err(Failure::file(path, format!("others may use this key: its mode is {mode:03o}"))
            .hint("chmod 600 it; if others could have read it, make a new one"));
    }
    parse(path, &text(&mut file, MAX_KEY_BYTES).map_err(unread)?)
}

/// The key in the text of a file.
pub fn parse(path: &Path, text: &str) -> Result<PrivateKey, Failure> {
    let lines: Vec<&str> = lines(text).map(|(_, line)| line).collect();
    match lines[..] {
        [line] => line.parse().map_err(|error| Failure::file(path, error)),
        _ => Err(Failure::file(path, "it is no key of numaio")),
    }
}

/// The public half.
pub fn public(key: &PrivateKey) -> Result<PublicKey, Failure> {
    let keys = key.keys().map_err(Failure::new)?;
    PublicKey::from_der(keys.public()).ok_or_else(|| Failure::new("the key has no public half"))
}

/// Makes a key in a file of its own, which is not there yet.
pub fn generate(path: &Path) -> Result<PublicKey, Failure> {
    let key = PrivateKey::generate().map_err(Failure::new)?;
    let public = public(&key)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_private_folder(folder)?;
    }
    let text =
        format!("# Whoever has this is you. The public half, for others:\n# {public}\n{}\n", key.text());
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = made.and_then(|mut file| {
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        // Half a key is none, and would be in the way of another.
        written.inspect_err(|_| drop(std::fs::remove_file(path)))
    });
    written.map_err(
        |error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::file(path, "it is there already").hint(
                format!("numaio keygen --public {} prints its public half; whoever replaces it is unknown to all who know it", path.display()),
            ),
            _ => failure::unwritten(path, &error),
        },
    )?;
    Ok(public)
}

/// Daemons that were trusted before: lines of a host with its port, and a key.
#[derive(Debug)]
pub struct KnownDaemons {
    pub path: PathBuf,
    text: String,
}

impl KnownDaemons {
    /// What is known; nothing if there is no file.
    pub fn read() -> Result<Self, Failure> {
        let path = folder()?.join("known_hosts");
        let text = Self::read_or_empty(&path)?;
        Ok(Self { path, text })
    }

    fn read_or_empty(path: &Path) -> Result<String, Failure> {
        match File::open(path).and_then(|mut file| text(&mut file, MAX_KNOWN_BYTES)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            text => text.map_err(|error| Failure::file(path, error)),
        }
    }

    /// What a text says that stands in a file.
    pub fn parse(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Keys of a host with its port.
    pub fn keys(&self, host: &str) -> Result<Vec<PublicKey>, Failure> {
        let mut keys = Vec::new();
        for (number, line) in lines(&self.text) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = || {
                Failure::file(&self.path, format!("line {number} is no HOST:PORT and KEY"))
                    .hint("take the line out, or mend it; a line that begins with # is a remark")
            };
            let [name, key] = words[..] else { return Err(wrong()) };
            let key = key.parse().map_err(|_| wrong())?;
            if name == host {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// The text with one more key.
    pub fn with_key(&self, host: &str, key: PublicKey) -> String {
        let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        format!("{}{end}{host} {key}\n", self.text)
    }

    /// From now on this is a key of that host. What others wrote to the file since it was read stays.
    pub fn add(&mut self, host: &str, key: PublicKey) -> Result<(), Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        create_private_folder(folder)?;
        // One at a time, where the file system has locks (flock(2)).
        let lock = File::open(folder).and_then(|folder| folder.lock().map(|()| folder)).ok();
        self.text = Self::read_or_empty(&self.path)?;
        self.text = self.with_key(host, key);
        let written = store::write_file(&self.path, self.text.as_bytes());
        drop(lock);
        written
    }
}

/// Makes a folder, if it is not there, that is its owner's alone.
fn create_private_folder(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| failure::unwritten(folder, &error))
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn text(file: &mut File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    match text.len() as u64 > most {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}
