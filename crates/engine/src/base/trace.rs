//! Events and spans for the crate [`tracing`](https://docs.rs/tracing), in a build with the Cargo feature `tracing`;
//! without it they are nothing.

/// Emits an event: a level of `tracing::Level`, fields, and a message.
macro_rules! event {
    ($level:ident, $($rest:tt)+) => {{
        #[cfg(feature = "tracing")]
        ::tracing::event!(target: "spinney", ::tracing::Level::$level, $($rest)+);
    }};
}

/// Enters a span until the end of the block: its name, and fields.
macro_rules! span {
    ($name:literal $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = ::tracing::debug_span!(target: "spinney", $name $($rest)*).entered();
    };
}

pub(crate) use event;
pub(crate) use span;
