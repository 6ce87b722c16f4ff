//! The page around tables and charts.

use super::chart::escape;
use super::{details, step, tables};
use crate::report::{Report, Summary, date, remarks, sources};

const CSS: &str = include_str!("page.css");

/// A page that shows a report.
#[must_use]
pub(crate) fn page(report: &Report) -> String {
    let summary = Summary::new(report);
    let title = format!("{}: {}", report.benchmark, names(&summary));
    let mut body = head(report, &summary);
    if !summary.steps.is_empty() {
        body += &tables::overview(&summary);
        for at in 0..summary.steps.len() {
            body += &step::section(&summary, at);
        }
    }
    body += &details::section(report, &summary);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(&title)
    )
}

fn names(summary: &Summary<'_>) -> String {
    summary.engines.iter().map(|engine| engine.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What ran and where, what to know before reading on, and links to the steps.
fn head(report: &Report, summary: &Summary<'_>) -> String {
    let parameters: Vec<String> = report.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let mut text = format!("<h1>{}</h1>\n<dl>\n", escape(&report.benchmark));
    let repeated = match summary.repetitions {
        0 | 1 => "once".to_owned(),
        many => {
            format!("{many} times, engines in turns; tables show medians, charts of time the run nearest to the median")
        }
    };
    let missing: Vec<String> =
        report.missing.iter().map(|missing| format!("{}: {}", missing.engine, missing.why)).collect();
    let facts = [
        ("command", report.command.clone()),
        ("with", parameters.join(", ")),
        ("machine", report.machine.line()),
        ("began", [date(report.began), report.machine.state()].join("; ").trim_end_matches("; ").to_owned()),
        ("build", report.build.line()),
        ("features", report.build.features.replace(',', ", ")),
        ("run", repeated),
        ("missing", missing.join("; ")),
    ];
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        let fact = escape(fact);
        let fact = if *name == "command" { format!("<code>{fact}</code>") } else { fact };
        text += &format!("<dt>{name}</dt><dd>{fact}</dd>\n");
    }
    text += "</dl>\n";
    let remarks = remarks(report);
    if !remarks.is_empty() {
        let items: String = remarks.iter().map(|remark| format!("<li>{}</li>\n", escape(remark))).collect();
        text += &format!("<ul class=\"remarks\">\n{items}</ul>\n");
    }
    let links = summary
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| format!("<a href=\"#step{at}\">{}</a>", escape(&step.label())));
    text += &format!("<nav>{}</nav>\n", links.collect::<Vec<_>>().join(" "));
    let sources = sources(report).iter().map(|source| escape(source)).collect::<Vec<_>>().join("; ");
    text + &format!("<p class=\"note\">{sources}.</p>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Step;
    use crate::report::fixture::{large, report, run, step};

    /// Elements that are opened and not closed, or the other way round.
    fn unbalanced(text: &str) -> Vec<String> {
        let (mut open, mut wrong) = (Vec::new(), Vec::new());
        for tag in text.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            let name = tag.split([' ', '\n']).next().unwrap().to_owned();
            if let Some(name) = name.strip_prefix('/') {
                if open.pop().as_deref() != Some(name) {
                    wrong.push(name.to_owned());
                }
            } else if !tag.ends_with('/') && !["!DOCTYPE", "meta"].contains(&&*name) {
                open.push(name);
            }
        }
        wrong.extend(open);
        wrong
    }

    #[test]
    fn a_page_is_whole_and_needs_nothing_else() {
        let text = page(&large());
        assert!(unbalanced(&text).is_empty(), "{:?}", unbalanced(&text));
        for foreign in ["<script", "href=\"http", "src=", "url(", "@import", "NaN", "inf\""] {
            assert!(!text.contains(foreign), "{foreign}");
        }
        assert!(text.contains("Processor &lt;X&gt; &amp; &quot;Y&quot;"));
        assert!(text.contains("but &lt;LZ4&gt; for filters &amp; indexes"));
    }

    #[test]
    fn every_engine_is_in_every_chart() {
        let report = large();
        let text = page(&report);
        let charts: Vec<&str> = text.split("<svg").skip(1).map(|chart| chart.split("</svg>").next().unwrap()).collect();
        assert!(charts.len() > 40, "{}", charts.len());
        for chart in charts.iter().filter(|chart| !chart.contains("the shape")) {
            for engine in ["spinney-btree", "spinney-lsm-tiered", "innodb*"] {
                assert!(chart.contains(&format!(">{engine}<")), "{engine}: {chart}");
            }
        }
    }

    #[test]
    fn reports_with_little_in_them_have_pages_too() {
        let skipped = Step::skipped("l.x", "row", "no".to_owned());
        let bare = Step { name: "bare".to_owned(), ..Step::default() };
        for runs in [vec![], vec![run("a", 0, vec![])], vec![run("a", 0, vec![skipped, bare, step("load", 3.0)])]] {
            let text = page(&report(runs));
            assert!(unbalanced(&text).is_empty() && !text.contains("NaN"), "{text}");
        }
    }
}
