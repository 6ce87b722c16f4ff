//! openraft's channel of values that are watched, by the one of this crate.

use openraft::async_runtime::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft::{OptionalSend, OptionalSync};

use crate::base::watched::{Receiver, Ref, Sender};

/// The channel of this crate.
#[derive(Debug)]
pub(crate) struct Watched;

impl Watch for Watched {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(first: T) -> (Sender<T>, Receiver<T>) {
        let sender = Sender::new(first);
        let receiver = sender.subscribe();
        (sender, receiver)
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<Watched, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.has_receivers() {
            self.send_replace(value);
            Ok(())
        } else {
            Err(SendError(value))
        }
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        Self::send_if_modified(self, modify)
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Self::subscribe(self)
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<Watched, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        Self::changed(self).await.map_err(|_| RecvError(()))
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        Self::borrow_and_update(self)
    }
}
