use super::*;

const KEY: &str = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const OTHER: &str = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

/// Faults as they are shown.
fn faults(text: &str) -> Vec<String> {
    let text = text.replace("KEY", KEY).replace("OTHER", OTHER);
    let faults = Config::parse(&text).expect_err("faults");
    faults.into_iter().map(|Fault { line, text }| format!("{line}: {text}")).collect()
}

#[test]
fn what_is_left_out_is_as_documented() {
    let text = format!("key = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"*\"\n[user.u]\nkeys = \"{KEY}\"\n");
    let config = Config::parse(&text).expect("no faults");
    assert_eq!(config.listen[0].value.to_string(), "[::]:6862");
    assert_eq!((config.as_root, config.kernel_tls, config.stop.as_secs()), (false, false, 60));
    let Limits { connections, per_address, opening } = config.limits;
    assert_eq!((connections, per_address, opening.as_secs()), (64, 16, 10));
    let user = &config.users["u"];
    assert_eq!((user.sessions, user.streams, user.bytes_per_second), (4, 8, None));
    let root = &config.roots["r"];
    assert!(root.allows("u", Side::Source) && !root.allows("u", Side::Sink));
    let key = KEY.parse().expect("a key");
    assert_eq!(config.user(key).map(|(name, _)| name), Some("u"));
    assert!(config.user(OTHER.parse().expect("a key")).is_none());
}

#[test]
fn addresses_are_some_and_each_is_there_once() {
    let faults = |listen: &str| {
        let text = format!("listen = {listen}\nkey = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"*\"\n");
        let faults = Config::parse(&text).err().unwrap_or_default();
        faults.into_iter().map(|fault| (fault.line, fault.text)).collect::<Vec<_>>()
    };
    assert_eq!(faults("[\"[::]:1\", \"[::]:2\"]"), []);
    assert_eq!(faults("[\"[::]:1\", \"[::]:1\"]"), [(1, "listen: [::]:1 is there twice".to_owned())]);
    assert_eq!(faults("[\"0.0.0.0:1\", \"[::1]:1\", \"192.0.2.1:2\", \"[::]:0\", \"127.0.0.1:0\"]"), []);
    for (one, other) in [("0.0.0.0:1", "[::]:1"), ("[::]:1", "192.0.2.1:1"), ("192.0.2.1:1", "0.0.0.0:1")] {
        let fault = format!("listen: {one} and {other} are the same in part");
        assert_eq!(faults(&format!("[{one:?}, {other:?}]")), [(1, fault)]);
    }
    let none = "listen names no address; without it the daemon listens at all of them";
    assert_eq!(faults("[]"), [(1, none.to_owned())]);
}

