//! Findings about PCI Express links below their capability
//! (`Documentation/ABI/testing/sysfs-bus-pci`).
//!
//! Both ends of a link report the same current speed and width, and each its own maximum. The
//! capability of the link is the smaller maximum. Root ports and downstream ports of a switch are
//! upper ends; devices and upstream ports are lower ends. Therefore every second step from a device
//! up to the root port is a link, and the steps between are inside a switch.

use crate::devices::{Device, DeviceKind, PciAddress, PcieLink};
use crate::finding::{Finding, Severity};
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, HashMap};

const RULE: &str = "pcie-link-degraded";

/// Ratio below which two bandwidths count as equal.
const EQUAL: f64 = 0.999;

type ByAddress<'a> = HashMap<PciAddress, &'a Device>;

/// A link on the path from a device to its root port.
struct Hop<'a> {
    /// The lower end: the device, or the upstream port of a switch.
    lower: &'a Device,
    /// The link as reported by the lower end; between bridges, the slower report of both ends.
    link: PcieLink,
    /// The upper end and its link, if known.
    upper: Option<(&'a Device, PcieLink)>,
}

/// Reports devices behind a link that is slower than its capability or than the device.
///
/// Links below an external port are left out: the registers of a Thunderbolt or USB4 tunnel are
/// virtual, and report the slowest speed whatever the tunnel carries (USB4 2.0, section 11.1).
pub(super) fn degraded(root: &dyn Sysfs, devices: &[Device]) -> Vec<Finding> {
    let by_address = by_address(devices);
    let users = users_of_links(devices, &by_address);
    let physical = devices.iter().filter(|device| is_physical(device));
    physical
        .filter(|device| !is_tunneled(root, device))
        .filter_map(|device| {
            let found = degraded_of(device, &by_address, &users)?;
            Some(Finding { subject: device.distinct_name(devices), ..found })
        })
        .collect()
}

/// Returns whether the device is below an external port
/// (`Documentation/ABI/testing/sysfs-bus-pci`, `removable`) and reports the speed of a tunnel.
fn is_tunneled(root: &dyn Sysfs, device: &Device) -> bool {
    const TUNNEL_GT_PER_S: f64 = 2.5;
    device.link.is_some_and(|link| link.gt_per_s <= TUNNEL_GT_PER_S)
        && root.optional(&format!("{}/removable", device.path)).as_deref() == Some("removable")
}

fn degraded_of(device: &Device, by_address: &ByAddress, users: &Users) -> Option<Finding> {
    let hops = hops(device, by_address);
    let fault = worst_fault(device, &hops, users);
    let narrow = narrow(device, &hops, users);
    // The last of equal links: a fault can be fixed, a slow slot cannot.
    [narrow, fault].into_iter().flatten().max_by_key(|finding| finding.severity)
}

/// Returns the lost share of bandwidth of a device with a [`degraded`] link, relative to the link's
/// or the device's capability; `None` if the link only saves power.
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

/// Returns the link with the largest loss, and its severity; the slowest of equal ones.
fn worst<'h, 'd>(device: &Device, hops: &'h [Hop<'d>], users: &Users) -> Option<(Severity, &'h Hop<'d>)> {
    let faults = hops.iter().filter_map(|hop| fault(device, hop, users).map(|severity| (severity, hop)));
    faults.max_by(|(a, x), (b, y)| a.cmp(b).then(y.now().total_cmp(&x.now())))
}

fn worst_fault(device: &Device, hops: &[Hop], users: &Users) -> Option<Finding> {
    let (severity, hop) = worst(device, hops, users)?;
    Some(degraded_finding(device, hop, severity))
}

/// Returns the slowest link at full capability if it is slower than the device.
fn narrow(device: &Device, hops: &[Hop], users: &Users) -> Option<Finding> {
    let best = device.link.filter(|_| !is_integrated(device))?.max_bytes_per_s();
    let sound = hops.iter().filter(|hop| fault(device, hop, users).is_none());
    let narrowest = sound.min_by(|a, b| a.now().total_cmp(&b.now()))?;
    (narrowest.now() < best * EQUAL).then(|| narrow_finding(device, narrowest))
}

/// Returns the severity of a link below its capability, or `None`.
fn fault(device: &Device, hop: &Hop, users: &Users) -> Option<Severity> {
    let (best_lanes, best_speed) = hop.best();
    if hop.link.lanes < best_lanes {
        // Without the upper end, this cannot be distinguished from a slot with fewer lanes.
        return Some(if hop.upper.is_some() { Severity::Problem } else { Severity::Warning });
    }
    if hop.link.gt_per_s >= best_speed || is_integrated(hop.lower) {
        return None;
    }
    // Power saving lowers the speed of links to a single device, not of shared links.
    let alone = hop.lower.pci.and_then(|pci| users.get(&pci)).is_none_or(|users| users.len() < 2);
    Some(match hop.upper {
        _ if alone && may_idle(device) => Severity::Note,
        Some(_) => Severity::Problem,
        None => Severity::Warning,
    })
}

