//! Tests of the experiment on our own engine, and of what it draws against its definition.

use super::access::Access;
use super::distributions::{LogNormal, Zipf, harmonic, multiget_ids};
use super::form::Form;
use super::graph::{Graph, choose_link_type, link_types};
use super::operations::Operations;
use super::payload::Payload;
use super::requests::{KINDS, MIX, Operation, Phase, Requester};
use super::rows::{COUNT, Count, INDEX, Link as Row, List, TABLES};
use super::store::Session;
use super::{Link, Setting, Stream, check, documents, load};
use crate::clock::Clock;
use crate::command::{BenchArgs, BenchCommand, Job, run_job};
use crate::driver::{
    Batch, Client, Condition, Config, Engine, Outcome, Scan, Update, Value, document_engines, engines,
};
use crate::experiments::Experiment;
use crate::experiments::tally::Tallies;
use crate::random::Random;
use crate::random::chi_square::assert_fits;
use crate::report::Run;
use crate::run::{Bench, End, Work};
use crate::stop::Stop;
use clap::Parser;
use std::collections::BTreeMap;

/// Asserts that counts agree with expected numbers, of which each is large enough to be tested alone.
fn assert_chi_square(counts: &[u64], expected: &[f64]) {
    assert!(expected.iter().all(|&wanted| wanted >= 5.0), "{expected:?}");
    let draws: f64 = expected.iter().sum();
    let probabilities: Vec<f64> = expected.iter().map(|wanted| wanted / draws).collect();
    assert_fits(counts, &probabilities);
}

fn engine(name: &str) -> Box<dyn Engine> {
    engines().into_iter().find(|engine| engine.name() == name).unwrap()
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    bench: BenchArgs,
}

fn run(engine_name: &str, arguments: &str) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let words = ["bench", "link"].into_iter().chain(arguments.split_whitespace());
    let BenchCommand::Run(args) = Command::parse_from(words).bench.command else { panic!("not an experiment") };
    let (experiment, common, _) = args.split();
    assert!(matches!(experiment, Experiment::Link(_)));
    let job = Job {
        experiment,
        common,
        engine: engine_name.to_owned(),
        dir: dir.path().to_owned(),
        progress: None,
        repetition: 0,
    };
    run_job(&job, &*engine(engine_name), Clock::real(), &Stop::default())
}

#[test]
fn a_small_graph_is_loaded_asked_and_found_consistent() {
    for name in ["spinney-lsm", "spinney-btree"] {
        let run = run(name, "--nodes 400 --requests 1500 --phases 2 --requesters 2 --memory 64MiB --direct-io false");
        assert_eq!(run.error, None);
        let steps: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(steps, ["load", "run 1", "run 2"]);
        assert!(run.notes.iter().any(|note| note.contains("of all nodes agree")), "{:?}", run.notes);
        let load = &run.steps[0];
        let figure = |name: &str| load.figures.iter().find(|figure| figure.column.name == name).unwrap().value.unwrap();
        let rows = figure("nodes") + figure("links") + figure("counts");
        assert!((load.cost.unwrap().operations as f64 - rows).abs() < 0.5 && figure("nodes") > 399.5);
        let graph = Graph::new(400);
        let links: u64 = (1..=400)
            .flat_map(|id| link_types().map(move |kind| (id, kind)))
            .map(|(id, kind)| graph.links(id, kind))
            .sum();
        assert!((figure("links") - links as f64).abs() < 0.5);
        for step in &run.steps[1..] {
            assert_eq!(step.cost.unwrap().operations, 1500);
            assert_eq!(step.operations.len(), KINDS.len(), "{:?}", step.operations);
            assert!(step.figures.iter().any(|figure| figure.column.name == "gl" && figure.value.is_some()));
        }
    }
}

#[test]
fn a_run_that_compares_every_read_with_a_model_finds_no_difference() {
    let run = run(
        "spinney-lsm",
        "--nodes 200 --requests 800 --phases 1 --requesters 2 --memory 64MiB --direct-io false --verify",
    );
    assert_eq!(run.error, None);
    assert!(run.steps.iter().all(|step| step.skipped.is_none()), "{:?}", run.steps);
}

/// Opens a database with a small graph in it, and calls `body` with a client of it.
fn with_graph(setting: &Setting, body: impl FnOnce(&mut dyn Client)) {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine("spinney-lsm");
    let mut bench = Bench::new(&*engine, dir.path(), Clock::real(), Stop::default());
    let config = Config { memory_bytes: 64 << 20, direct_io: false, transactions: true, ..Config::default() };
    let mut db = bench.open("link", &config, &TABLES).unwrap();
    load::run(setting, 2, "load", &mut db).unwrap();
    body(&mut *db.store().client().unwrap());
    db.close().unwrap();
}

