//! Commands of many statements.

use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};

use super::set::Set;

const SESSION: &str = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000003"}},"txnNumber":{"$numberLong":"#;

#[test]
fn the_statements_of_a_command_are_agreed_on_together_and_each_has_its_own_end() {
    let set = Set::initiated(3);
    let primary = set.member(set.primary());
    let service = Service::new(primary.database.clone());
    let run_in = |database: &str, command: &str| {
        let (body, client) = (DocumentBuf::from_json(command).unwrap(), Client::default());
        let request = Request { database, body: body.view(), sequences: &[], client: &client };
        service.run(&request).view().to_json()
    };
    let run = |command: &str| run_in("app", command);
    let list = |each: &dyn Fn(u32) -> String| (0..100).map(each).collect::<Vec<_>>().join(",");
    let documents = list(&|id| format!(r#"{{"_id":{id},"n":0}}"#));
    run(&format!(r#"{{"insert":"c","documents":[{documents}]}}"#));

    let updates = list(&|id| format!(r#"{{"q":{{"_id":{id}}},"u":{{"$inc":{{"n":1}}}}}}"#));
    let update = format!(r#"{{"update":"c","updates":[{updates}],{SESSION}"1"}}}}"#);
    let before = primary.node.status().last;
    let reply = run(&update);
    assert!(reply.contains(r#""n":100,"nModified":100"#), "{reply}");
    assert_eq!(primary.node.status().last, before + 1, "one entry of the log");
    let again = run(&update);
    assert!(again.contains(r#""n":100,"nModified":100"#) && again.contains("retriedStmtIds"), "{again}");
    let found = run(r#"{"count":"c","query":{"n":1}}"#);
    assert!(found.contains(r#""n":100"#), "{found}");

    let some = r#"{"q":{"_id":1},"u":{"$inc":{"n":1}}},{"q":{"_id":2},"u":{"$inc":{"_id":1}}},{"q":{"_id":3},"u":{"$inc":{"n":1}}}"#;
    for (number, ordered, done) in [(2, true, 1), (3, false, 2)] {
        let reply = run(&format!(r#"{{"update":"c","updates":[{some}],"ordered":{ordered},{SESSION}"{number}"}}}}"#));
        assert!(reply.contains(&format!(r#""n":{done},"nModified":{done},"#)), "{reply}");
        assert!(reply.contains(r#""index":1,"#) && !reply.contains(r#""index":2,"#), "{reply}");
    }
    let found = run(r#"{"distinct":"c","key":"n","query":{"_id":{"$in":[1,3]}}}"#);
    assert!(found.contains(r#""values":[2,3]"#), "{found}");

    // A later statement sees what an earlier one did.
    let upserts = r#"{"q":{"_id":"new"},"u":{"$inc":{"n":1}},"upsert":true},{"q":{"_id":"new"},"u":{"$inc":{"n":1}},"upsert":true}"#;
    let reply = run(&format!(r#"{{"update":"c","updates":[{upserts}],{SESSION}"4"}}}}"#));
    assert!(reply.contains(r#""upserted":[{"index":0,"_id":"new"}],"nModified":1"#), "{reply}");

    // In a `bulkWrite`, those of a collection that follow each other: here a hundred and an insert, and one that fails.
    let bulk = |operations: &str, number: u32| {
        let namespaces = r#""nsInfo":[{"ns":"app.c"}]"#;
        let command = format!(r#"{{"bulkWrite":1,"ops":[{operations}],{namespaces},{SESSION}"{number}"}}}}"#);
        run_in("admin", &command)
    };
    let changes = list(&|id| {
        let update = format!(r#"{{"update":0,"filter":{{"_id":{id}}},"updateMods":{{"$inc":{{"m":1}}}}}}"#);
        if id == 50 { format!(r#"{update},{{"insert":0,"document":{{"_id":"bulk"}}}}"#) } else { update }
    });
    let before = primary.node.status().last;
    let reply = bulk(&changes, 6);
    assert!(reply.contains(r#""nErrors":0,"nInserted":1,"nMatched":100,"nModified":100"#), "{reply}");
    assert_eq!(primary.node.status().last, before + 3, "three entries of the log");
    let again = bulk(&changes, 6);
    assert!(again.contains(r#""nModified":100"#) && again.contains("retriedStmtIds"), "{again}");
    let found = run(r#"{"count":"c","query":{"m":1}}"#);
    assert!(found.contains(r#""n":100"#), "{found}");
    let fails = r#"{"update":0,"filter":{"_id":1},"updateMods":{"$inc":{"m":1}}},{"delete":0,"filter":{"_id":"bulk"}},{"update":0,"filter":{"_id":2},"updateMods":{"$inc":{"_id":1}}},{"update":0,"filter":{"_id":3},"updateMods":{"$inc":{"m":1}}}"#;
    let reply = bulk(fails, 7);
    assert!(
        reply.contains(r#""nErrors":1,"nInserted":0,"nMatched":1,"nModified":1,"nUpserted":0,"nDeleted":1"#),
        "{reply}"
    );
    assert!(reply.contains(r#""idx":2,"code":66"#) && !reply.contains(r#""idx":3"#), "{reply}");

    let deletes = list(&|id| format!(r#"{{"q":{{"_id":{id}}},"limit":1}}"#));
    let before = primary.node.status().last;
    let reply = run(&format!(r#"{{"delete":"c","deletes":[{deletes}],{SESSION}"8"}}}}"#));
    assert!(reply.contains(r#""n":100"#), "{reply}");
    assert_eq!(primary.node.status().last, before + 1, "one entry of the log");
    let people = run(r#"{"validate":"c","full":true}"#);
    assert!(people.contains(r#""valid":true"#), "{people}");
    set.check_equal();
}
