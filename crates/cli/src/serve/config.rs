//! Options of `serve` from the environment and from a file, as arguments that stand before those of the command line.
//!
//! An option of the command line wins over one of the environment, and that over one of the file. The names are those
//! of the options: `tls-cert` in the file and `SPINNEY_TLS_CERT` in the environment are `--tls-cert`; `db` and
//! `SPINNEY_DB` are the database.

use anyhow::{Context as _, Result, anyhow, bail};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// What comes before the names in the environment.
const PREFIX: &str = "SPINNEY_";

/// The name of the file in the environment.
const FILE: &str = "SPINNEY_CONFIG";

/// An option that is not on the command line: its value, and where that comes from.
struct Setting {
    value: String,
    origin: String,
}

/// The arguments of the process, with those of the environment and of the file in front when it is `serve`.
pub(crate) fn expanded(
    program: &Command,
    args: Vec<OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>> {
    if args.get(1).is_none_or(|command| command != "serve") {
        return Ok(args);
    }
    let serve = program.find_subcommand("serve").context("there is no command serve")?;
    let (given, file) = given(serve, &args);
    let mut settings = match file.or_else(|| variable(FILE).map(PathBuf::from)) {
        Some(file) => of_file(serve, &file)?,
        None => BTreeMap::new(),
    };
    for arg in options(serve) {
        let name = format!("{PREFIX}{}", upper_snake(name_of(arg)));
        if let Some(value) = variable(&name) {
            let value = value.into_string().map_err(|_| anyhow!("{name} is not UTF-8"))?;
            settings.insert(name_of(arg).to_owned(), Setting { value, origin: name });
        }
    }
    let mut all: Vec<OsString> = args.iter().take(2).cloned().collect();
    for arg in options(serve).filter(|arg| !given.contains(&name_of(arg))) {
        if let Some(setting) = settings.get(name_of(arg)) {
            all.extend(argument(serve, arg, setting)?.map(OsString::from));
        }
    }
    all.extend(args.into_iter().skip(2));
    Ok(all)
}

/// What can be set: all options but `--config` and `--help`, and the database.
fn options(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve.get_arguments().filter(|arg| !["help", "config"].contains(&name_of(arg)))
}

/// The name of an option, or `db` for the database.
fn name_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or("db")
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong)
}

/// `tls-cert` and `tlsCert` as `TLS_CERT`.
fn upper_snake(name: &str) -> String {
    let mut upper = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            upper.push('_');
        }
        upper.push(if letter == '-' { '_' } else { letter.to_ascii_uppercase() });
    }
    upper
}

/// The names of what is on the command line, and the file that it names.
fn given<'c>(serve: &'c Command, args: &[OsString]) -> (Vec<&'c str>, Option<PathBuf>) {
    let (mut given, mut file, mut rest) = (Vec::new(), None, args.iter().skip(2));
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let Some(option) = text.strip_prefix("--").filter(|option| !option.is_empty()) else {
            given.push("db");
            continue;
        };
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let has_name = |arg: &&Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        };
        // One that is not known is refused when all are parsed.
        let Some(arg) = serve.get_arguments().find(has_name) else { continue };
        given.push(name_of(arg));
        let value = match value {
            Some(value) => Some(OsString::from(value)),
            None if is_flag(arg) => None,
            None => rest.next().cloned(),
        };
        if name_of(arg) == "config" {
            file = value.map(PathBuf::from);
        }
    }
    (given, file)
}

/// The settings of a file.
fn of_file(serve: &Command, path: &Path) -> Result<BTreeMap<String, Setting>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let table = DeTable::parse(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        anyhow!("{}:{line}: {}", path.display(), error.message())
    })?;
    let mut settings = BTreeMap::new();
    for (name, value) in table.get_ref() {
        let origin = format!("{}:{}", path.display(), line_of(&text, name.span().start));
        let name = name.get_ref().as_ref();
        let Some(arg) = options(serve).find(|arg| name_of(arg) == name) else {
            let known: Vec<_> = options(serve).map(name_of).collect();
            bail!("{origin}: there is no option {name}; there are {}", known.join(", "));
        };
        let value = match value.get_ref() {
            DeValue::Boolean(is) if is_flag(arg) => is.to_string(),
            DeValue::String(text) if !is_flag(arg) => text.to_string(),
            DeValue::Integer(number) if !is_flag(arg) => number.to_string(),
            _ if is_flag(arg) => bail!("{origin}: {name} is true or false"),
            _ => bail!("{origin}: {name} is a string or a whole number"),
        };
        settings.insert(name.to_owned(), Setting { value, origin });
    }
    Ok(settings)
}

