//! `--fail-if CONDITION`: a question about a comparison.
//!
//! ```text
//! FIGURE>N%           a function whose figure grew by more than N percent, and by more than its error
//! FIGURE<N%           … fell by more
//! FIGURE(NAME)>N%     the function or loop NAME alone
//! FIGURE(NAME)>N      whose figure is now beyond N, by more than its error (base units; < likewise)
//! program.FIGURE>N%   the sum over all functions that both profiles have counted
//! class  class(NAME)  something else holds a function now
//! class(NAME)=CLASS   CLASS holds it now      class(NAME)!=CLASS   something else than CLASS does
//! ```

use rprof_profile::vocabulary::Class;
use std::str::FromStr;

use crate::name::shorten;

use super::figure::Figure;

/// The owner of the figure that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Any function that has a part of the program worth judging.
    Any,
    /// The sum over all functions.
    Program,
    /// A function or loop.
    Named(String),
}

/// The question.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Grew by more than this share of the value before.
    Grows(Figure, f64),
    /// Fell by more than this share.
    Falls(Figure, f64),
    /// Is more than this now.
    Above(Figure, f64),
    /// Is less than this now.
    Below(Figure, f64),
    /// Something else holds it.
    ClassChanges,
    /// This class holds it now.
    ClassIs(Class),
    /// Another class than this holds it now.
    ClassIsNot(Class),
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// As it was given.
    pub text: String,
    pub subject: Subject,
    pub test: Test,
}