#[test]
fn every_fault_is_told_with_its_line() {
    let text = "\
listen = [\"nonsense\", \"0.0.0.0:1\", 7]
key = \"relative\"
as_root = \"yes\"
stop_seconds = -1
colour = \"blue\"
[limits]
connections = 0
opening_seconds = 1.5
[root.\"a/b\"]
path = \"/r\"
read = [\"u\", \"nobody\", 3]
[root.r]
write = []
[user.u]
keys = [\"KEY\", \"short\"]
streams = 99
bytes_per_second = \"fast\"
[user.v]
keys = \"KEY\"
sessions = 0x10
[user.w]
";
    let wanted = [
        "1: listen is a list of texts in quotes",
        "1: listen: \"nonsense\" is no address with a port, as \"192.0.2.1:6862\" or \"[::]:6862\"",
        "2: key: \"relative\" does not begin with a slash",
        "3: as_root is true or false",
        "4: stop_seconds is a whole number from 0 to 86400",
        "5: \"colour\" is not known here; there are listen, key, as_root, kernel_tls, stop_seconds, limits, user, root",
        "7: limits: connections is a whole number from 1 to 4096",
        "8: limits: opening_seconds is a whole number from 1 to 600",
        "9: root \"a/b\": a name has letters of ASCII, digits, and _ - . within, 64 at most",
        "11: root \"a/b\": read is a list of texts in quotes",
        "11: root \"a/b\": read: there is no [user.nobody]",
        "12: root \"r\": nobody may use it: name users in read, write or both; \"*\" is everybody",
        "12: root \"r\": path is missing: the directory",
        "15: user \"u\": keys: invalid public key: expected 'ed25519:' and 64 hexadecimal digits",
        "16: user \"u\": streams is a whole number from 1 to 32",
        "17: user \"u\": bytes_per_second: \"fast\" is no size; write it as 131072, 128K, 1.5GiB or 2TB",
        "19: user \"v\": keys: this one is of user \"u\" too",
        "21: user \"w\": keys is missing: what numaio keygen printed for this user",
    ];
    assert_eq!(faults(text), wanted);
}

#[test]
fn a_key_that_is_none_is_one_fault() {
    let wanted = ["6: user \"u\": keys: invalid public key: expected 'ed25519:' and 64 hexadecimal digits"];
    let text = "key = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"u\"\n[user.u]\nkeys = \"short\"\n";
    assert_eq!(faults(text), wanted);
}

#[test]
fn what_is_no_toml_is_told() {
    for (text, line) in
        [("key = \"/k\"\n[root\n", "2: "), ("key = \"/k\"\nkey = \"/l\"\n", "2: "), ("= 1\n", "1: ")]
    {
        let told = faults(text);
        assert!(told.iter().any(|fault| fault.starts_with(line)), "{text}: {told:?}");
    }
    assert_eq!(
        faults(""),
        [
            "1: key is missing: the file that numaio keygen FILE makes",
            "1: there is no root: write [root.NAME] and a path below it"
        ]
    );
    let hostile = "[root.r]\npath = \"/r\"\nread = \"\\u001b[2J\\nx\"\n";
    let told = faults(hostile);
    assert!(told.iter().any(|fault| fault.ends_with("there is no [user.\u{fffd}[2J\u{fffd}x]")), "{told:?}");
    assert!(faults("root = 1\nuser = []\n").iter().any(|fault| fault == "1: root is a table"));
}

#[test]
fn a_file_that_is_cut_or_damaged_is_read_or_refused() {
    let page = include_str!("../../../../../../docs/copy/daemon.md");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    for end in (0..example.len()).step_by(7).filter(|&end| example.is_char_boundary(end)) {
        drop(Config::parse(&example[..end]));
        for damage in ["\"", "[", "=", "\u{0}", "\n", "9", "ä"] {
            let text = format!("{}{damage}{}", &example[..end], &example[end..]);
            if let Err(faults) = Config::parse(&text) {
                let lines = text.lines().count() + 1;
                assert!(
                    !faults.is_empty() && faults.iter().all(|fault| (1..=lines).contains(&fault.line)),
                    "{text}"
                );
            }
        }
    }
}

/// A file in which one field has this value, or is left out.
fn with(field: &str, value: Option<&str>) -> Result<Config, Vec<Fault>> {
    let in_table = |fields: &[&str]| match value {
        _ if !fields.contains(&field) => String::new(),
        Some(value) => format!("{field} = {value}\n"),
        // As many lines, so that all else is the same.
        None => "\n".to_owned(),
    };
    let limits = in_table(&["connections", "per_address", "opening_seconds"]);
    Config::parse(&format!(
        "key = \"/k\"\n{}[limits]\n{limits}[root.r]\npath = \"/r\"\nread = \"*\"\n[user.u]\nkeys = \"{KEY}\"\n{}",
        in_table(&["stop_seconds"]),
        in_table(&["sessions", "streams", "bytes_per_second"]),
    ))
}

#[test]
fn the_documentation_tells_what_may_be_left_out() {
    let page = include_str!("../../../../../../docs/copy/daemon.md");
    let table = page.split("| optional field |").nth(1).and_then(|rest| rest.split("\n\n").next());
    let mut numbers = Vec::new();
    for row in table.expect("a table").lines().filter(|row| row.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (field, default, range) = (cells[1].trim_matches('`'), cells[2], cells[3]);
        let left_out = with(field, None);
        assert!(left_out.is_ok());
        let Some((least, most)) = range.split_once(" to ") else {
            assert_eq!((field, default), ("bytes_per_second", "no limit"));
            let limit = |text| with(field, Some(text)).map(|config| config.users["u"].bytes_per_second);
            assert_eq!((limit("\"1M\""), limit("\"2KB\"")), (Ok(Some(1_048_576)), Ok(Some(2000))));
            assert!(limit("1").is_err());
            continue;
        };
        for good in [least, most] {
            assert!(with(field, Some(good)).is_ok(), "{field} = {good}");
        }
        assert_eq!(with(field, Some(default)), left_out, "{field}");
        let [less, more] = [least, most].map(|end| end.parse::<i64>().expect("a number"));
        for bad in [less - 1, more + 1] {
            assert!(with(field, Some(&bad.to_string())).is_err(), "{field} = {bad}");
        }
        numbers.push(field);
    }
    let all = ["stop_seconds", "connections", "per_address", "opening_seconds", "sessions", "streams"];
    assert_eq!(numbers, all);
}

#[test]
fn names_are_as_documented() {
    let faults = |name: &str| {
        let user = format!("[user.\"{name}\"]\nkeys = \"{KEY}\"\n");
        let root = format!("[root.\"{name}\"]\npath = \"/r\"\nread = \"*\"\n");
        Config::parse(&format!("key = \"/k\"\n{root}{user}")).err().map_or(0, |faults| faults.len())
    };
    for good in ["a", "9", "_x", "Run-17.b", &"x".repeat(64)] {
        assert_eq!(faults(good), 0, "{good}");
    }
    for bad in ["", "-a", ".a", "a/b", "a b", "ä", &"x".repeat(65)] {
        assert_eq!(faults(bad), 2, "{bad}");
    }
}

#[test]
fn the_documentation_shows_a_file_without_faults() {
    let page = include_str!("../../../../../../docs/copy/daemon.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert_eq!(Config::parse(example).map(drop), Ok(()), "{example}");
    }
}
