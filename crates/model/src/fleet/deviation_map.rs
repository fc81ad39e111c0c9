//! Deviations of every figure of every host, and their history, for displays.

use numaio_schema::{DeviationMap, FigureRow, FleetData, FleetGroup, HostHistory};
use std::collections::{BTreeMap, HashMap};

/// Fewest hosts whose median describes a group.
const LEAST_HOSTS: usize = 3;

/// Returns the newest figures of each group as deviations from the group's medians. Groups of fewer
/// than three hosts have none.
pub fn deviation_maps(data: &FleetData, groups: &[FleetGroup]) -> Vec<DeviationMap> {
    let newest = newest(data);
    let hosts: HashMap<&str, u32> =
        (0..).zip(&data.hosts).map(|(host, it)| (it.name.as_str(), host)).collect();
    let of_group = |group: &FleetGroup| {
        let members: Vec<u32> =
            group.hosts.iter().filter_map(|name| hosts.get(name.as_str()).copied()).collect();
        (members.len() >= LEAST_HOSTS).then(|| deviation_map(data, &newest, group, &members))
    };
    groups.iter().filter_map(of_group).filter(|map| !map.keys.is_empty()).collect()
}

/// Returns the history of hosts: the median deviation of all figures of one time from the medians
/// of the host's group now. Hosts with fewer than two times have none.
pub fn host_histories(data: &FleetData, maps: &[DeviationMap], hosts: &[&str]) -> Vec<HostHistory> {
    let mut medians: HashMap<&str, HashMap<u32, f64>> = HashMap::new();
    let keys: HashMap<_, u32> = (0..).zip(&data.keys).map(|(index, key)| (key, index)).collect();
    for map in maps {
        let of_map: HashMap<u32, f64> = map
            .keys
            .iter()
            .zip(&map.medians)
            .filter_map(|(key, median)| Some((*keys.get(key)?, *median)))
            .collect();
        for host in map.hosts.iter().filter(|host| hosts.contains(&host.as_str())) {
            medians.insert(host, of_map.clone());
        }
    }
    let mut by_time: BTreeMap<(u32, u64), Vec<f64>> = BTreeMap::new();
    for row in &data.figures {
        let Some(of_host) =
            data.hosts.get(row.host as usize).and_then(|host| medians.get(host.name.as_str()))
        else {
            continue;
        };
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

/// Returns the newest figure of each host and key.
fn newest(data: &FleetData) -> HashMap<(u32, u32), usize> {
    let mut newest: HashMap<(u32, u32), usize> = HashMap::with_capacity(data.figures.len());
    for (index, row) in data.figures.iter().enumerate() {
        let known = newest.entry((row.host, row.key)).or_insert(index);
        if data.figures[*known].measured_at <= row.measured_at {
            *known = index;
        }
    }
    newest
}

fn deviation_map(
    data: &FleetData,
    newest: &HashMap<(u32, u32), usize>,
    group: &FleetGroup,
    members: &[u32],
) -> DeviationMap {
    let mut map = DeviationMap {
        group: group.name.clone(),
        hosts: members.iter().map(|host| data.hosts[*host as usize].name.clone()).collect(),
        ..DeviationMap::default()
    };
    let mut columns: Vec<Vec<f32>> = Vec::new();
    let mut order: Vec<u32> = (0..data.keys.len() as u32).collect();
    order.sort_by(|a, b| data.keys[*a as usize].cmp(&data.keys[*b as usize]));
    for key in order {
        let row = |host: &u32| newest.get(&(*host, key)).map(|index| &data.figures[*index]);
        let values: Vec<f64> = members.iter().filter_map(row).map(|row| row.value).collect();
        let median = numaio_schema::median(&values).filter(|_| values.len() >= LEAST_HOSTS);
        let Some(median) = median.filter(|median| *median > 0.0 && median.is_finite()) else { continue };
        let of_host =
            |host| row(host).and_then(|row| deviation(data, row, median)).unwrap_or(f64::NAN) as f32;
        columns.push(members.iter().map(of_host).collect());
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
    use numaio_schema::{FigureKey, FleetHost};

    fn fleet() -> (FleetData, Vec<FleetGroup>) {
        let host = |name: &str| FleetHost { name: name.to_owned(), seen_at: 0, facts: Vec::new() };
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
