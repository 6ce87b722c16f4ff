//! Events for the crate [`tracing`](https://docs.rs/tracing), in a build with the Cargo feature `tracing`; without it
//! they are nothing.

/// Emits an event: a level of `tracing::Level`, fields, and a message.
macro_rules! event {
    ($level:ident, $($rest:tt)+) => {{
        #[cfg(feature = "tracing")]
        ::tracing::event!(target: "spinney", ::tracing::Level::$level, $($rest)+);
    }};
}

pub(crate) use event;
