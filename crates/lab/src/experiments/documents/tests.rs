//! The experiment at a small size, on our own document database.

use super::data::{COLLECTION, DOCUMENT_BYTES, Maker, Text};
use crate::driver::{Field, document_engines};
use crate::experiments::fake::{figure, names, step};
use crate::experiments::tests::{common, job};
use crate::{Clock, Stop};
use spinney_document::bson::DocumentBuilder;

#[test]
fn every_step_does_all_its_work() {
    for engine in document_engines().into_iter().filter(|engine| !engine.client_server()) {
        let dir = tempfile::tempdir().unwrap();
        let arguments = "documents --documents 2500 --singles 300 --reads 50 --updates 20 --scans 2 --memory 8MiB";
        let job = job(arguments, engine.name(), dir.path());
        let run = crate::command::run_job(&job, &*engine, Clock::real(), &Stop::default());
        assert_eq!(run.error, None);
        let wanted = [
            ("insert", 300),
            ("bulk", 2200),
            ("settle", 1),
            ("find", 50),
            ("covered", 50),
            ("fetched", 50),
            ("count", 2 * 1000),
            ("scan", 2 * 2500),
            ("group", 2 * 2500),
            ("inc", 20),
            ("move", 20),
            ("delete", 20),
            ("build", 2480),
        ];
        assert_eq!(names(&run), wanted.map(|(name, _)| name));
        for (name, operations) in wanted {
            assert_eq!(step(&run, name).cost.unwrap().operations, operations, "{name}");
        }
        // Of so few documents most is what files take at least.
        let ratio = figure(step(&run, "settle"), "disk/BSON").unwrap();
        assert!((0.2..4.0).contains(&ratio), "{ratio}");
    }
}

#[test]
fn documents_are_as_long_as_they_are_said_to_be() {
    let text = Text::new(1);
    let mut maker = Maker::new(1, &text);
    let documents = maker.make(7, 2);
    let length = |fields: &[Field<'_>]| {
        let mut builder = DocumentBuilder::new();
        for &(name, value) in fields {
            match value {
                crate::driver::Value::Int(number) => builder.append(name, number),
                crate::driver::Value::Double(number) => builder.append(name, number),
                crate::driver::Value::Text(text) => builder.append(name, text),
                other => panic!("{other:?}"),
            };
        }
        builder.finish().as_bytes().len() as u64
    };
    assert_eq!([length(&documents[0]), length(&documents[1])], [DOCUMENT_BYTES; 2]);
    assert_ne!(documents[0], documents[1]);
    let again = Maker::new(1, &text).make(8, 1)[0].map(|(name, value)| format!("{name} {value:?}"));
    assert_eq!(documents[1].map(|(name, value)| format!("{name} {value:?}")), again);
    assert_eq!(COLLECTION, "items");
}

#[test]
fn tables_have_no_documents_and_verification_has_no_model() {
    let common = crate::command::Common { verify: true, ..common() };
    let dir = tempfile::tempdir().unwrap();
    let mut job = job("documents --documents 10 --reads 1", "spinney-documents", dir.path());
    job.common = common;
    let run = crate::command::run_job(&job, &*document_engines()[0], Clock::real(), &Stop::default());
    assert!(run.error.unwrap().contains("--verify"));
    let unsuited = |engine: &dyn crate::driver::Engine| job.experiment.unsuited(engine);
    assert!(unsuited(&*crate::driver::engines()[0]).unwrap().contains("tables"));
    assert_eq!(unsuited(&*document_engines()[0]), None);
}
