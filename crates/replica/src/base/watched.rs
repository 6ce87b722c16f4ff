//! A value whose changes tasks wait for, and are woken in the order in which they began to wait.
//!
//! tokio's own channel of this kind wakes them in a random order, with which no seed replays a run.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// What makes changes. Cheap to clone; when the last one is dropped, those that wait are told.
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// What waits for changes, and remembers which it has seen. Cheap to clone.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

struct Shared<T> {
    value: RwLock<T>,
    /// The number of the value, which is set under its latch.
    version: AtomicU64,
    changed: Notify,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

/// No other change can come: all senders are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl<T> Sender<T> {
    /// A sender with the first value.
    pub(crate) fn new(value: T) -> Self {
        let (senders, receivers) = (AtomicUsize::new(1), AtomicUsize::new(0));
        Self(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            changed: Notify::new(),
            senders,
            receivers,
        }))
    }

    /// A receiver that has seen the value that there is.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let shared = Arc::clone(&self.0);
        shared.receivers.fetch_add(1, Ordering::AcqRel);
        let seen = shared.version.load(Ordering::Acquire);
        Receiver { shared, seen }
    }

    /// Whether somebody may look at the value.
    pub(crate) fn has_receivers(&self) -> bool {
        self.0.receivers.load(Ordering::Acquire) > 0
    }

    /// Changes the value, if `modify` says that it did.
    pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.0.value.write();
            if !modify(&mut value) {
                return false;
            }
            // Release: who sees the number sees the value, whose latch it takes.
            self.0.version.fetch_add(1, Ordering::Release);
        }
        self.0.changed.notify_waiters();
        true
    }

    /// Sets the value.
    pub(crate) fn send_replace(&self, new: T) {
        self.send_if_modified(|value| {
            *value = new;
            true
        });
    }

    /// The value. Changes wait while it is looked at.
    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.value.read())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> Receiver<T> {
    /// The value. Changes wait while it is looked at.
    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.value.read())
    }

    /// The value, which is seen then.
    pub(crate) fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        // Under the latch, so that it is the number of this value.
        self.seen = self.shared.version.load(Ordering::Acquire);
        Ref(value)
    }

    /// Waits for a change that was not seen, and sees it.
    ///
    /// # Errors
    /// When none can come.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            let mut notified = std::pin::pin!(self.shared.changed.notified());
            // From here on no change goes unnoticed.
            notified.as_mut().enable();
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if self.shared.senders.load(Ordering::Acquire) == 0 {
                return Err(Closed);
            }
            notified.await;
        }
    }

    /// Waits until the value is as `wanted`.
    ///
    /// # Errors
    /// When it is not, and no change can come.
    pub(crate) async fn wait_for(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Result<(), Closed> {
        loop {
            if wanted(&self.borrow_and_update()) {
                return Ok(());
            }
            self.changed().await?;
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// A value that is looked at.
pub(crate) struct Ref<'a, T>(RwLockReadGuard<'a, T>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen_once_and_waiters_are_told_of_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let sender = Sender::new(1);
            let mut receiver = sender.subscribe();
            assert!(!sender.send_if_modified(|_| false));
            sender.send_replace(2);
            receiver.changed().await.unwrap();
            assert_eq!(*receiver.borrow(), 2);
            let waiting =
                tokio::spawn(async move { (receiver.wait_for(|value| *value == 4).await, receiver.changed().await) });
            tokio::task::yield_now().await;
            sender.send_replace(3);
            tokio::task::yield_now().await;
            sender.send_replace(4);
            assert!(sender.has_receivers());
            let other = sender.clone();
            drop(sender);
            drop(other);
            assert_eq!(waiting.await.unwrap(), (Ok(()), Err(Closed)));
        });
    }
}
