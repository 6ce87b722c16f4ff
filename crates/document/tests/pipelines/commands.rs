//! The commands whose answers a pipeline gives too: `find`, `count` and `distinct`, over collections and views.

use spinney_document::bson::{Array, DocumentBuf};
use spinney_document::command::Service;
use spinney_testkit::rng::Rng;

use super::case::{World, array, in_any_order, in_this_order, json, stages_of};
use super::draw;

/// A command, and the pipeline that gives the same.
pub(crate) struct Asked {
    source: &'static str,
    command: String,
    stages: String,
    /// The field of the reply that has the answer.
    answer: Answer,
}

enum Answer {
    /// The documents, in this order.
    Documents,
    /// How many there are.
    Count,
    /// Values in any order, which the pipeline has as `_id`s.
    Values,
}

impl Asked {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let source = *rng.pick(&["c", "c", "v1", "v2", "v3"]);
        let filter = if rng.chance(15) { "{}".to_owned() } else { draw::filter(rng, 1) };
        let hint = if rng.chance(10) { ",'hint':{'$natural':1}" } else { "" };
        let (skip, limit) = (rng.in_range(0..3), rng.in_range(1..9));
        match rng.in_range(0..4) {
            0 => Self {
                source,
                command: format!("{{'count':'{source}','query':{filter}{hint}}}"),
                stages: format!("[{{'$match':{filter}}},{{'$count':'n'}}]"),
                answer: Answer::Count,
            },
            1 => Self {
                source,
                command: format!("{{'count':'{source}','query':{filter},'skip':{skip},'limit':{limit}}}"),
                stages: format!("[{{'$match':{filter}}},{{'$skip':{skip}}},{{'$limit':{limit}}},{{'$count':'n'}}]"),
                answer: Answer::Count,
            },
            2 => {
                let path = rng.pick(&["a", "b", "c", "n", "_id"]);
                // An array stands for its values, and an empty one for none.
                let values = format!("{{'$unwind':{{'path':'${path}','preserveNullAndEmptyArrays':true}}}}");
                let given = format!("{{'$match':{{'{path}':{{'$exists':true}}}}}}");
                Self {
                    source,
                    command: format!("{{'distinct':'{source}','key':'{path}','query':{filter}{hint}}}"),
                    stages: format!("[{{'$match':{filter}}},{values},{given},{{'$group':{{'_id':'${path}'}}}}]"),
                    answer: Answer::Values,
                }
            }
            _ => {
                let (path, way) = (rng.pick(&["a", "b", "n", "a.b", "c"]), rng.pick(&["1", "-1"]));
                let filter = if rng.chance(40) { draw::range(rng, path) } else { filter };
                let sort = format!("{{'{path}':{way},'_id':{}}}", rng.pick(&["1", "-1"]));
                let shown = rng.pick(&["{'a':1}", "{'n':1,'_id':0}", "{'a.b':1,'c':1}", "{'b':0}", "{'a':1,'n':1}"]);
                Self {
                    source: "c",
                    command: format!(
                        "{{'find':'c','filter':{filter},'sort':{sort},'skip':{skip},'limit':{limit},'projection':{shown}{hint}}}"
                    ),
                    stages: format!(
                        "[{{'$match':{filter}}},{{'$sort':{sort}}},{{'$skip':{skip}}},{{'$limit':{limit}}},{{'$project':{shown}}}]"
                    ),
                    answer: Answer::Documents,
                }
            }
        }
    }

    /// What differs, if anything; nothing also where the pipeline is refused.
    pub(crate) fn differs(&self, world: &World) -> Option<String> {
        let stages = stages_of(&self.stages);
        let expected = world.plain.run(self.source, array(&stages)).ok()?;
        let expected = self.expected(&expected);
        [("without indexes", &world.natural), ("with indexes", &world.indexed)].into_iter().find_map(
            |(name, service)| {
                let found = self.answer(service).unwrap_or_else(|error| vec![error]);
                let told = || {
                    format!("{name}: {} over {}\nfound    {found:?}\nexpected {expected:?}", self.command, self.source)
                };
                (found != expected).then(told)
            },
        )
    }

    fn answer(&self, service: &Service) -> Result<Vec<String>, String> {
        let reply = service.run_command("d", json(&self.command).view()).map_err(|error| error.to_string())?;
        let reply = reply.view();
        let documents = |values: Array<'_>| -> Vec<DocumentBuf> {
            values.values().filter_map(|value| value.as_document().map(DocumentBuf::from)).collect()
        };
        Ok(match self.answer {
            Answer::Count => vec![reply.get("n").and_then(|n| n.as_exact_i64()).unwrap_or_default().to_string()],
            Answer::Documents => {
                let cursor = reply.get("cursor").and_then(|cursor| cursor.as_document()).unwrap();
                let batch = cursor.get("firstBatch").and_then(|batch| batch.as_array()).unwrap();
                in_this_order(&documents(batch))
            }
            Answer::Values => {
                let values = reply.get("values").and_then(|values| values.as_array()).unwrap();
                let values: Vec<_> = values.values().map(|value| spinney_document::doc! {"_id": value}).collect();
                in_any_order(&values)
            }
        })
    }

    fn expected(&self, documents: &[DocumentBuf]) -> Vec<String> {
        match self.answer {
            Answer::Count => {
                let count = documents.first().and_then(|document| document.view().get("n")?.as_exact_i64());
                vec![count.unwrap_or_default().to_string()]
            }
            Answer::Documents => in_this_order(documents),
            Answer::Values => in_any_order(documents),
        }
    }
}