fn a_link(time: u64) -> Row {
    Row { visible: true, time, version: 0, data: b"data".to_vec() }
}

#[test]
fn a_wrong_count_and_a_stale_index_entry_are_found() {
    let setting = Setting::new(Form::Entries, 300, 1);
    with_graph(&setting, |client| {
        let list = List { id1: 17, link_type: link_types().next().unwrap() };
        let links = setting.graph.links(17, list.link_type);
        let checked = check::check(client, 300, 1).unwrap();
        assert_eq!(checked.nodes, 300);
        let mut batch = Batch::new();
        let wrong = Count { count: u32::try_from(links).unwrap() + 1, ..Count::default() };
        batch.put(COUNT, &list.count_key(), &wrong.value());
        assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
        let error = check::check(client, 300, 1).unwrap_err().to_string();
        assert!(error.contains("node 17") && error.contains(&format!("a count of {}", links + 1)), "{error}");
        batch.clear();
        batch.put(COUNT, &list.count_key(), &Count { count: wrong.count - 1, ..wrong }.value());
        batch.put(INDEX, &list.index_key(true, 5, 5), b"versdata");
        assert_eq!(client.write(&batch).unwrap(), Outcome::Done);
        let error = check::check(client, 300, 1).unwrap_err().to_string();
        assert!(error.contains("index entries differ"), "{error}");
    });
}

fn effects(session: &mut dyn Operations, client: &mut dyn Client) {
    let list = List { id1: 5, link_type: link_types().next().unwrap() };
    let before = session.count_links(client, list).unwrap();
    let id2 = 1_000_000;
    // Added, added again with another time, hidden twice, shown again.
    assert!(!session.add_link(client, list, id2, &a_link(1 << 50)).unwrap());
    assert!(session.add_link(client, list, id2, &a_link(1 << 51)).unwrap());
    assert_eq!(session.count_links(client, list).unwrap(), before + 1);
    let newest = session.get_list(client, list, u64::MAX, 0, 1).unwrap();
    assert_eq!((newest.links, newest.oldest), (1, 1 << 51));
    assert!(session.delete_link(client, list, id2, 1, false).unwrap());
    assert!(session.delete_link(client, list, id2, 1, false).unwrap());
    assert_eq!(session.count_links(client, list).unwrap(), before);
    assert_eq!(session.get_links(client, list, &[id2, id2 + 1]).unwrap(), 1, "hidden links are got");
    assert_eq!(session.get_list(client, list, u64::MAX, 0, 100).unwrap().links, before, "and not listed");
    assert!(session.add_link(client, list, id2, &a_link(1 << 52)).unwrap());
    assert_eq!(session.count_links(client, list).unwrap(), before + 1);
    assert!(session.delete_link(client, list, id2, 1, true).unwrap());
    assert!(!session.delete_link(client, list, id2, 1, true).unwrap());
    assert_eq!(session.get_links(client, list, &[id2]).unwrap(), 0);
    // Nodes.
    session.add_node(client, 500, 1, b"a").unwrap();
    assert!(session.get_node(client, 500).unwrap() && session.update_node(client, 500, 2, b"b").unwrap());
    assert!(session.delete_node(client, 500).unwrap() && !session.delete_node(client, 500).unwrap());
    assert!(!session.get_node(client, 500).unwrap() && !session.update_node(client, 500, 2, b"b").unwrap());
}

#[test]
fn operations_have_the_effects_of_the_original() {
    let setting = Setting::new(Form::Entries, 100, 1);
    with_graph(&setting, |client| {
        effects(&mut Session::default(), client);
        check::check(client, 100, 1).unwrap();
    });
}

#[test]
fn a_list_goes_on_where_it_ended() {
    let setting = Setting::new(Form::Entries, 50, 1);
    with_graph(&setting, |client| {
        let mut session = Session::default();
        let list = List { id1: 50, link_type: 1 };
        for time in 1..=10 {
            session.add_link(client, list, time, &a_link(time * 1000)).unwrap();
        }
        let first = session.get_list(client, list, u64::MAX, 0, 4).unwrap();
        assert_eq!((first.links, first.oldest), (4, 7000));
        let second = session.get_list(client, list, first.oldest, 1, 4).unwrap();
        assert_eq!((second.links, second.oldest), (4, 3000));
        let last = session.get_list(client, list, second.oldest, 1, 4).unwrap();
        assert_eq!((last.links, last.oldest), (2, 1000));
    });
}

