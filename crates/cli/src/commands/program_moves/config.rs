//! The configuration file of a balancer: limits, and lists of allowed and denied programs.

use crate::failure::toml_fault;
use numaio_machine::programs::{is_in_group, unit_of};
use numaio_machine::units::parse_size;
use numaio_model::BalanceOptions;
use numaio_mover_linux::accounts::user_id;
use serde::Deserialize;

/// A configuration file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct BalanceConfig {
    /// Seconds within which a move must pay off.
    horizon: Option<f64>,
    /// Seconds for which a moved program stays.
    cool_down: Option<f64>,
    /// Least gain as a share of a program's rate.
    margin: Option<f64>,
    /// Memory to move per second, on average.
    limit: Option<String>,
    /// Most memory of one move.
    max_memory: Option<String>,
    /// Programs to balance; empty for all.
    allow: ProgramList,
    /// Programs to leave alone, even if allowed.
    deny: ProgramList,
}

/// A list of programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ProgramList {
    units: Vec<String>,
    cgroups: Vec<String>,
    users: Vec<String>,
    commands: Vec<String>,
}

/// The properties of a program to which lists refer.
#[derive(Debug, Clone, Copy)]
pub struct ListedProgram<'a> {
    /// Name of the program.
    pub name: &'a str,
    /// Effective user id.
    pub uid: Option<u32>,
    /// Path of its control group.
    pub control_group: Option<&'a str>,
}

impl BalanceConfig {
    /// Parses a file.
    ///
    /// # Errors
    /// A message that names the line or field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| toml_fault(text, &error))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let numbers = [("horizon", self.horizon), ("cool-down", self.cool_down), ("margin", self.margin)];
        for (name, value) in numbers {
            if value.is_some_and(|value| !value.is_finite() || value <= 0.0) {
                return Err(format!("{name}: expected a number above 0"));
            }
        }
        for (name, value) in [("limit", &self.limit), ("max-memory", &self.max_memory)] {
            if let Some(Err(error)) = value.as_deref().map(parse_size) {
                return Err(format!("{name}: {error}"));
            }
        }
        for user in self.allow.users.iter().chain(&self.deny.users) {
            if uid_of(user).is_none() {
                return Err(format!("user '{user}' not found"));
            }
        }
        Ok(())
    }

    /// Applies the configured values to options.
    pub fn apply(&self, options: &mut BalanceOptions) {
        let size = |text: &Option<String>| text.as_deref().and_then(|text| parse_size(text).ok());
        options.horizon_s = self.horizon.unwrap_or(options.horizon_s);
        options.cool_down_s = self.cool_down.unwrap_or(options.cool_down_s);
        options.margin = self.margin.unwrap_or(options.margin);
        options.limit_bytes_per_s = size(&self.limit).map_or(options.limit_bytes_per_s, |size| size as f64);
        options.most_move_bytes = size(&self.max_memory).unwrap_or(options.most_move_bytes);
    }

    /// Returns the entry that excludes a program; `None` if it may be balanced.
    pub fn excluding_entry(&self, program: ListedProgram<'_>) -> Option<String> {
        if let Some(entry) = self.deny.find(program) {
            return Some(format!("deny.{entry}"));
        }
        (self.allow != ProgramList::default() && self.allow.find(program).is_none())
            .then(|| "allow".to_owned())
    }
}

impl ProgramList {
    /// Returns the first entry that matches a program.
    fn find(&self, program: ListedProgram<'_>) -> Option<String> {
        let group = program.control_group;
        let unit = group.and_then(unit_of);
        let units = self.units.iter().find(|name| unit == Some(name.as_str())).map(|name| ("units", name));
        let cgroups = self.cgroups.iter().find(|path| group.is_some_and(|group| is_in_group(group, path)));
        let users = self.users.iter().find(|user| program.uid.is_some() && uid_of(user) == program.uid);
        let commands = self.commands.iter().find(|name| name.as_str() == program.name);
        let found = units
            .or(cgroups.map(|path| ("cgroups", path)))
            .or(users.map(|user| ("users", user)))
            .or(commands.map(|name| ("commands", name)));
        found.map(|(list, entry)| format!("{list}: {entry}"))
    }
}

/// Returns the id of a user by name or number.
fn uid_of(user: &str) -> Option<u32> {
    user.parse().ok().or_else(|| user_id(user.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "horizon = 30\nlimit = \"1G\"\n[allow]\nunits = [\"db.service\"]\nusers = [\"0\"]\n\
                        [deny]\ncommands = [\"dd\"]\ncgroups = [\"/system.slice/batch\"]\n";

    #[test]
    fn lists_match_by_unit_group_user_and_command() {
        let config = BalanceConfig::parse(TEXT).expect("valid");
        let entry = |name, uid, control_group| {
            config.excluding_entry(ListedProgram { name, uid: Some(uid), control_group })
        };
        assert_eq!(entry("sh", 0, None), None);
        assert_eq!(entry("sh", 7, Some("/system.slice/db.service/x")), None);
        assert_eq!(entry("sh", 7, Some("/system.slice/web.service")).as_deref(), Some("allow"));
        assert_eq!(entry("dd", 0, None).as_deref(), Some("deny.commands: dd"));
        let batch = entry("sh", 0, Some("/system.slice/batch/a"));
        assert_eq!(batch.as_deref(), Some("deny.cgroups: /system.slice/batch"));
        let everything = BalanceConfig::default();
        let program = ListedProgram { name: "sh", uid: None, control_group: None };
        assert_eq!(everything.excluding_entry(program), None);
    }

    #[test]
    fn values_apply_to_options() {
        let mut options = BalanceOptions::default();
        BalanceConfig::parse(TEXT).expect("valid").apply(&mut options);
        assert_eq!((options.horizon_s, options.limit_bytes_per_s), (30.0, (1u64 << 30) as f64));
        assert_eq!(options.cool_down_s, BalanceOptions::default().cool_down_s);
    }

    #[test]
    fn errors_name_line_or_field() {
        let error = |text| BalanceConfig::parse(text).expect_err("invalid");
        assert!(error("\nhorizons = 3\n").starts_with("line 2: unknown field"));
        assert_eq!(error("margin = -1"), "margin: expected a number above 0");
        assert!(error("limit = \"much\"").starts_with("limit: "));
        assert_eq!(error("[deny]\nusers = [\"no-such-user-\"]"), "user 'no-such-user-' not found");
        assert!(error("horizon = ").starts_with("line 1: "));
    }
}
