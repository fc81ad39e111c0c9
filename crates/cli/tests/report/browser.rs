//! A browser without a window that opens pages.

use crate::support::Limited;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Chromium, as Debian or others name it.
pub struct Browser(String);

/// What a browser made of a page.
pub struct Opened {
    /// The document after its scripts ran.
    pub dom: String,
    /// What came on the console, as breaches of the page's policy do.
    pub console: Vec<String>,
}

impl Browser {
    /// The browser, or none where there is none, which is counted.
    pub fn find(test: &str) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let runs = |name: &&str| {
            let version = Command::new(name)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .limited_status();
            version.is_ok_and(|status| status.success())
        };
        let found = names.into_iter().find(runs);
        if found.is_none() {
            // Past the capture of the test harness: `tools/test` counts these lines.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no chromium is installed");
        }
        found.map(|name| Self(name.to_owned()))
    }

    /// Opens a page, with nothing of the network to be reached.
    pub fn open(&self, page: &Path, options: &[&str]) -> Opened {
        let profile = page.with_extension("profile");
        let output = Command::new(&self.0)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage",
            ])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(options)
            .arg("--dump-dom")
            .arg(format!("file://{}", page.display()))
            .limited_output()
            .expect("chromium");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = fs::remove_dir_all(profile);
        assert!(output.status.success(), "{said}");
        let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        Opened { dom: String::from_utf8_lossy(&output.stdout).into_owned(), console }
    }

    /// Opens a copy of a page into which a look from within is put, and tells what it saw.
    pub fn probe(&self, page: &Path, options: &[&str]) -> Value {
        let text = fs::read_to_string(page).expect("the page");
        let (before, policy) = text.split_once("script-src '").expect("a policy");
        let (_, after) = policy.split_once('\'').expect("a hash");
        let text = format!("{before}script-src 'unsafe-inline'{after}");
        let probe = concat!("<script>{", include_str!("probe.js"), "}</script></body>");
        let copy: PathBuf = page.with_extension("probe.html");
        fs::write(&copy, text.replace("</body>", probe)).expect("a copy");
        let opened = self.open(&copy, options);
        assert!(opened.console.is_empty(), "{:?}", opened.console);
        let (_, seen) = opened.dom.split_once("<pre id=\"probe\">").expect("the probe ran");
        let (seen, _) = seen.split_once("</pre>").expect("it ended");
        serde_json::from_str(seen).expect("what it saw")
    }
}
