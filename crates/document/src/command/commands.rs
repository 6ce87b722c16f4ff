//! Commands: declarations with the functions that run them, and the table of them all.

use std::collections::HashMap;

use super::call::{Call, Commands, NeedOf, Needs, Reply};
use super::spec::{Access, Declaration, Field, Privilege, Target};
use crate::base::Result;

/// Runs a command whose fields have been checked.
pub type Run = for<'c, 'r> fn(&'c Call<'r>) -> Result<Reply>;

/// A command, with a function of the library or one of its own kind.
#[derive(Clone, Copy, Debug)]
pub struct Command<R = Run> {
    /// What is known of it before it runs.
    pub declaration: Declaration,
    /// What it does.
    pub run: R,
    /// What it needs of its client.
    pub needs: Needs,
    /// Tells how it would be done, for commands that `explain` takes.
    pub explain: Option<R>,
}

impl Command {
    /// A command of the library without fields.
    #[must_use]
    pub const fn new(name: &'static str, target: Target, help: &'static str, run: Run) -> Self {
        Self::with(name, target, help, run)
    }
}

impl<R: Copy> Command<R> {
    /// A command without fields, with a function of any kind. Until it declares what it needs, no client may run it.
    #[must_use]
    pub const fn with(name: &'static str, target: Target, help: &'static str, run: R) -> Self {
        Self { declaration: Declaration::new(name, target, help), run, needs: Needs::Undeclared, explain: None }
    }

    /// The same command with other names that it has.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { declaration: Declaration { aliases, ..self.declaration }, ..self }
    }

    /// The same command with fields.
    #[must_use]
    pub const fn fields(self, fields: &'static [Field]) -> Self {
        Self { declaration: Declaration { fields, ..self.declaration }, ..self }
    }

    /// The same command, which takes other fields as well.
    #[must_use]
    pub const fn any_fields(self) -> Self {
        Self { declaration: Declaration { any_fields: true, ..self.declaration }, ..self }
    }

    /// The same command with the privileges that it needs of its client.
    #[must_use]
    pub const fn needs(self, privileges: &'static [Privilege]) -> Self {
        Self { needs: Needs::All(privileges), ..self }
    }

    /// The same command, of which the fields tell what it needs of its client.
    #[must_use]
    pub const fn needs_by(self, need: NeedOf) -> Self {
        Self { needs: Needs::By(need), ..self }
    }

    /// The same command for every client that has logged in.
    #[must_use]
    pub const fn needs_login(self) -> Self {
        Self { needs: Needs::Login, ..self }
    }

    /// The same command for every client, also for one that has not logged in.
    #[must_use]
    pub const fn needs_nothing(self) -> Self {
        let declaration = Declaration { before_login: true, ..self.declaration };
        Self { declaration, needs: Needs::Nothing, ..self }
    }

    /// The same command, which reads documents.
    #[must_use]
    pub const fn reads(self) -> Self {
        Self { declaration: Declaration { access: Access::Read, ..self.declaration }, ..self }
    }

    /// The same command, which writes.
    #[must_use]
    pub const fn writes(self) -> Self {
        Self { declaration: Declaration { access: Access::Write, ..self.declaration }, ..self }
    }

    /// The same command, which a transaction may contain.
    #[must_use]
    pub const fn in_transactions(self) -> Self {
        Self { declaration: Declaration { in_transaction: true, ..self.declaration }, ..self }
    }

    /// The same command, which is part of the stable API.
    #[must_use]
    pub const fn stable(self) -> Self {
        Self { declaration: Declaration { stable: true, ..self.declaration }, ..self }
    }

    /// The same command, which only the database `admin` has.
    #[must_use]
    pub const fn admin_only(self) -> Self {
        Self { declaration: Declaration { everywhere: false, ..self.declaration }, ..self }
    }

    /// The same command, which `explain` takes.
    #[must_use]
    pub const fn explained(self, explain: R) -> Self {
        Self { explain: Some(explain), ..self }
    }
}

/// All commands.
#[derive(Debug)]
pub struct Table {
    commands: Vec<Command>,
    /// The commands' places by all of their names.
    names: HashMap<&'static str, usize>,
}

impl Table {
    /// The table of commands.
    ///
    /// # Panics
    /// When two commands have one name.
    #[must_use]
    pub fn new(families: &[&'static [Command]]) -> Self {
        let mut commands: Vec<Command> = families.iter().flat_map(|family| family.iter().copied()).collect();
        commands.sort_by_key(|command| command.declaration.name);
        let mut names = HashMap::new();
        for (at, command) in commands.iter().enumerate() {
            for name in command.declaration.aliases.iter().chain([&command.declaration.name]) {
                assert!(names.insert(*name, at).is_none(), "two commands are called {name}");
            }
        }
        Self { commands, names }
    }

    fn get(&self, name: &str) -> Option<&Command> {
        self.names.get(name).and_then(|at| self.commands.get(*at))
    }
}

impl Table {
    /// The same table, where some commands are explained by these functions.
    #[must_use]
    pub fn with_explained(mut self, explained: &[(&str, Run)]) -> Self {
        for (name, explain) in explained {
            let at = self.names.get(name).copied();
            if let Some(command) = at.and_then(|at| self.commands.get_mut(at)) {
                command.explain = Some(*explain);
            }
        }
        self
    }
}

impl Commands for Table {
    fn find(&self, name: &str) -> Option<&Declaration> {
        self.get(name).map(|command| &command.declaration)
    }

    fn all(&self) -> Vec<&Declaration> {
        self.commands.iter().map(|command| &command.declaration).collect()
    }

    fn run(&self, call: &Call<'_>) -> Result<Reply> {
        match self.get(call.command.name) {
            Some(command) => (command.run)(call),
            None => Err(super::call::no_such_command(call.command.name)),
        }
    }

    fn needs(&self, name: &str) -> Needs {
        self.get(name).map_or(Needs::Undeclared, |command| command.needs)
    }

    fn explain(&self, call: &Call<'_>) -> Option<Result<Reply>> {
        self.get(call.command.name).and_then(|command| command.explain).map(|explain| explain(call))
    }
}
