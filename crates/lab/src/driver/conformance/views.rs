//! Read views.

use super::ground::{FIRST, Ground, SECOND, get, put, scan, write};
use crate::driver::batch::Batch;
use crate::driver::client::{Client, Scan};
use crate::driver::lacks::unless_lacking;
use anyhow::{Result, ensure};

pub(super) fn stays_and_moves_on(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    {
        let (mut reader, mut writer) = (store.client()?, store.client()?);
        put(&mut *writer, FIRST, b"a", b"1")?;
        put(&mut *writer, FIRST, b"b", b"1")?;
        reader.view()?;
        let mut batch = Batch::new();
        batch.put(FIRST, b"a", b"2");
        batch.delete(FIRST, b"b");
        batch.put(FIRST, b"c", b"2");
        batch.put(SECOND, b"a", b"2");
        write(&mut *writer, &batch)?;
        unless_lacking(store.flush())?.ok();
        unless_lacking(store.compact_all())?.ok();
        ensure!(read(&mut *reader)? == "a1 b1 ", "the view of the past has {}", read(&mut *reader)?);
        ensure!(get(&mut *reader, FIRST, b"b")?.as_deref() == Some(b"1"), "a view lost a key that was deleted later");
        ensure!(get(&mut *reader, SECOND, b"a")?.is_none(), "a view has a key of later");
        let mut many = 0;
        let found = reader.multi_get(FIRST, &[b"a", b"b", b"c"], &mut |_, value| many += usize::from(value == b"1"));
        if unless_lacking(found)?.is_ok() {
            ensure!(many == 2, "a read of many keys does not keep to the view");
        }
        reader.view()?;
        ensure!(read(&mut *reader)? == "a2 c2 ", "the view of the present has {}", read(&mut *reader)?);
        ensure!(get(&mut *reader, FIRST, b"b")?.is_none(), "a view has a key that was deleted before");
    }
    store.close()
}

fn read(client: &mut dyn Client) -> Result<String> {
    let entries = scan(client, &Scan::all(FIRST))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(entries.iter().map(|(key, value)| format!("{}{} ", text(key), text(value))).collect())
}
