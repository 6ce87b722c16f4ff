//! The examples run, and their own assertions hold.

#[path = "../examples/change_feed.rs"]
mod change_feed;
#[path = "../examples/counter.rs"]
mod counter;
#[path = "../examples/index.rs"]
mod index;
#[path = "../examples/queue.rs"]
mod queue;

#[test]
fn each_example_runs() {
    change_feed::main().expect("the change feed");
    counter::main().expect("the counter");
    index::main().expect("the index");
    queue::main().expect("the queue");
}
