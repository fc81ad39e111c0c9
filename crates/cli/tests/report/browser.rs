//! A headless browser that opens pages.

use crate::support::Limited;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command of a Chromium browser.
pub struct Browser(String);

/// A page loaded by the browser.
pub struct LoadedPage {
    /// The document after its scripts ran.
    pub dom: String,
    /// Console messages, such as violations of the content security policy.
    pub console: Vec<String>,
}

impl Browser {
    /// Finds a browser. Without one, prints that the test is skipped.
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
            // Bypass the capture of the test harness: `tools/test` counts these lines.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no chromium is installed");
        }
        found.map(|name| Self(name.to_owned()))
    }

    /// Opens a page without network access.
    pub fn open(&self, page: &Path, options: &[&str]) -> LoadedPage {
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
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = fs::remove_dir_all(profile);
        assert!(output.status.success(), "{stderr}");
        let console = stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        LoadedPage { dom: String::from_utf8_lossy(&output.stdout).into_owned(), console }
    }

    /// Measures the layout of a page that is `width` pixels wide.
    ///
    /// The page is in a frame: a headless browser's window cannot be as narrow as a phone.
    pub fn layout(&self, page: &Path, width: u32) -> Value {
        let text = fs::read_to_string(page).expect("the page").replace('&', "&amp;").replace('"', "&quot;");
        let script = include_str!("layout.js");
        let copy = page.with_extension("layout.html");
        let frame =
            format!("<iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{text}\"></iframe>");
        fs::write(&copy, format!("<!DOCTYPE html>{frame}<script>{script}</script>")).expect("a copy");
        embedded_json(&self.open(&copy, &[]).dom, "layout")
    }

    /// Opens a copy of a page with `probe.js` added, and returns the properties that it collected.
    pub fn probe(&self, page: &Path, options: &[&str]) -> Value {
        let text = fs::read_to_string(page).expect("the page");
        let (before, policy) = text.split_once("script-src '").expect("a policy");
        let (_, after) = policy.split_once('\'').expect("a hash");
        let text = format!("{before}script-src 'unsafe-inline'{after}");
        let probe = concat!("<script>{", include_str!("probe.js"), "}</script></body>");
        let copy: PathBuf = page.with_extension("probe.html");
        fs::write(&copy, text.replace("</body>", probe)).expect("a copy");
        let loaded = self.open(&copy, options);
        assert!(loaded.console.is_empty(), "{:?}", loaded.console);
        embedded_json(&loaded.dom, "probe")
    }
}

/// Returns the JSON that a script wrote into a `pre` element.
fn embedded_json(dom: &str, id: &str) -> Value {
    let (_, json) = dom.split_once(&format!("<pre id=\"{id}\">")).expect("the script ran");
    let (json, _) = json.split_once("</pre>").expect("the end of the element");
    serde_json::from_str(json).expect("properties of the page")
}
