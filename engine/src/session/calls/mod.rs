//! The methods of `Session`, by errand. Each hands over to the state behind them.

mod declare;
mod leave_node;
mod restore;
mod save;
mod when;
