//! The timeline: checkpoints and failures over the time of all starts.

use super::{
    history::{Checkpoint, End, History, Row, Start},
    scale::TimeScale,
};
use crate::{text, time};
use mainstay_engine::status::Recovery;
use maud::{Markup, html};

const WIDTH: f64 = 1000.0;
pub const LEFT: f64 = 112.0;
pub const RIGHT: f64 = 984.0;
const ROW: f64 = 34.0;
const BAR: f64 = 20.0;
/// Least width of a mark for a short event.
const LEAST: f64 = 2.0;

/// A coordinate in the picture, without useless digits.
pub fn px(at: f64) -> String {
    format!("{at:.1}")
}

/// The periods in which something happened.
pub fn spans(history: &History) -> Vec<(u64, u64)> {
    let starts = history.starts.iter().map(|start| (start.opened_ns, start.end_ns));
    let checkpoints = history.rows.iter().flat_map(|row| &row.checkpoints);
    let checkpoints = checkpoints.map(|checkpoint| (checkpoint.t1_ns, checkpoint.t3_ns()));
    starts.chain(checkpoints).collect()
}

pub fn timeline(history: &History) -> Markup {
    let scale = TimeScale::new(spans(history), LEFT, RIGHT);
    let height = ROW * (history.rows.len() as f64 + 1.0) + 44.0;
    let bottom = height - 26.0;
    html! {
        svg #timeline viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="timeline" {
            (axis(&scale, bottom))
            (middle("job", 8.0))
            @for (start, number) in history.starts.iter().zip(1..) { (job(start, number, &scale)) }
            @for (row, at) in history.rows.iter().zip(1..) { (level(row, f64::from(at) * ROW + 8.0, &scale)) }
            @for start in history.starts.iter().filter(|start| start.end == End::Died) {
                (died(start, &scale, bottom))
            }
            @for recovered in &history.recoveries { (recovery(&recovered.recovery, &scale, bottom)) }
            @for failed in &history.failures {
                @if let Some(at) = history.rows.iter().position(|row| row.level == failed.level) {
                    (cross(scale.x(failed.unix_ns), (at as f64 + 1.0) * ROW + 8.0 + BAR / 2.0, &format!(
                        "{} did not get a revision, {}: {}", failed.level.name(), time::when(failed.unix_ns), failed.why
                    )))
                }
            }
        }
    }
}

/// Rules at round times, and at the cuts.
fn axis(scale: &TimeScale, bottom: f64) -> Markup {
    let stretches = scale.stretches();
    html! {
        @for (after, x) in scale.ticks() {
            line .rule x1=(px(x)) x2=(px(x)) y1="4" y2=(px(bottom)) {}
            text .quiet x=(px(x.min(RIGHT - 16.0))) y=(px(bottom + 18.0)) text-anchor="middle" { "+" (text::age(after)) }
        }
        @for stretch in stretches {
            line .rule x1=(px(stretch.from)) x2=(px(stretch.from)) y1="4" y2=(px(bottom)) {}
            @let wide = stretch.to - stretch.from > 60.0 || stretches.len() == 1;
            @if wide {
                text .quiet x=(px(stretch.from)) y=(px(bottom + 18.0)) {
                    (time::when(stretch.from_ns).split_off(11)) title { (time::when_and_where(stretch.from_ns)) }
                }
            }
        }
        @for pair in stretches.windows(2) {
            @let x = f64::midpoint(pair[0].to, pair[1].from);
            line .cut x1=(px(x)) x2=(px(x)) y1="4" y2=(px(bottom)) {
                title { "nothing for " (text::age(pair[1].from_ns - pair[0].to_ns)) }
            }
        }
    }
}

fn middle(name: &str, top: f64) -> Markup {
    html! { text x=(px(LEFT - 12.0)) y=(px(top + BAR / 2.0 + 4.0)) text-anchor="end" { (name) } }
}

fn bar(class: &str, from: f64, to: f64, top: f64, height: f64) -> Markup {
    let width = (to - from).max(LEAST);
    html! { rect class=(class) x=(px(from)) y=(px(top)) width=(px(width)) height=(px(height)) rx="2" {} }
}