#[test]
fn long_lists_are_remembered_and_gone_on_with() {
    let setting = Setting::new(Form::Entries, 200, 1);
    with_graph(&setting, |client| {
        let tallies = Tallies::new(1);
        let mut requester = Requester::new(&setting, tallies.of(0), 1, 2);
        for at in 0..8000 {
            requester.call(client, at).unwrap();
        }
        drop(requester);
        let [_, links, history] = tallies.totals();
        assert!(links > 0 && history > 0, "{links} {history}");
    });
}

#[test]
fn the_share_of_nodes_with_each_degree_is_that_of_the_table() {
    // Degrees are quantiles, not draws: of a million nodes each share is met to one node.
    let graph = Graph::new(1_000_000);
    let mut nodes_by_links: BTreeMap<u64, f64> = BTreeMap::new();
    for id in 1..=1_000_000 {
        let links: u64 = link_types().map(|kind| graph.links(id, kind)).sum();
        *nodes_by_links.entry(links).or_default() += 1.0;
    }
    // By the table 45.33160573% have no link, 77.46259112% at most 1, 86.95805953% at most 2, 91.99305428% at most 3.
    // What the division by types makes of 0, 1, 2 and 3 links is 0, 1, 3 and 4.
    let wanted = [(0, 453_316.057_3), (1, 321_309.853_9), (3, 94_954.684_1), (4, 50_349.947_5)];
    for (links, nodes) in wanted {
        assert!((nodes_by_links[&links] - nodes).abs() <= 1.5, "{links}: {} and not {nodes}", nodes_by_links[&links]);
    }
    // The article loads 50M nodes with ~220M links; a million nodes have more of the table's best linked nodes for
    // each.
    let links: f64 = nodes_by_links.iter().map(|(&links, nodes)| links as f64 * nodes).sum();
    assert!((5.1e6..5.4e6).contains(&links), "{links}");
}

#[test]
fn ids_are_drawn_by_gray_s_algorithm_and_close_to_zipf() {
    let (count, shape) = (10_000, 0.8);
    let zipf = Zipf::new(count, shape);
    let edges = [0, 1, 2, 5, 10, 30, 100, 300, 1000, 3000, count];
    let mut counts = [0_u64; 10];
    let mut random = Random::new(1);
    const DRAWS: u64 = 200_000;
    for _ in 0..DRAWS {
        let rank = zipf.choose(&mut random);
        counts[edges.partition_point(|&edge| edge <= rank) - 1] += 1;
    }
    let by_algorithm: Vec<f64> =
        edges.windows(2).map(|edge| DRAWS as f64 * (zipf.share_below(edge[1]) - zipf.share_below(edge[0]))).collect();
    assert_chi_square(&counts, &by_algorithm);
    let zeta = harmonic(count, shape);
    for (edge, share) in edges.windows(2).zip(&by_algorithm) {
        let exact = DRAWS as f64 * (harmonic(edge[1], shape) - harmonic(edge[0], shape)) / zeta;
        assert!((share / exact - 1.0).abs() < 0.12, "{edge:?}: {share} and not {exact}");
    }
}

#[test]
fn large_harmonic_numbers_are_close_to_the_sum() {
    for shape in [0.606, 0.625, 0.741, 0.8] {
        let sum: f64 = (1..=100_000).map(|term| f64::from(term).powf(-shape)).sum();
        assert!((harmonic(100_000, shape) / sum - 1.0).abs() < 0.005, "{shape}");
    }
}

#[test]
fn the_mix_is_that_of_the_original() {
    let mut random = Random::new(2);
    let mut counts = [0_u64; 10];
    const DRAWS: u64 = 300_000;
    for _ in 0..DRAWS {
        let operation = Operation::choose(&mut random);
        counts[MIX.iter().position(|&(other, _)| other == operation).unwrap()] += 1;
    }
    let expected: Vec<f64> = MIX.iter().map(|(_, percent)| DRAWS as f64 * percent / 100.0).collect();
    assert_chi_square(&counts, &expected);
    assert!((MIX.iter().map(|(_, percent)| percent).sum::<f64>() - 100.0).abs() < 1e-5);
}

