//! PCI Express links that give less than their ends could (`Documentation/ABI/testing/sysfs-bus-pci`).
//!
//! A link has two ends, and each tells the same speed and width from its own registers, and its own best. What a
//! link can do is the smaller of the two. A root port and the downstream ports of a switch look down, an upstream
//! port and a device look up; so on the way up from a device every second step is a link, and the steps between
//! lead through a switch.

use super::{Finding, Severity};
use crate::devices::{Device, DeviceKind, PciAddress, PcieLink, Sriov};
use std::collections::{BTreeMap, HashMap};

const RULE: &str = "pcie-link-degraded";

/// Bandwidths that differ by less are equal.
const EQUAL: f64 = 0.999;

type ByAddress<'a> = HashMap<PciAddress, &'a Device>;

/// One link of the way from a device to its root port.
struct Hop<'a> {
    /// The end that looks up: the device, or the upstream port of a switch.
    lower: &'a Device,
    /// The link as the lower end tells it; between bridges as the end that tells less.
    link: PcieLink,
    /// The end that looks down, if it is known, and its link.
    upper: Option<(&'a Device, PcieLink)>,
}

/// Devices whose data passes a link that is slower than it could be, or than the device.
pub(super) fn degraded(devices: &[Device]) -> Vec<Finding> {
    let by_address = by_address(devices);
    let users = users_of_links(devices, &by_address);
    let physical = devices.iter().filter(|device| is_physical(device));
    physical
        .filter_map(|device| {
            let found = degraded_of(device, &by_address, &users)?;
            Some(Finding { subject: device.distinct_name(devices), ..found })
        })
        .collect()
}

fn degraded_of(device: &Device, by_address: &ByAddress, users: &Users) -> Option<Finding> {
    let hops = hops(device, by_address);
    let fault = worst_fault(device, &hops, users);
    let narrow = narrow(device, &hops, users);
    // Of equals the last: a fault can be mended.
    [narrow, fault].into_iter().flatten().max_by_key(|finding| finding.severity)
}

/// The share that a device loses by a link that [`degraded`] tells of, of what the link's ends, or else the device, can
/// do; none of a link that only rests.
pub(crate) fn loss(devices: &[Device], device: &Device) -> Option<f64> {
    let by_address = by_address(devices);
    let users = users_of_links(devices, &by_address);
    let hops = hops(device, &by_address);
    let lost = |now: f64, best: f64| (best > 0.0).then(|| 1.0 - now / best);
    match worst(device, &hops, &users) {
        Some((Severity::Note, _)) => None,
        Some((_, hop)) => {
            let (lanes, gt_per_s) = hop.best();
            lost(hop.now(), PcieLink { lanes, gt_per_s, ..hop.link }.bytes_per_s())
        }
        None => {
            let now = hops.iter().map(Hop::now).min_by(f64::total_cmp)?;
            lost(now, device.link?.max_bytes_per_s())
        }
    }
}

/// The link that lacks most of what it could do, and how bad that is; of equals the slowest.
fn worst<'h, 'd>(device: &Device, hops: &'h [Hop<'d>], users: &Users) -> Option<(Severity, &'h Hop<'d>)> {
    let faults = hops.iter().filter_map(|hop| fault(device, hop, users).map(|severity| (severity, hop)));
    faults.max_by(|(a, x), (b, y)| a.cmp(b).then(y.now().total_cmp(&x.now())))
}

fn worst_fault(device: &Device, hops: &[Hop], users: &Users) -> Option<Finding> {
    let (severity, hop) = worst(device, hops, users)?;
    Some(degraded_finding(device, hop, severity))
}

/// The slowest of the links that do what they can, if that is less than the device could use.
fn narrow(device: &Device, hops: &[Hop], users: &Users) -> Option<Finding> {
    let best = device.link.filter(|_| !is_integrated(device))?.max_bytes_per_s();
    let sound = hops.iter().filter(|hop| fault(device, hop, users).is_none());
    let narrowest = sound.min_by(|a, b| a.now().total_cmp(&b.now()))?;
    (narrowest.now() < best * EQUAL).then(|| narrow_finding(device, narrowest))
}

/// How bad it is that a link runs below its best; none if it does not.
fn fault(device: &Device, hop: &Hop, users: &Users) -> Option<Severity> {
    let (best_lanes, best_speed) = hop.best();
    if hop.link.lanes < best_lanes {
        // Without the other end, a slot with fewer lanes looks the same.
        return Some(if hop.upper.is_some() { Severity::Problem } else { Severity::Warning });
    }
    if hop.link.gt_per_s >= best_speed || is_integrated(hop.lower) {
        return None;
    }
    // Power saving lowers the speed of links that serve one device, not of those that several share.
    let alone = hop.lower.pci.and_then(|pci| users.get(&pci)).is_none_or(|users| users.len() < 2);
    Some(match hop.upper {
        _ if alone && may_idle(device) => Severity::Note,
        Some(_) => Severity::Problem,
        None => Severity::Warning,
    })
}

