use super::*;
use std::thread;

const ALICE: &str = "
    key = \"/k\"
    [limits]
    connections = 2
    [root.r]
    path = \"/r\"
    read = \"*\"
    [user.alice]
    keys = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"
    sessions = 1
";

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
const LONG: Duration = Duration::from_secs(300);

fn table(slot_wait: Duration) -> Arc<SessionTable> {
    Arc::new(SessionTable { slot_wait, ..SessionTable::default() })
}

fn config(text: &str) -> Config {
    Config::parse(text).expect("a file without faults")
}

#[test]
fn whoever_finds_no_place_is_told_why() {
    let (config, table) = (config(ALICE), table(Duration::from_millis(1)));
    let take = || SessionSlot::take(&table, ADDRESS, &config);
    let (first, second) = (take().expect("a place"), take().expect("a place"));
    first.admit_user("alice", &config).expect("a session");
    let why = second.admit_user("alice", &config).expect_err("another one");
    assert!(why.contains("has 1 sessions already"), "{why}");
    assert_eq!(take().err(), Some("refused: limits.connections are open"));
    assert!(table.sessions().waiting.is_empty());
}

#[test]
fn whoever_comes_as_another_leaves_gets_the_place() {
    let (config, table) = (config(ALICE), table(LONG));
    let take = || SessionSlot::take(&table, ADDRESS, &config);
    let (first, second) = (take().expect("a place"), take().expect("a place"));
    first.admit_user("alice", &config).expect("a session");
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.admit_user("alice", &config));
        thread::sleep(Duration::from_millis(20));
        drop(first);
        waits.join().expect("it ended").expect("the first one has left");
    });
    let _third = take().expect("a place");
    thread::scope(|scope| {
        let waits = scope.spawn(take);
        until_waiting(&table, 1);
        drop(second);
        waits.join().expect("it ended").expect("the second one has left");
    });
    assert!(table.sessions().waiting.is_empty());
}

fn until_waiting(table: &SessionTable, count: usize) {
    while table.sessions().waiting.len() < count {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_more_wait_than_may_be_in() {
    let config = config(&ALICE.replace("connections = 2", "connections = 2\nper_address = 1"));
    let table = table(LONG);
    let take = |last| SessionSlot::take(&table, [192, 0, 2, last].into(), &config);
    let _seats = [take(1), take(2)].map(|slot| slot.expect("a place"));
    thread::scope(|scope| {
        let first = scope.spawn(|| take(1));
        until_waiting(&table, 1);
        assert_eq!(take(1).err(), Some("refused: limits.connections are open"), "one of its network waits");
        let second = scope.spawn(|| take(3));
        until_waiting(&table, 2);
        assert!(take(4).is_err(), "two wait");
        table.close();
        for waited in [first, second] {
            assert_eq!(waited.join().expect("it ended").err(), Some("refused: the daemon ends"));
        }
    });
}

#[test]
fn nobody_is_let_in_while_the_daemon_ends() {
    let (config, table) = (config(ALICE), table(LONG));
    let take = || SessionSlot::take(&table, ADDRESS, &config);
    let (first, second) = (take().expect("a place"), take().expect("a place"));
    first.admit_user("alice", &config).expect("a session");
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.admit_user("alice", &config));
        thread::sleep(Duration::from_millis(20));
        table.close();
        assert_eq!(waits.join().expect("it ended"), Err("the daemon ends".to_owned()));
    });
    drop(first);
    assert_eq!(take().err(), Some("refused: the daemon ends"), "there is room");
    assert!(second.admit_user("alice", &config).is_err());
}

#[test]
fn a_network_of_ipv6_counts_as_one_caller() {
    let network = |text: &str| client_network(text.parse().expect("an address")).to_string();
    assert_eq!(client_network("192.0.2.7"), "192.0.2.7");
    assert_eq!(client_network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
}
