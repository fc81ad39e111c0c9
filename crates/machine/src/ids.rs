//! Numbers the kernel gives to things, each with a type of its own.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A number the kernel gives to a thing; members of an [`IdSet`](crate::set::IdSet).
pub trait Id: Copy + Ord {
    /// The id for a kernel number.
    fn from_number(number: u32) -> Self;
    /// The kernel number of this id.
    fn number(self) -> u32;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl Id for $name {
            fn from_number(number: u32) -> Self {
                Self(number)
            }
            fn number(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A NUMA node: CPUs, memory, or memory alone. Ids may have gaps.
    NodeId
}
id! {
    /// A logical CPU (hardware thread).
    CpuId
}
id! {
    /// A physical package (socket).
    PackageId
}