/// Returns whether the device lowers its link speed while idle.
fn may_idle(device: &Device) -> bool {
    let asleep = device.power.as_deref().is_some_and(|power| {
        power.contains("suspend") || power.split(", ").any(|state| state.starts_with('D') && state != "D0")
    });
    asleep || matches!(device.kind, DeviceKind::Gpu | DeviceKind::Nvme)
}

/// Returns whether the device is Intel's X722, which is part of the chipset and by default reports
/// a single slow lane (`drivers/net/ethernet/intel/i40e/i40e_main.c`, `NO_PCI_LINK_CHECK`).
fn is_integrated(device: &Device) -> bool {
    device.driver.as_deref() == Some("i40e") && device.link.is_some_and(|link| link.max_lanes == 1)
}

impl Hop<'_> {
    /// Returns the current bandwidth in bytes per second.
    fn now(&self) -> f64 {
        self.link.bytes_per_s()
    }

    /// Returns the lanes and GT/s that both ends support.
    fn best(&self) -> (u32, f64) {
        let upper = self.upper.map_or(self.link, |(_, link)| link);
        (self.link.max_lanes.min(upper.max_lanes), self.link.max_gt_per_s.min(upper.max_gt_per_s))
    }

    /// Formats the link: `from 0000:3b:00.0 up to 0000:3a:00.0`.
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
        Severity::Note => "Check it under load: an idle device lowers the speed of its link to save power.",
        _ => "Reseat the card or its riser, then check the slot's firmware settings and the cable.",
    };
    Finding {
        severity,
        rule: RULE.into(),
        subject: device.name(),
        message: format!(
            "{} runs at {}, although its ends support {}.",
            if std::ptr::eq(hop.lower, device) { "Its link" } else { "A link above it" },
            words(hop.link.gt_per_s, hop.link.lanes),
            words(speed, lanes)
        ),
        evidence: format!("{}: {}", hop.place(), hop.evidence()),
        remedy: remedy.into(),
    }
}

fn narrow_finding(device: &Device, hop: &Hop) -> Finding {
    let own = hop.lower.pci == device.pci;
    let best = device.link.map(|link| words(link.max_gt_per_s, link.max_lanes)).unwrap_or_default();
    Finding {
        // Cards often exceed their slot; a switch narrower than its slots deserves a check.
        severity: if own { Severity::Note } else { Severity::Warning },
        rule: RULE.into(),
        subject: device.name(),
        message: format!(
            "{} supports {best}, but the link {} supports only {}.",
            device.name(),
            hop.place(),
            words(hop.link.gt_per_s, hop.link.lanes)
        ),
        evidence: hop.evidence(),
        remedy: "Use a slot with a wider or faster link to the processor.".into(),
    }
}

/// Returns the links from a device up to its root port, nearest first.
fn hops<'a>(device: &'a Device, by_address: &ByAddress<'a>) -> Vec<Hop<'a>> {
    let above = device.upstream.iter().map(|bridge| by_address.get(bridge).copied());
    let way: Vec<Option<&Device>> = std::iter::once(Some(device)).chain(above).collect();
    if way.len() == 1 {
        return alone(device).into_iter().collect();
    }
    // Counted from the root port. If it is hidden, the ends disagree, and the other steps are the
    // links.
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

/// Returns the link of a device without a port above it: integrated, or behind a hidden port.
fn alone(device: &Device) -> Option<Hop<'_>> {
    let link = device.link?;
    Some(Hop { lower: device, link, upper: None })
}

/// Returns every second step starting at `first`, and whether the ends agree.
fn pairs<'a>(way: &[Option<&'a Device>], first: usize) -> (Vec<Hop<'a>>, bool) {
    let mut hops = Vec::new();
    let mut agree = true;
    for (step, pair) in way[first..].chunks(2).enumerate() {
        let Some((lower, link)) = end(pair, 0) else { continue };
        let upper = end(pair, 1);
        // Prefer the device's own report: the speed can change between two reads.
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

/// Physical devices behind each link, by the lower end of the link.
///
/// Functions of one card share its link and count once, so the devices are keyed by card.
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

/// Reports switch links with less bandwidth than their devices together.
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
        message: format!(
            "{} share the link {}: together they could transfer {:.1} GB/s, but it carries {:.1} GB/s in each direction.",
            names.join(", "),
            hop.place(),
            wanted / 1e9,
            hop.now() / 1e9
        ),
        evidence: hop.evidence(),
        remedy: "Do not expect full bandwidth of all of them at the same time, or distribute them over other switches.".into(),
    })
}

/// Returns the bandwidth of the device's own link without power saving, in bytes per second.
fn own_best(device: &Device, by_address: &ByAddress) -> Option<f64> {
    let hop = hops(device, by_address).into_iter().next().filter(|hop| hop.lower.pci == device.pci)?;
    let (lanes, gt_per_s) = hop.best();
    Some(PcieLink { gt_per_s, lanes, ..hop.link }.bytes_per_s())
}

fn by_address(devices: &[Device]) -> ByAddress<'_> {
    devices.iter().filter_map(|device| Some((device.pci?, device))).collect()
}

/// Returns whether the device moves data over its own link.
fn is_physical(device: &Device) -> bool {
    device.moves_data() && !device.is_virtual_function()
}