#[test]
fn sizes_and_numbers_of_links_got_are_distributed_as_in_the_original() {
    let mut random = Random::new(3);
    // 2 with the probability 0.382, 3 with 0.382 of the rest, and so on.
    let mut counts = [0_u64; 8];
    for _ in 0..100_000 {
        let ids = multiget_ids(&mut random);
        assert!((1..128).contains(&ids));
        counts[usize::try_from(ids.min(9)).unwrap() - 2] += 1;
    }
    let expected: Vec<f64> =
        (0..8).map(|at| 100_000.0 * 0.618_f64.powi(at) * if at == 7 { 1.0 } else { 0.382 }).collect();
    assert_chi_square(&counts, &expected);
    // Half of the sizes are below the median, and 68% within a factor of e.
    let sizes = LogNormal::new(1000.0, 0, 1 << 20);
    let mut counts = [0_u64; 4];
    for _ in 0..100_000 {
        let size = sizes.choose(&mut random);
        counts[[368, 1000, 2718].iter().filter(|&&edge| size >= edge).count()] += 1;
    }
    assert_chi_square(&counts, &[15_865.0, 34_135.0, 34_135.0, 15_865.0]);
}

#[test]
fn access_reaches_every_kind_of_node_and_most_links_are_unrelated_to_degree() {
    let (access, graph) = (Access::new(10_000), Graph::new(10_000));
    let mut random = Random::new(4);
    let mut deletes = [0_u64; 20];
    for _ in 0..40_000 {
        for id in [
            access.link_read(&mut random),
            access.link_write(&mut random),
            access.node_read(&mut random),
            access.node_update(&mut random),
        ] {
            assert!((1..=10_000).contains(&id));
        }
        deletes[usize::try_from((access.node_delete(&mut random) - 1) / 500).unwrap()] += 1;
    }
    assert_chi_square(&deletes, &[2000.0; 20]);
    // A read related to degree would get the best linked node in 2 of 100 cases.
    let best = (1..=10_000).max_by_key(|&id| link_types().map(|kind| graph.links(id, kind)).sum::<u64>()).unwrap();
    let hits = (0..100_000).filter(|_| access.link_read(&mut random) == best).count();
    assert!((1..300).contains(&hits), "{hits}");
}

#[test]
fn ids_for_operations_are_linked_as_often_as_wanted() {
    let graph = Graph::new(10_000);
    let mut random = Random::new(5);
    let id = (1..=10_000).find(|&id| link_types().all(|kind| (40..60).contains(&graph.links(id, kind)))).unwrap();
    let kind = choose_link_type(&mut random);
    let links = graph.links(id, kind);
    for wanted in [0.05, 0.5, 0.9] {
        let linked = (0..20_000).filter(|_| graph.choose_id2(&mut random, id, kind, wanted) < id + links).count();
        assert!((linked as f64 / 20_000.0 - wanted).abs() < 0.02, "{wanted}: {linked}");
    }
    let id2s = graph.choose_id2s(&mut random, id, kind, 0.5, 20);
    let different: std::collections::BTreeSet<_> = id2s.iter().collect();
    assert_eq!(different.len(), 20);
}

#[test]
fn data_has_the_letters_and_the_sizes_of_its_kind() {
    let (nodes, links) = (Payload::of_nodes(1, 1), Payload::of_links(1));
    let mut random = Random::new(6);
    let (mut node_bytes, mut link_bytes) = (Vec::new(), Vec::new());
    for _ in 0..5000 {
        let before = node_bytes.len();
        nodes.extend(&mut random, &mut node_bytes);
        assert!(node_bytes.len() > before);
        links.extend(&mut random, &mut link_bytes);
    }
    assert!(node_bytes.iter().all(|letter| (50..=220).contains(letter)));
    assert!(link_bytes.iter().all(|letter| (32..=100).contains(letter)));
    // The mean of a log-normal distribution is its median times the root of e.
    let mean = |bytes: &[u8]| bytes.len() as f64 / 5000.0;
    assert!((200.0..222.0).contains(&mean(&node_bytes)) && (12.0..14.0).contains(&mean(&link_bytes)));
}

