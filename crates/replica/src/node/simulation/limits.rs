//! What waits for a lost majority ends by its limit of time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::life::within;
use super::member::{Answer, Running};
use super::turns::in_turns;
use super::world::World;

/// The limit of time of each command. A primary leads on for longer after it lost its majority.
const LIMIT_MS: u64 = 300;

/// How much later it may end.
const LATE: Duration = Duration::from_millis(100);

/// The code of what its limit of time ended.
const OUT_OF_TIME: i32 = 50;

/// What is there before.
const BEFORE: [&str; 4] = [
    r#"{"create": "plain"}"#,
    r#"{"create": "capped", "capped": true, "size": 4096}"#,
    r#"{"createIndexes": "plain", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#,
    r#"{"insert": "plain", "documents": [{"_id": 0, "a": 1}]}"#,
];

/// Commands that wait for a majority by themselves.
const COMMANDS: [&str; 10] = [
    r#""insert": "plain", "documents": [{"a": 2}]"#,
    r#""update": "plain", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}]"#,
    r#""delete": "plain", "deletes": [{"q": {"_id": 0}, "limit": 1}]"#,
    r#""findAndModify": "plain", "query": {"_id": 0}, "update": {"$inc": {"a": 1}}"#,
    r#""insert": "capped", "documents": [{"a": 2}]"#,
    r#""insert": "created", "documents": [{"a": 2}]"#,
    r#""create": "created""#,
    r#""createIndexes": "plain", "indexes": [{"key": {"b": 1}, "name": "b"}]"#,
    r#""collMod": "plain", "validationAction": "error""#,
    r#""drop": "plain""#,
];

/// Commands, and what waits for a majority before them and has what they need.
const BEHIND_OTHERS: [(&str, &str); 5] = [
    (COMMANDS[4], COMMANDS[4]),
    (COMMANDS[7], COMMANDS[9]),
    (COMMANDS[8], COMMANDS[8]),
    (COMMANDS[9], COMMANDS[7]),
    (COMMANDS[5], COMMANDS[6]),
];

async fn primary(world: &World) -> (usize, Running) {
    loop {
        sleep(Duration::from_millis(10)).await;
        if let Some(primary) = world.primary() {
            return primary;
        }
    }
}

/// Runs a command on a primary that has just lost its majority, behind another one that waits for that, if there is
/// one.
async fn run(world: &Arc<World>, command: &str, other: Option<&str>) {
    let (at, member) = primary(world).await;
    world.cut(|from, to| from == at || to == at);
    let waits = other.map(|other| {
        let (member, other) = (member.clone(), format!("{{{other}}}"));
        tokio::spawn(in_turns(move || drop(member.run("app", &other))))
    });
    sleep(Duration::from_millis(20)).await;
    let command = format!(r#"{{{command}, "maxTimeMS": {LIMIT_MS}}}"#);
    in_turns(move || {
        let begun = Instant::now();
        let answer = member.run("app", &command);
        let took = begun.elapsed();
        assert!(matches!(answer, Answer::Failed(OUT_OF_TIME, _)), "{command}: {answer:?} after {took:?}");
        assert!(took <= Duration::from_millis(LIMIT_MS) + LATE, "{command} took {took:?}");
        assert!(member.is_writable(), "{command}: the primary leads on meanwhile");
    })
    .await;
    world.heal();
    if let Some(waits) = waits {
        waits.await.unwrap();
    }
    // One that lost its majority may still be about to learn it.
    sleep(Duration::from_secs(3)).await;
}

/// Runs each command on a set of a seed.
pub(super) fn check(seed: u64) {
    within(seed, Some(3), async |world| {
        let alone = COMMANDS.iter().map(|command| (*command, None));
        for (command, other) in alone.chain(BEHIND_OTHERS.iter().map(|(command, other)| (*command, Some(*other)))) {
            let (_, member) = primary(world).await;
            in_turns(move || {
                for before in BEFORE {
                    // It may be there from the time before.
                    drop(member.run("app", before));
                }
                drop(member.run("app", r#"{"drop": "created"}"#));
            })
            .await;
            run(world, command, other).await;
        }
    });
}