/// An error in a condition. Its display is one line with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCondition {
    #[error("{0}: there is no figure {1}; figures: {list}, class", list = figures())]
    Figure(String, String),
    #[error("{0}: > or < and a limit must follow, for instance {1}>5%")]
    NoLimit(String, String),
    #[error("{0}: {1} is no limit; expected a number, or a number of percent such as 5%")]
    Limit(String, String),
    #[error("{0}: a class is not more or less; expected class(NAME), class(NAME)=CLASS or class(NAME)!=CLASS")]
    ClassOrder(String),
    #[error("{0}: there is no class {1}; one of {list}", list = classes())]
    Class(String, String),
    #[error("{0}: a closing bracket is missing, or the name is empty; expected {1}(NAME)>5%")]
    Name(String, String),
    #[error("{0}: {1} has no sum over the program with an error; ask for one function: {1}(NAME)>5%")]
    NoSum(String, &'static str),
    #[error("{0}: a class is of one function; expected class(NAME)")]
    ProgramClass(String),
    #[error("{0}: a limit without % is of one function, {1}(NAME), or of the program, program.{1}")]
    LimitOfAny(String, &'static str),
}

fn figures() -> String {
    Figure::ALL.map(Figure::name).join(", ")
}

fn classes() -> String {
    let known = Class::ALL.iter().map(|class| class.name()).filter(|name| class_of(name).is_some());
    known.collect::<Vec<_>>().join(", ")
}

/// The class of that name, if a function of the CPU can have it.
fn class_of(name: &str) -> Option<Class> {
    Class::of_name(name).filter(|class| class.is_known() && !name.starts_with("gpu-"))
}

impl FromStr for Condition {
    type Err = BadCondition;

    fn from_str(given: &str) -> Result<Self, BadCondition> {
        let given = given.trim();
        let text = shorten(given, 200);
        let (of_program, rest) = match given.strip_prefix("program.") {
            Some(rest) => (true, rest),
            None => (false, given),
        };
        let end = rest.find(['(', '<', '>', '=', '!']).unwrap_or(rest.len());
        let (figure, rest) = (rest[..end].trim(), &rest[end..]);
        let shown = shorten(figure, 60);
        if figure != "class" && Figure::named(figure).is_none() {
            return Err(BadCondition::Figure(text, shown));
        }
        let (subject, limit) = match rest.strip_prefix('(') {
            None if of_program => (Subject::Program, rest),
            None => (Subject::Any, rest),
            Some(inner) => {
                // Names may contain brackets and signs of order; a limit contains no bracket.
                let close = inner.rfind(')').filter(|close| !of_program && !inner[..*close].trim().is_empty());
                let close = close.ok_or_else(|| BadCondition::Name(text.clone(), shown.clone()))?;
                (Subject::Named(inner[..close].trim().to_owned()), &inner[close + 1..])
            }
        };
        let test = match Figure::named(figure) {
            None => class(limit.trim(), &subject, &text)?,
            Some(figure) => of_figure(figure, limit.trim(), &subject, &text)?,
        };
        Ok(Condition { text, subject, test })
    }
}

fn class(limit: &str, subject: &Subject, text: &str) -> Result<Test, BadCondition> {
    if *subject == Subject::Program {
        return Err(BadCondition::ProgramClass(text.to_owned()));
    }
    let known = |name: &str| {
        let name = name.trim();
        class_of(name).ok_or_else(|| BadCondition::Class(text.to_owned(), shorten(name, 60)))
    };
    match (limit, limit.strip_prefix("!="), limit.strip_prefix('=')) {
        ("", ..) => Ok(Test::ClassChanges),
        (_, Some(name), _) => Ok(Test::ClassIsNot(known(name)?)),
        (_, _, Some(name)) => Ok(Test::ClassIs(known(name.trim_start_matches('='))?)),
        _ => Err(BadCondition::ClassOrder(text.to_owned())),
    }
}

fn of_figure(figure: Figure, limit: &str, subject: &Subject, text: &str) -> Result<Test, BadCondition> {
    let bad = |limit: &str| BadCondition::Limit(text.to_owned(), shorten(limit.trim(), 60));
    let (is_above, number) = match (limit.strip_prefix('>'), limit.strip_prefix('<')) {
        (Some(number), _) => (true, number.trim()),
        (_, Some(number)) => (false, number.trim()),
        _ => return Err(BadCondition::NoLimit(text.to_owned(), figure.name().to_owned())),
    };
    if *subject == Subject::Program && !figure.adds_up() {
        return Err(BadCondition::NoSum(text.to_owned(), figure.name()));
    }
    let percent = number.strip_suffix('%').map(str::trim);
    let value: f64 = percent.unwrap_or(number).parse().map_err(|_| bad(number))?;
    if !value.is_finite() || value < 0.0 {
        return Err(bad(number));
    }
    match (percent.is_some(), is_above) {
        (true, true) => Ok(Test::Grows(figure, value / 100.0)),
        (true, false) => Ok(Test::Falls(figure, value / 100.0)),
        (false, _) if *subject == Subject::Any => Err(BadCondition::LimitOfAny(text.to_owned(), figure.name())),
        (false, true) => Ok(Test::Above(figure, value)),
        (false, false) => Ok(Test::Below(figure, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Subject, Test) {
        let condition: Condition = text.parse().unwrap_or_else(|e| panic!("{e}"));
        (condition.subject, condition.test)
    }

    #[test]
    fn every_figure_can_be_asked_for() {
        for figure in Figure::ALL {
            let name = figure.name();
            assert_eq!(parsed(&format!("{name}>5%")), (Subject::Any, Test::Grows(figure, 0.05)));
            assert_eq!(
                parsed(&format!(" {name}(a b) < 2.5 % ")),
                (Subject::Named("a b".into()), Test::Falls(figure, 0.025))
            );
        }
        assert_eq!(parsed("time_s>0%"), (Subject::Any, Test::Grows(Figure::Time, 0.0)));
        assert_eq!(
            parsed("roof_fraction(f)<0.8"),
            (Subject::Named("f".into()), Test::Below(Figure::RoofFraction, 0.8))
        );
        assert_eq!(parsed("program.instructions>1e9"), (Subject::Program, Test::Above(Figure::Instructions, 1e9)));
    }

    #[test]
    fn names_may_hold_brackets_and_signs_of_order() {
        let (subject, _) = parsed("time(ns::f<int>(double, char (*)(int)) const)>5%");
        assert_eq!(subject, Subject::Named("ns::f<int>(double, char (*)(int)) const".into()));
        let (subject, _) = parsed("flops(operator>(a, b))>5%");
        assert_eq!(subject, Subject::Named("operator>(a, b)".into()));
    }

    #[test]
    fn classes_are_equal_or_not() {
        let named = || Subject::Named("f".into());
        assert_eq!(parsed("class"), (Subject::Any, Test::ClassChanges));
        assert_eq!(parsed("class(f)"), (named(), Test::ClassChanges));
        assert_eq!(parsed("class(f)=simd"), (named(), Test::ClassIs(Class::Simd)));
        assert_eq!(parsed("class(f) != dram-bandwidth"), (named(), Test::ClassIsNot(Class::DramBandwidth)));
    }

    #[test]
    fn a_bad_condition_is_one_line_that_says_what_is_wrong() {
        for (text, told) in [
            ("tim>5%", "there is no figure tim; figures: time, instructions,"),
            ("", "there is no figure ;"),
            ("time", "> or < and a limit must follow, for instance time>5%"),
            ("time=5%", "> or < and a limit must follow"),
            ("time>x%", "x% is no limit"),
            ("time>-3%", "-3% is no limit"),
            ("time>nan%", "nan% is no limit"),
            ("time(f>5%", "a closing bracket is missing"),
            ("time()>5%", "the name is empty"),
            ("class(f)>5%", "a class is not more or less"),
            ("class(f)=memory", "there is no class memory; one of dram-bandwidth,"),
            ("program.time>5%", "time has no sum over the program"),
            ("program.class", "a class is of one function"),
            ("flops>100", "a limit without % is of one function, flops(NAME)"),
            ("\u{1b}[31m\n>5%", "there is no figure ?[31m;"),
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains(told) && !error.contains(['\n', '\u{1b}']), "{text}: {error}");
        }
    }
}
