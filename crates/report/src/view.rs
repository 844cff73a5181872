//! Which part of a profile a report shows, and its width.

use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile};

use super::flamegraph::Flames;

/// Which operations' ceilings the pictures draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Double.
    Dp,
    /// Single.
    Sp,
    /// That in which most FLOPs were done.
    #[default]
    Mixed,
    /// Instructions, whether they compute or not.
    Instructions,
}

/// Decides whether the report shows a function of this name.
pub type NameFilter = Box<dyn Fn(&str) -> bool>;

/// How much the text report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// The verdict and the functions with most to save.
    #[default]
    Brief,
    /// Everything about one function (`--function`).
    Function,
    /// Everything about the hottest functions and the run (`--all`).
    All,
}

/// Choices of the user that concern only the presentation.
pub struct View {
    /// Characters of the terminal, 80 to 200 are laid out well.
    pub width: usize,
    /// `--full-names`.
    pub full_names: bool,
    /// Functions below this share are left out of tables (never the first five).
    pub least_share: f64,
    /// `--function RE`: whether a name is shown.
    pub keep: Option<NameFilter>,
    /// `--precision`.
    pub precision: Precision,
    /// How much the text report says.
    pub extent: Extent,
    /// The meaning of the widths of a flame graph.
    pub flames: Flames,
    /// The profile as the user names it, for commands that the report suggests.
    pub source: String,
}

impl Default for View {
    fn default() -> Self {
        View {
            width: 100,
            full_names: false,
            least_share: 0.005,
            keep: None,
            precision: Precision::Mixed,
            extent: Extent::Brief,
            flames: Flames::Time,
            source: "PROFILE".into(),
        }
    }
}

/// Functions with at least this share are explained and advised.
const EXPLAINED_SHARE: f64 = 0.05;
/// How many are explained at most.
const EXPLAINED: usize = 6;

impl View {
    /// Whether the name of `f`, shortened or whole, is wanted.
    pub fn keeps(&self, f: &Function) -> bool {
        self.keeps_name(&f.name) || f.full_name.as_deref().is_some_and(|name| self.keeps_name(name))
    }

    /// Whether `name`, of a function or of a kernel, is wanted.
    pub fn keeps_name(&self, name: &str) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep(name))
    }

    /// The functions with a wanted name, in the profile's order.
    pub fn kept<'a>(&'a self, profile: &'a Profile) -> impl Iterator<Item = &'a Function> + 'a {
        profile.functions.iter().filter(|f| self.keeps(f))
    }

    /// The one function with a wanted name; `None` if all are wanted, or several match.
    pub fn only<'a>(&'a self, profile: &'a Profile) -> Option<&'a Function> {
        self.keep.as_ref()?;
        let mut kept = self.kept(profile);
        kept.next().filter(|_| kept.next().is_none())
    }

    /// The functions to show, in the profile's order (descending share).
    pub fn functions<'a>(&'a self, profile: &'a Profile) -> impl Iterator<Item = &'a Function> + 'a {
        self.kept(profile)
            .enumerate()
            .filter(|(i, f)| {
                *i < 5
                    || self.keep.is_some()
                    || f.analysis.expected.is_some()
                    || f.share.unwrap_or(0.0) >= self.least_share
                    // Its time is in MPI alone.
                    || f.share.is_none() && f.analysis.class.is_some_and(is_of_network)
            })
            .map(|(_, f)| f)
    }

    /// The functions that get an explanation beside their row of the table.
    pub fn explained<'a>(&'a self, profile: &'a Profile) -> impl Iterator<Item = &'a Function> + 'a {
        let hot = |f: &&Function| self.keep.is_some() || f.share.unwrap_or(0.0) >= EXPLAINED_SHARE;
        self.functions(profile).filter(hot).take(EXPLAINED)
    }

    /// How wide a name may be if `normal` fits the layout.
    pub fn name_width(&self, normal: usize) -> usize {
        if self.full_names { usize::MAX } else { normal }
    }
}

/// Whether a class is one of communication, as for functions with their time in calls of MPI.
fn is_of_network(class: Class) -> bool {
    matches!(class, Class::WaitingForRanks | Class::NetworkLatency | Class::NetworkBandwidth)
}
