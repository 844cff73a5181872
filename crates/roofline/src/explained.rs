//! How much of a program's time the analysis explains.

use rprof_profile::Profile;

/// The class of a function with a time that no ceiling explains.
const UNKNOWN: &str = "unknown";

/// The share of the CPU time that is in functions with a class.
pub fn explained_share(profile: &Profile) -> f64 {
    let is_explained = |class: &Option<String>| class.as_deref().is_some_and(|class| class != UNKNOWN);
    let explained = profile.functions.iter().filter(|f| is_explained(&f.analysis.class));
    explained.filter_map(|f| f.share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::Function;
    use rprof_profile::function::Analysis;

    #[test]
    fn functions_without_a_class_are_not_explained() {
        let function = |class: Option<&str>, share| {
            let analysis = Analysis { class: class.map(str::to_owned), ..Analysis::default() };
            Function { share: Some(share), analysis, ..Function::default() }
        };
        let functions = vec![function(Some("ilp"), 0.5), function(Some(UNKNOWN), 0.3), function(None, 0.2)];
        assert_eq!(explained_share(&Profile { functions, ..Profile::default() }), 0.5);
    }
}
