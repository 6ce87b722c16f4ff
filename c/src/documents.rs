//! The document database: commands in, replies out, both as BSON.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use spinney::Error;
use spinney_document::Database;
use spinney_document::bson::Document;
use spinney_document::command::{Client, Request, Service};

use crate::abi::check_abi;
use crate::bytes::{Bytes, Value, give_value, text};
use crate::database::{OpenMode, open};
use crate::options::Options;
use crate::status::{Given as _, Status, done};

/// An open document database. Any thread may use it.
#[derive(Debug)]
pub struct Documents(Service);

/// Opens the document database in the directory `path`, which is made when it is not there. As `spinney_open`; closed,
/// and freed, by `spinney_documents_close`. Change streams need the option `log_keep_bytes`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_documents_open(
    abi: u32,
    path: *const c_char,
    options: Option<&Options>,
    documents: Option<&mut MaybeUninit<Box<Documents>>>,
) -> Status {
    done(|| {
        check_abi(abi)?;
        let out = documents.given("documents")?;
        let database = Database::with_engine(open(path, OpenMode::Create, options)?).map_err(|error| told(&error))?;
        out.write(Box::new(Documents(Service::new(database))));
        Ok(())
    })
}

/// Runs a command of MongoDB's on the database `name`, as `{find: "people", filter: {age: {$gt: 20}}}`, and gives the
/// reply. Both are BSON. The status is `SPINNEY_STATUS_OK` when there is a reply: whether the command was done is told
/// by its field `ok`, as on the wire.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_documents_run(
    documents: Option<&Documents>,
    name: *const c_char,
    command: Bytes,
    reply: Option<&mut MaybeUninit<Value>>,
) -> Status {
    done(|| {
        let (service, out) = (&documents.given("documents")?.0, reply.given("reply")?);
        let body = Document::parse(command.get()?).map_err(|error| told(&error))?;
        let client = Client::default();
        let reply = service.run(&Request { database: text(name, "name")?, body, sequences: &[], client: &client });
        give_value(out, spinney::Value::owned(reply.as_bytes()));
        Ok(())
    })
}

/// Closes what a program left behind: cursors, transactions and sessions that were not used for some minutes. A program
/// that runs for long calls it now and then.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_documents_sweep(documents: Option<&Documents>) {
    if let Some(documents) = documents {
        documents.0.sweep();
    }
}

/// Closes a document database and frees its handle, also when it returns an error. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_documents_close(documents: Option<Box<Documents>>) -> Status {
    done(|| documents.map_or(Ok(()), |documents| documents.0.database().engine().clone().close()))
}

fn told(error: &spinney_document::Error) -> Error {
    Error::invalid(error.message())
}
