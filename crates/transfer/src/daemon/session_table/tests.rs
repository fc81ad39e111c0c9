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
    let queue = CapacityQueue::new(Vec::new(), &config(ALICE).limits, String::new());
    Arc::new(SessionTable { slot_wait, ..SessionTable::new(queue) })
}

fn config(text: &str) -> Config {
    Config::parse(text).expect("a valid file")
}

#[test]
fn refusal_names_the_exhausted_limit() {
    let (config, table) = (config(ALICE), table(Duration::from_millis(1)));
    let take = || SessionSlot::take(&table, ADDRESS, &config);
    let _slots = [take().expect("a place"), take().expect("a place")];
    assert_eq!(take().err(), Some("refused: limits.connections reached"));
    assert!(table.sessions().waiting.is_empty());
}

#[test]
fn waiting_connection_gets_a_freed_slot() {
    let (config, table) = (config(ALICE), table(LONG));
    let take = || SessionSlot::take(&table, ADDRESS, &config);
    let (first, _second) = (take().expect("a place"), take().expect("a place"));
    thread::scope(|scope| {
        let waits = scope.spawn(take);
        until_waiting(&table, 1);
        drop(first);
        waits.join().expect("the thread finishes").expect("the first session has finished");
    });
    assert!(table.sessions().waiting.is_empty());
}

fn until_waiting(table: &SessionTable, count: usize) {
    while table.sessions().waiting.len() < count {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn loopback_addresses_are_one_network() {
    let network = |text: &str| client_network(text.parse().expect("an address"));
    assert_eq!(network("127.9.8.7"), network("127.0.0.1"));
    assert_ne!(network("128.0.0.1"), network("127.0.0.1"));
}

#[test]
fn limits_waiting_connections() {
    let config = config(&ALICE.replace("connections = 2", "connections = 2\nper_address = 1"));
    let table = table(LONG);
    let take = |last| SessionSlot::take(&table, [192, 0, 2, last].into(), &config);
    let _slots = [take(1), take(2)].map(|slot| slot.expect("a place"));
    thread::scope(|scope| {
        let first = scope.spawn(|| take(1));
        until_waiting(&table, 1);
        assert_eq!(take(1).err(), Some("refused: limits.connections reached"), "one of its network waits");
        let second = scope.spawn(|| take(3));
        until_waiting(&table, 2);
        assert!(take(4).is_err(), "two connections wait");
        table.close();
        for waited in [first, second] {
            let refusal = waited.join().expect("the thread finishes").err();
            assert_eq!(refusal, Some("refused: the daemon is shutting down"));
        }
    });
}

#[test]
fn takes_no_session_during_shutdown() {
    let (config, table) = (config(ALICE), table(LONG));
    table.close();
    let refusal = SessionSlot::take(&table, ADDRESS, &config).err();
    assert_eq!(refusal, Some("refused: the daemon is shutting down"), "a slot is free");
}

#[test]
fn ipv6_clients_count_by_their_64_bit_network() {
    let network = |text: &str| client_network(text.parse().expect("an address")).to_string();
    assert_eq!(network("192.0.2.7"), "192.0.2.7");
    assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
}
