//! A published set: a machine, a device and its I/O by node.

use crate::read::{array, error, matrix, number, present, text, values, FieldError, SetError, Values};
use crate::text::{has, words};
use crate::units::bytes_per_s;
use serde_json::Value;

/// A published set. Rates are in bytes per second; unknown values are `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedSet {
    /// The name of its file, without `.json`.
    pub name: String,
    /// The number of sockets, if known.
    pub sockets: Option<u32>,
    /// A description of the device.
    pub device: String,
    /// The node of each device, if known.
    pub device_nodes: Vec<Option<u32>>,
    /// The latency between each node and the device in nanoseconds; empty if unknown.
    pub latency_ns: Values,
    /// What is known of the paths between the nodes.
    pub memory: MemoryMatrix,
    /// The measured I/O.
    pub rows: Vec<PublishedRow>,
}

/// What a set contains of the paths between nodes.
#[derive(Debug, Clone, PartialEq)]
pub enum MemoryMatrix {
    /// Nothing.
    None,
    /// Hop distances of firmware, row by row.
    Distances(Vec<Values>),
    /// Bandwidth.
    Bandwidth {
        /// Rows and columns as published.
        matrix: Vec<Values>,
        /// Whether a row is the source of copies; else it is the node whose CPUs read the column.
        row_is_source: bool,
    },
    /// Another figure, such as latency, in this unit.
    Other(String),
}

/// I/O of the set's devices in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRow {
    /// The direction as published.
    pub label: String,
    /// The direction.
    pub direction: RowDirection,
    /// The engine as published, with the row that it refers to.
    pub engine: String,
    /// What the values belong to.
    pub by: String,
    /// The unit, if it is no rate of bytes.
    pub other_unit: Option<String>,
    /// The rates of each device by node; empty for traffic between devices.
    pub rates: Vec<Values>,
    /// Whether both ends are devices.
    pub is_between_devices: bool,
}

/// The direction of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowDirection {
    /// Memory to device.
    Write,
    /// Device to memory.
    Read,
    /// Both at once; the rate is the sum.
    Both,
}

impl PublishedSet {
    /// Reads a set.
    ///
    /// # Errors
    /// If the text is not JSON, or a field that is needed is missing or of another type.
    pub fn from_json(name: &str, text_of_set: &str) -> Result<Self, SetError> {
        let set: Value =
            serde_json::from_str(text_of_set).map_err(|error| SetError::Json(error.to_string()))?;
        let device = present(&set, "device").ok_or_else(|| error("device", "an object"))?;
        let device_nodes = match present(device, "node") {
            Some(nodes) => nodes_of(nodes)?,
            None => vec![None],
        };
        let sockets = present(&set, "machine").and_then(|machine| present(machine, "sockets"));
        let latency_ns = present(&set, "latency_ns_to_device");
        let io = present(&set, "io").ok_or_else(|| error("io", "a list"))?;
        Ok(Self {
            name: name.to_owned(),
            sockets: sockets.map_or(Ok(None), |value| number(value, "sockets"))?,
            device: text(device, "kind")?,
            latency_ns: latency_ns.map_or(Ok(Vec::new()), |list| values(list, "latency_ns_to_device"))?,
            memory: present(&set, "memory").map_or(Ok(MemoryMatrix::None), memory)?,
            rows: rows(array(io, "io")?, device_nodes.len())?,
            device_nodes,
        })
    }
}

fn nodes_of(value: &Value) -> Result<Vec<Option<u32>>, FieldError> {
    match value {
        Value::Array(list) => list.iter().map(|node| number(node, "device.node")).collect(),
        one => Ok(vec![number(one, "device.node")?]),
    }
}

fn memory(of: &Value) -> Result<MemoryMatrix, FieldError> {
    let Some(cells) = present(of, "matrix") else { return Ok(MemoryMatrix::None) };
    let cells = matrix(cells, "memory.matrix")?;
    let unit = text(of, "unit")?;
    if text(of, "kind")? == "slit" || unit == "distance" {
        return Ok(MemoryMatrix::Distances(cells));
    }
    let Some(scale) = bytes_per_s(&unit) else { return Ok(MemoryMatrix::Other(unit)) };
    let row_is_source = text(of, "flow")? == "row=source";
    let matrix = cells.into_iter().map(|row| scaled(row, scale)).collect();
    Ok(MemoryMatrix::Bandwidth { matrix, row_is_source })
}

fn scaled(values: Values, scale: f64) -> Values {
    values.into_iter().map(|value| value.map(|value| value * scale)).collect()
}

/// Returns the rows with values by node, and those between devices; others are context.
fn rows(list: &[Value], devices: usize) -> Result<Vec<PublishedRow>, FieldError> {
    let mut rows = Vec::new();
    let (mut direction, mut engine) = (RowDirection::Read, String::new());
    for of in list {
        let (label, stated) = (text(of, "direction")?, text(of, "engine")?);
        // "same" refers to the row before.
        let is_same = |text: &str| text.trim_start().to_lowercase().starts_with("same");
        engine = if is_same(&stated) { format!("{engine}; {stated}") } else { stated };
        direction = direction_of(&label).unwrap_or(match is_same(&label) {
            true => direction,
            false => RowDirection::Read,
        });
        let unit = text(of, "unit")?;
        let scale = bytes_per_s(&unit);
        let is_between_devices = present(of, "pairs").is_some();
        let rates = rates(of, devices)?;
        if rates.is_empty() && !is_between_devices {
            continue;
        }
        rows.push(PublishedRow {
            label,
            direction,
            engine: engine.clone(),
            by: text(of, "by")?,
            other_unit: scale.is_none().then_some(unit),
            rates: rates.into_iter().map(|values| scaled(values, scale.unwrap_or(1.0))).collect(),
            is_between_devices,
        });
    }
    Ok(rows)
}

/// Returns the values of a row by device and node.
fn rates(of: &Value, devices: usize) -> Result<Vec<Values>, FieldError> {
    let list =
        ["by_memory_node", "by_cpu_node"].into_iter().find_map(|name| Some((name, present(of, name)?)));
    if let Some((name, list)) = list {
        return Ok(vec![values(list, name)?]);
    }
    let Some(cells) = present(of, "matrix") else { return Ok(Vec::new()) };
    let cells = matrix(cells, "io.matrix")?;
    if cells.iter().any(|row| row.len() != devices) {
        return Err(error("io.matrix", "a column for each device of device.node"));
    }
    Ok((0..devices).map(|device| cells.iter().map(|row| row[device]).collect()).collect())
}

/// Returns the direction that the first known word of a label names.
fn direction_of(label: &str) -> Option<RowDirection> {
    let words = words(label);
    if has(&words, &["host to device", "memory to device"]) {
        return Some(RowDirection::Write);
    }
    words.split(' ').find_map(|word| match word {
        "h2d" | "write" | "writes" | "send" | "tx" | "transmit" | "upload" => Some(RowDirection::Write),
        "d2h" | "read" | "reads" | "receive" | "recv" | "rx" | "download" => Some(RowDirection::Read),
        "bidir" | "bidirectional" | "duplex" | "both" => Some(RowDirection::Both),
        _ => None,
    })
}
