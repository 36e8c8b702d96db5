//! The machine to compute with: each cost as given, else as measured, else as assumed.

use super::measured::Measured;
use crate::{
    arguments::{Costs, Outage},
    document::{Cost, Origin, Unit},
};
use mainstay_engine::model::Machine;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const MACHINE: Machine = Machine {
    ranks_per_node: 128,
    rank_bytes: 512 << 20,
    copy: 100e9,
    network: 25e9,
    message: Duration::from_micros(2),
    disk: 4e9,
    file_system: 2e12,
    metadata: 100_000.0,
    checkpoint_operations: 0.0,
    open_operations: 4.0,
    slowdown: 0.05,
    relaunch: Duration::from_secs(60),
    // 5 years of 365.25 days, as the option reads it.
    node_mtbf: Duration::from_secs(5 * 31_557_600),
    processes: 0.3,
    outage_mtbf: Some(DAY.saturating_mul(90)),
};

/// The machine, and its costs with their sources.
pub fn machine(given: &Costs, measured: Option<&Measured>) -> (Machine, Vec<Cost>) {
    let mut costs = Vec::new();
    let mut number = |cost, unit, given: Option<f64>, measured: Option<f64>, assumed| {
        let (value, source) = match (given, measured) {
            (Some(value), _) => (value, Origin::Given),
            (None, Some(value)) => (value, Origin::Measured),
            (None, None) => (assumed, Origin::Assumed),
        };
        costs.push(Cost { cost, value: Some(value).filter(|value| value.is_finite()), unit, source });
        value
    };
    let count = |number: u64| number as f64;
    let measured_in = |of: fn(&Measured) -> Option<f64>| measured.and_then(of);
    let m = MACHINE;
    let machine = Machine {
        ranks_per_node: number(
            "ranks-per-node",
            Unit::Count,
            given.ranks_per_node.map(count),
            measured_in(|measured| Some(measured.ranks_per_node as f64)),
            count(m.ranks_per_node),
        ) as u64,
        rank_bytes: number(
            "rank-bytes",
            Unit::Bytes,
            given.rank_bytes.map(count),
            measured_in(|measured| Some(measured.rank_bytes as f64)),
            count(m.rank_bytes),
        ) as u64,
        copy: number("copy", Unit::BytesPerSecond, given.copy.map(count), measured_in(|it| it.copy), m.copy),
        network: number("network", Unit::BytesPerSecond, given.network.map(count), None, m.network),
        message: time(number(
            "message",
            Unit::Ns,
            given.message.map(ns),
            measured_in(|measured| measured.message.map(ns)),
            ns(m.message),
        )),
        disk: number("disk", Unit::BytesPerSecond, given.disk.map(count), measured_in(|it| it.disk), m.disk),
        file_system: number(
            "file-system",
            Unit::BytesPerSecond,
            given.file_system.map(count),
            measured_in(|it| it.file_system),
            m.file_system,
        ),
        metadata: number("metadata", Unit::PerSecond, given.metadata.map(count), None, m.metadata),
        checkpoint_operations: number(
            "checkpoint-operations",
            Unit::Count,
            given.checkpoint_operations.map(count),
            None,
            m.checkpoint_operations,
        ),
        open_operations: number(
            "open-operations",
            Unit::Count,
            given.open_operations.map(count),
            None,
            m.open_operations,
        ),
        slowdown: number("slowdown", Unit::Share, given.slowdown, None, m.slowdown),
        relaunch: time(number("relaunch", Unit::Ns, given.relaunch.map(ns), None, ns(m.relaunch))),
        node_mtbf: time(number("node-mtbf", Unit::Ns, given.node_mtbf.map(ns), None, ns(m.node_mtbf))),
        processes: number("processes", Unit::Share, given.processes, None, m.processes),
        outage_mtbf: {
            let every = |outage| match outage {
                Outage::Never => f64::INFINITY,
                Outage::Every(mtbf) => ns(mtbf),
            };
            let assumed = m.outage_mtbf.map_or(f64::INFINITY, ns);
            let every = number("outage-mtbf", Unit::Ns, given.outage_mtbf.map(every), None, assumed);
            every.is_finite().then(|| time(every))
        },
    };
    (machine, costs)
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn time(ns: f64) -> Duration {
    Duration::try_from_secs_f64(ns / 1e9).unwrap_or(Duration::MAX)
}
