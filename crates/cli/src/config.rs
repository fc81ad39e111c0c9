//! Defaults of options from configuration files: `/etc/numaio/config.toml`, and the user's
//! `numaio/config.toml` in `XDG_CONFIG_HOME`.
//!
//! They stand in for environment variables that are not set, so that options, help and started
//! programs see them in one way.

use crate::failure::{self, toml_fault, Failure};
use crate::options::{integer, seconds, Color};
use crate::output;
use clap::ValueEnum;
use numaio_linux::ssh_command::check_program;
use numaio_linux::user_files::{config_dir, is_untrusted, read_trusted_text};
use numaio_machine::units::BandwidthUnit;
use numaio_mover::hash::HashKind;
use numaio_mover_linux::port::net::MAX_STREAMS;
use numaio_transfer::choice::Choice;
use std::collections::BTreeMap;
use std::env;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Configuration of all users.
const SYSTEM_FILE: &str = "/etc/numaio/config.toml";
/// Name of the user's file.
const USER_FILE: &str = "config.toml";

/// Maximum size of a configuration file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Something that a configuration file can set.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the file.
    pub key: &'static str,
    /// The environment variable, which overrides the file.
    pub variable: &'static str,
    /// The value without file and variable.
    pub default: &'static str,
    /// Rejects invalid values with what is expected.
    check: fn(&str) -> Result<(), String>,
}

/// All settings.
pub const SETTINGS: [Setting; 7] = [
    Setting { key: "unit", variable: "NUMAIO_UNIT", default: "GB/s", check: unit },
    Setting { key: "color", variable: "NUMAIO_COLOR", default: "auto", check: color },
    Setting { key: "time-limit", variable: "NUMAIO_TIME_LIMIT", default: "300", check: time_limit },
    Setting { key: "hash", variable: "NUMAIO_HASH", default: "xxh3", check: hash },
    Setting { key: "streams", variable: "NUMAIO_STREAMS", default: "automatic", check: streams },
    Setting { key: "ssh", variable: "NUMAIO_SSH", default: "ssh", check: check_program },
    Setting { key: "broker", variable: "NUMAIO_BROKER", default: "/run/numaio/broker", check: any },
];

fn unit(text: &str) -> Result<(), String> {
    text.parse::<BandwidthUnit>().map(drop)
}

fn color(text: &str) -> Result<(), String> {
    Color::from_str(text, false).map(drop).map_err(|_| "expected auto, always or never".to_owned())
}

fn time_limit(text: &str) -> Result<(), String> {
    seconds(text).map(drop)
}

fn hash(text: &str) -> Result<(), String> {
    let names: Vec<&str> = HashKind::NAMED.iter().map(|(name, _)| *name).collect();
    names.contains(&text).then_some(()).ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

fn streams(text: &str) -> Result<(), String> {
    integer(1..=MAX_STREAMS as u32 - 1)(text).map(drop)
}

fn any(_: &str) -> Result<(), String> {
    Ok(())
}

/// The outcome of reading a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// It was read.
    Read,
    /// It does not exist.
    Absent,
    /// Another user can write or exchange it, who would choose programs that this user runs.
    Untrusted,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// Built in.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// The environment.
    Variable,
}

/// The files, and the value of each setting of [`SETTINGS`].
#[derive(Debug, Default)]
pub struct Config {
    /// The files, in the order in which they override each other.
    pub files: Vec<(PathBuf, FileUse)>,
    /// Values with their origins, in the order of the settings.
    pub values: Vec<(String, ValueOrigin)>,
}

static CONFIG: OnceLock<Config> = OnceLock::new();

/// Returns the configuration that [`apply`] read.
pub fn current() -> &'static Config {
    CONFIG.get_or_init(Config::default)
}

/// Reads the files, and sets environment variables that are not set. To be called before the
/// process has other threads.
///
/// # Errors
/// A file cannot be read, or has faults.
pub fn apply() -> Result<(), Failure> {
    let user = config_dir().map(|dir| dir.join(USER_FILE));
    let config = read([Some(PathBuf::from(SYSTEM_FILE)), user].into_iter().flatten(), |variable| {
        env::var_os(variable).map(|value| value.to_string_lossy().into_owned())
    })?;
    for (setting, (value, origin)) in SETTINGS.iter().zip(&config.values) {
        match origin {
            ValueOrigin::File(_) => env::set_var(setting.variable, value),
            // No option has this variable as its default, which would check it.
            ValueOrigin::Variable if setting.key == "ssh" && !value.trim().is_empty() => {
                (setting.check)(value)
                    .map_err(|reason| Failure::usage(format!("{}: {reason}", setting.variable)))?
            }
            _ => {}
        }
    }
    CONFIG.get_or_init(|| config);
    Ok(())
}

