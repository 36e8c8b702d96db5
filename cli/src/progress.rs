//! Progress bars, on a terminal only; indicatif draws nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of `total` bytes.
pub fn of_bytes(total: u64) -> ProgressBar {
    bar(total, "{msg}  {bar:40}  {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left")
}

/// A bar of `total` steps.
pub fn of_count(total: u64) -> ProgressBar {
    bar(total, "{msg}  {bar:40}  {pos} of {len}, {eta} left")
}

fn bar(total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
