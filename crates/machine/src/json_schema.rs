//! JSON Schemas of the types that serialize themselves.

use crate::devices::PciAddress;
use crate::ids::Id;
use crate::set::IdSet;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;

impl<T: Id> JsonSchema for IdSet<T> {
    fn schema_name() -> Cow<'static, str> {
        "IdSet".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "CPUs or nodes in the kernel's list format, such as `0-3,8`; may be empty.",
            "type": "string",
            "pattern": r"^([0-9]+(-[0-9]+(:[0-9]+(/[0-9]+)?)?)?(,[0-9]+(-[0-9]+(:[0-9]+(/[0-9]+)?)?)?)*)?$"
        })
    }
}

impl JsonSchema for PciAddress {
    fn schema_name() -> Cow<'static, str> {
        "PciAddress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A PCI address, such as `0000:3b:00.0`.",
            "type": "string",
            "pattern": "^[0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+\\.[0-9a-fA-F]+$"
        })
    }
}
