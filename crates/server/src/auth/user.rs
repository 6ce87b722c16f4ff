//! Users as `admin.system.users` holds them.

use std::fmt;

use spinney_document::bson::{Array, Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::credentials::{Credential, Mechanism};
use crate::base::fields::Fields;

/// A role and the database that it is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleName {
    /// The role.
    pub role: String,
    /// The database.
    pub database: String,
}

impl RoleName {
    /// The `_id` of a role's document.
    #[must_use]
    pub fn key(&self) -> String {
        User::key(&self.database, &self.role)
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.role, self.database)
    }
}

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// The database that the user is of, which is not all that the user may use.
    pub database: String,
    /// The number that tells this user from one who had the name before.
    pub id: [u8; 16],
    /// The credentials, one for each mechanism that the user may use.
    pub credentials: Vec<(Mechanism, Credential)>,
    /// Whether something else than a password proves the user: a certificate.
    pub external: bool,
    /// The roles.
    pub roles: Vec<RoleName>,
    /// What programs keep with the user.
    pub custom_data: Option<DocumentBuf>,
}

/// The roles in an array: names of roles of `database`, and `{role, db}`.
///
/// # Errors
/// `BadValue` (2) for another form, those of [`Fields`].
pub fn parse_roles(roles: Array<'_>, database: &str) -> Result<Vec<RoleName>> {
    roles.values().map(|role| parse_role(role, database)).collect()
}

/// The role that a value names: a role of `database`, or `{role, db}`.
///
/// # Errors
/// As [`parse_roles`].
pub fn parse_role(role: Value<'_>, database: &str) -> Result<RoleName> {
    match (role.as_str(), role.as_document()) {
        (Some(role), _) => Ok(RoleName { role: role.to_owned(), database: database.to_owned() }),
        (None, Some(document)) => {
            let fields = Fields::new("roles", document);
            let (role, database) = (fields.required_text("role")?, fields.required_text("db")?);
            Ok(RoleName { role: role.to_owned(), database: database.to_owned() })
        }
        _ => Err(Error::bad_value("Role names must be either strings or objects")),
    }
}

/// Appends roles as an array of `{role, db}`.
pub fn append_roles<'r>(builder: &mut DocumentBuilder, name: &str, roles: impl IntoIterator<Item = &'r RoleName>) {
    builder.open_array(name);
    for role in roles {
        builder.push_document().append("role", role.role.as_str()).append("db", role.database.as_str()).close();
    }
    builder.close();
}

impl User {
    /// The `_id` of a user's document, and the name by which logs and operations tell the user.
    #[must_use]
    pub fn key(database: &str, name: &str) -> String {
        format!("{database}.{name}")
    }

    /// The user that a document of `admin.system.users` is.
    ///
    /// # Errors
    /// `UnsupportedFormat` (12) or those of [`Fields`] when it makes no sense.
    pub fn parse(document: Document<'_>) -> Result<Self> {
        let fields = Fields::new("system.users", document);
        let (name, database) = (fields.required_text("user")?, fields.required_text("db")?);
        let id = match fields.value("userId") {
            Some(Value::Binary(4, bytes)) => bytes.try_into().unwrap_or_default(),
            _ => [0; 16],
        };
        let mut credentials = Vec::new();
        for element in fields.nested("credentials")?.unwrap_or(Document::empty()) {
            let name = element.name.to_str_lossy();
            // Users of other mechanisms, such as certificates, stay as they are.
            if let (Ok(mechanism), Some(credential)) = (Mechanism::from_name(&name), element.value.as_document()) {
                credentials.push((mechanism, Credential::parse(credential)?));
            }
        }
        let roles = fields.array("roles")?.unwrap_or(Array::empty());
        let external = fields.nested("credentials")?.is_some_and(|all| all.get("external") == Some(Value::Bool(true)));
        Ok(Self {
            external,
            name: name.to_owned(),
            database: database.to_owned(),
            id,
            credentials,
            roles: parse_roles(roles, database)?,
            custom_data: fields.nested("customData")?.map(DocumentBuf::from),
        })
    }

    /// The names of the mechanisms by which the user may log in.
    pub fn mechanisms(&self) -> impl Iterator<Item = &'static str> {
        let scram = self.credentials.iter().map(|(mechanism, _)| mechanism.name());
        scram.chain(self.external.then_some("external"))
    }

    /// The document of `admin.system.users` that the user is.
    #[must_use]
    pub fn document(&self) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("_id", Self::key(&self.database, &self.name).as_str());
        builder.append("userId", Value::Binary(4, &self.id));
        builder.append("user", self.name.as_str()).append("db", self.database.as_str());
        builder.open_document("credentials");
        if self.external {
            builder.append("external", true);
        }
        for (mechanism, credential) in &self.credentials {
            builder.append(mechanism.name(), &credential.document());
        }
        builder.close();
        append_roles(&mut builder, "roles", &self.roles);
        if let Some(data) = &self.custom_data {
            builder.append("customData", data);
        }
        builder.finish()
    }

    /// The credential for a mechanism, if the user has one.
    ///
    /// # Errors
    /// `MechanismUnavailable` (334) when the user may not use the mechanism.
    pub fn credential(&self, mechanism: Mechanism) -> Result<&Credential> {
        let found = self.credentials.iter().find(|(known, _)| *known == mechanism).map(|(_, credential)| credential);
        found.ok_or_else(|| {
            let what = format!("Unable to use {} based authentication for this user", mechanism.name());
            Error::new(ErrorCode::MECHANISM_UNAVAILABLE, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_survives_the_document() {
        let credential = Credential::new(Mechanism::Sha256, "ada", "x", false).unwrap();
        let user = User {
            name: "ada".to_owned(),
            database: "app".to_owned(),
            id: [7; 16],
            credentials: vec![(Mechanism::Sha256, credential)],
            external: false,
            roles: vec![RoleName { role: "read".to_owned(), database: "other".to_owned() }],
            custom_data: Some(spinney_document::doc! {"a": 1}),
        };
        let document = user.document();
        assert!(document.view().to_json().starts_with(r#"{"_id":"app.ada","userId":"#));
        let read = User::parse(document.view()).unwrap();
        assert_eq!(read.document().as_bytes(), document.as_bytes());
        assert!(read.credential(Mechanism::Sha256).is_ok());
        assert_eq!(read.credential(Mechanism::Sha1).unwrap_err().code().number(), 334);
    }

    #[test]
    fn roles_are_names_or_documents() {
        let roles = DocumentBuf::from_json(r#"{"r": ["read", {"role": "readWrite", "db": "b"}], "x": [1]}"#).unwrap();
        let array = |name: &str| roles.view().get(name).unwrap().as_array().unwrap();
        let parsed = parse_roles(array("r"), "a").unwrap();
        let told: Vec<_> = parsed.iter().map(|role| format!("{}.{}", role.database, role.role)).collect();
        assert_eq!(told, ["a.read", "b.readWrite"]);
        assert!(parse_roles(array("x"), "a").is_err());
    }
}
