//! Arithmetic of decimals gives what an independent implementation of IEEE 754 gives.

use spinney_document::bson::Decimal128;
use spinney_document::bson::decimal::Rounding;

fn check(vectors: &str) -> usize {
    let mut count = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<_> = line.split(' ').collect();
        let number = |at: usize| parts[at].parse::<Decimal128>().unwrap();
        let (a, b) = (number(1), number(2));
        let result = match parts[0] {
            "+" => a.plus(b),
            "-" => a.minus(b),
            "*" => a.times(b),
            "/" => a.divided_by(b),
            "%" => a.remainder(b),
            "sqrt" => a.square_root(),
            _ => a.to_integral(Rounding::HalfEven),
        };
        assert_eq!(result.to_string(), parts[3], "{line}");
        count += 1;
    }
    count
}

#[test]
fn operations_agree_with_another_implementation() {
    assert_eq!(check(include_str!("decimals.vectors")), 600);
    if let Some(path) = std::env::var_os("SPINNEY_DECIMAL_VECTORS") {
        eprintln!("{} more operations", check(&std::fs::read_to_string(path).unwrap()));
    }
}
