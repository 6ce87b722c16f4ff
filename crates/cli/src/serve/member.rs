//! The server as a member of a replica set with others: who they are, how it reaches them, and the database that
//! commits by them.

use super::args::ServeArgs;
use crate::failure::Usage;
use anyhow::{Context as _, Result};
use spinney::Database;
use spinney_document::catalog::is_of_member;
use spinney_replica::{Member, Node, Settings};
use spinney_server::auth::MemberKey;
use spinney_server::peer::address::{host, with_port};
use spinney_server::peer::{Link, Members, PeerTls};
use spinney_server::state::Replica;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// What the command line tells of the set.
#[derive(Debug)]
pub(super) struct Part {
    set: String,
    host: String,
    /// The members of the command line: the first of them forms the set.
    first_members: Vec<Member>,
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

/// Checks what the command line tells of the set, before anything is opened.
///
/// # Errors
/// [`Usage`] for a name or addresses that make no sense.
pub(super) fn check(args: &ServeArgs) -> Result<()> {
    if args.replica_set.as_deref().is_some_and(|set| set.trim().is_empty()) {
        return Err(Usage("--replSet is empty: give the name of the replica set".to_owned()).into());
    }
    Addresses::of(args).map(drop)
}

/// The addresses on the command line.
#[derive(Debug)]
struct Addresses {
    /// That by which this member is reached.
    advertised: Option<String>,
    /// Those of the first members.
    members: Vec<String>,
}

impl Addresses {
    fn of(args: &ServeArgs) -> Result<Self> {
        let refused = |what: String| Err(Usage(what).into());
        let advertised = args.advertise.as_deref().map(|text| address("--advertise", text)).transpose()?;
        // The default port is seldom that of --listen.
        if let (Some(text), Some(whole)) = (&args.advertise, &advertised)
            && text != whole
        {
            return refused(format!("--advertise {text} has no port: give HOST:PORT, as in db1.example.org:27017"));
        }
        let mut members = Vec::new();
        if let Some(named) = &args.members {
            for name in named.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                let member = address("--members", name)?;
                if members.contains(&member) {
                    return refused(format!("--members has {member} twice"));
                }
                members.push(member);
            }
            if members.is_empty() {
                return refused("--members is empty: give the addresses of all members with commas between".to_owned());
            }
        }
        Ok(Self { advertised, members })
    }
}

/// The whole address of a member in the value of an option.
fn address(option: &str, text: &str) -> Result<String> {
    let whole = with_port(text).map_err(|error| Usage(format!("{option}: {}", error.message())))?;
    if host(&whole).parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()) {
        let what = format!("{option} has {text}, which is no address by which others reach a member");
        return Err(Usage(what).into());
    }
    Ok(whole)
}

impl Part {
    /// The part that the command line tells of, for a server that listens on an address.
    pub(super) fn of(args: &ServeArgs, listening: &str, key: Option<&MemberKey>) -> Result<Self> {
        let set = args.replica_set.clone().context("a member of a replica set has --replSet")?;
        let addresses = Addresses::of(args)?;
        let host = match addresses.advertised {
            Some(host) => host,
            None if ["0.0.0.0:", "[::]:"].iter().any(|any| listening.starts_with(any)) => {
                let what = "--listen has all addresses of this machine: give the one by which other members and \
                            clients reach it with --advertise";
                return Err(Usage(what.to_owned()).into());
            }
            None => listening.to_owned(),
        };
        if !addresses.members.is_empty() && !addresses.members.contains(&host) {
            let what = format!(
                "{host} is none of --members: give the address of this member with --advertise, or --join in place of \
                 --members to wait until the set takes it in"
            );
            return Err(Usage(what).into());
        }
        let first_members = (0..).zip(addresses.members).map(|(id, host)| Member::new(id, host)).collect();
        Ok(Self { set, host, first_members, link: link(args, key)?, oplog_bytes: u64::from(args.oplog_size) << 20 })
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
        Ok((Arc::new(Replica::new(node, members, self.first_members)), documents))
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
