//! Accumulators as expressions: `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`, `$stdDevSamp` over arguments or an array.

use super::summation::Sum;
use crate::base::Result;
use crate::base::num::nearest_f64;
use crate::bson::Value;
use crate::expr::tree::{Call, Env, function};
use crate::expr::value::Val;

/// Calls `visit` with each value: those of the array when there is one argument, else the arguments themselves.
fn each<'a>(call: &'a Call, env: &Env<'a>, visit: &mut dyn FnMut(Value<'_>)) -> Result<()> {
    if let [single] = &call.arguments[..] {
        let value = single.evaluate(env)?;
        match value.value() {
            Value::Array(array) => array.values().for_each(visit),
            value => visit(value),
        }
        return Ok(());
    }
    for argument in &call.arguments {
        visit(argument.evaluate(env)?.value());
    }
    Ok(())
}

function!(sum(call, env) {
    let mut sum = Sum::default();
    each(call, env, &mut |value| {
        if let Some(number) = value.as_number() {
            sum.add(number, value.kind());
        }
    })?;
    Ok(Val::View(sum.total()))
});

function!(average(call, env) {
    let (mut sum, mut count) = (Sum::default(), 0);
    each(call, env, &mut |value| {
        if let Some(number) = value.as_number() {
            sum.add_for_mean(number, value.kind());
            count += 1;
        }
    })?;
    Ok(if count == 0 { Val::NULL } else { Val::View(sum.mean(count)) })
});

fn extreme<'a>(call: &'a Call, env: &Env<'a>, greatest: bool) -> Result<Val<'a>> {
    let mut best: Option<Val<'static>> = None;
    each(call, env, &mut |value| {
        let better = best.as_ref().is_none_or(|best| {
            let order = env.compare(&value, &best.value());
            if greatest { order.is_gt() } else { order.is_lt() }
        });
        if better && !value.is_nullish() {
            best = Some(Val::Own(value.into()));
        }
    })?;
    Ok(best.unwrap_or(Val::NULL))
}

function!(min(call, env) { extreme(call, env, false) });
function!(max(call, env) { extreme(call, env, true) });

/// A running standard deviation, by Welford's method.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deviation {
    count: i64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        self.count += 1;
        let distance = number - self.mean;
        self.mean += distance / nearest_f64(self.count);
        self.squares += distance * (number - self.mean);
    }

    /// How many numbers were added.
    #[must_use]
    pub const fn count(&self) -> i64 {
        self.count
    }

    /// The deviation of a whole population or of a sample; nothing of too few numbers.
    #[must_use]
    pub fn result(&self, sample: bool) -> Option<f64> {
        let count = if sample { self.count - 1 } else { self.count };
        (count > 0).then(|| (self.squares / nearest_f64(count)).sqrt())
    }
}

fn deviation<'a>(call: &'a Call, env: &Env<'a>, sample: bool) -> Result<Val<'a>> {
    let mut deviation = Deviation::default();
    each(call, env, &mut |value| {
        if let Some(number) = value.as_f64() {
            deviation.add(number);
        }
    })?;
    Ok(deviation.result(sample).map_or(Val::NULL, |result| Val::View(Value::Double(result))))
}

function!(deviation_of_all(call, env) { deviation(call, env, false) });
function!(deviation_of_sample(call, env) { deviation(call, env, true) });