/// Whether the device lowers the speed of its link while it has nothing to do.
fn may_idle(device: &Device) -> bool {
    let asleep = device.power.as_deref().is_some_and(|power| {
        power.contains("suspend") || power.split(", ").any(|state| state.starts_with('D') && state != "D0")
    });
    asleep || matches!(device.kind, DeviceKind::Gpu | DeviceKind::Nvme)
}

/// Intel's X722 sits in the chipset and shows one slow lane by default; its bandwidth is another
/// (`drivers/net/ethernet/intel/i40e/i40e_main.c`, `NO_PCI_LINK_CHECK`).
fn is_integrated(device: &Device) -> bool {
    device.driver.as_deref() == Some("i40e") && device.link.is_some_and(|link| link.max_lanes == 1)
}

impl Hop<'_> {
    /// Bytes per second now.
    fn now(&self) -> f64 {
        self.link.bytes_per_s()
    }

    /// Lanes and GT/s that both ends can do.
    fn best(&self) -> (u32, f64) {
        let upper = self.upper.map_or(self.link, |(_, link)| link);
        (self.link.max_lanes.min(upper.max_lanes), self.link.max_gt_per_s.min(upper.max_gt_per_s))
    }

    /// The link in words: `from 0000:3b:00.0 up to 0000:3a:00.0`.
    fn place(&self) -> String {
        let address = |device: &Device| device.pci.map_or_else(|| device.name(), |pci| pci.to_string());
        let lower = address(self.lower);
        match self.upper {
            Some((upper, _)) => format!("from {lower} up to {}", address(upper)),
            None => format!("from {lower} up"),
        }
    }

    fn evidence(&self) -> String {
        let end = |device: &Device, link: PcieLink| {
            let now = words(link.gt_per_s, link.lanes);
            let best = words(link.max_gt_per_s, link.max_lanes);
            format!(
                "{}/current_link_speed, current_link_width: {now}, max_link_speed, max_link_width: {best}",
                device.path
            )
        };
        let upper = self.upper.map(|(device, link)| end(device, link));
        [Some(end(self.lower, self.lower.link.unwrap_or(self.link))), upper]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ")
    }
}

fn words(gt_per_s: f64, lanes: u32) -> String {
    format!("{gt_per_s} GT/s x{lanes}")
}

fn degraded_finding(device: &Device, hop: &Hop, severity: Severity) -> Finding {
    let (lanes, speed) = hop.best();
    let remedy = match severity {
        Severity::Note => "Sample it under load: an idle device lowers the speed of its link to save power.",
        _ => {
            "Reseat the card or its riser, then look at the slot's settings in the firmware and at the cable."
        }
    };
    Finding {
        severity,
        rule: RULE.into(),
        subject: device.name(),
        what: format!(
            "The link {} on the way of {} runs at {} where its ends can do {}.",
            hop.place(),
            device.name(),
            words(hop.link.gt_per_s, hop.link.lanes),
            words(speed, lanes)
        ),
        evidence: hop.evidence(),
        remedy: remedy.into(),
    }
}

fn narrow_finding(device: &Device, hop: &Hop) -> Finding {
    let own = hop.lower.pci == device.pci;
    let best = device.link.map(|link| words(link.max_gt_per_s, link.max_lanes)).unwrap_or_default();
    Finding {
        // Cards are often better than the slot; a switch that is narrower than its slots is worth a look.
        severity: if own { Severity::Note } else { Severity::Warning },
        rule: RULE.into(),
        subject: device.name(),
        what: format!(
            "{} can do {best}, but the link {} can do no more than {}.",
            device.name(),
            hop.place(),
            words(hop.link.gt_per_s, hop.link.lanes)
        ),
        evidence: hop.evidence(),
        remedy: "Use a slot with a wider or faster link to the processor.".into(),
    }
}

/// The links from a device up to its root port, nearest first.
fn hops<'a>(device: &'a Device, by_address: &ByAddress<'a>) -> Vec<Hop<'a>> {
    let above = device.upstream.iter().map(|bridge| by_address.get(bridge).copied());
    let way: Vec<Option<&Device>> = std::iter::once(Some(device)).chain(above).collect();
    if way.len() == 1 {
        return alone(device).into_iter().collect();
    }
    // Counted from the root port. Where that is hidden, the ends do not agree, and the other steps are links.
    let from_root = way.len() % 2;
    let (hops, agree) = pairs(&way, from_root);
    if agree {
        return hops;
    }
    let (others, agree) = pairs(&way, 1 - from_root);
    if agree {
        others
    } else {
        hops
    }
}

