//! Members that reach each other in memory, until they are cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spinney_replica::{Member, Node, Stream, Transport};

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
    /// The connections that were opened, with the two members of each.
    connections: Vec<([String; 2], TcpStream)>,
}

impl State {
    /// Closes the connections of a member.
    fn close(&mut self, host: &str) {
        let (of_it, others) = std::mem::take(&mut self.connections)
            .into_iter()
            .partition(|(members, _)| members.iter().any(|m| m == host));
        self.connections = others;
        let closed: Vec<([String; 2], TcpStream)> = of_it;
        // One that is closed already is what was wanted.
        closed.iter().for_each(|(_, connection)| drop(connection.shutdown(Shutdown::Both)));
    }
}

impl Mesh {
    pub(crate) fn put(&self, host: &str, node: Node) {
        self.0.lock().unwrap().nodes.insert(host.to_owned(), node);
    }

    pub(crate) fn remove(&self, host: &str) {
        let mut state = self.0.lock().unwrap();
        state.close(host);
        let node = state.nodes.remove(host);
        drop(state);
        drop(node);
    }

    /// Cuts a member off from all others, or ends that.
    pub(crate) fn cut(&self, host: &str, is_cut: bool) {
        let state = &mut *self.0.lock().unwrap();
        if is_cut {
            state.cut.insert(host.to_owned());
            state.close(host);
        } else {
            state.cut.remove(host);
        }
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

impl Link {
    fn reach(&self, member: &Member) -> io::Result<Node> {
        let state = self.mesh.0.lock().unwrap();
        let cut = state.cut.contains(&self.from) || state.cut.contains(&member.host);
        let node = state.nodes.get(&member.host).filter(|_| !cut).cloned();
        node.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))
    }
}

impl Transport for Link {
    fn call(&self, member: &Member, request: Vec<u8>, _timeout: Duration) -> io::Result<Vec<u8>> {
        let mut reply = self.reach(member)?.handle(&request).map_err(|error| io::Error::other(error.to_string()))?;
        if request[8] == HELLO && self.mesh.0.lock().unwrap().newer.contains(&member.host) {
            reply[0] += 1;
        }
        // It may have been cut off meanwhile: the reply is lost.
        self.reach(member).map(|_| reply)
    }

    fn open(&self, member: &Member, _timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let node = self.reach(member)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let ours = TcpStream::connect(listener.local_addr()?)?;
        let (theirs, _) = listener.accept()?;
        let members = [self.from.clone(), member.host.clone()];
        self.mesh.0.lock().unwrap().connections.push((members, theirs.try_clone()?));
        thread::spawn(move || drop(node.serve(Box::new(theirs))));
        Ok(Box::new(ours))
    }
}
