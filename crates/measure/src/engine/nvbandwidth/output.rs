//! JSON output of nvbandwidth (json_output.cpp of release 0.8).
//!
//! Only the required fields are declared, since others vary with the version.

use crate::engine::remote::is_rate;
use numaio_machine::devices::PciAddress;
use numaio_machine::printable::is_unprintable;
use serde::Deserialize;

/// Maximum number of GPUs and measurements.
const MOST: usize = 4096;
/// Maximum plausible bandwidth in GB/s; NVLink-C2C has 450 in one direction.
const FASTEST_GB_PER_S: f64 = 1e5;

/// Parsed output of one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    devices: Vec<String>,
    tests: Vec<Test>,
}

/// Reason for missing figures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// The output contains no JSON.
    #[error("no JSON output")]
    NoJson,
    /// The JSON is truncated or invalid.
    #[error("invalid JSON output: {0}")]
    Json(String),
    /// nvbandwidth reported an error.
    #[error("{0}")]
    WarningContext(String),
    /// A test was not performed.
    #[error("{test}: {status}")]
    NotPassed {
        /// Name of the test.
        test: String,
        /// Its status, such as `Waived`.
        status: String,
    },
    /// The GPU was not measured.
    #[error("no result for GPU {0}")]
    NoDevice(u32),
}

impl OutputError {
    /// Returns whether nvbandwidth itself reported the failure.
    pub fn is_reported(&self) -> bool {
        matches!(self, Self::WarningContext(_) | Self::NotPassed { .. })
    }
}

#[derive(Deserialize)]
struct Envelope {
    nvbandwidth: Document,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    error: Option<String>,
    #[serde(rename = "GPU Device list", default)]
    devices: Option<Vec<String>>,
    #[serde(default)]
    testcases: Option<Vec<Test>>,
}

/// A test; a failed one may be listed twice, first as `Running`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Test {
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: Option<String>,
    /// One row for the host, one column per GPU.
    #[serde(rename = "bandwidth_matrix", default)]
    matrix: Vec<Vec<Value>>,
}

/// GB/s as text, or `N/A`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(f64),
}

/// Parses the output of one process.
///
/// # Errors
/// [`OutputError`].
pub fn parse(text: &str) -> Result<Run, OutputError> {
    // Lines before the document are messages of libraries.
    let start = text.find("{\n").or_else(|| text.find('{')).ok_or(OutputError::NoJson)?;
    let json = text.get(start..).ok_or(OutputError::NoJson)?;
    // Only the first value: text after it is not JSON.
    let document = serde_json::Deserializer::from_str(json).into_iter::<Envelope>().next();
    let document = document
        .ok_or(OutputError::NoJson)?
        .map_err(|error| OutputError::Json(error.to_string()))?
        .nvbandwidth;
    if let Some(error) = document.error {
        return Err(OutputError::WarningContext(short(&error)));
    }
    let (mut devices, mut tests) =
        (document.devices.unwrap_or_default(), document.testcases.unwrap_or_default());
    devices.truncate(MOST);
    tests.truncate(MOST);
    let last = |test: &Test| tests.iter().rfind(|other| other.name == test.name).unwrap_or(test).clone();
    match tests.iter().map(last).find(|test| test.status != "Passed") {
        Some(test) => {
            let status = test.error.as_ref().unwrap_or(&test.status);
            Err(OutputError::NotPassed { test: short(&test.name), status: short(status) })
        }
        None => Ok(Run { devices, tests }),
    }
}

impl Run {
    /// Returns the bandwidth of each test on a GPU, in bytes per second.
    pub fn bytes_per_s(&self, device: u32) -> Result<Vec<f64>, OutputError> {
        let none = || OutputError::NoDevice(device);
        let value = |test: &Test| test.matrix.first()?.get(device as usize)?.gb_per_s();
        let values: Vec<f64> = self
            .tests
            .iter()
            .map(|test| value(test).map(|gb_per_s| gb_per_s * 1e9).ok_or_else(none))
            .collect::<Result<_, OutputError>>()?;
        if values.is_empty() {
            return Err(none());
        }
        Ok(values)
    }

    /// Returns the listed GPUs.
    pub fn gpus(&self) -> Vec<ListedGpu> {
        self.devices.iter().filter_map(|line| gpu(line)).collect()
    }
}

impl Value {
    fn gb_per_s(&self) -> Option<f64> {
        let number = match self {
            Self::Text(text) => text.trim().parse().ok()?,
            Self::Number(number) => *number,
        };
        (is_rate(number) && number <= FASTEST_GB_PER_S).then_some(number)
    }
}

/// Parses a line such as `1: NVIDIA H100 80GB HBM3 (00000000:29:00): (host)`.
fn gpu(line: &str) -> Option<ListedGpu> {
    let (index, rest) = line.split_once(": ")?;
    let rest = rest.split_once("): (").map_or(rest, |(before, _)| before).trim_end_matches(')');
    let (name, pci) = match rest.rsplit_once(" (") {
        Some((name, address)) => (name, format!("{address}.0").parse().ok()),
        None => (rest, None),
    };
    Some(ListedGpu { index: index.trim().parse().ok()?, name: short(name), pci })
}

/// Shortens text of another program to one line.
fn short(text: &str) -> String {
    let line: String = text.chars().map(|c| if is_unprintable(c) { ' ' } else { c }).take(300).collect();
    line.trim().to_owned()
}

/// A GPU as listed by nvbandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGpu {
    /// Index of the driver.
    pub index: u32,
    /// Model name.
    pub name: String,
    /// PCI address; missing before release 0.5.
    pub pci: Option<PciAddress>,
}