/// A device without a port above it: part of the root complex, or its port is hidden.
fn alone(device: &Device) -> Option<Hop<'_>> {
    let link = device.link?;
    Some(Hop { lower: device, link, upper: None })
}

/// Every second step of the way from the `first`, and whether their ends agree.
fn pairs<'a>(way: &[Option<&'a Device>], first: usize) -> (Vec<Hop<'a>>, bool) {
    let mut hops = Vec::new();
    let mut agree = true;
    for (step, pair) in way[first..].chunks(2).enumerate() {
        let Some((lower, link)) = end(pair, 0) else { continue };
        let upper = end(pair, 1);
        // Of its own link a device knows best: it may change between two reads, as it saves power.
        let is_own = first == 0 && step == 0;
        let other = upper.map(|(_, link)| link).filter(|_| !is_own);
        agree &= other.is_none_or(|other| (other.lanes, other.gt_per_s) == (link.lanes, link.gt_per_s));
        let slower = other.filter(|other| other.bytes_per_s() < link.bytes_per_s()).unwrap_or(link);
        if is_own || upper.is_some() {
            hops.push(Hop {
                lower,
                link: PcieLink { gt_per_s: slower.gt_per_s, lanes: slower.lanes, ..link },
                upper,
            });
        }
    }
    (hops, agree)
}

fn end<'a>(pair: &[Option<&'a Device>], index: usize) -> Option<(&'a Device, PcieLink)> {
    let device = pair.get(index).copied().flatten()?;
    Some((device, device.link?))
}

/// Physical devices whose data passes a link, by the lower end of the link. Functions of one card share its link
/// and count as one, so the devices stand by card.
type Users<'a> = BTreeMap<PciAddress, BTreeMap<PciAddress, &'a Device>>;

fn users_of_links<'a>(devices: &'a [Device], by_address: &ByAddress<'a>) -> Users<'a> {
    let mut users = Users::new();
    for device in devices.iter().filter(|device| is_physical(device)) {
        let Some(address) = device.pci else { continue };
        let card = PciAddress { function: 0, ..address };
        for link in hops(device, by_address).iter().filter_map(|hop| hop.lower.pci) {
            users.entry(link).or_default().entry(card).or_insert(device);
        }
    }
    users
}

/// Links of switches that carry less than the devices below could move together.
pub(super) fn shared(devices: &[Device]) -> Vec<Finding> {
    let by_address = by_address(devices);
    let users = users_of_links(devices, &by_address);
    users.iter().filter_map(|(link, users)| shared_by(by_address.get(link)?, users, &by_address)).collect()
}

fn shared_by(
    port: &Device,
    users: &BTreeMap<PciAddress, &Device>,
    by_address: &ByAddress,
) -> Option<Finding> {
    let users: Vec<&Device> = users.values().copied().collect();
    let hop = hops(users.first()?, by_address).into_iter().find(|hop| hop.lower.pci == port.pci)?;
    let wanted: f64 = users.iter().filter_map(|device| own_best(device, by_address)).sum();
    if users.len() < 2 || wanted * EQUAL <= hop.now() {
        return None;
    }
    let names: Vec<String> = users.iter().map(|device| device.name()).collect();
    Some(Finding {
        severity: Severity::Note,
        rule: "pcie-link-shared".into(),
        subject: port.name(),
        what: format!(
            "{} share the link {}: together they could move {:.1} GB/s, it carries {:.1} GB/s in each direction.",
            names.join(", "),
            hop.place(),
            wanted / 1e9,
            hop.now() / 1e9
        ),
        evidence: hop.evidence(),
        remedy: "Do not count on all of them at full bandwidth at once, or spread them over other switches.".into(),
    })
}

/// Bytes per second that a device could move over its own link, were it awake.
fn own_best(device: &Device, by_address: &ByAddress) -> Option<f64> {
    let hop = hops(device, by_address).into_iter().next().filter(|hop| hop.lower.pci == device.pci)?;
    let (lanes, gt_per_s) = hop.best();
    Some(PcieLink { gt_per_s, lanes, ..hop.link }.bytes_per_s())
}

fn by_address(devices: &[Device]) -> ByAddress<'_> {
    devices.iter().filter_map(|device| Some((device.pci?, device))).collect()
}

/// Whether it moves data over a link of its own.
fn is_physical(device: &Device) -> bool {
    device.moves_data() && !matches!(device.sriov, Some(Sriov::Virtual { .. }))
}
