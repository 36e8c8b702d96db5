//! A drawing of each predictor's gain.

use crate::{document::Replayed, exit::Failure, look::svg};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::path::Path;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 300; // of one trace
/// The share of a predictor's width that its bar takes.
const BAR: f64 = 0.7;

/// Draws a panel for each trace to the file `path`.
pub fn draw(replayed: &Replayed, path: &Path) -> Result<(), Failure> {
    svg::write(path, |svg| panels(replayed, svg))
}

fn panels(replayed: &Replayed, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT * replayed.traces.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (trace, area) in replayed.traces.iter().zip(root.split_evenly((replayed.traces.len(), 1))) {
        let most = trace.predictors.iter().map(|one| one.early_share.max(one.wasted_share)).fold(0.05, f64::max);
        let names: Vec<&str> = trace.predictors.iter().map(|one| one.predictor).collect();
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("{}: pages saved early, and in vain, for each dirty page", trace.trace),
                ("sans-serif", 15),
            )
            .margin(10)
            .x_label_area_size(28)
            .y_label_area_size(44)
            .build_cartesian_2d(0.0..names.len() as f64, 0.0..most * 1.1)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()?;
        for (index, one) in trace.predictors.iter().enumerate() {
            let (from, middle) = (index as f64 + (1.0 - BAR) / 2.0, index as f64 + 0.5);
            let bars =
                [(from, middle, one.early_share, BLUE.mix(0.7)), (middle, from + BAR, one.wasted_share, RED.mix(0.6))];
            let bars =
                bars.map(|(left, right, share, colour)| Rectangle::new([(left, 0.0), (right, share)], colour.filled()));
            chart.draw_series(bars)?;
        }
        let below = TextStyle::from(("sans-serif", 13)).pos(Pos::new(HPos::Center, VPos::Top));
        chart.draw_series(names.iter().enumerate().map(|(index, name)| {
            EmptyElement::at((index as f64 + 0.5, 0.0)) + Text::new(*name, (0, 6), below.clone())
        }))?;
    }
    root.present()?;
    Ok(())
}
