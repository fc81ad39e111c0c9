//! The configuration file of a daemon: addresses, roots, users and their rights,
//! devices.

mod device_tables;
mod listen_addresses;
mod record_options;
mod table_reader;
#[cfg(test)]
mod tests;

pub use record_options::RecordOptions;
pub use table_reader::{ConfigError, Located};

use super::log_options::LogOptions;
use crate::capacity::local_broker::DEFAULT_SOCKET;
use crate::keys;
use device_tables::device_overrides;
use listen_addresses::addresses;
use numaio_machine::units::parse_size;
use numaio_mover::wire::Side;
use numaio_mover_linux::files::{Base, Rights};
use numaio_mover_linux::port::net::{PublicKey, MAX_STREAMS as MAX_CONNECTIONS};
use numaio_schema::DeviceOverride;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table_reader::{ConfigText, TableReader};

/// Stands for every configured user.
const ALL_USERS: &str = "*";
/// Name of all clients without a known key. They may read the roots that are open to anyone.
pub const ANONYMOUS: &str = "anonymous";
/// Maximum number of data connections to the sink; one more carries the sink's messages.
const MAX_STREAMS: u32 = MAX_CONNECTIONS as u32 - 1;
/// Class of a user without one.
const DEFAULT_CLASS: &str = "user";

/// A valid configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Addresses to listen on.
    pub listen: Vec<Located<SocketAddr>>,
    /// File of the daemon's key.
    pub key: Located<PathBuf>,
    /// Whether the daemon may run as root.
    pub as_root: bool,
    /// How long running sessions may continue when the daemon stops.
    pub stop: Duration,
    /// Format and level of the log.
    pub log: LogOptions,
    /// Records of finished sessions.
    pub records: Option<RecordOptions>,
    /// Limits for all clients together.
    pub limits: Limits,
    /// Roots by name.
    pub roots: BTreeMap<String, Root>,
    /// Users by name.
    pub users: BTreeMap<String, User>,
    /// Programs on this host to which the daemon lends capacity.
    pub local: Option<LocalUsers>,
    /// Configured values of devices, by line.
    pub devices: Vec<DeviceOverride>,
}

/// Limits for all clients together, unauthenticated ones included, and their time slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrent connections of an IPv4 address, or of an IPv6 network of 64 bits.
    pub per_address: usize,
    /// How long a client may take to authenticate.
    pub login_grace: Duration,
    /// How long a session transfers before one of higher priority may suspend it.
    pub time_slice: Duration,
    /// How long a session waits before it suspends those of other users with the same priority.
    pub preemption_wait: Duration,
}

/// Programs of local users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalUsers {
    /// Path of the socket.
    pub socket: Located<PathBuf>,
    /// Transfers of one user at the same time.
    pub transfers: usize,
    /// Their priority among the users of the daemon.
    pub priority: i8,
}

impl LocalUsers {
    fn read(mut fields: TableReader<'_, '_>) -> Self {
        let default = Located { value: DEFAULT_SOCKET.into(), line: fields.line() };
        let socket = fields.parsed("socket", absolute).unwrap_or(default);
        let transfers = fields.number("transfers", 1..=4096, 4) as usize;
        let priority = fields.number("priority", 0..=9, 5) as i8;
        fields.end();
        Self { socket, transfers, priority }
    }

    /// Returns the maximum number of transfers of one user, and their priority.
    pub fn limits(&self) -> (usize, i8) {
        (self.transfers, self.priority)
    }
}

/// A directory with its users' rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Path of the directory.
    pub path: Located<PathBuf>,
    read: Vec<String>,
    write: Vec<String>,
    /// Whether clients without a known key may read it.
    is_anonymous: bool,
}

/// A user with keys and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Class of the user in metrics.
    pub class: String,
    /// Public keys of the user.
    pub keys: Vec<PublicKey>,
    /// Sessions that transfer at the same time.
    pub sessions: usize,
    /// Sessions that transfer or wait at the same time.
    pub connections: usize,
    /// Waiting sessions of users with a higher priority start first.
    pub priority: i8,
    /// Data connections of a session from the source to the sink.
    pub streams: u16,
    /// Maximum rate of each session.
    pub bytes_per_second: Option<u64>,
}

