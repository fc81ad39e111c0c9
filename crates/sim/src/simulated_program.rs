//! A program that is installed on the simulated machine.

/// A program of the simulated machine: STREAM copy on arrays of its memory node.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedProgram {
    /// Name by which it is started; arguments are ignored.
    pub name: String,
    /// Share of the bandwidth of STREAM that it reaches, as of one of several builds.
    pub efficiency: f64,
}
