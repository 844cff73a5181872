//! The names under which functions are shown: short enough to read, and different for different functions.

use std::cell::RefCell;
use std::collections::HashMap;

use rprof_profile::names;

/// Shortens names. Two that would become one, as instances of a template may, are numbered from the second on: `sum<…> #2`.
#[derive(Debug, Default)]
pub struct ShownNames {
    full: bool,
    /// The full names that each short one represents, in the order of their numbers.
    of_short: RefCell<HashMap<String, Vec<String>>>,
}

impl ShownNames {
    /// Names stay as they are if `full`.
    pub fn new(full: bool) -> Self {
        ShownNames { full, ..ShownNames::default() }
    }

    /// The name under which `name` is shown, the same each time.
    pub fn of(&self, name: &str) -> String {
        let short = names::shorten(name, names::SHOWN);
        if self.full || short == name {
            return name.to_owned();
        }
        let mut of_short = self.of_short.borrow_mut();
        let full = of_short.entry(short.clone()).or_default();
        let index = full.iter().position(|known| known == name).unwrap_or_else(|| {
            full.push(name.to_owned());
            full.len() - 1
        });
        names::numbered(short, index + 1)
    }

    /// The same, and the full name if that differs.
    pub fn with_full(&self, name: &str) -> (String, Option<String>) {
        let shown = self.of(name);
        let full = (shown != name).then(|| name.to_owned());
        (shown, full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(of: &str) -> String {
        format!("sum<{}{of}>(double const*)", "deeply::nested::".repeat(10))
    }

    #[test]
    fn instances_that_are_shortened_alike_have_numbers() {
        let shown = ShownNames::new(false);
        assert_eq!(shown.of(&instance("Alpha")), "sum<…>(double const*)");
        assert_eq!(shown.of(&instance("Beta")), "sum<…>(double const*) #2");
        assert_eq!(shown.with_full(&instance("Alpha")).0, "sum<…>(double const*)");
        assert_eq!(shown.of(&instance("Beta")), "sum<…>(double const*) #2");
        assert_eq!(shown.with_full("sum<int>"), ("sum<int>".to_owned(), None));
    }

    #[test]
    fn full_names_stay() {
        let shown = ShownNames::new(true);
        assert_eq!(shown.with_full(&instance("Beta")), (instance("Beta"), None));
    }
}
