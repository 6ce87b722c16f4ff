//! The experiment on our own engine at tiny sizes, and on one whose costs are known.

use crate::command::run_job;
use crate::driver::engines;
use crate::experiments::fake::{Fake, figure, names, step};
use crate::experiments::tests::job;
use crate::stop::Stop;
use crate::{Clock, driver::Durability};

fn near(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() <= expected.abs() * 0.01)
}

#[test]
fn our_engine_has_every_row_in_each_mode_and_figures_agree() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = "commit --rows 60 --clients 1,3 --lazy-clients 1,2 --device-writes 5 --memory 16MiB --warm-rows 10";
    let engine = engines().into_iter().find(|engine| engine.name() == "spinney-lsm").unwrap();
    let run = run_job(&job(arguments, engine.name(), dir.path()), &*engine, Clock::real(), &Stop::default());
    assert_eq!(run.error, None);
    let mode = |name: &str| ["", " settle"].map(|end| format!("{name}{end}"));
    let expected: Vec<String> = ["device".to_owned()]
        .into_iter()
        .chain(["sync warm", "sync", "lazy warm", "lazy", "nolog warm", "nolog"].iter().flat_map(|name| mode(name)))
        .chain(
            ["sync-3 warm", "sync-3", "lazy-2 warm", "lazy-2", "nolog-2 warm", "nolog-2"]
                .iter()
                .flat_map(|name| mode(name)),
        )
        .collect();
    assert_eq!(names(&run), expected);
    for name in ["sync", "sync-3", "lazy", "lazy-2", "nolog", "nolog-2"] {
        let step = step(&run, name);
        let of = |column| figure(step, column);
        let (seconds, cost) = (of("secs").unwrap(), step.cost.unwrap());
        assert_eq!(cost.operations, 60);
        assert!(near(of("irate"), 60.0 / seconds), "{:?}", step.figures);
        assert!(near(of("GBw").map(|bytes| bytes * 1e9 / 60.0), of("bwpi").unwrap()), "{:?}", step.figures);
        assert!(near(of("GBw").map(|bytes| bytes * 1e3 / seconds), of("MB/s").unwrap()), "{:?}", step.figures);
        if name.starts_with("nolog") {
            let log = ["logb", "logbpi", "recbpi", "syncs/c"].map(|column| (column, of(column)));
            assert!(log.iter().all(|(_, value)| value.is_none()), "there is no log: {log:?}");
        } else {
            assert!(of("recbpi").unwrap() >= 106.0, "a record holds the row and its entries: {:?}", step.figures);
        }
        // Redo log that waits to be written is none of the database's size, so this is what 70 rows took in the trees.
        assert!((1.0..10_000.0).contains(&of("bpd").unwrap()), "{:?}", step.figures);
    }
    let alone = step(&run, "sync");
    assert!(near(figure(alone, "syncs/c"), 1.0) && near(figure(alone, "logbpi"), 4096.0), "{:?}", alone.figures);
    assert!(figure(alone, "x floor").unwrap() > 0.0 && figure(step(&run, "lazy"), "x floor").is_none());
    let device = step(&run, "device");
    assert_eq!((device.cost.unwrap().operations, device.operations[0].calls), (20, 20));
    assert!(run.engine.durability.contains("sync, interval 100 ms, no log"), "{}", run.engine.durability);
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "databases are removed one after the other");
}

#[test]
fn a_database_that_is_warm_uses_log_files_again_and_writes_none_ahead() {
    let ahead = |warm_rows: u64| {
        let dir = tempfile::tempdir().unwrap();
        let arguments = format!(
            "commit --modes sync --clients 1 --rows 40 --device-writes 0 --memory 16MiB --log-segment 64KiB --warm-rows {warm_rows}"
        );
        let engine = engines().into_iter().find(|engine| engine.name() == "spinney-lsm").unwrap();
        let run = run_job(&job(&arguments, engine.name(), dir.path()), &*engine, Clock::real(), &Stop::default());
        assert_eq!(run.error, None);
        figure(step(&run, "sync"), "aheadpi").unwrap()
    };
    // Forty commits are two files and a half.
    assert!(ahead(0) > 1_000.0);
    assert!(near(Some(ahead(100)), 0.0));
}

#[test]
fn known_costs_are_reported_right() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    let run = fake.run("commit --rows 200 --clients 1 --device-writes 0 --interval 1000", dir.path());
    assert_eq!(run.error, None);
    assert_eq!(names(&run), ["sync", "sync settle", "lazy", "lazy settle", "nolog"]);
    let sync = step(&run, "sync");
    let expected = [
        ("secs", 0.2),
        ("irate", 1_000.0),
        ("logb", 0.000_819_2),
        ("logbpi", 4096.0),
        ("recbpi", 125.0),
        ("syncs/c", 1.0),
    ];
    assert!(expected.iter().all(|&(column, value)| near(figure(sync, column), value)), "{:?}", sync.figures);
    assert_eq!(figure(sync, "x floor"), None, "no device was measured");
    let settle = step(&run, "sync settle");
    assert!(near(figure(settle, "secs"), 0.001) && figure(settle, "irate").is_none(), "{:?}", settle.figures);
    let opened: Vec<Durability> = fake.opened.lock().unwrap().iter().map(|config| config.durability).collect();
    assert_eq!(opened, [Durability::Sync, Durability::Interval(1000)]);
}

#[test]
fn a_lost_row_is_an_error() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake { lost: 1, ..Fake::new() });
    let run = fake.run("commit --rows 20 --clients 1 --device-writes 0", dir.path());
    let error = run.error.unwrap();
    assert!(error.contains("19 rows are there, 20 were committed"), "{error}");
}

#[test]
fn an_interrupted_mode_has_figures_of_what_it_did() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake { stop_at: Some(7), ..Fake::new() });
    let run = fake.run("commit --rows 20 --clients 1 --device-writes 0", dir.path());
    assert!(run.partial && run.error.is_none(), "{:?}", run.error);
    assert_eq!(names(&run), ["sync"]);
    assert!(near(figure(&run.steps[0], "secs"), 0.007), "{:?}", run.steps[0].figures);
    assert_eq!(figure(&run.steps[0], "bpd"), None);
}

#[test]
fn a_durability_beside_the_modes_is_refused() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    let run = fake.run("commit --durability sync", dir.path());
    assert!(run.error.unwrap().contains("--modes") && run.steps.is_empty());
}
