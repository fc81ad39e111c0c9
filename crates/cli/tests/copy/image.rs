//! A real ext4 on a loop device.

use crate::support::{Home, Limited};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs a command and returns its output; None if it fails or is not installed.
pub fn run_tool(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).limited_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// An ext4 file system, unmounted and detached when dropped.
pub struct Image {
    pub device: String,
    pub at: PathBuf,
    file: String,
}

impl Image {
    /// None without the rights or the tools to mount it.
    #[allow(dead_code)] // Some tests have options.
    pub fn new(home: &Home) -> Option<Self> {
        Self::with(home, &[])
    }

    /// Creates the file system with these options of mkfs.
    pub fn with(home: &Home, options: &[&str]) -> Option<Self> {
        let image = home.path("image");
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        run_tool("mkfs.ext4", &[&["-q"], options, &[&image]].concat())?;
        let mut image = Self { device: String::new(), at: home.0.join("mount"), file: image };
        fs::create_dir(&image.at).expect("a folder");
        image.attach().then_some(image)
    }

    /// Unmounts and detaches the disk, then attaches and mounts it again.
    #[allow(dead_code)] // Some tests never detach it.
    pub fn reattach(&mut self) -> bool {
        self.detach();
        self.attach()
    }

    fn attach(&mut self) -> bool {
        let Some(device) = run_tool("losetup", &["--find", "--show", &self.file]) else { return false };
        self.device = device;
        run_tool("mount", &[&self.device, &self.at.to_string_lossy()]).is_some()
    }

    fn detach(&self) {
        drop(run_tool("umount", &[&self.at.to_string_lossy()]));
        drop(run_tool("losetup", &["--detach", &self.device]));
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.detach();
    }
}
