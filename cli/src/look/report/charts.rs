//! Sizes and times over the run, and the times of recoveries.

use super::{
    history::{Checkpoint, History, Recovered, Row},
    scale::{TimeScale, ValueScale},
    timeline::{px, spans},
};
use crate::{text, time};
use mainstay_engine::{printable, space::format::PhaseRecord};
use maud::{Markup, html};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// Beyond this number, points have no mark of their own.
const MARKS_MAX: usize = 1500;
/// With more bars than this, each stands for several checkpoints.
const BARS_MAX: usize = 100;
/// Number of recoveries in the chart, the newest; the table has all.
const RECOVERIES_MAX: usize = 40;

type Value = fn(&Checkpoint) -> Option<u64>;

struct Series {
    name: &'static str,
    class: &'static str,
    value: Value,
}

/// The time of checkpoints on the level of `row`; for the nearest level, which the program waits for, two curves.
pub fn times(history: &History, row: &Row, is_nearest: bool) -> Markup {
    let perceived: Value = Checkpoint::perceived_ns;
    let durable: Value = Checkpoint::durable_ns;
    let mut series = vec![Series { name: "t3 − t1, time until it was durable", class: "durable", value: durable }];
    if is_nearest {
        series.push(Series { name: "t2 − t1, wait of the program", class: "perceived", value: perceived });
    }
    curves(history, row, &series, 1e3, text::duration)
}

pub fn sizes(history: &History, row: &Row) -> Markup {
    let series = [Series { name: "bytes of rank 0", class: "bytes", value: |checkpoint| checkpoint.bytes }];
    curves(history, row, &series, 1024.0, text::bytes)
}

fn curves(history: &History, row: &Row, series: &[Series], base: f64, shown: fn(u64) -> String) -> Markup {
    let time = TimeScale::new(spans(history), LEFT, RIGHT);
    let values = series.iter().flat_map(|series| row.checkpoints.iter().filter_map(series.value));
    let scale = ValueScale::new(values.max().unwrap_or(0) as f64, base, BOTTOM, TOP);
    html! {
        svg .chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
            (rules(&scale, shown))
            @for (after, x) in time.ticks() {
                text .quiet x=(px(x.min(RIGHT - 16.0))) y=(px(HEIGHT - 8.0)) text-anchor="middle" { "+" (text::age(after)) }
            }
            @for Series { name, class, value } in series {
                @let points: Vec<(f64, f64, &Checkpoint, u64)> = row.checkpoints.iter().filter_map(|checkpoint| {
                    let value = value(checkpoint)?;
                    Some((time.x(checkpoint.t1_ns), scale.y(value as f64), checkpoint, value))
                }).collect();
                path class=(format!("curve {class}")) d=(path(&points)) {}
                @if points.len() <= MARKS_MAX {
                    @for (x, y, checkpoint, value) in &points {
                        circle class=(class) cx=(px(*x)) cy=(px(*y)) r="2.4" stroke="none" {
                            title { "revision " (checkpoint.key.1) ": " (name) ": " (shown(*value)) }
                        }
                    }
                }
            }
        }
        (legend(&series.iter().map(|series| (series.name, match series.class {
            "perceived" => "p2",
            "durable" => "p1",
            _ => "p3",
        })).collect::<Vec<_>>()))
    }
}

fn path(points: &[(f64, f64, &Checkpoint, u64)]) -> String {
    let mut path = String::new();
    for (at, (x, y, ..)) in points.iter().enumerate() {
        path += &format!("{}{} {}", if at == 0 { 'M' } else { 'L' }, px(*x), px(*y));
    }
    path
}

fn rules(scale: &ValueScale, shown: fn(u64) -> String) -> Markup {
    html! {
        @for value in scale.ticks() {
            @let y = scale.y(value);
            line .rule x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(y)) y2=(px(y)) {}
            text .quiet x=(px(LEFT - 8.0)) y=(px(y + 4.0)) text-anchor="end" {
                @if value == 0.0 { "0" } @else { (shown(value as u64)) }
            }
        }
    }
}

/// The legend of the colours.
pub fn legend(names: &[(&str, &str)]) -> Markup {
    html! {
        div .legend {
            @for (name, colour) in names { span { i style=(format!("background:var(--{colour})")) {} (name) } }
        }
    }
}

/// A part of a bar: its name, its colour, its length.
type Part = (&'static str, &'static str, u64);

fn phases_of(phases: &PhaseRecord) -> [Part; 5] {
    [
        ("agreeing with the other ranks", "p1", phases.communication_ns),
        ("waiting for the pool", "p2", phases.buffer_wait_ns),
        ("copying", "p3", phases.copy_ns),
        ("going on", "p4", phases.resume_ns),
        ("other", "p5", phases.other_ns()),
    ]
}

