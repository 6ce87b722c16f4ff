//! The experiment on our own engine at tiny sizes, and on one whose costs are known.

use crate::Clock;
use crate::command::run_job;
use crate::driver::{Compression, engines};
use crate::experiments::fake::{Fake, figure, names, step};
use crate::experiments::tests::job;
use crate::stop::Stop;

fn near(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() <= expected.abs() * 0.01)
}

#[test]
fn our_engine_has_every_item_and_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engines().into_iter().find(|engine| engine.name() == "spinney-lsm").unwrap();
    // Many, so that zeros written ahead, which are counted, are a small part.
    let arguments = "journal --items 30050 --memory 16MiB --logs plain,lz4,zstd --warm-items 30";
    let run = run_job(&job(arguments, engine.name(), dir.path()), &*engine, Clock::real(), &Stop::default());
    assert_eq!(run.error, None);
    for order in ["seq", "random"] {
        let step = step(&run, order);
        let of = |column| figure(step, column);
        assert_eq!((step.cost.unwrap().operations, step.operations[0].calls), (30_050, 301));
        let logical_megabytes = 30_050.0 * 144.0 / 1e6;
        assert!(of("recMB").unwrap() >= logical_megabytes && of("logMB") >= of("recMB"), "{:?}", step.figures);
        assert!(of("MBall") >= of("MBw"), "{:?}", step.figures);
        assert!(of("secs").unwrap() >= step.cost.unwrap().seconds && of("cpu/i").unwrap() > 0.0);
    }
    for log in ["seq lz4", "seq zstd"] {
        assert_eq!(step(&run, log).skipped, None);
    }
    let logged = |name| figure(step(&run, name), "logMB").unwrap();
    assert!(logged("seq zstd") < 0.8 * logged("seq") && logged("seq lz4") < 0.8 * logged("seq"));
    assert!(figure(step(&run, "seq zstd"), "comp/i").unwrap() > 0.0);
    for skipped in run.steps.iter().filter(|step| step.skipped.is_some()) {
        assert!(skipped.skipped.as_ref().unwrap().starts_with("the engine has no"), "{skipped:?}");
    }
    let before = |name: &str| names(&run).iter().position(|&step| step == name).unwrap();
    assert!(before("seq warm settle") < before("seq") && before("seq settle") < before("random"));
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "databases are removed one after the other");
}

#[test]
fn known_costs_are_reported_right() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    let run = fake.run("journal --items 1000 --orders random --logs plain,lz4,zstd", dir.path());
    assert_eq!(run.error, None);
    let done: Vec<&str> =
        names(&run).into_iter().filter(|name| !name.ends_with("sync") && !name.ends_with("settle")).collect();
    assert_eq!(done, ["random", "random lz4", "random zstd"]);
    let plain = step(&run, "random");
    // Ten commits and the sync after them; 400 us of log I/O each.
    let expected = [("secs", 0.011), ("logMB", 11.0 * 4096.0 / 1e6), ("recMB", 0.001_25), ("logio/i", 4.4)];
    assert!(expected.iter().all(|&(column, value)| near(figure(plain, column), value)), "{:?}", plain.figures);
    assert_eq!(figure(plain, "comp/i"), None, "nothing is compressed");
    assert!(near(figure(step(&run, "random lz4"), "comp/i"), 1.1));
    assert_eq!(step(&run, "random zstd").skipped.as_deref(), Some("the engine has no zstd"));
    let opened = fake.opened.lock().unwrap();
    let forms: Vec<_> = opened.iter().map(|config| config.log.compression.unwrap()).collect();
    assert_eq!(forms, [Compression::None, Compression::Lz4]);
}

#[test]
fn a_log_elsewhere_is_removed_and_what_was_there_stays() {
    let (dir, elsewhere, fake) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Fake::new());
    std::fs::write(elsewhere.path().join("other"), "mine").unwrap();
    let arguments = format!("journal --items 10 --orders seq --logs logdir --log-dir {}", elsewhere.path().display());
    let run = fake.run(&arguments, dir.path());
    assert_eq!(run.error, None);
    let log_dir = fake.opened.lock().unwrap()[0].log.dir.clone().unwrap();
    assert!(log_dir.starts_with(elsewhere.path()) && !log_dir.exists());
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1, "the other file");
}

#[test]
fn a_lost_item_is_an_error() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake { lost: 2, ..Fake::new() });
    let run = fake.run("journal --items 10 --orders seq --logs plain", dir.path());
    let error = run.error.unwrap();
    assert!(error.contains("8 items are there, 10 were committed"), "{error}");
}

#[test]
fn parameters_tell_how_well_the_items_compress() {
    let dir = tempfile::tempdir().unwrap();
    let parameters = job("journal", "fake", dir.path()).experiment.parameters();
    let factor = parameters.iter().find(|(name, _)| name == "LZ4 factor").unwrap();
    assert!(factor.1.contains("(sequential)") && factor.1.contains("(random)"), "{factor:?}");
}
