//! What nvbandwidth writes with `--json` (json_output.cpp of its release 0.8).
//!
//! Only fields that are read are declared; others may come and go with its version.

use super::ListedGpu;
use serde::Deserialize;

/// GPUs and measurements that are read, at most.
const MOST: usize = 4096;
/// Fastest copy that is believed, in GB/s; NVLink-C2C has 450 in one direction.
const FASTEST_GB_PER_S: f64 = 1e5;

/// What one process said.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    devices: Vec<String>,
    tests: Vec<Test>,
}

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// There is no JSON.
    #[error("it gave no JSON")]
    NoJson,
    /// It is cut off or otherwise wrong.
    #[error("its JSON cannot be read: {0}")]
    Json(String),
    /// It tells an error.
    #[error("{0}")]
    WarningContext(String),
    /// A measurement was not made.
    #[error("{test}: {status}")]
    NotPassed {
        /// Its name.
        test: String,
        /// What it says of it, as `Waived`.
        status: String,
    },
    /// A GPU is not among those that it measured.
    #[error("it has no figure of GPU {0}")]
    NoDevice(u32),
}

impl OutputError {
    /// Whether nvbandwidth itself tells what failed.
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

/// A measurement; one that failed may be there twice, `Running` at first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Test {
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: Option<String>,
    /// A row for the host, a column for each GPU.
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

/// Reads what one process wrote.
///
/// # Errors
/// [`OutputError`].
pub fn parse(text: &str) -> Result<Run, OutputError> {
    // Lines before the document are complaints of libraries.
    let start = text.find("{\n").or_else(|| text.find('{')).ok_or(OutputError::NoJson)?;
    let json = text.get(start..).ok_or(OutputError::NoJson)?;
    // Only the first value: what comes after it is no JSON.
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
    /// Bandwidth of each measurement in bytes per second, of one GPU.
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

    /// The GPUs.
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
        (number > 0.0 && number <= FASTEST_GB_PER_S).then_some(number)
    }
}

/// `1: NVIDIA H100 80GB HBM3 (00000000:29:00): (host)`: index, name, domain, bus and device, host.
fn gpu(line: &str) -> Option<ListedGpu> {
    let (index, rest) = line.split_once(": ")?;
    let rest = rest.split_once("): (").map_or(rest, |(before, _)| before).trim_end_matches(')');
    let (name, pci) = match rest.rsplit_once(" (") {
        Some((name, address)) => (name, format!("{address}.0").parse().ok()),
        None => (rest, None),
    };
    Some(ListedGpu { index: index.trim().parse().ok()?, name: short(name), pci })
}

/// What another program says, of a bearable length.
fn short(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.trim().to_owned()
}
