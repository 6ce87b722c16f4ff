//! What MongoDB's driver for Rust does against a server: each check prints a line, and the first that fails ends the
//! program. The server is the only member of a replica set and has test commands.

use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use futures_util::{StreamExt as _, TryStreamExt as _};
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, Result, WriteFailure};
use mongodb::options::{InsertOneModel, ReturnDocument, UpdateOneModel, WriteModel};
use mongodb::{Client, Collection, Database, IndexModel, Namespace};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).expect("the connection string of a server");
    let client = Client::with_uri_str(uri).await?;
    let db = client.database("rust_checks");
    db.drop().await?;
    let numbers = db.collection::<Document>("numbers");
    documents(&numbers).await?;
    indexes(&numbers).await?;
    bulk_writes(&client, &numbers).await?;
    transactions(&client, &numbers).await?;
    retries(&client, &numbers).await?;
    change_streams(&db, &numbers).await?;
    files(&db).await?;
    db.drop().await?;
    println!("7 passed");
    Ok(())
}

fn passed(name: &str) {
    println!("{name} ... ok");
}

async fn documents(numbers: &Collection<Document>) -> Result<()> {
    numbers.insert_many((0..1000).map(|i| doc! { "_id": i, "n": i % 10 })).await?;
    let found = numbers.find(doc! { "n": 3 }).sort(doc! { "_id": -1 }).batch_size(7).await?;
    let found: Vec<Document> = found.try_collect().await?;
    assert_eq!((found.len(), found[0].get_i32("_id").ok()), (100, Some(993)));
    let updated = numbers.update_many(doc! { "n": 4 }, doc! { "$set": { "even": true } }).await?;
    assert_eq!(updated.modified_count, 100);
    let upserted = numbers.update_one(doc! { "_id": "new" }, doc! { "$inc": { "n": 1 } }).upsert(true).await?;
    assert!(upserted.upserted_id.is_some());
    let after = numbers.find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
    let after = after.return_document(ReturnDocument::After).await?.expect("a document");
    assert_eq!(after.get_i32("n").ok(), Some(2));
    assert_eq!(numbers.delete_many(doc! { "n": 9 }).await?.deleted_count, 100);
    assert_eq!(numbers.count_documents(doc! {}).await?, numbers.estimated_document_count().await?);
    let grouped = numbers.aggregate([doc! { "$group": { "_id": "$n", "count": { "$sum": 1 } } }]).await?;
    assert_eq!(grouped.count().await, numbers.distinct("n", doc! {}).await?.len());
    passed("documents");
    Ok(())
}

async fn indexes(numbers: &Collection<Document>) -> Result<()> {
    let model = IndexModel::builder().keys(doc! { "n": 1, "_id": -1 }).build();
    assert_eq!(numbers.create_index(model).await?.index_name, "n_1__id_-1");
    assert_eq!(numbers.list_index_names().await?, ["_id_", "n_1__id_-1"]);
    numbers.drop_index("n_1__id_-1").await?;
    passed("indexes");
    Ok(())
}

async fn bulk_writes(client: &Client, numbers: &Collection<Document>) -> Result<()> {
    let of = |name: &str| Namespace::new("rust_checks", name);
    let insert = |name: &str| {
        WriteModel::InsertOne(InsertOneModel::builder().namespace(of(name)).document(doc! { "_id": 1 }).build())
    };
    let update = UpdateOneModel::builder().namespace(of("a")).filter(doc! { "_id": 1 });
    let update = WriteModel::UpdateOne(update.update(doc! { "$set": { "x": 1 } }).build());
    let done = client.bulk_write([insert("a"), insert("b"), update]).await?;
    assert_eq!((done.inserted_count, done.modified_count), (2, 1));
    let failed = numbers.insert_many([doc! { "_id": 1 }, doc! { "_id": 7777 }]).ordered(false).await;
    let error = failed.expect_err("the first is there");
    match *error.kind {
        ErrorKind::InsertMany(ref many) => {
            let codes: Vec<i32> = many.write_errors.iter().flatten().map(|error| error.code).collect();
            assert_eq!(codes, [11000]);
        }
        _ => return Err(error),
    }
    assert!(numbers.find_one(doc! { "_id": 7777 }).await?.is_some());
    passed("bulk writes");
    Ok(())
}