/// The parts of the program's wait, a bar for each checkpoint, or for several in a row.
pub fn phases(row: &Row) -> Markup {
    let all: Vec<(&Checkpoint, PhaseRecord)> =
        row.checkpoints.iter().filter_map(|checkpoint| Some((checkpoint, checkpoint.phases?))).collect();
    let in_bar = all.len().div_ceil(BARS_MAX).max(1);
    let bars: Vec<(String, [Part; 5])> = all.chunks(in_bar).map(mean).collect();
    let total = |parts: &[Part; 5]| parts.iter().map(|(.., ns)| ns).sum::<u64>();
    let max = bars.iter().map(|(_, parts)| total(parts)).max().unwrap_or(0);
    let scale = ValueScale::new(max as f64, 1e3, BOTTOM, TOP);
    let width = (RIGHT - LEFT) / bars.len().max(1) as f64;
    html! {
        svg .chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
            (rules(&scale, text::duration))
            @for ((name, parts), at) in bars.iter().zip(0u32..) {
                @let x = LEFT + f64::from(at) * width;
                g {
                    @for (from, (_, class, ns)) in stacked(parts) {
                        @let (low, high) = (scale.y(from as f64), scale.y((from + ns) as f64));
                        rect class=(class) x=(px(x + width * 0.1)) y=(px(high)) width=(px((width * 0.8).min(26.0)))
                            height=(px(low - high)) {}
                    }
                    title {
                        (name) ": " (text::duration(total(parts)))
                        @for (name, _, ns) in parts { "\n" (name) ": " (text::duration(*ns)) }
                    }
                }
            }
            text .quiet x=(px(LEFT)) y=(px(HEIGHT - 8.0)) { (bars.first().map_or("", |(name, _)| name)) }
            text .quiet x=(px(RIGHT)) y=(px(HEIGHT - 8.0)) text-anchor="end" {
                @if bars.len() > 1 { (bars.last().map_or("", |(name, _)| name)) }
            }
        }
        (legend(&phases_of(&PhaseRecord::default()).map(|(name, colour, _)| (name, colour))))
    }
}

/// Each part with its begin.
fn stacked(parts: &[Part]) -> Vec<(u64, Part)> {
    let mut from = 0;
    let place = |part: &Part| {
        let placed = (from, *part);
        from += part.2;
        placed
    };
    parts.iter().map(place).collect()
}

fn mean(several: &[(&Checkpoint, PhaseRecord)]) -> (String, [Part; 5]) {
    let first = several[0].0.key.1;
    let last = several[several.len() - 1].0.key.1;
    let name = if several.len() == 1 { format!("revision {first}") } else { format!("revisions {first} to {last}") };
    let mut parts = phases_of(&several[0].1);
    for (at, part) in parts.iter_mut().enumerate() {
        let sum = several.iter().fold(0u64, |sum, (_, phases)| sum.saturating_add(phases_of(phases)[at].2));
        part.2 = sum / several.len() as u64;
    }
    (name, parts)
}

/// The times of recoveries, one bar each.
pub fn recoveries(recoveries: &[Recovered]) -> Markup {
    const ROW: f64 = 30.0;
    const WIDE: f64 = 1000.0;
    const NAMES: f64 = 190.0;
    let shown = &recoveries[recoveries.len().saturating_sub(RECOVERIES_MAX)..];
    let longest = shown.iter().map(|recovered| recovered.recovery.total_ns).max().unwrap_or(0).max(1);
    let per_ns = (WIDE - NAMES - 110.0) / longest as f64;
    let parts = |recovered: &Recovered| {
        let recovery = &recovered.recovery;
        let mut parts: Vec<Part> = recovery
            .parts
            .named()
            .iter()
            .zip(["p1", "p4", "p3", "p2"])
            .map(|((name, ns), class)| (*name, class, *ns))
            .collect();
        let named: u64 = parts.iter().fold(0, |sum, (.., ns)| sum.saturating_add(*ns));
        parts.push(("program", "p5", recovery.total_ns.saturating_sub(named)));
        parts
    };
    html! {
        svg #recoveries viewBox=(format!("0 0 {WIDE} {}", shown.len() as f64 * ROW + 6.0)) role="img" {
            @for (recovered, at) in shown.iter().zip(0u32..) {
                @let top = f64::from(at) * ROW + 4.0;
                @let recovery = &recovered.recovery;
                g {
                    text x="0" y=(px(top + 15.0)) { (printable(&who(&recovery.failed))) }
                    text .quiet x=(px(NAMES - 12.0)) y=(px(top + 15.0)) text-anchor="end" {
                        (time::when(recovery.noticed_unix_ns).split_off(11))
                    }
                    @for (from, (name, class, ns)) in stacked(&parts(recovered)) {
                        @let (x, width) = (NAMES + from as f64 * per_ns, (ns as f64 * per_ns).min(WIDE));
                        rect class=(class) x=(px(x.min(WIDE))) y=(px(top)) width=(px(width)) height="21" {
                            title { (name) ": " (text::duration(ns)) }
                        }
                    }
                    text x=(px(NAMES + recovery.total_ns as f64 * per_ns + 8.0)) y=(px(top + 15.0)) { (text::duration(recovery.total_ns)) }
                    title { (recovery.summary()) }
                }
            }
        }
        (legend(&[
            ("group: noticed, shrunk or replaced", "p1"), ("opening", "p4"), ("state brought back", "p3"),
            ("copies made again", "p2"), ("the program's own", "p5"),
        ]))
    }
}

/// The ranks of a failure, in short.
pub fn who(failed: &[u32]) -> String {
    const NAMED_MAX: usize = 4;
    let names: Vec<String> = failed.iter().take(NAMED_MAX).map(u32::to_string).collect();
    match failed.len() {
        0 => "the group".to_owned(),
        1 => format!("rank {}", names[0]),
        count if count > NAMED_MAX => format!("ranks {}, …", names.join(", ")),
        _ => format!("ranks {}", names.join(", ")),
    }
}