#[test]
fn the_stream_of_requests_does_not_depend_on_the_number_of_clients() {
    /// Remembers the keys that are asked for.
    #[derive(Default)]
    struct Recorder(Vec<Vec<u8>>);
    impl Client for Recorder {
        fn write(&mut self, batch: &Batch) -> anyhow::Result<Outcome> {
            self.0.extend(batch.iter().map(|change| format!("{change:?}").into_bytes()));
            Ok(Outcome::Done)
        }
        fn get(&mut self, _: crate::driver::TableId, key: &[u8], _: &mut dyn FnMut(&[u8])) -> anyhow::Result<bool> {
            self.0.push(key.to_vec());
            Ok(false)
        }
        fn scan(&mut self, scan: &Scan<'_>, _: &mut dyn FnMut(&[u8], &[u8])) -> anyhow::Result<u64> {
            self.0.push(scan.from.unwrap().to_vec());
            Ok(0)
        }
        fn view(&mut self) -> anyhow::Result<()> {
            Ok(())
        }
        fn begin(&mut self) -> anyhow::Result<()> {
            Ok(())
        }
        fn commit(&mut self) -> anyhow::Result<Outcome> {
            Ok(Outcome::Done)
        }
        fn rollback(&mut self) -> anyhow::Result<()> {
            Ok(())
        }
    }
    let setting = Setting::new(Form::Entries, 1000, 7);
    let requests = |clients: u64| {
        let tallies = Tallies::new(2);
        let mut all = Vec::new();
        let mut requesters: Vec<_> = (0..2).map(|number| Requester::new(&setting, tallies.of(number), 3, 10)).collect();
        for at in 0..600 {
            let mut recorder = Recorder::default();
            requesters[usize::try_from(at % clients).unwrap()].call(&mut recorder, at).unwrap();
            all.push(recorder.0);
        }
        all
    };
    assert_eq!(requests(1), requests(2));
}

#[test]
fn a_phase_ends_by_time_or_by_requests() {
    let experiment = Link { nodes: 1, loaders: 1, requesters: 3, phases: 1, seconds: 7, requests: None, memory: 1 };
    let Phase { number, requesters, end, stream } = experiment.phase(2, Stream::Without);
    assert_eq!(stream, Stream::Without);
    assert_eq!((number, requesters, end), (2, 3, End::Seconds(7.0)));
    let by_requests = Link { requests: Some(9), ..experiment };
    assert_eq!(by_requests.phase(1, Stream::Without).end, End::Calls(9));
}

/// Every operation has the same effect on documents as on entries of tables.
#[test]
fn operations_on_documents_have_the_effects_of_the_original() {
    let engine = &document_engines()[0];
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(&**engine, dir.path(), Clock::real(), Stop::default());
    let config = Config { memory_bytes: 64 << 20, direct_io: false, transactions: true, ..Config::default() };
    let mut db = bench.open("link", &config, &[]).unwrap();
    documents::create(&mut *db.store().client().unwrap()).unwrap();
    let setting = Setting::new(Form::Documents, 100, 1);
    load::run(&setting, 2, "load", &mut db).unwrap();
    {
        let mut client = db.store().client().unwrap();
        assert_eq!(documents::check(&mut *client, 100, 1, 1000).unwrap(), 200);
        effects(&mut *setting.form.operations(), &mut *client);
        assert_eq!(documents::check(&mut *client, 100, 1, 1000).unwrap(), 200);
        // A count that is wrong is found.
        let key =
            [("id", Value::Int(5)), ("link_type", Value::Int(i64::try_from(link_types().next().unwrap()).unwrap()))];
        let which = Condition::equal(&key);
        let update = Update { collection: "counttable", which, set: &[], add: &[("count", 1)], or_insert: Some(&[]) };
        client.documents().unwrap().update(&update).unwrap();
        let error = documents::check(&mut *client, 100, 1, 1000).unwrap_err().to_string();
        assert!(error.contains("node 5"), "{error}");
    }
    db.close().unwrap();
}

/// Two clients that change one list at once: one of two transactions is run again, and no count is lost.
#[test]
fn a_conflict_of_transactions_on_documents_loses_no_count() {
    for arguments in [
        "link-documents --nodes 3 --phases 1 --requests 400 --requesters 4 --memory 4MiB --streams without",
        "link-documents --nodes 40 --phases 1 --requests 200 --memory 4MiB --streams with,kept",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let job = crate::experiments::tests::job(arguments, "spinney-documents", dir.path());
        let engine = &document_engines()[0];
        let run = run_job(&job, &**engine, Clock::real(), &Stop::default());
        assert_eq!(run.error, None, "{arguments}");
        if arguments.contains("with,") {
            let step = crate::experiments::fake::step(&run, "run 1 stream");
            assert_eq!(
                crate::experiments::fake::names(&run),
                ["load stream", "run 1 stream", "load kept", "run 1 kept"]
            );
            assert!(step.operation("addlink").is_some());
        }
    }
}
