//! What a meter counts, in a process with one test: calls are counted for the whole process, and other tests read too.

use spinney_lab::measure::Meter;
use std::path::Path;

#[test]
fn measuring_does_not_count_its_own_reads() {
    let meter = Meter::start(Path::new("."), &[]).unwrap();
    let before = meter.read().unwrap();
    let after = meter.read().unwrap();
    for _ in 0..1_000 {
        meter.read().unwrap();
    }
    assert!((meter.read().unwrap() - after).read_calls < 900);
    assert!(after.elapsed >= before.elapsed && after.cpu >= before.cpu);
}