async fn transactions(client: &Client, numbers: &Collection<Document>) -> Result<()> {
    let mut session = client.start_session().await?;
    let (mut tries, other) = (0, numbers.clone());
    session
        .start_transaction()
        .and_run2(async |session| {
            tries += 1;
            numbers.update_one(doc! { "_id": 0 }, doc! { "$inc": { "t": 1 } }).session(&mut *session).await?;
            if tries == 1 {
                other.update_one(doc! { "_id": 2 }, doc! { "$inc": { "t": 1 } }).await?;
            }
            numbers.update_one(doc! { "_id": 2 }, doc! { "$inc": { "t": 1 } }).session(&mut *session).await?;
            Ok::<(), Error>(())
        })
        .await?;
    assert_eq!(tries, 2);
    let sum = numbers.find_one(doc! { "_id": 2 }).await?.and_then(|found| found.get_i32("t").ok());
    assert_eq!(sum, Some(2));
    session.start_transaction().await?;
    numbers.insert_one(doc! { "_id": "gone" }).session(&mut session).await?;
    session.abort_transaction().await?;
    assert!(numbers.find_one(doc! { "_id": "gone" }).await?.is_none());
    passed("transactions");
    Ok(())
}

async fn retries(client: &Client, numbers: &Collection<Document>) -> Result<()> {
    let admin = client.database("admin");
    let fail = |command: &str| {
        doc! {
            "configureFailPoint": "failCommand",
            "mode": { "times": 1 },
            "data": { "failCommands": [command], "closeConnection": true },
        }
    };
    admin.run_command(fail("update")).await?;
    numbers.update_one(doc! { "_id": 5 }, doc! { "$inc": { "once": 1 } }).await?;
    admin.run_command(fail("find")).await?;
    let found = numbers.find_one(doc! { "_id": 5 }).await?.expect("a document");
    assert_eq!(found.get_i32("once").ok(), Some(1));
    let twice = numbers.insert_one(doc! { "_id": 5 }).await.expect_err("it is there");
    match *twice.kind {
        ErrorKind::Write(WriteFailure::WriteError(ref error)) => assert_eq!(error.code, 11000),
        _ => return Err(twice),
    }
    passed("retries");
    Ok(())
}

async fn change_streams(db: &Database, numbers: &Collection<Document>) -> Result<()> {
    let mut stream = numbers.watch().await?;
    numbers.insert_one(doc! { "_id": "c" }).await?;
    numbers.update_one(doc! { "_id": "c" }, doc! { "$set": { "x": 1 } }).await?;
    numbers.delete_one(doc! { "_id": "c" }).await?;
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let event = stream.try_next().await?.expect("an event");
        kinds.push(format!("{:?}", event.operation_type));
    }
    assert_eq!(kinds, ["Insert", "Update", "Delete"]);
    let token = stream.resume_token().expect("a token");
    numbers.insert_one(doc! { "_id": "d" }).await?;
    let mut rest = db.watch().resume_after(token).await?;
    let event = rest.try_next().await?.expect("an event");
    assert_eq!(event.document_key, Some(doc! { "_id": "d" }));
    passed("change streams");
    Ok(())
}

async fn files(db: &Database) -> Result<()> {
    let bucket = db.gridfs_bucket(None);
    let body: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let mut upload = bucket.open_upload_stream("file").await?;
    upload.write_all(&body).await?;
    upload.close().await?;
    let mut back = Vec::new();
    bucket.open_download_stream_by_name("file").await?.read_to_end(&mut back).await?;
    assert_eq!(back, body);
    passed("files");
    Ok(())
}
