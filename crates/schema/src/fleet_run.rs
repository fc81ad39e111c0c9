//! Runs of a command on each host of a fleet, and their state.

use serde::{Deserialize, Serialize};

/// A run of a command of numaio on each host of a fleet.
///
/// The directory of the run holds it, beside the reports of the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetRun {
    /// [`FLEET_RUN_SCHEMA`](crate::FLEET_RUN_SCHEMA).
    pub schema: String,
    /// Version of numaio that created the run.
    pub numaio: String,
    /// Unique name of the run; part of the names of its jobs.
    pub id: String,
    /// Creation in seconds since 1970.
    pub created_at: u64,
    /// How the hosts are reached.
    pub launcher: FleetLauncher,
    /// Command that starts numaio on a host; words separated by blanks.
    pub remote_numaio: String,
    /// Options of numaio for the machine, such as `--machine`; empty for the host itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_options: Vec<String>,
    /// The arguments of numaio that measure; empty if only the topology is reported.
    pub command: Vec<String>,
    /// Maximum time on a host in seconds.
    pub time_limit_s: u32,
    /// The hosts, without duplicates.
    pub hosts: Vec<FleetRunHost>,
}

/// How a run reaches its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FleetLauncher {
    /// Jobs of Slurm.
    Slurm(SlurmLaunch),
    /// The system's ssh.
    Ssh {
        /// Maximum number of hosts that measure at the same time.
        at_once: u32,
    },
}

/// Options of the jobs of Slurm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SlurmLaunch {
    /// The partition; `None` for Slurm's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Maximum number of hosts that measure at the same time; `None` without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Whether `at_once` applies to the hosts below each leaf switch instead of all hosts.
    #[serde(default)]
    pub per_switch: bool,
    /// Whether Slurm starts a job again after a node failure or preemption.
    #[serde(default)]
    pub requeue: bool,
    /// Further options of sbatch or srun, such as `--account=NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// How the reports arrive.
    pub report_return: ReportReturn,
}

/// How the reports of Slurm's jobs arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReportReturn {
    /// The hosts write them to the run's directory, which all of them share.
    SharedDirectory,
    /// In the output of srun, which runs as long as the job.
    Output,
}

/// A host of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetRunHost {
    /// Slurm's node name, or ssh's destination.
    pub name: String,
    /// Slurm's job IDs of its attempts, oldest first, such as `12_3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
    /// Why no job was submitted for it, such as the state of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// The state of a run and of each of its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetStatus {
    /// [`FLEET_STATUS_SCHEMA`](crate::FLEET_STATUS_SCHEMA).
    pub schema: String,
    /// Version of numaio that read the state.
    pub numaio: String,
    /// The run.
    pub run: String,
    /// Directory of the run.
    pub directory: String,
    /// The arguments of numaio that measure.
    pub command: Vec<String>,
    /// Time of the state in seconds since 1970.
    pub checked_at: u64,
    /// Number of hosts in each state that occurs.
    pub counts: Vec<FleetStateCount>,
    /// The hosts, in the order of the run.
    pub hosts: Vec<FleetHostStatus>,
}

impl FleetStatus {
    /// Returns whether every host has been measured.
    pub fn is_complete(&self) -> bool {
        self.hosts.iter().all(|host| host.state == FleetHostState::Measured)
    }
}

/// Number of hosts in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetStateCount {
    /// The state.
    pub state: FleetHostState,
    /// Number of hosts.
    pub hosts: u32,
}

/// The state of a host of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetHostStatus {
    /// Name of the host.
    pub host: String,
    /// Its state.
    pub state: FleetHostState,
    /// The reason for a state other than `measured`, or a remark about a measured host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Slurm's ID of its last job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// End of its measurement in seconds since 1970, by the host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<u64>,
}

/// The state of one host of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FleetHostState {
    /// Its report is complete.
    Measured,
    /// It measures.
    Running,
    /// It waits for its turn.
    Queued,
    /// It reported a failure.
    Failed,
    /// It ended without a report: node failure, time limit, cancellation, lost connection.
    Lost,
    /// Its report cannot be read.
    Unreadable,
    /// It has neither a report nor a job.
    Missing,
}

impl FleetHostState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Measured,
        Self::Running,
        Self::Queued,
        Self::Failed,
        Self::Lost,
        Self::Unreadable,
        Self::Missing,
    ];

    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Running => "running",
            Self::Queued => "queued",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Unreadable => "unreadable",
            Self::Missing => "missing",
        }
    }

    /// Returns whether `numaio fleet resume` measures a host in this state.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::Failed | Self::Lost | Self::Unreadable | Self::Missing)
    }
}
