//! A real ext4 on a loop device.

use crate::support::{Home, Limited};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs a command; none if it fails or is not there.
pub fn tell(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).limited_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// An ext4 of its own, unmounted and detached at the end.
pub struct Image {
    pub device: String,
    pub at: PathBuf,
    file: String,
}

impl Image {
    /// None for who may not, or has no tools for it.
    #[allow(dead_code)] // Some tests have options.
    pub fn new(home: &Home) -> Option<Self> {
        Self::with(home, &[])
    }

    /// One that is made with these options.
    pub fn with(home: &Home, options: &[&str]) -> Option<Self> {
        let image = home.path("image");
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        tell("mkfs.ext4", &[&["-q"], options, &[&image]].concat())?;
        let mut image = Self { device: String::new(), at: home.0.join("mount"), file: image };
        fs::create_dir(&image.at).expect("a folder");
        image.attach().then_some(image)
    }

    /// Takes the disk away, and brings it back.
    #[allow(dead_code)] // Some tests keep theirs.
    pub fn reattach(&mut self) -> bool {
        self.detach();
        self.attach()
    }

    fn attach(&mut self) -> bool {
        let Some(device) = tell("losetup", &["--find", "--show", &self.file]) else { return false };
        self.device = device;
        tell("mount", &[&self.device, &self.at.to_string_lossy()]).is_some()
    }

    fn detach(&self) {
        drop(tell("umount", &[&self.at.to_string_lossy()]));
        drop(tell("losetup", &["--detach", &self.device]));
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.detach();
    }
}
