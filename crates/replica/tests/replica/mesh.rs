//! Members that reach each other in memory, until they are cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spinney_replica::{Member, Node, Transport};

/// The first byte, behind the identity, of a request for what a member says of itself.
const HELLO: u8 = 16;

/// All members of a test by their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mesh(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    cut: BTreeSet<String>,
    /// Those whose programs say that they are newer.
    newer: BTreeSet<String>,
}

impl Mesh {
    pub(crate) fn put(&self, host: &str, node: Node) {
        self.0.lock().unwrap().nodes.insert(host.to_owned(), node);
    }

    pub(crate) fn remove(&self, host: &str) {
        let node = self.0.lock().unwrap().nodes.remove(host);
        drop(node);
    }

    /// Cuts a member off from all others, or ends that.
    pub(crate) fn cut(&self, host: &str, is_cut: bool) {
        let cut = &mut self.0.lock().unwrap().cut;
        if is_cut {
            cut.insert(host.to_owned())
        } else {
            cut.remove(host)
        };
    }

    /// Has a member say from now on that its program has a newer format.
    pub(crate) fn say_newer(&self, host: &str) {
        self.0.lock().unwrap().newer.insert(host.to_owned());
    }

    /// What a member calls the others by.
    pub(crate) fn link(&self, from: &str) -> Arc<dyn Transport> {
        Arc::new(Link { mesh: self.clone(), from: from.to_owned() })
    }
}

#[derive(Debug)]
struct Link {
    mesh: Mesh,
    from: String,
}

impl Transport for Link {
    fn call(&self, member: &Member, request: Vec<u8>, _timeout: Duration) -> io::Result<Vec<u8>> {
        let reach = || {
            let state = self.mesh.0.lock().unwrap();
            let cut = state.cut.contains(&self.from) || state.cut.contains(&member.host);
            let node = state.nodes.get(&member.host).filter(|_| !cut).cloned();
            node.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))
        };
        let mut reply = reach()?.handle(&request).map_err(|error| io::Error::other(error.to_string()))?;
        if request[8] == HELLO && self.mesh.0.lock().unwrap().newer.contains(&member.host) {
            reply[0] += 1;
        }
        // It may have been cut off meanwhile: the reply is lost.
        reach().map(|_| reply)
    }
}
