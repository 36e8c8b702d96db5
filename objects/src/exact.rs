//! Sums of numbers that are the same in any order of addition, on any placement of the objects that add them.
//!
//! Invariant: no digit of a sum is lost before it is rounded, once, at its end.

use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// The lowest bit of the smallest number is this far below one.
const LOWEST: i64 = 1074;
const DIGIT_BITS: i64 = 32;
/// From there to the highest bit of the largest number, and 64 bits more for as many additions.
const DIGITS: usize = ((LOWEST + 1024 + 64) / DIGIT_BITS + 1) as usize;
/// Number of 32-bit parts added to a digit before a carry.
const ADDED_MAX: u32 = 1 << 30;
const _: () = assert!(DIGITS as i64 * DIGIT_BITS > LOWEST + 1024 + 64, "a digit of the largest sum is lost");
const _: () = assert!((ADDED_MAX as u64 + 1) << DIGIT_BITS <= i64::MAX as u64, "a digit overflows before its carry");

/// A sum of doubles, as one long number with digits of 32 bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exact {
    #[serde(deserialize_with = "digits")]
    digits: Vec<i64>,
    added: u32,
    /// The sum of the values that are not finite, if any: infinities, and NaN.
    other: Option<f64>,
}

/// Reads the digits of a sum from another rank. Refuses a wrong number of digits, and digits so large that adding two sums
/// would overflow.
fn digits<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
    let digits = Vec::deserialize(deserializer)?;
    let are_small = digits.iter().all(|digit: &i64| digit.unsigned_abs() <= 1 << 62)
        && digits.last().is_some_and(|last| last.unsigned_abs() <= 1 << 60);
    if digits.len() == DIGITS && are_small {
        Ok(digits)
    } else {
        Err(D::Error::custom("the digits of a sum are damaged"))
    }
}

impl Default for Exact {
    fn default() -> Exact {
        Exact { digits: vec![0; DIGITS], added: 0, other: None }
    }
}

impl Exact {
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.other = Some(self.other.unwrap_or(0.0) + value);
            return;
        }
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
        // A number is mantissa * 2^(shift - 1074).
        let (mantissa, shift) = if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let sign = if value.is_sign_negative() { -1 } else { 1 };
        let (first, within) = ((shift / DIGIT_BITS) as usize, shift % DIGIT_BITS);
        let wide = u128::from(mantissa) << within;
        for part in 0..3 {
            self.digits[first + part] += sign * (wide >> (part as u32 * 32) & 0xffff_ffff) as i64;
        }
        self.added += 1;
        if self.added == ADDED_MAX {
            self.carry();
        }
    }

    pub fn add_all(&mut self, other: &Exact) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.digits.iter_mut().zip(&other.digits).for_each(|(digit, more)| *digit += more);
        self.carry();
        if let Some(more) = other.other {
            self.other = Some(self.other.unwrap_or(0.0) + more);
        }
    }

    /// The sum, rounded to the nearest double, ties to even.
    pub fn value(&self) -> f64 {
        if let Some(other) = self.other {
            return other;
        }
        let mut all = self.clone();
        all.carry();
        // Only the last digit has a sign.
        let negative = all.digits[DIGITS - 1] < 0;
        if negative {
            all.digits.iter_mut().for_each(|digit| *digit = -*digit);
            all.carry();
        }
        let Some(high) = all.digits.iter().rposition(|digit| *digit != 0) else { return 0.0 };
        // The 96 highest bits and the presence of any lower bit decide.
        let digit = |at: usize| all.digits.get(at).copied().unwrap_or(0) as u128;
        let low = high.saturating_sub(2);
        let mut wide = digit(low + 2) << 64 | digit(low + 1) << 32 | digit(low);
        let rest = all.digits[..low].iter().any(|digit| *digit != 0);
        wide = wide << 1 | u128::from(rest);
        let exponent = low as i64 * DIGIT_BITS - LOWEST - 1;
        let value = scaled(wide, exponent);
        if negative { -value } else { value }
    }

    /// Brings every digit but the last into the range 0 to 2^32 - 1.
    fn carry(&mut self) {
        let mut carry = 0;
        let last = DIGITS - 1;
        for digit in &mut self.digits[..last] {
            let sum = *digit + carry;
            (*digit, carry) = (sum & 0xffff_ffff, sum >> 32);
        }
        self.digits[last] += carry;
        debug_assert!(self.digits[..last].iter().all(|digit| (0..1 << DIGIT_BITS).contains(digit)));
        self.added = 0;
    }
}

/// `wide` * 2^`exponent`, rounded once.
fn scaled(wide: u128, exponent: i64) -> f64 {
    let bits = 128 - i64::from(wide.leading_zeros());
    // Number of bits of the result: 53, or fewer near zero.
    let keep = 53.min(bits + exponent + LOWEST);
    if keep < 0 {
        return 0.0;
    }
    let drop = (bits - keep).max(0) as u32;
    let (mut kept, dropped) = if drop >= 128 { (0, wide) } else { (wide >> drop, wide & ((1_u128 << drop) - 1)) };
    let half = if drop == 0 { 0 } else { 1_u128 << (drop - 1) };
    if drop > 0 && (dropped > half || dropped == half && kept & 1 == 1) {
        kept += 1;
    }
    let power = exponent + i64::from(drop);
    // Exact in two steps: the number has at most 53 bits.
    let (first, second) = (power / 2, power - power / 2);
    kept as f64 * 2_f64.powi(first as i32) * 2_f64.powi(second as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = Exact::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.value()
    }

    #[test]
    fn one_number_is_its_own_sum() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..100_000 {
            let value = f64::from_bits(random.u64(..));
            if value.is_finite() {
                assert_eq!(sum(&[value]), value, "{value:e}");
            }
        }
        for value in [0.0, f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX, -f64::MAX, 1.0] {
            assert_eq!(sum(&[value]), value);
        }
    }

    #[test]
    fn two_numbers_have_the_sum_that_the_processor_rounds() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..100_000 {
            let near = random.u64(..) >> 12;
            let exponent = random.u64(1000..1060) << 52;
            let (a, b) = (f64::from_bits(random.u64(..)), f64::from_bits(exponent | near));
            let other = f64::from_bits(random.u64(1000..1060) << 52 | random.u64(..) >> 12);
            for (a, b) in [(a, b), (b, other), (b, -other)] {
                if a.is_finite() && (a + b).is_finite() {
                    assert_eq!(sum(&[a, b]), a + b, "{a:e} + {b:e}");
                }
            }
        }
    }

    #[test]
    fn no_order_and_no_grouping_changes_a_sum() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut values: Vec<f64> = (0..1000).map(|_| (random.f64() - 0.5) * 10_f64.powi(random.i32(-30..30))).collect();
        let expected = sum(&values);
        for _ in 0..50 {
            random.shuffle(&mut values);
            let at = random.usize(..values.len());
            let (mut low, mut high) = (Exact::default(), Exact::default());
            values[..at].iter().for_each(|value| low.add(*value));
            values[at..].iter().for_each(|value| high.add(*value));
            low.add_all(&high);
            assert_eq!(low.value(), expected);
        }
        assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
        assert!(sum(&[f64::INFINITY, 1.0]).is_infinite() && sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }
}