fn read(
    paths: impl Iterator<Item = PathBuf>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Config, Failure> {
    let mut config = Config::default();
    let mut of_files: BTreeMap<&str, (String, PathBuf)> = BTreeMap::new();
    for path in paths {
        let found = match read_trusted_text(&path, MAX_BYTES) {
            Ok(text) => {
                output::detail(format_args!("read {}", path.display()));
                let settings = parse(&text).map_err(|fault| Failure::file(&path, fault).hint(HINT))?;
                for (key, value) in settings {
                    of_files.insert(key, (value, path.clone()));
                }
                FileUse::Read
            }
            Err(error) if is_untrusted(&error) => FileUse::Untrusted,
            Err(error) if is_absent(&path, &error) => FileUse::Absent,
            Err(error) => return Err(failure::cannot_read(&path, &error)),
        };
        config.files.push((path, found));
    }
    let value = |setting: &Setting| match (variable(setting.variable), of_files.remove(setting.key)) {
        (Some(value), _) => (value, ValueOrigin::Variable),
        (None, Some((value, path))) => (value, ValueOrigin::File(path)),
        (None, None) => (setting.default.to_owned(), ValueOrigin::Default),
    };
    config.values = SETTINGS.iter().map(value).collect();
    Ok(config)
}

/// Returns whether a file that cannot be read does not exist as far as this user can know: its
/// directory may be closed.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => path.metadata().is_err(),
        _ => false,
    }
}

/// Parses a file into settings with their values.
///
/// # Errors
/// A message that names the line or setting.
pub fn parse(text: &str) -> Result<Vec<(&'static str, String)>, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| toml_fault(text, &error))?;
    let setting = |(key, value): (String, toml::Value)| {
        let setting = SETTINGS
            .iter()
            .find(|setting| setting.key == key)
            .ok_or_else(|| format!("{key}: unknown setting"))?;
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            _ => return Err(format!("{key}: expected a text or a number")),
        };
        // The environment cannot hold it.
        if value.contains('\0') {
            return Err(format!("{key}: expected a text without NUL characters"));
        }
        (setting.check)(&value).map_err(|reason| format!("{key}: {reason}"))?;
        Ok((setting.key, value))
    };
    table.into_iter().map(setting).collect()
}

const HINT: &str = "numaio config --help lists the settings";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("numaio-config-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn value<'a>(config: &'a Config, key: &str) -> &'a (String, ValueOrigin) {
        let index = SETTINGS.iter().position(|setting| setting.key == key).expect("a setting");
        &config.values[index]
    }

    #[test]
    fn files_are_overridden_by_the_users_and_by_variables() {
        let folder = Folder::new("order");
        let system = folder.file("system", "unit = \"Gbit/s\"\ntime-limit = 60\nhash = \"blake3\"\n");
        let user = folder.file("user", "time-limit = 9.5\n");
        let absent = folder.0.join("absent");
        let variable = |name: &str| (name == "NUMAIO_HASH").then(|| "none".to_owned());
        let config =
            read([system.clone(), user.clone(), absent.clone()].into_iter(), variable).expect("values");
        assert_eq!(*value(&config, "unit"), ("Gbit/s".to_owned(), ValueOrigin::File(system.clone())));
        assert_eq!(*value(&config, "time-limit"), ("9.5".to_owned(), ValueOrigin::File(user.clone())));
        assert_eq!(*value(&config, "hash"), ("none".to_owned(), ValueOrigin::Variable));
        assert_eq!(*value(&config, "ssh"), ("ssh".to_owned(), ValueOrigin::Default));
        let files = [(system, FileUse::Read), (user, FileUse::Read), (absent, FileUse::Absent)];
        assert_eq!(config.files, files);
    }

    #[test]
    fn faults_name_the_file_and_the_setting() {
        let folder = Folder::new("faults");
        for (text, part) in [
            ("unti = 1\n", "unti: unknown setting"),
            ("unit = \"MB\"\n", "unit: "),
            ("time-limit = 0\n", "time-limit: "),
            ("color = \"blue\"\n", "color: expected auto, always or never"),
            ("hash = \"md5\"\n", "hash: expected one of xxh3"),
            ("streams = 0\n", "streams: expected an integer from 1"),
            ("ssh = \" \"\n", "ssh: expected a program"),
            ("ssh = [\"ssh\"]\n", "ssh: expected a text or a number"),
            ("unit = \"GB/s\"\nunit\n", "line 2: "),
            ("broker = \"/a\\u0000b\"\n", "broker: expected a text without NUL"),
        ] {
            let path = folder.file("config", text);
            let failure = read([path].into_iter(), |_| None).expect_err(text);
            assert!(
                failure.message.contains("config") && failure.message.contains(part),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn a_file_that_others_can_write_is_not_read() {
        let folder = Folder::new("untrusted");
        let path = folder.file("config", "ssh = \"/tmp/evil\"\n");
        for mode in [0o666, 0o664] {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
            let config = read([path.clone()].into_iter(), |_| None).expect("values");
            assert_eq!(config.files, [(path.clone(), FileUse::Untrusted)]);
            assert_eq!(value(&config, "ssh").1, ValueOrigin::Default);
        }
    }
}
