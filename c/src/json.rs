//! Reports and counters as JSON.

use std::mem::MaybeUninit;

use spinney::Error;

use crate::bytes::{Value, give_value};

/// Gives what can be serialized as JSON.
pub(crate) fn json<T: serde::Serialize>(out: &mut MaybeUninit<Value>, value: &T) -> spinney::Result<()> {
    let text = serde_json::to_vec(value).map_err(|error| Error::invalid(error.to_string()))?;
    give_value(out, spinney::Value::owned(&text));
    Ok(())
}
