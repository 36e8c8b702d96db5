//! How far a long command has come.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// On a terminal only: indicatif draws nothing elsewhere.
pub fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    let template = "{msg}  {bar:40}  {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
