//! Tests of a whole database that look inside.

mod background;
mod full_disk;
mod many_tables;
#[cfg(not(shuttle))]
mod pauses;
mod review;
#[cfg(shuttle)]
mod schedules;
mod slices;
mod sorted_view;
mod steps;
