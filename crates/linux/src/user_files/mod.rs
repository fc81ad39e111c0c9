//! Files of the user: every file that numaio writes, or whose content it trusts.
//!
//! numaio also runs as root in directories of other users. So a path is resolved once, below
//! directory descriptors; a symbolic link is followed only if root or this user owns it; type,
//! owner and mode are checked on the open descriptor; and files are replaced atomically.

mod read;
mod resolve;
mod write;

pub use read::{
    is_untrusted, open_named, open_stored, read_limited, read_named, read_stored, read_stored_text,
    read_trusted, read_trusted_text, text,
};
pub use resolve::resolved_path;
pub use write::{
    append, append_records, check_file, create, create_link, create_new, create_new_directory,
    create_private, create_unnamed, lock_directory, lock_file, open_directory, remove_file, replace_file,
    write_file, Durable, Output, Replacement,
};

use std::io;
use std::path::{Path, PathBuf};

/// Returns numaio's state directory; none if neither XDG_STATE_HOME nor HOME is set.
pub fn state_dir() -> Option<PathBuf> {
    base_dir("XDG_STATE_HOME", ".local/state")
}

/// Returns numaio's configuration directory; none if neither XDG_CONFIG_HOME nor HOME is set.
pub fn config_dir() -> Option<PathBuf> {
    base_dir("XDG_CONFIG_HOME", ".config")
}

fn base_dir(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home))).map(|dir| dir.join("numaio"))
}

/// Creates a directory of numaio with missing parents, but not the home directory: an account whose
/// home does not exist (`/nonexistent`) has none on purpose.
///
/// # Errors
/// I/O errors; `NotFound` without the home directory; a symbolic link of another user.
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    create_directory_in(std::env::var_os("HOME").map(PathBuf::from).as_deref(), path, mode)
}

fn create_directory_in(home: Option<&Path>, path: &Path, mode: u32) -> io::Result<()> {
    let home = home.filter(|home| home.is_absolute() && path.starts_with(home));
    if let Some(home) = home.filter(|home| !home.is_dir()) {
        let message = format!("the home directory '{}' does not exist", home.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    resolve::directory(path, Some(mode)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn missing_home_is_not_created() {
        let dir = std::env::temp_dir().join(format!("numaio-home-{}", std::process::id()));
        let below = dir.join("home/.local/state/numaio");
        let error = create_directory_in(Some(&dir.join("home")), &below, 0o700).expect_err("no home");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().ends_with("/home' does not exist") && !dir.exists());
        // A directory elsewhere, as by XDG_STATE_HOME, is created.
        create_directory_in(Some(Path::new("/nonexistent")), &below, 0o700).expect("a directory");
        create_directory_in(Some(&dir.join("home")), &below.join("jobs"), 0o700).expect("a directory");
        assert!(below.join("jobs").is_dir());
        fs::remove_dir_all(dir).expect("removed");
    }
}
