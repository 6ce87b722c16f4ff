//! Files that are opened at their first use, and share a bounded number of descriptors.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::sim::SimEnv;
use super::{Access, DatabaseFiles, Env, File, OpenOptions};

/// An environment in which files that are opened lazily share two descriptors, and files of one byte with their
/// numbers.
fn numbered_files(sim: &SimEnv, count: u8) -> (Env, Arc<DatabaseFiles>, Vec<Arc<dyn File>>) {
    let (env, files) = DatabaseFiles::with_descriptors(sim.env(), 2).unwrap();
    let dir = Path::new("/lazy");
    env.fs.create_dir_all(dir).unwrap();
    let lazy = (0..count).map(|number| {
        let path = dir.join(number.to_string());
        let new = env.fs.open(&path, OpenOptions { access: Access::CreateNew, direct: false }).unwrap();
        new.write_at(&[number], 0).unwrap();
        env.fs.open_lazily(&path, OpenOptions { access: Access::Write, direct: false }).unwrap()
    });
    let lazy = lazy.collect();
    (env, files, lazy)
}

fn number_of(file: &dyn File) -> io::Result<u8> {
    let mut byte = [0];
    file.read_at(&mut byte, 0).map(|_| byte[0])
}

#[test]
fn files_that_are_opened_lazily_share_descriptors_and_are_read_all_the_same() {
    let (_env, files, lazy) = numbered_files(&SimEnv::new(1), 10);
    assert_eq!(files.descriptors(), 0);
    for _ in 0..3 {
        for (number, file) in (0..).zip(&lazy) {
            assert_eq!(number_of(&**file).unwrap(), number);
            assert!(files.descriptors() <= 2);
        }
    }
    drop(lazy);
    assert_eq!(files.descriptors(), 0);
}

/// Else the reader of an old version would find no file.
#[test]
fn a_file_whose_name_is_removed_stays_open_for_its_holder() {
    let (env, files, mut lazy) = numbered_files(&SimEnv::new(1), 10);
    (0..5).for_each(|number| env.fs.remove(Path::new(&format!("/lazy/{number}"))).unwrap());
    for _ in 0..2 {
        (0..).zip(&lazy).for_each(|(number, file)| assert_eq!(number_of(&**file).unwrap(), number));
    }
    assert!(files.descriptors() >= 5);
    lazy.drain(..5);
    (5..).zip(&lazy).for_each(|(number, file)| assert_eq!(number_of(&**file).unwrap(), number));
    assert!(files.descriptors() <= 2);
}

/// A sync by another descriptor might not tell that a write by the first one failed.
#[test]
fn a_file_with_unsynced_bytes_stays_open() {
    let (_env, files, lazy) = numbered_files(&SimEnv::new(1), 10);
    lazy.iter().for_each(|file| file.write_at(&[7], 1).unwrap());
    assert_eq!(files.descriptors(), 10);
    lazy.iter().for_each(|file| file.sync().unwrap());
    (0..).zip(&lazy).for_each(|(number, file)| assert_eq!(number_of(&**file).unwrap(), number));
    files.revoke();
    assert_eq!(files.descriptors(), 0);
    assert!(lazy.iter().all(|file| number_of(&**file).is_err()));
}
