use super::*;
use crate::daemon::log_options::{LogFormat, LogLevel};
use numaio_schema::{DevicePurpose, TransferDeviceKind};

const KEY: &str = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const OTHER: &str = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

/// Returns the errors of a text as they are printed.
fn errors(text: &str) -> Vec<String> {
    let text = text.replace("KEY", KEY).replace("OTHER", OTHER);
    let errors = Config::parse(&text).expect_err("errors");
    errors.into_iter().map(|ConfigError { line, text }| format!("{line}: {text}")).collect()
}

#[test]
fn defaults_match_the_documentation() {
    let text = format!("key = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"*\"\n[user.u]\nkeys = \"{KEY}\"\n");
    let config = Config::parse(&text).expect("a valid file");
    assert_eq!(config.listen[0].value.to_string(), "[::]:6862");
    assert_eq!((config.as_root, config.stop.as_secs()), (false, 60));
    assert_eq!((config.log.format.name(), config.log.level.name()), ("text", "info"));
    assert_eq!((config.records.clone(), config.class_of("u")), (None, "user"));
    let Limits { connections, per_address, login_grace, time_slice, preemption_wait } = config.limits;
    assert_eq!((connections, per_address), (64, 16));
    assert_eq!([login_grace, time_slice, preemption_wait].map(|limit| limit.as_secs()), [10, 30, 300]);
    assert_eq!(config.local, None);
    let user = &config.users["u"];
    assert_eq!((user.sessions, user.streams, user.bytes_per_second), (4, 8, None));
    let root = &config.roots["r"];
    assert!(root.allows("u", Side::Source) && !root.allows("u", Side::Sink));
    let key = KEY.parse().expect("a key");
    assert_eq!(config.user(key).map(|(name, _)| name), Some("u"));
    assert!(config.user(OTHER.parse().expect("a key")).is_none());
}

#[test]
fn anonymous_clients_only_read_their_roots() {
    let roots = "[root.r]\npath = \"/r\"\nread = \"*\"\nwrite = \"*\"\n[root.open]\npath = \"/o\"\nanonymous = true\n";
    let config = |more: &str| format!("key = \"/k\"\n{roots}[user.u]\nkeys = \"{KEY}\"\n{more}");
    let parsed = Config::parse(&config("")).expect("a valid file");
    let may = |root, side| parsed.anonymous(root, side).map(|(user, _)| user);
    assert_eq!(may("open", Side::Source), Some("anonymous"));
    for (root, side) in [("open", Side::Sink), ("r", Side::Source), ("r", Side::Sink), ("x", Side::Source)] {
        assert_eq!(may(root, side), None, "{root}");
    }
    assert!(parsed.roots["open"].allows("u", Side::Source) && !parsed.roots["open"].allows("u", Side::Sink));
    let user = &parsed.users["anonymous"];
    assert_eq!((user.connections, user.sessions, user.priority, user.streams), (16, 4, 0, 8));
    assert_eq!((&user.class[..], parsed.users["u"].connections), ("anonymous", usize::MAX));
    let limited = Config::parse(&config("[user.anonymous]\nconnections = 3\nsessions = 2\n"));
    let user = &limited.expect("a valid file").users["anonymous"];
    assert_eq!((user.connections, user.sessions, user.priority), (3, 2, 0));
    let rejected = errors(&config("[user.anonymous]\nconnections = 64\nkeys = \"OTHER\"\n"));
    assert!(rejected[0].contains("anonymous clients have no keys"), "{rejected:?}");
    assert!(rejected[1].contains("connections: expected less than limits.connections, 64"), "{rejected:?}");
    let narrow = errors(&config("[limits]\nconnections = 1\n"));
    assert!(narrow[0].contains("expected at least 2 beside"), "{narrow:?}");
    let open = "[root.o]\npath = \"/o\"\n";
    for (fields, why) in [
        ("anonymous = true\nwrite = \"*\"\n", "anyone could read what users write here"),
        ("read = \"anonymous\"\n", "write anonymous = true"),
        ("read = \"*\"\n[user.anonymous]\nsessions = 1\n", "no root has anonymous = true"),
    ] {
        let found = errors(&format!("key = \"/k\"\n{open}{fields}"));
        assert!(found.iter().any(|error| error.contains(why)), "{found:?}");
    }
}

