//! Subordinate user ids: a user has some 65,536 beside its own (subuid(5)), and becomes each of
//! them in a user namespace.

use numaio_linux::user_files::read_trusted_text;
use std::path::Path;

const FILE: &str = "/etc/subuid";
const MAX_BYTES: u64 = 1 << 20;

/// Returns the user id that limits count: the first one of a range of subordinate ids for all of
/// them, any other id as it is. Ranges that another service than the file assigns are not known.
pub fn counted_id(user: u32) -> u32 {
    read_trusted_text(Path::new(FILE), MAX_BYTES).map_or(user, |text| first_of_range(&text, user))
}

fn first_of_range(text: &str, user: u32) -> u32 {
    let range = |line: &str| {
        let (first, count) = line.split_once(':')?.1.split_once(':')?;
        let (first, count) = (first.parse::<u32>().ok()?, count.trim().parse::<u32>().ok()?);
        (first..first.saturating_add(count)).contains(&user).then_some(first)
    };
    text.lines().find_map(range).unwrap_or(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ids_of_a_range_count_as_its_first_one() {
        let text = "alice:100000:65536\n# a comment\nbob:165536:65536\nbad:x:1\n1000:4294967290:100\n";
        for (user, counted) in [
            (1_000, 1_000),
            (99_999, 99_999),
            (100_000, 100_000),
            (165_535, 100_000),
            (165_536, 165_536),
            (231_071, 165_536),
            (231_072, 231_072),
            (4_294_967_294, 4_294_967_290),
        ] {
            assert_eq!(first_of_range(text, user), counted, "{user}");
        }
    }
}