impl Config {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// All errors, sorted by line.
    pub fn parse(text: &str) -> Result<Self, Vec<ConfigError>> {
        let (config, errors) = Self::parse_recoverable(text);
        if errors.is_empty() {
            Ok(config)
        } else {
            Err(errors)
        }
    }

    /// Parses a text as far as possible, and returns all its errors, sorted by line.
    pub fn parse_recoverable(text: &str) -> (Self, Vec<ConfigError>) {
        let text_file = ConfigText::new(text);
        let table = text_file.table();
        let config = Self::read(TableReader::outermost(&text_file, &table));
        (config, text_file.errors())
    }

    fn read(mut fields: TableReader<'_, '_>) -> Self {
        let listen = addresses(&mut fields);
        let key = fields.wanted("key", "key is missing: the file that numaio keygen FILE makes", absolute);
        let as_root = fields.flag("as_root");
        let stop = Duration::from_secs(fields.number("stop_seconds", 0..=86_400, 60).into());
        let log = LogOptions {
            format: fields.parsed("log_format", str::parse).map_or_else(Default::default, |log| log.value),
            level: fields.parsed("log_level", str::parse).map_or_else(Default::default, |log| log.value),
        };
        let records = RecordOptions::read(&mut fields, absolute);
        let limits = Limits::read(fields.table("limits"));
        let mut users = users(&mut fields, &limits);
        let roots: BTreeMap<_, _> = fields
            .tables("root")
            .into_iter()
            .map(|(name, fields)| Root::read(name, fields, &users))
            .collect();
        match (users.contains_key(ANONYMOUS), roots.values().any(|root| root.is_anonymous)) {
            (_, true) if limits.connections < 2 => fields.error_at(
                fields.line_of("limits").unwrap_or(fields.line()),
                "limits: connections: expected at least 2 beside a root with anonymous = true",
            ),
            (false, true) => drop(users.insert(ANONYMOUS.to_owned(), User::anonymous(&limits))),
            (true, false) => fields.error_at(
                fields.line(),
                "user.anonymous: no root has anonymous = true; another user needs another name",
            ),
            _ => {}
        }
        if roots.is_empty() && !fields.has("root") {
            fields.error_at(fields.line(), "no root is configured: add [root.NAME] with a path");
        }
        let local = fields.table("local").map(LocalUsers::read);
        let devices = device_overrides(&mut fields);
        fields.end();
        Self { listen, key, as_root, stop, log, records, limits, roots, users, local, devices }
    }

    /// Returns an error if the configured key cannot be read.
    pub fn check_key(&self) -> Option<ConfigError> {
        if self.key.value.as_os_str().is_empty() {
            return None;
        }
        let error = keys::read(&self.key.value).err()?;
        Some(ConfigError::new(self.key.line, &format!("key: {error}")))
    }

    /// Returns the errors of roots that are missing, or on which the daemon lacks the rights of its
    /// users.
    ///
    /// The errors are sorted by line.
    pub fn check_roots(&self) -> Vec<ConfigError> {
        let error = |(name, root): (&String, &Root)| {
            let why = root.look().err()?;
            let path = root.path.value.display();
            Some(ConfigError::new(root.path.line, &format!("root {name:?}: {path}: {why}")))
        };
        let named = self.roots.iter().filter(|(_, root)| !root.path.value.as_os_str().is_empty());
        let mut errors: Vec<ConfigError> = named.filter_map(error).collect();
        errors.sort();
        errors
    }

    /// Returns an error if the daemon cannot write records, or if a user could change them.
    pub fn check_records(&self) -> Option<ConfigError> {
        let records =
            self.records.as_ref().filter(|records| !records.directory.value.as_os_str().is_empty())?;
        let written = self.roots.iter().filter(|(_, root)| root.is_written());
        let written = written.map(|(name, root)| (name.as_str(), root.path.value.as_path()));
        let why = records.check(written).err()?;
        let Located { value: path, line } = &records.directory;
        Some(ConfigError::new(*line, &format!("records: {}: {why}", path.display())))
    }

