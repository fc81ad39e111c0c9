//! Runs of a command on each host of a fleet.
