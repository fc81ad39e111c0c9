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

/// A client that reads no notices.
fn silent(_: FullNotice) -> io::Result<()> {
    Ok(())
}

#[test]
fn waiting_client_gets_its_place_and_leaves_it_by_disconnecting() {
    let (config, table) = (config(ALICE), table(Duration::from_millis(1)));
    let take = |inform: &mut dyn FnMut(FullNotice) -> io::Result<()>| {
        SessionSlot::take(&table, ADDRESS, &config, inform)
    };
    let _slots = [take(&mut silent), take(&mut silent)].map(|slot| slot.expect("a place"));
    let mut notices = Vec::new();
    let taken = take(&mut |notice| {
        notices.push(notice);
        Err(io::ErrorKind::BrokenPipe.into())
    });
    assert_eq!(taken.err(), Some(SlotError::Disconnected));
    assert_eq!(notices, [FullNotice { reason: FullReason::Connections, position: Some(1) }]);
    assert!(table.sessions().waiting.is_empty());
}

#[test]
fn waiting_connection_gets_a_freed_slot() {
    let (config, table) = (config(ALICE), table(LONG));
    let take = || SessionSlot::take(&table, ADDRESS, &config, silent);
    let (first, _second) = (take().expect("a place"), take().expect("a place"));
    thread::scope(|scope| {
        let waits = scope.spawn(take);
        until_waiting(&table, 1);
        drop(first);
        waits.join().expect("the thread finishes").expect("the first session has finished");
    });
    assert!(table.sessions().waiting.is_empty());
}

#[test]
fn slots_go_to_the_earliest_connection_whose_address_has_one() {
    let limits = config(&ALICE.replace("connections = 2", "connections = 2\nper_address = 1")).limits;
    let session = |network| Session { network, user: None, running: None };
    let network = |last| IpAddr::from([192, 0, 2, last]);
    let mut sessions = Sessions {
        all: BTreeMap::from([(1, session(network(1)))]),
        waiting: BTreeMap::from([(2, network(1)), (3, network(2)), (4, network(3))]),
        ..Sessions::default()
    };
    let full = |sessions: &Sessions, number| {
        let network = sessions.waiting.get(&number).copied().unwrap_or(network(9));
        sessions.full(number, network, &limits)
    };
    assert_eq!(full(&sessions, 2), Some(FullReason::PerAddress));
    assert_eq!(full(&sessions, 3), None, "the address of the first one is full");
    assert_eq!(full(&sessions, 4), Some(FullReason::Connections), "the second one has the slot");
    assert_eq!(full(&sessions, 5), Some(FullReason::Connections), "a new connection overtakes none");
    assert_eq!([2, 3, 4].map(|number| sessions.position(number)), [1, 2, 3]);
    sessions.all.clear();
    assert_eq!(full(&sessions, 2), None);
    assert_eq!(full(&sessions, 3), None, "there are slots for two");
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
    let take = |last, inform: &mut dyn FnMut(FullNotice) -> io::Result<()>| {
        SessionSlot::take(&table, [192, 0, 2, last].into(), &config, inform)
    };
    let _slots = [take(1, &mut silent), take(2, &mut silent)].map(|slot| slot.expect("a place"));
    thread::scope(|scope| {
        let first = scope.spawn(|| take(1, &mut silent));
        until_waiting(&table, 1);
        let mut notices = Vec::new();
        let refused = take(1, &mut |notice| {
            notices.push(notice);
            Ok(())
        });
        let reason = FullReason::Connections;
        assert_eq!(refused.err(), Some(SlotError::Full(reason)), "one of its network waits");
        assert_eq!(notices, [FullNotice { reason, position: None }]);
        let second = scope.spawn(|| take(3, &mut silent));
        until_waiting(&table, 2);
        assert!(take(4, &mut silent).is_err(), "two connections wait");
        table.close();
        for waited in [first, second] {
            let refusal = waited.join().expect("the thread finishes").err();
            assert_eq!(refusal, Some(SlotError::Full(FullReason::ShuttingDown)));
        }
    });
}

#[test]
fn takes_no_session_during_shutdown() {
    let (config, table) = (config(ALICE), table(LONG));
    table.close();
    let refusal = SessionSlot::take(&table, ADDRESS, &config, silent).err();
    assert_eq!(refusal, Some(SlotError::Full(FullReason::ShuttingDown)), "a slot is free");
}

#[test]
fn ipv6_clients_count_by_their_64_bit_network() {
    let network = |text: &str| client_network(text.parse().expect("an address")).to_string();
    assert_eq!(network("192.0.2.7"), "192.0.2.7");
    assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
}