#[test]
fn rejects_empty_duplicate_and_overlapping_addresses() {
    let errors = |listen: &str| {
        let text = format!("listen = {listen}\nkey = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"*\"\n");
        let errors = Config::parse(&text).err().unwrap_or_default();
        errors.into_iter().map(|error| (error.line, error.text)).collect::<Vec<_>>()
    };
    assert_eq!(errors("[\"[::]:1\", \"[::]:2\"]"), []);
    assert_eq!(errors("[\"[::]:1\", \"[::]:1\"]"), [(1, "listen: [::]:1 is listed twice".to_owned())]);
    assert_eq!(errors("[\"0.0.0.0:1\", \"[::1]:1\", \"192.0.2.1:2\", \"[::]:0\", \"127.0.0.1:0\"]"), []);
    for (one, other) in [("0.0.0.0:1", "[::]:1"), ("[::]:1", "192.0.2.1:1"), ("192.0.2.1:1", "0.0.0.0:1")] {
        let error = format!("listen: {one} and {other} overlap");
        assert_eq!(errors(&format!("[{one:?}, {other:?}]")), [(1, error)]);
    }
    let none = "listen is empty; remove it to listen on all addresses";
    assert_eq!(errors("[]"), [(1, none.to_owned())]);
}

#[test]
fn reports_every_error_with_its_line() {
    let text = "\
listen = [\"nonsense\", \"0.0.0.0:1\", 7]
key = \"relative\"
as_root = \"yes\"
stop_seconds = -1
colour = \"blue\"
[limits]
connections = 0
login_grace_seconds = 1.5
[root.\"a/b\"]
path = \"/r\"
read = [\"u\", \"missing\", 3]
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
        "1: listen: expected an address with a port such as \"192.0.2.1:6862\" or \"[::]:6862\", got \"nonsense\"",
        "1: listen: expected strings",
        "2: key: expected an absolute path, got \"relative\"",
        "3: as_root: expected true or false",
        "4: stop_seconds: expected an integer from 0 to 86400",
        "5: unknown field \"colour\"; expected one of listen, key, as_root, stop_seconds, log_format, log_level, records, keep_days, limits, user, root, local, device",
        "7: limits: connections: expected an integer from 1 to 4096",
        "8: limits: login_grace_seconds: expected an integer from 1 to 600",
        "9: root \"a/b\": expected a name of 1 to 64 ASCII letters, digits, _, - and ., not starting with - or .",
        "11: root \"a/b\": read: [user.missing] is missing",
        "11: root \"a/b\": read: expected strings",
        "12: root \"r\": no user may access it: list users in read, write or both; \"*\" means all users",
        "12: root \"r\": path is missing: the directory",
        "15: user \"u\": keys: invalid public key: expected 'ed25519:' and 64 hexadecimal digits",
        "16: user \"u\": streams: expected an integer from 1 to 32",
        "17: user \"u\": bytes_per_second: invalid size \"fast\": expected a number with a unit, as in 128K, 1.5GiB or 2TB",
        "19: user \"v\": keys: user \"u\" has the same key",
        "21: user \"w\": keys is missing: the public keys that numaio keygen printed",
    ];
    assert_eq!(errors(text), wanted);
}

#[test]
fn invalid_key_is_one_error() {
    let wanted = ["6: user \"u\": keys: invalid public key: expected 'ed25519:' and 64 hexadecimal digits"];
    let text = "key = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"u\"\n[user.u]\nkeys = \"short\"\n";
    assert_eq!(errors(text), wanted);
}

#[test]
fn reports_invalid_toml() {
    for (text, line) in
        [("key = \"/k\"\n[root\n", "2: "), ("key = \"/k\"\nkey = \"/l\"\n", "2: "), ("= 1\n", "1: ")]
    {
        let found = errors(text);
        assert!(found.iter().any(|error| error.starts_with(line)), "{text}: {found:?}");
    }
    assert_eq!(
        errors(""),
        [
            "1: key is missing: the file that numaio keygen FILE makes",
            "1: no root is configured: add [root.NAME] with a path"
        ]
    );
    let hostile = "[root.r]\npath = \"/r\"\nread = \"\\u001b[2J\\nx\"\n";
    let found = errors(hostile);
    assert!(found.iter().any(|error| error.ends_with("[user.\u{fffd}[2J\u{fffd}x] is missing")), "{found:?}");
    assert!(errors("root = 1\nuser = []\n").iter().any(|error| error == "1: root: expected a table"));
}

#[test]
fn reads_or_rejects_truncated_and_damaged_files() {
    let text_file = include_str!("../../../../../docs/copy/daemon.md");
    let example =
        text_file.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    for end in (0..example.len()).step_by(7).filter(|&end| example.is_char_boundary(end)) {
        drop(Config::parse(&example[..end]));
        for damage in ["\"", "[", "=", "\u{0}", "\n", "9", "ä"] {
            let text = format!("{}{damage}{}", &example[..end], &example[end..]);
            if let Err(errors) = Config::parse(&text) {
                let lines = text.lines().count() + 1;
                assert!(
                    !errors.is_empty() && errors.iter().all(|error| (1..=lines).contains(&error.line)),
                    "{text}"
                );
            }
        }
    }
}

/// Parses a file in which one field has this value, or is missing.
fn with(field: &str, value: Option<&str>) -> Result<Config, Vec<ConfigError>> {
    let in_table = |fields: &[&str]| match value {
        _ if !fields.contains(&field) => String::new(),
        Some(value) => format!("{field} = {value}\n"),
        // Keeps the number of lines, so that the results are comparable.
        None => "\n".to_owned(),
    };
    let limits = in_table(&[
        "connections",
        "per_address",
        "login_grace_seconds",
        "time_slice_seconds",
        "preemption_wait_seconds",
    ]);
    Config::parse(&format!(
        "key = \"/k\"\nrecords = \"/records\"\n{}[limits]\n{limits}[root.r]\npath = \"/r\"\nread = \"*\"\n[local]\n{}[user.u]\nkeys = \"{KEY}\"\n{}",
        in_table(&["stop_seconds", "keep_days"]),
        in_table(&["transfers"]),
        in_table(&["sessions", "priority", "streams", "bytes_per_second"]),
    ))
}

#[test]
fn documentation_lists_defaults_and_ranges() {
    let text_file = include_str!("../../../../../docs/copy/daemon.md");
    let table = text_file.split("| optional field |").nth(1).and_then(|rest| rest.split("\n\n").next());
    let mut numbers = Vec::new();
    for row in table.expect("a table").lines().filter(|row| row.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (field, default, range) = (cells[1].trim_matches('`'), cells[2], cells[3]);
        let left_out = with(field, None);
        assert!(left_out.is_ok());
        let Some((least, most)) = range.split_once(" to ") else {
            if ["log_format", "log_level", "records", "class", "socket"].contains(&field) {
                continue;
            }
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
    let all = [
        "stop_seconds",
        "keep_days",
        "connections",
        "per_address",
        "login_grace_seconds",
        "time_slice_seconds",
        "preemption_wait_seconds",
        "transfers",
        "sessions",
        "priority",
        "streams",
    ];
    assert_eq!(numbers, all);
}

#[test]
fn accepts_and_rejects_names_as_documented() {
    let errors = |name: &str| {
        let user = format!("[user.\"{name}\"]\nkeys = \"{KEY}\"\n");
        let root = format!("[root.\"{name}\"]\npath = \"/r\"\nread = \"*\"\n");
        Config::parse(&format!("key = \"/k\"\n{root}{user}")).err().map_or(0, |errors| errors.len())
    };
    for good in ["a", "9", "_x", "Run-17.b", &"x".repeat(64)] {
        assert_eq!(errors(good), 0, "{good}");
    }
    for bad in ["", "-a", ".a", "a/b", "a b", "ä", &"x".repeat(65)] {
        assert_eq!(errors(bad), 2, "{bad}");
    }
}

#[test]
fn documented_examples_are_valid() {
    let text_file = include_str!("../../../../../docs/copy/daemon.md");
    let examples: Vec<&str> =
        text_file.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert_eq!(Config::parse(example).map(drop), Ok(()), "{example}");
    }
}

const DEVICES: &str = "key = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"*\"\n[user.u]\nkeys = \"KEY\"\n";

#[test]
fn reads_device_tables_in_the_order_of_their_lines() {
    let text = format!(
        "{}[device.vda]\nkind = \"ssd\"\nread = \"500MB\"\nthreads = 3\nnodes = \"0,2-3\"\n[device.\"store1:/home\"]\npurpose = \"storage\"\nwrite = \"1G\"\n",
        DEVICES.replace("KEY", KEY)
    );
    let devices = Config::parse(&text).expect("a valid file").devices;
    let [disk, home] = devices.as_slice() else { panic!("{devices:?}") };
    assert_eq!((disk.name.as_str(), disk.line, disk.threads), ("vda", 7, Some(3)));
    assert_eq!((disk.kind, disk.read), (Some(TransferDeviceKind::Ssd), Some(500_000_000)));
    assert_eq!(disk.nodes.as_ref().map(ToString::to_string).as_deref(), Some("0,2-3"));
    assert_eq!((home.name.as_str(), home.purpose), ("store1:/home", Some(DevicePurpose::Storage)));
    assert_eq!((home.write, home.read, home.threads), (Some(1 << 30), None, None));
}

#[test]
fn reports_wrong_device_fields_with_their_lines() {
    let text = "\
[device.vda]
kind = \"floppy\"
purpose = \"both\"
read = \"fast\"
write = \"0\"
threads = 0
nodes = \"x\"
speed = 1
[device.eth0]
[device.eth1]
nodes = [0]
";
    let wanted = [
        "8: device \"vda\": kind: expected one of hdd, ssd, nvme, memory, network-file-system, nic, other, got \"floppy\"",
        "9: device \"vda\": purpose: expected one of storage, network, got \"both\"",
        "10: device \"vda\": read: invalid size \"fast\": expected a number with a unit, as in 128K, 1.5GiB or 2TB",
        "11: device \"vda\": write: expected more than 0; remove it to use what was found",
        "12: device \"vda\": threads: expected an integer from 1 to 128",
        "13: device \"vda\": nodes: expected a list of nodes such as \"0\" or \"0,2-3\", got \"x\"",
        "14: device \"vda\": unknown field \"speed\"; expected one of kind, purpose, read, write, threads, nodes",
        "15: device \"eth0\": it sets nothing: expected one of kind, purpose, read, write, threads, nodes",
        "17: device \"eth1\": nodes: expected a string",
    ];
    assert_eq!(errors(&format!("{DEVICES}{text}")), wanted);
}

#[test]
fn reads_options_of_the_log_and_of_records() {
    let parse = |text: &str| {
        let rest =
            format!("[root.r]\npath = \"/r\"\nread = \"*\"\n[user.u]\nkeys = \"{KEY}\"\nclass = \"staff\"\n");
        Config::parse(&format!("key = \"/k\"\n{text}{rest}"))
    };
    for format in LogFormat::ALL {
        for level in LogLevel::ALL {
            let text = format!("log_format = \"{}\"\nlog_level = \"{level}\"\n", format.name());
            assert_eq!(parse(&text).expect("a valid file").log, LogOptions { format, level });
        }
    }
    let config = parse("records = \"/var/lib/r\"\nkeep_days = 7\n").expect("a valid file");
    let records = config.records.clone().expect("records");
    assert_eq!((records.directory.value.to_str(), records.directory.line), (Some("/var/lib/r"), 2));
    assert_eq!((records.keep_days, config.class_of("u"), config.class_of("v")), (7, "staff", "user"));
    assert_eq!(parse("records = \"/r\"\n").expect("a valid file").records.expect("records").keep_days, 90);
    for (text, error) in [
        (
            "log_format = \"xml\"\n",
            "log_format: expected one of \"text\", \"json\", \"journal\", got \"xml\"",
        ),
        (
            "log_level = \"trace\"\n",
            "log_level: expected one of \"error\", \"warning\", \"info\", \"debug\", got \"trace\"",
        ),
        ("log_level = 3\n", "log_level: expected a string"),
        ("records = \"here\"\n", "records: expected an absolute path, got \"here\""),
        ("keep_days = 7\n", "keep_days: needs records, the directory of the records"),
        ("records = \"/r\"\nkeep_days = 0\n", "keep_days: expected an integer from 1 to 36500"),
    ] {
        let errors = parse(text).expect_err("an error");
        assert_eq!(errors.iter().map(|error| error.text.as_str()).collect::<Vec<_>>(), [error]);
        assert_eq!(errors[0].line, 1 + text.lines().count());
    }
    let class = errors("key = \"/k\"\n[user.u]\nkeys = \"KEY\"\nclass = \"a b\"\n");
    assert!(
        class[0].starts_with("1: no root") && class[1].starts_with("4: user \"u\": class: expected a name")
    );
}

#[test]
fn check_rejects_unusable_directories_of_records() {
    let directory = std::env::temp_dir().join(format!("numaio-records-check-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("root")).expect("directories");
    std::fs::write(directory.join("file"), "x").expect("a file");
    let check = |records: &str, may: &str| {
        let path = directory.display();
        let text = format!(
            "key = \"/k\"\nrecords = \"{path}/{records}\"\n[root.r]\npath = \"{path}/root\"\n{may} = \"*\"\n\
             [user.u]\nkeys = \"{KEY}\"\n"
        );
        let error = Config::parse(&text).expect("a valid file").check_records();
        error.map(|error| (error.line, error.text.replace(&path.to_string(), "DIR")))
    };
    // Missing directories are created later.
    assert_eq!(check("records", "write"), None);
    assert_eq!(check("new/records", "write"), None);
    assert_eq!(check("root/records", "read"), None);
    let error = |text: &str| Some((2, text.to_owned()));
    assert_eq!(check("file", "write"), error("records: DIR/file: DIR/file is not a directory"));
    let why = "it is in root \"r\", whose users could change the records";
    assert_eq!(check("root", "write"), error(&format!("records: DIR/root: {why}")));
    assert_eq!(check("root/new", "write"), error(&format!("records: DIR/root/new: {why}")));
    std::fs::remove_dir_all(directory).expect("removed");
}
