//! Roles that clients define, as `admin.system.roles` holds them.

use spinney_document::bson::{Array, Document, DocumentBuf, DocumentBuilder};
use spinney_document::{Error, ErrorCode, Result};

use super::privilege::Privileges;
use super::user::{RoleName, append_roles, parse_roles};
use crate::base::fields::Fields;

/// A role that clients define.
#[derive(Clone, Debug)]
pub struct Role {
    /// The name.
    pub name: RoleName,
    /// The roles whose privileges it has.
    pub roles: Vec<RoleName>,
    /// The privileges of its own.
    pub privileges: Privileges,
}

impl Role {
    /// The role that a document of `admin.system.roles` is.
    ///
    /// # Errors
    /// Those of [`Privileges::parse`] and [`Fields`] when it makes no sense.
    pub fn parse(document: Document<'_>) -> Result<Self> {
        let fields = Fields::new("system.roles", document);
        let (role, database) = (fields.required_text("role")?, fields.required_text("db")?);
        Ok(Self {
            name: RoleName { role: role.to_owned(), database: database.to_owned() },
            roles: parse_roles(fields.array("roles")?.unwrap_or(Array::empty()), database)?,
            privileges: Privileges::parse(fields.array("privileges")?.unwrap_or(Array::empty()))?,
        })
    }

    /// The document of `admin.system.roles` that the role is.
    #[must_use]
    pub fn document(&self) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("_id", self.name.key().as_str());
        builder.append("role", self.name.role.as_str()).append("db", self.name.database.as_str());
        self.privileges.append_to(&mut builder, "privileges");
        append_roles(&mut builder, "roles", &self.roles);
        builder.finish()
    }

    /// Checks that the role reaches no further than its database may: those of `admin` reach everything.
    ///
    /// # Errors
    /// `InvalidRoleModification` (49).
    pub fn check_reach(&self) -> Result<()> {
        let database = self.name.database.as_str();
        if database == "admin" {
            return Ok(());
        }
        if self.roles.iter().any(|role| role.database != database) {
            let what = format!("Roles on the '{database}' database cannot be granted roles from other databases");
            return Err(Error::new(ErrorCode::INVALID_ROLE_MODIFICATION, what));
        }
        if self.privileges.iter().any(|privilege| privilege.resource.database() != Some(database)) {
            let what = format!(
                "Roles on the '{database}' database cannot be granted privileges that target other databases or the cluster"
            );
            return Err(Error::new(ErrorCode::INVALID_ROLE_MODIFICATION, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_survives_the_document_and_stays_in_its_database() {
        let json = r#"{"_id":"app.r","role":"r","db":"app","privileges":[{"resource":{"db":"app","collection":"c"},"actions":["find"]}],"roles":[{"role":"read","db":"app"}]}"#;
        let role = Role::parse(DocumentBuf::from_json(json).unwrap().view()).unwrap();
        assert_eq!(role.document().view().to_json(), json);
        role.check_reach().unwrap();
        for (from, to) in
            [(r#""role":"read","db":"app""#, r#""role":"read","db":"b""#), (r#"{"db":"app""#, r#"{"db":"""#)]
        {
            let other = Role::parse(DocumentBuf::from_json(&json.replace(from, to)).unwrap().view()).unwrap();
            assert_eq!(other.check_reach().unwrap_err().code(), ErrorCode::INVALID_ROLE_MODIFICATION);
        }
    }
}
