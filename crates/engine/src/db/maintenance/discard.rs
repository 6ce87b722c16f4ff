//! Discarding a database that holds no table: what a program wants that failed right after it created one.

use std::io;
use std::path::Path;

use crate::base::{Error, Result};
use crate::db::state::directory::lock_file;
use crate::env::Env;
use crate::log::remove_log;
use crate::table::files;
use crate::table::manifest::Manifest;

/// Removes the files of the database in `path`, or of one whose creation failed, if it has no table. The lock is held
/// meanwhile, so that no other process begins to use it.
pub(crate) fn discard(env: &Env, path: &Path) -> Result<()> {
    let dir = &env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
    match env.fs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => drop(listed.map_err(|error| Error::io("list", dir, error))?),
    }
    let lock = lock_file(env, dir)?;
    let catalog = Manifest::load(env, dir)?.map(|(catalog, _)| catalog).unwrap_or_default();
    if let Some(table) = catalog.tables.values().next() {
        let message = format!("{}: the database has the table '{}': drop its tables first", dir.display(), table.name);
        return Err(Error::invalid(message));
    }
    let remove = |name: &str| match env.fs.remove(&dir.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &dir.join(name), error)),
        _ => Ok(()),
    };
    // The first, so that what a crash leaves is not taken for a database whose files are missing.
    remove(files::CURRENT)?;
    let log = catalog.log_dir(dir);
    match env.fs.list(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        _ => remove_log(env, &log)?,
    }
    if log != dir.join(files::LOG_DIR) {
        drop(env.fs.remove(&log.join(files::LOCK)));
    }
    let entries = env.fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    for entry in entries.iter().filter(|entry| files::parse(&entry.name).is_some()) {
        remove(&entry.name)?;
    }
    remove(files::CURRENT_NEW)?;
    remove(files::STATS)?;
    remove(files::LOCK)?;
    drop(lock);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::env::sim::SimEnv;
    use crate::{Database, ErrorKind, TableOptions};

    #[test]
    fn only_a_database_without_tables_is_discarded() {
        let sim = SimEnv::new(1);
        let builder = || Database::builder("/db").env(sim.env());
        let names = || -> Vec<String> {
            let entries = sim.env().fs.list("/db".as_ref()).unwrap();
            entries.into_iter().filter(|entry| !entry.is_dir).map(|entry| entry.name).collect()
        };
        let db = builder().open().unwrap();
        db.create_table("t", TableOptions::default()).unwrap();
        assert_eq!(builder().discard().unwrap_err().kind(), ErrorKind::Locked);
        db.close().unwrap();
        let kept = names();
        let refused = builder().discard().unwrap_err();
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("'t'"), "{refused}");
        assert_eq!(names(), kept);
        let db = builder().open().unwrap();
        db.drop_table("t").unwrap();
        db.close().unwrap();
        builder().discard().unwrap();
        assert_eq!(names(), [""; 0]);
        assert!(builder().create(false).open().is_err());
        builder().discard().unwrap();
    }
}
