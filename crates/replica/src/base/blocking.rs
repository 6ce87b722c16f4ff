//! Work that may block, beside the thread of the runtime.

use tokio::task::JoinHandle;

/// Does work in a thread that may block.
pub(crate) fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(test)]
    if let Some(in_turns) = IN_TURNS.get() {
        return tokio::spawn(async move {
            let (done, told) = tokio::sync::oneshot::channel();
            in_turns(Box::new(move || drop(done.send(work())))).await;
            told.await.expect("the work has ended")
        });
    }
    tokio::task::spawn_blocking(work)
}

/// Does work in a thread that takes turns with the runtime's.
#[cfg(test)]
pub(crate) type InTurns = fn(Box<dyn FnOnce() + Send>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[cfg(test)]
thread_local! {
    /// How the runtime of this thread does what may block, so that a test can replay it.
    pub(crate) static IN_TURNS: std::cell::Cell<Option<InTurns>> = const { std::cell::Cell::new(None) };
}
