//! How much of a program's time the analysis explains.

use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile};

/// The share of the CPU time that is in functions with a class.
pub fn explained_share(profile: &Profile) -> f64 {
    let is_explained = |f: &&Function| f.analysis.class.is_some_and(Class::is_known);
    let explained = profile.functions.iter().filter(is_explained);
    explained.filter_map(|f| f.share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::Analysis;

    #[test]
    fn functions_without_a_class_are_not_explained() {
        let function = |class: Option<Class>, share| {
            let analysis = Analysis { class, ..Analysis::default() };
            Function { share: Some(share), analysis, ..Function::default() }
        };
        let functions = vec![function(Some(Class::Ilp), 0.5), function(Some(Class::Unknown), 0.3), function(None, 0.2)];
        assert_eq!(explained_share(&Profile { functions, ..Profile::default() }), 0.5);
    }
}
