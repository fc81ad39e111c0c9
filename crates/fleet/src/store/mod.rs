//! The store of a fleet: one SQLite file.
