//! Types for kernel-assigned numbers.

use serde::{de, Deserialize, Deserializer, Serialize};
use std::fmt;

/// Largest id accepted from text, to bound the memory that a hostile file can request.
///
/// Linux allows 8,192 CPUs and 1,024 nodes.
pub const MAX_ID: u32 = 1 << 16;

/// A kernel-assigned number; an element of an [`IdSet`](crate::set::IdSet).
pub trait Id: Copy + Ord {
    /// Returns the id for a kernel number.
    fn from_number(number: u32) -> Self;
    /// Returns the kernel number.
    fn number(self) -> u32;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident up to $largest:expr) => {
        $(#[$doc])*
        ///
        /// The number is the kernel's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
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

        /// Rejects ids above the limit: a bitmap up to such an id would exhaust memory.
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match u32::deserialize(deserializer)? {
                    number if (0..=$largest).contains(&number) => Ok(Self(number)),
                    number => Err(de::Error::custom(format_args!("{number} is above the largest id, {}", $largest))),
                }
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
    NodeId up to MAX_ID
}
id! {
    /// A logical CPU (hardware thread).
    CpuId up to MAX_ID
}
id! {
    /// A physical package (socket). Firmware chooses the id, which can be any number.
    PackageId up to u32::MAX
}