    /// Returns the class of a user.
    pub fn class_of(&self, user: &str) -> &str {
        self.users.get(user).map_or(DEFAULT_CLASS, |user| &user.class)
    }

    /// Returns the user that stands for clients without a known key, if such a client may access a
    /// root in this way.
    pub fn anonymous(&self, root: &str, side: Side) -> Option<(&str, &User)> {
        self.roots.get(root).filter(|root| root.allows(ANONYMOUS, side))?;
        self.users.get_key_value(ANONYMOUS).map(|(name, user)| (name.as_str(), user))
    }

    /// Returns the user with a key.
    pub fn user(&self, key: PublicKey) -> Option<(&str, &User)> {
        let found = self.users.iter().find(|(_, user)| user.keys.contains(&key));
        found.map(|(name, user)| (name.as_str(), user))
    }
}

impl Limits {
    fn read(fields: Option<TableReader<'_, '_>>) -> Self {
        let seconds = |number: u32| Duration::from_secs(number.into());
        let Some(mut fields) = fields else {
            return Self {
                connections: 64,
                per_address: 16,
                login_grace: seconds(10),
                time_slice: seconds(30),
                preemption_wait: seconds(300),
            };
        };
        let limits = Self {
            connections: fields.number("connections", 1..=4096, 64) as usize,
            per_address: fields.number("per_address", 1..=4096, 16) as usize,
            login_grace: seconds(fields.number("login_grace_seconds", 1..=600, 10)),
            time_slice: seconds(fields.number("time_slice_seconds", 1..=86_400, 30)),
            preemption_wait: seconds(fields.number("preemption_wait_seconds", 1..=86_400, 300)),
        };
        fields.end();
        limits
    }
}

impl Root {
    fn read(name: &str, mut fields: TableReader<'_, '_>, users: &BTreeMap<String, User>) -> (String, Self) {
        is_name(name, &fields);
        let path = fields.wanted("path", "path is missing: the directory", absolute);
        let mut names = |field| -> Vec<String> {
            let names = fields.texts(field);
            for Located { value, line } in &names {
                if *value == ANONYMOUS {
                    fields.error_at(
                        *line,
                        &format!("{field}: write anonymous = true for clients without a key"),
                    );
                } else if *value != ALL_USERS && !users.contains_key(*value) {
                    fields.error_at(*line, &format!("{field}: [user.{value}] is missing"));
                }
            }
            names.into_iter().map(|name| name.value.to_owned()).collect()
        };
        let (read, write) = (names("read"), names("write"));
        let is_anonymous = fields.flag("anonymous");
        if read.is_empty() && write.is_empty() && !is_anonymous {
            fields.error_at(
                fields.line(),
                "no user may access it: list users in read, write or both; \"*\" means all users",
            );
        }
        if is_anonymous && !write.is_empty() {
            let line = fields.line_of("anonymous").unwrap_or(fields.line());
            let text = "anonymous: anyone could read what users write here: remove write, or use two roots";
            fields.error_at(line, text);
        }
        fields.end();
        (name.to_owned(), Self { path, read, write, is_anonymous })
    }

    /// Checks that the daemon has the rights that users may exercise in the root.
    fn look(&self) -> Result<(), String> {
        let base = Base::below(&self.path.value).map_err(|error| error.to_string())?;
        let may = |rights| base.directory().map_or(Ok(()), |directory| directory.check_access(rights));
        if !self.read.is_empty() || self.is_anonymous {
            may(Rights::Read).map_err(|error| format!("cannot read it: {error}"))?;
        }
        if self.is_written() {
            may(Rights::Write).map_err(|error| format!("cannot write to it: {error}"))?;
        }
        Ok(())
    }

    /// Whether any user may write to it.
    pub fn is_written(&self) -> bool {
        !self.write.is_empty()
    }