/// The number of the line with a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The argument that a setting is, checked alone, so that an error tells where it comes from.
fn argument(serve: &Command, arg: &Arg, setting: &Setting) -> Result<Option<String>> {
    let Setting { value, origin } = setting;
    let argument = match (arg.get_long(), is_flag(arg)) {
        (None, _) => value.clone(),
        (Some(long), false) => format!("--{long}={value}"),
        (Some(long), true) => match value.as_str() {
            "true" | "1" => format!("--{long}"),
            "false" | "0" => return Ok(None),
            other => bail!("{origin}: {other:?} is neither true nor false"),
        },
    };
    let words = [OsStr::new("db"), OsStr::new(&argument)];
    let alone = serve.clone().no_binary_name(true).try_get_matches_from(words);
    match alone {
        // What one option needs beside it is seen when all are there; the database stands twice here when it is it.
        Err(error) if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) => {
            let told = error.to_string();
            // Behind an empty line comes what is told of all options.
            let told: Vec<_> = told.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            bail!("{origin}: {}", told.join(" ").trim_start_matches("error: "))
        }
        _ => Ok(Some(argument)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cli;
    use clap::CommandFactory as _;

    fn expand(args: &[&str], variables: &[(&str, &str)]) -> Result<Vec<String>> {
        let args = args.iter().map(OsString::from).collect();
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let all = expanded(&Cli::command(), args, find)?;
        Ok(all.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spinney.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (dir, path)
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
        let (_dir, path) = file(
            "# where\ndb = \"shop\"\nlisten = \"127.0.0.1:1\"\nunix = \"a.sock\"\nreplSet = \"rs0\"\nauth = true\nlog-json = true\nconnections = 100\n",
        );
        let variables = [("SPINNEY_UNIX", "b.sock"), ("SPINNEY_REPL_SET", "rs1"), ("SPINNEY_LOG_JSON", "false")];
        let args = ["spinney", "serve", "--config", &path, "--repl-set=rs2"];
        let mut all = expand(&args, &variables).unwrap();
        let typed = all.split_off(all.len() - 3);
        assert_eq!(typed, args[2..]);
        all[2..].sort();
        assert_eq!(
            all[2..],
            ["--auth", "--connections=100", "--listen=127.0.0.1:1", "--unix=b.sock", "shop"].map(str::to_owned)
        );
        let variables = [("SPINNEY_CONFIG", path.as_str()), ("SPINNEY_DB", "other")];
        let all = expand(&["spinney", "serve", "mine", "--auth"], &variables).unwrap();
        assert!(!all.iter().any(|word| word == "shop" || word == "other"), "{all:?}");
        assert_eq!(all.iter().filter(|word| *word == "--auth").count(), 1);
    }

    #[test]
    fn other_commands_are_left_alone() {
        let args = ["spinney", "get", "db", "t", "k"];
        assert_eq!(expand(&args, &[("SPINNEY_LISTEN", "x")]).unwrap(), args);
        assert_eq!(expand(&["spinney"], &[]).unwrap(), ["spinney"]);
    }

    #[test]
    fn what_a_file_has_wrong_is_told_with_its_line() {
        for (text, told) in [
            ("listen = \"a\"\n\nport = 1\n", ":3: there is no option port; there are db, "),
            ("config = \"x\"\n", ":1: there is no option config"),
            ("auth = \"yes\"\n", ":1: auth is true or false"),
            ("\nlisten = true\n", ":2: listen is a string or a whole number"),
            ("connections = 0\n", ":1: invalid value '0' for '--connections <N>'"),
            (
                "journal = \"never\"\n",
                ":1: invalid value 'never' for '--journal <DURABILITY>' [possible values: sync, interval, buffered]",
            ),
            ("listen = \"a\"\nlisten = \"b\"\n", ":2: "),
            ("listen = \n", ":1: "),
        ] {
            let (_dir, path) = file(text);
            let error = expand(&["spinney", "serve", "db", "--config", &path], &[]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path}{told}")), "{text}: {error}");
        }
        let error = expand(&["spinney", "serve", "db"], &[("SPINNEY_AUTH", "yes")]).unwrap_err().to_string();
        assert_eq!(error, "SPINNEY_AUTH: \"yes\" is neither true nor false");
        assert!(expand(&["spinney", "serve", "--config", "/none"], &[]).is_err());
    }

    #[test]
    fn the_example_names_every_option_rightly() {
        let text = include_str!("../../../../packaging/spinney.toml");
        let plain: String =
            text.lines().map(|line| line.strip_prefix("#= ").unwrap_or(line).to_owned() + "\n").collect();
        let (_dir, path) = file(&plain);
        let program = Cli::command();
        let serve = program.find_subcommand("serve").unwrap();
        let settings = of_file(serve, Path::new(&path)).unwrap();
        for arg in options(serve) {
            let setting = settings.get(name_of(arg)).unwrap_or_else(|| panic!("{} is not told", name_of(arg)));
            argument(serve, arg, setting).unwrap();
        }
    }
}
