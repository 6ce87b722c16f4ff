//! The speed of single operations by MongoDB's driver for Rust, against a server and against `echo` in turns, so that
//! what else the machine does falls on both.
//!
//! `speed SERVER ECHO [ROUNDS]`, both as connection strings, prints operations a second and their ratio, the median of
//! all rounds.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, Result};
use mongodb::options::{Acknowledgment, ClientOptions, WriteConcern};
use mongodb::{Client, Collection, IndexModel};

/// How long each operation is measured in a round, against each server.
const TIME: Duration = Duration::from_millis(700);

/// Documents in the collection.
const DOCUMENTS: i32 = 10_000;

const OPERATIONS: [&str; 4] = ["find by _id", "covered range of 10", "insert", "update"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, echo, rest @ ..] = &arguments[..] else { panic!("speed SERVER ECHO [ROUNDS]") };
    let rounds: usize = rest.first().and_then(|rounds| rounds.parse().ok()).unwrap_or(9);
    let (server, echo) = (collection(server).await?, collection(echo).await?);
    fill(&server).await?;
    println!("{:<20} {:>11} {:>10} {:>10} {:>6}", "operation", "connections", "server/s", "echo/s", "ratio");
    for connections in [1, 8] {
        for operation in OPERATIONS {
            let mut seen = Vec::new();
            for round in 0..rounds {
                let first = rate(&server, operation, connections, round).await?;
                let second = rate(&echo, operation, connections, round).await?;
                seen.push((first, second));
            }
            let median = |value: &dyn Fn(&(f64, f64)) -> f64| {
                let mut values: Vec<f64> = seen.iter().map(value).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let (first, second) = (median(&|pair| pair.0), median(&|pair| pair.1));
            let ratio = median(&|pair| pair.0 / pair.1);
            println!("{operation:<20} {connections:>11} {first:>10.0} {second:>10.0} {ratio:>6.2}");
        }
    }
    Ok(())
}

async fn collection(uri: &str) -> Result<Collection<Document>> {
    let mut options = ClientOptions::parse(uri).await?;
    options.max_pool_size = Some(16);
    // What a write waits for is measured elsewhere.
    options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(false).build());
    Ok(Client::with_options(options)?.database("speed").collection("documents"))
}

fn document(id: i32) -> Document {
    doc! { "_id": id, "a": id, "b": "x".repeat(100) }
}

async fn fill(documents: &Collection<Document>) -> Result<()> {
    documents.drop().await?;
    documents.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).await?;
    documents.insert_many((0..DOCUMENTS).map(document)).await?;
    Ok(())
}

/// Operations a second.
async fn rate(documents: &Collection<Document>, operation: &str, connections: i32, round: usize) -> Result<f64> {
    let begun = Instant::now();
    let round = i32::try_from(round).unwrap_or_default();
    let clients = (0..connections).map(|client| async move {
        let mut count = 0_u32;
        while begun.elapsed() < TIME {
            let at = (i32::try_from(count).unwrap_or_default() * 7919 + client * 1237).rem_euclid(DOCUMENTS);
            match operation {
                "find by _id" => {
                    documents.find_one(doc! { "_id": at }).await?;
                }
                "covered range of 10" => {
                    let range = documents.find(doc! { "a": { "$gte": at } });
                    let range = range.projection(doc! { "_id": 0, "a": 1 }).sort(doc! { "a": 1 }).limit(10);
                    range.await?.try_collect::<Vec<_>>().await?;
                }
                "insert" => {
                    // The driver makes the `_id`; `a` is behind what the ranges read.
                    documents.insert_one(doc! { "a": DOCUMENTS * 2 + round, "b": "x".repeat(100) }).await?;
                }
                _ => {
                    documents.update_one(doc! { "_id": at }, doc! { "$inc": { "n": 1 } }).await?;
                }
            }
            count += 1;
        }
        Ok::<u32, Error>(count)
    });
    let counts: Vec<u32> = try_join_all(clients).await?;
    Ok(f64::from(counts.iter().sum::<u32>()) / begun.elapsed().as_secs_f64())
}