    /// Whether a user may read files (the daemon is the source) or write files (it is the sink).
    pub fn allows(&self, user: &str, side: Side) -> bool {
        let list = match side {
            Side::Source if self.is_anonymous => return true,
            // All users are those with a key.
            _ if user == ANONYMOUS => return false,
            Side::Source => &self.read,
            Side::Sink => &self.write,
        };
        list.iter().any(|name| name == ALL_USERS || name == user)
    }
}

impl User {
    /// The limits of anonymous clients without a table. Named users start first, and have other
    /// connections.
    fn anonymous(limits: &Limits) -> Self {
        Self {
            class: ANONYMOUS.to_owned(),
            keys: Vec::new(),
            sessions: 4,
            connections: (limits.connections / 4).max(1),
            priority: 0,
            streams: 8,
            bytes_per_second: None,
        }
    }
}

/// Reads how many sessions of a user may transfer or wait; anonymous clients leave room for others.
fn user_connections(is_anonymous: bool, fields: &mut TableReader<'_, '_>, limits: &Limits) -> usize {
    if !is_anonymous {
        return usize::MAX;
    }
    let default = User::anonymous(limits).connections;
    let connections = fields.number("connections", 1..=4096, default as u32) as usize;
    if connections >= limits.connections {
        let line = fields.line_of("connections").unwrap_or(fields.line());
        let text = format!("connections: expected less than limits.connections, {}", limits.connections);
        fields.error_at(line, &text);
    }
    connections
}

fn users(fields: &mut TableReader<'_, '_>, limits: &Limits) -> BTreeMap<String, User> {
    let mut users = BTreeMap::new();
    let mut owners: BTreeMap<PublicKey, &str> = BTreeMap::new();
    for (name, mut fields) in fields.tables("user") {
        is_name(name, &fields);
        let is_anonymous = name == ANONYMOUS;
        let (mut keys, default_priority) = (Vec::new(), if is_anonymous { 0 } else { 5 });
        let texts = fields.texts("keys");
        if is_anonymous && !texts.is_empty() {
            fields.error_at(
                fields.line(),
                "keys: anonymous clients have no keys; this name is reserved for them",
            );
        }
        if texts.is_empty() && !is_anonymous {
            fields.error_at(fields.line(), "keys is missing: the public keys that numaio keygen printed");
        }
        for Located { value, line } in texts {
            match value.parse::<PublicKey>() {
                Err(error) => fields.error_at(line, &format!("keys: {error}")),
                Ok(key) => {
                    if let Some(other) = owners.insert(key, name).filter(|other| *other != name) {
                        fields.error_at(line, &format!("keys: user {other:?} has the same key"));
                    }
                    keys.push(key);
                }
            }
        }
        let size = fields.parsed("bytes_per_second", |text| match parse_size(text)? {
            0 => Err("expected more than 0; remove it for no limit".to_owned()),
            size => Ok(size),
        });
        let class = fields.parsed("class", |text| match is_plain_name(text) {
            true => Ok(text.to_owned()),
            false => Err(NAME_RULE.to_owned()),
        });
        let user = User {
            class: class.map_or_else(
                || if is_anonymous { ANONYMOUS } else { DEFAULT_CLASS }.to_owned(),
                |class| class.value,
            ),
            keys,
            sessions: fields.number("sessions", 1..=4096, 4) as usize,
            connections: user_connections(is_anonymous, &mut fields, limits),
            priority: fields.number("priority", 0..=9, default_priority) as i8,
            streams: fields.number("streams", 1..=MAX_STREAMS, 8) as u16,
            bytes_per_second: size.map(|size| size.value),
        };
        fields.end();
        users.insert(name.to_owned(), user);
    }
    users
}

/// Names appear in addresses, messages and metrics.
const NAME_RULE: &str =
    "expected a name of 1 to 64 ASCII letters, digits, _, - and ., not starting with - or .";

fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) && !name.starts_with(['.', '-'])
}

/// Reports an invalid name of a table.
fn is_name(name: &str, fields: &TableReader<'_, '_>) {
    if !is_plain_name(name) {
        fields.error_at(fields.line(), NAME_RULE);
    }
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    match Path::new(text).is_absolute() {
        true => Ok(text.into()),
        false => Err(format!("expected an absolute path, got {text:?}")),
    }
}
