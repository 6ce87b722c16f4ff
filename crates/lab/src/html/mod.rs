//! The result as one page with tables and charts: no scripts, nothing fetched, fit for print.

mod chart;
mod details;
mod page;
mod step;
mod tables;
mod time;

pub(crate) use page::page;
