//! Deviations of every figure of every host, and their history, for displays.

use super::newest_figures::NewestFigures;
use numaio_schema::{DeviationMap, FigureKey, FigureRow, FleetData, FleetGroup, FleetHost, HostHistory};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Fewest hosts whose median describes a group.
const LEAST_HOSTS: usize = 3;

/// Returns the newest figures of each group as deviations from the group's medians. Groups of fewer
/// than three hosts have none.
pub fn deviation_maps(data: &FleetData, groups: &[FleetGroup]) -> Vec<DeviationMap> {
    let newest = NewestFigures::of(data);
    let of_group = |group: &FleetGroup| {
        let members = newest.members(group);
        (members.len() >= LEAST_HOSTS).then(|| deviation_map(&newest, group, &members))
    };
    groups.iter().filter_map(of_group).filter(|map| !map.keys.is_empty()).collect()
}

/// Returns the history of hosts: the median deviation of all figures of one time from the medians
/// of the host's group now. Hosts with fewer than two times have none.
pub fn host_histories(data: &FleetData, maps: &[DeviationMap], hosts: &[&str]) -> Vec<HostHistory> {
    let asked: HashSet<&str> = hosts.iter().copied().collect();
    let keys: HashMap<&FigureKey, u32> = data.keys.iter().zip(0..).collect();
    let medians_of = |map: &DeviationMap| -> HashMap<u32, f64> {
        let known = map.keys.iter().zip(&map.medians);
        known.filter_map(|(key, median)| Some((*keys.get(key)?, *median))).collect()
    };
    let of_maps: Vec<HashMap<u32, f64>> = maps.iter().map(medians_of).collect();
    let mut medians: HashMap<&str, &HashMap<u32, f64>> = HashMap::new();
    for (map, of_map) in maps.iter().zip(&of_maps) {
        let members = map.hosts.iter().map(String::as_str).filter(|host| asked.contains(host));
        medians.extend(members.map(|host| (host, of_map)));
    }
    let mut by_time: BTreeMap<(u32, u64), Vec<f64>> = BTreeMap::new();
    for row in &data.figures {
        let host = data.hosts.get(row.host as usize);
        let Some(of_host) = host.and_then(|host| medians.get(host.name.as_str())) else { continue };
        if let Some(deviation) = of_host.get(&row.key).and_then(|median| deviation(data, row, *median)) {
            by_time.entry((row.host, row.measured_at)).or_default().push(deviation);
        }
    }
    let mut histories: BTreeMap<u32, HostHistory> = BTreeMap::new();
    for ((host, time), deviations) in by_time {
        let Some(median) = numaio_schema::median(&deviations) else { continue };
        let name = data.hosts[host as usize].name.clone();
        let history = histories.entry(host).or_insert(HostHistory { host: name, points: Vec::new() });
        history.points.push((time, median));
    }
    histories.into_values().filter(|history| history.points.len() > 1).collect()
}

fn deviation_map(
    newest: &NewestFigures<'_>,
    group: &FleetGroup,
    members: &[(u32, &FleetHost)],
) -> DeviationMap {
    let data = newest.data();
    let mut map = DeviationMap {
        group: group.name.clone(),
        hosts: members.iter().map(|(_, host)| host.name.clone()).collect(),
        ..DeviationMap::default()
    };
    let mut columns: Vec<Vec<f32>> = Vec::new();
    let mut order: Vec<u32> = (0..data.keys.len() as u32).collect();
    order.sort_by_key(|key| &data.keys[*key as usize]);
    for key in order {
        let rows = newest.values(members, key);
        let values: Vec<f64> = rows.iter().flatten().map(|row| row.value).collect();
        let median = numaio_schema::median(&values).filter(|_| values.len() >= LEAST_HOSTS);
        let Some(median) = median.filter(|median| *median > 0.0 && median.is_finite()) else { continue };
        let of_host = |row: &Option<FigureRow>| {
            row.as_ref().and_then(|row| deviation(data, row, median)).unwrap_or(f64::NAN) as f32
        };
        columns.push(rows.iter().map(of_host).collect());
        map.keys.push(data.keys[key as usize].clone());
        map.medians.push(median);
    }
    map.deviations =
        (0..members.len()).flat_map(|host| columns.iter().map(move |column| column[host])).collect();
    map
}

/// Returns the deviation of a figure from a median, as a share; negative is worse.
fn deviation(data: &FleetData, row: &FigureRow, median: f64) -> Option<f64> {
    let key = data.keys.get(row.key as usize)?;
    let ratio = if key.more_is_better { row.value / median } else { median / row.value };
    (row.value > 0.0 && ratio.is_finite()).then_some(ratio - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> (FleetData, Vec<FleetGroup>) {
        let host = |name: &str| FleetHost { name: name.to_owned(), observed_at: 0, facts: Vec::new() };
        let key = |quantity: &str, more_is_better| FigureKey {
            quantity: quantity.to_owned(),
            from: None,
            to: None,
            device: String::new(),
            unit: String::new(),
            more_is_better,
        };
        let row = |host, key, measured_at, value: f64| FigureRow {
            host,
            key,
            measured_at,
            value,
            interval: (value, value),
        };
        let data = FleetData {
            hosts: ["a", "b", "c", "alone"].map(host).to_vec(),
            keys: vec![key("rate", true), key("latency", false)],
            figures: vec![
                row(0, 0, 9, 100.0),
                row(1, 0, 9, 100.0),
                row(2, 0, 5, 100.0),
                row(2, 0, 9, 50.0),
                row(0, 1, 9, 10.0),
                row(1, 1, 9, 10.0),
                row(2, 1, 9, 20.0),
                row(3, 0, 9, 1.0),
            ],
        };
        let group = |name: &str, hosts: &[&str]| FleetGroup {
            name: name.to_owned(),
            facts: Vec::new(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            detectable: None,
            moved: None,
        };
        (data, vec![group("1", &["a", "b", "c"]), group("2", &["alone"])])
    }

    #[test]
    fn worse_figures_are_negative_whatever_their_unit() {
        let (data, groups) = fleet();
        let maps = deviation_maps(&data, &groups);
        assert_eq!(maps.len(), 1, "a host alone has no group to deviate from");
        let quantities: Vec<&str> = maps[0].keys.iter().map(|key| key.quantity.as_str()).collect();
        assert_eq!(quantities, ["latency", "rate"]);
        assert_eq!(maps[0].deviations, [0.0, 0.0, 0.0, 0.0, -0.5, -0.5]);
        assert_eq!(maps[0].medians, [10.0, 100.0]);
    }

    #[test]
    fn history_has_the_median_deviation_of_each_time() {
        let (data, groups) = fleet();
        let maps = deviation_maps(&data, &groups);
        let histories = host_histories(&data, &maps, &["c", "a"]);
        let expected = HostHistory { host: "c".to_owned(), points: vec![(5, 0.0), (9, -0.5)] };
        assert_eq!(histories, [expected]);
    }
}
