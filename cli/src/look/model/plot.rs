//! A drawing of the efficiency over the number of ranks: a line for each set of levels, by formula, with points from the
//! simulation.

use crate::{
    document::{Modelled, ModelledChoice},
    exit::Failure,
    look::svg,
};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 440;
/// The axis of efficiencies begins at a multiple of this.
const STEP: f64 = 0.05;
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];

/// A set of levels: for each number of ranks, its best choice.
struct Line<'a> {
    levels: Vec<&'a str>,
    points: Vec<(f64, &'a ModelledChoice)>,
}

pub fn draw(modelled: &Modelled, path: &Path) -> Result<(), Failure> {
    svg::write(path, |svg| chart(modelled, svg))
}

fn lines(modelled: &Modelled) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for job in &modelled.jobs {
        for choice in &job.choices {
            let levels: Vec<&str> = choice.levels.iter().map(|level| level.level).collect();
            let point = (job.ranks as f64, choice);
            match lines.iter_mut().find(|line| line.levels == levels) {
                // The first choice with these levels is the best.
                Some(line) if line.points.last().is_some_and(|last| last.0 == point.0) => {}
                Some(line) => line.points.push(point),
                None => lines.push(Line { levels, points: vec![point] }),
            }
        }
    }
    lines
}

fn chart(modelled: &Modelled, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let ranks = || modelled.jobs.iter().map(|job| job.ranks as f64);
    let lines = lines(modelled);
    let all = lines.iter().flat_map(|line| &line.points);
    let worst = all.map(|(_, choice)| choice.efficiency).fold(1.0 - STEP, f64::min);
    let lowest = (worst / STEP).floor() * STEP;
    let (least, most) = (ranks().fold(f64::INFINITY, f64::min), ranks().fold(1.0, f64::max));
    let mut chart = ChartBuilder::on(&root)
        .caption("share of the machine that computes", ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d((least / 1.2..most * 1.2).log_scale(), lowest..1.0)?;
    chart
        .configure_mesh()
        .x_desc("ranks")
        .x_label_formatter(&|ranks| format!("{ranks:.0}"))
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let by_formula: Vec<_> = line.points.iter().map(|(ranks, choice)| (*ranks, choice.efficiency)).collect();
        let simulated = line
            .points
            .iter()
            .filter_map(|(ranks, choice)| Some((*ranks, choice.simulated.as_ref()?.efficiency.max(lowest))));
        chart
            .draw_series([PathElement::new(by_formula, colour.stroke_width(2))])?
            .label(line.levels.join(", "))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(simulated.map(|point| Circle::new(point, 4, colour.stroke_width(1))))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}
