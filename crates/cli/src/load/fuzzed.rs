//! Any bytes as JSON lines: they are refused, or each line has a key.

use super::fields::{join, key_text, of_json, parse_path};
use super::lines::Lines;
use spinney::base::key::KEY_BYTES_MAX;

/// Says whether all lines have a key.
pub(super) fn run(input: &[u8]) -> bool {
    let field = parse_path("id").expect("a path");
    let (mut lines, mut last, mut all, mut key) = (Lines::new(input), 0, true, Vec::new());
    loop {
        let Ok(advanced) = lines.advance() else { return false };
        if !advanced {
            return all;
        }
        let (number, line) = (lines.number(), lines.line());
        assert!(number > last && !line.contains(&b'\n') && input.windows(line.len()).any(|part| part == line));
        last = number;
        let found = of_json(line, &[&field]).and_then(|found| {
            let texts = found.into_iter().map(|raw| key_text(raw, &field));
            join(std::slice::from_ref(&field), b"/", texts, &mut key)
        });
        match found {
            Ok(()) => assert!((1..=KEY_BYTES_MAX).contains(&key.len())),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                all = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_testkit::fuzz::Inputs;
    use spinney_testkit::parallel;
    use std::path::Path;

    #[test]
    fn any_bytes_are_refused_or_lines_with_keys() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/json_lines");
        let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let seeds: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(seeds.iter().all(|seed| run(seed)), "a seed is refused");
        let inputs = Inputs::new(&seeds);
        for number in 0..20 * parallel::count_from_env("SPINNEY_FUZZ", 1000) {
            let input = inputs.input(number);
            assert!(std::panic::catch_unwind(|| run(&input)).is_ok(), "input {number}");
        }
    }
}