fn job(start: &Start, number: usize, scale: &TimeScale) -> Markup {
    let (from, to) = (scale.x(start.opened_ns), scale.x(start.end_ns));
    let how = match start.end {
        End::Closed => "ended in order",
        End::Died => "did not end in order",
        End::AtWork => "is at work",
    };
    let name = format!("start {number}");
    html! {
        g {
            (bar("job", from, to, 8.0, BAR))
            @if to - from > 70.0 { text .job-text x=(px(from + 8.0)) y=(px(8.0 + BAR / 2.0 + 4.0)) { (name) } }
            title {
                (name) ", " (start.opening.ranks) " ranks, " (time::when_and_where(start.opened_ns)) ", for "
                (text::age(start.end_ns - start.opened_ns)) ": it " (how)
            }
        }
    }
}

fn level(row: &Row, top: f64, scale: &TimeScale) -> Markup {
    let class = row.level.name();
    html! {
        (middle(&row.name(), top))
        line .rule x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(top + BAR + 7.0)) y2=(px(top + BAR + 7.0)) {}
        @for checkpoint in &row.checkpoints {
            g .checkpoint data-level=(row.name()) data-revision=(checkpoint.key.1) {
                @let x = scale.x(checkpoint.t1_ns);
                @if checkpoint.phases.is_some() {
                    (bar(&format!("{class} actual"), x, scale.x(checkpoint.t3_ns()), top, BAR))
                    (bar(class, x, scale.x(checkpoint.t2_ns()), top, BAR))
                } @else {
                    circle class=(format!("{class} unseen")) cx=(px(x + 3.0)) cy=(px(top + BAR / 2.0)) r="3" {}
                }
                title { (told(row, checkpoint)) }
            }
        }
    }
}

fn told(row: &Row, checkpoint: &Checkpoint) -> String {
    let (lineage, revision) = checkpoint.key;
    let mut told = format!("revision {revision} (lineage {lineage}) on {}\n", row.name());
    told += &format!("t1 {}\n", time::when_and_where(checkpoint.t1_ns));
    match checkpoint.phases {
        Some(_) => {
            told += &format!("t2 − t1, perceived: {}\n", text::duration_if_known(checkpoint.perceived_ns()));
            told += &format!("t3 − t1, actual: {}", text::duration_if_known(checkpoint.durable_ns()));
        }
        None => told += "it is on other nodes than rank 0's",
    }
    if let Some(bytes) = checkpoint.bytes {
        told += &format!("\n{} of rank 0", text::bytes(bytes));
    }
    if let Some(step) = checkpoint.step {
        told += &format!("\nstep {step}");
    }
    told
}

fn cross(x: f64, y: f64, why: &str) -> Markup {
    let path = format!(
        "M{} {}L{} {}M{} {}L{} {}",
        px(x - 4.5),
        px(y - 4.5),
        px(x + 4.5),
        px(y + 4.5),
        px(x - 4.5),
        px(y + 4.5),
        px(x + 4.5),
        px(y - 4.5)
    );
    html! { path .died .failure d=(path) { title { (why) } } }
}

fn died(start: &Start, scale: &TimeScale, bottom: f64) -> Markup {
    let x = scale.x(start.end_ns);
    let how = start.died_of.as_ref().map_or("last heard of".to_owned(), |why| format!("{why};"));
    html! {
        line .died-line x1=(px(x)) x2=(px(x)) y1="4" y2=(px(bottom)) {}
        (cross(x, 8.0 + BAR / 2.0, &format!("the job died; {how} {}", time::when_and_where(start.end_ns))))
    }
}

fn recovery(recovery: &Recovery, scale: &TimeScale, bottom: f64) -> Markup {
    let x = scale.x(recovery.noticed_unix_ns);
    let end = scale.x(recovery.noticed_unix_ns.saturating_add(recovery.total_ns));
    let path = format!("M{} 2h10l-5 9z", px(x - 5.0));
    html! {
        g .recovery {
            line .recovered-line x1=(px(x)) x2=(px(x)) y1="4" y2=(px(bottom)) {}
            (bar("recovered", x, end, 8.0, BAR))
            path .recovered d=(path) {}
            title { (time::when_and_where(recovery.noticed_unix_ns)) ": " (recovery.summary()) }
        }
    }
}
