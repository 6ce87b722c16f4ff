//! The server as a member of a replica set with others: who they are, how it reaches them, and the database that
//! commits by them.

use super::args::ServeArgs;
use crate::failure::Usage;
use anyhow::{Context as _, Result};
use spinney::Database;
use spinney_document::catalog::is_of_member;
use spinney_replica::{Member, Node, Settings};
use spinney_server::auth::MemberKey;
use spinney_server::peer::address::with_port;
use spinney_server::peer::{Link, Members, PeerTls};
use spinney_server::state::Replica;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// What the command line tells of the set.
#[derive(Debug)]
pub(super) struct Part {
    set: String,
    host: String,
    /// The members that form the set, when this one is the first of them.
    forms: Vec<Member>,
    link: Link,
    oplog_bytes: u64,
}

/// The key in a file, which no other user of the machine may read.
pub(super) fn key_of(args: &ServeArgs) -> Result<Option<MemberKey>> {
    let Some(path) = &args.key_file else { return Ok(None) };
    check_permissions(path)?;
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let key = MemberKey::parse(&text).map_err(|error| Usage(format!("{}: {}", path.display(), error.message())))?;
    Ok(Some(key))
}

#[cfg(unix)]
fn check_permissions(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if found.permissions().mode() & 0o077 != 0 {
        let what = format!("permissions on {} are too open: other users may read it (chmod 600)", path.display());
        return Err(Usage(what).into());
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_permissions(_path: &Path) -> Result<()> {
    Ok(())
}

/// Whether the server is a member of a set with others: the command line says so, or the database was such a member.
pub(super) fn is_member(args: &ServeArgs, db: &Database) -> Result<bool> {
    let was = is_of_member(db)?;
    if was && args.replica_set.is_none() {
        let what = "the database is of a member of a replica set, whose changes the set decides on: give --replSet";
        return Err(Usage(what.to_owned()).into());
    }
    Ok(was || args.members.is_some() || args.join)
}

impl Part {
    /// The part that the command line tells of, for a server that listens on an address.
    pub(super) fn of(args: &ServeArgs, listening: &str, key: Option<&MemberKey>) -> Result<Self> {
        let set = args.replica_set.clone().context("a member of a replica set has --replSet")?;
        let address = |text: &str| with_port(text).map_err(|error| Usage(error.message().to_owned()));
        let host = match &args.advertise {
            Some(host) => address(host)?,
            None if ["0.0.0.0:", "[::]:"].iter().any(|any| listening.starts_with(any)) => {
                let what = "--listen has all addresses of this machine: give the one by which other members and \
                            clients reach it with --advertise";
                return Err(Usage(what.to_owned()).into());
            }
            None => listening.to_owned(),
        };
        let named = args.members.as_deref().unwrap_or_default().split(',').filter(|name| !name.trim().is_empty());
        let hosts = named.map(|name| address(name.trim())).collect::<Result<Vec<_>, _>>()?;
        let own = hosts.iter().position(|member| *member == host);
        if own.is_none() && !hosts.is_empty() && !args.join {
            let what = format!(
                "{host} is none of --members: give the address of this member with --advertise, or --join to wait until \
                 the set takes it in"
            );
            return Err(Usage(what).into());
        }
        let mut forms = Vec::new();
        if own == Some(0) && !args.join {
            forms.extend((0..).zip(hosts).map(|(id, host)| Member::new(id, host)));
        }
        Ok(Self { set, host, forms, link: link(args, key)?, oplog_bytes: u64::from(args.oplog_size) << 20 })
    }

    /// The node on a database, and the document database that commits by it. The node runs.
    pub(super) fn begin(self, db: &Database) -> Result<(Arc<Replica>, spinney_document::Database)> {
        let members = Arc::new(Members::new(self.link));
        let mut settings = Settings::new(self.set, self.host);
        settings.log_keep_bytes = self.oplog_bytes;
        let node = Node::open(db, settings, Arc::clone(&members) as Arc<_>)?;
        let environment = Arc::new(spinney_document::base::System);
        let documents = spinney_document::Database::with_committer(db.clone(), environment, node.committer())?;
        node.run(&documents)?;
        Ok((Arc::new(Replica::new(node, members, self.forms)), documents))
    }
}

/// How other members are reached.
fn link(args: &ServeArgs, key: Option<&MemberKey>) -> Result<Link> {
    let tls = match (&args.tls_cert, &args.tls_key, &args.tls_ca) {
        (Some(certificate), Some(private), Some(ca)) => Some(PeerTls::from_files(certificate, private, ca)?),
        (Some(_), _, None) => {
            let what = "a member with --tls-cert needs --tls-ca: other members' certificates are checked by it";
            return Err(Usage(what.to_owned()).into());
        }
        _ => None,
    };
    Ok(Link { tls, key: key.cloned() })
}
