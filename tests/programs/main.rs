//! Programs of Debian's packages, unchanged, under the counted pass: output, files and exit status as natively.

mod harness;
mod heavy;
mod interpreters;
mod parallel;
mod starters;
mod tools;

/// Tests from rows `NAME needs SCRIPT prepare SCRIPT command SCRIPT`; `full` ones run in `tests/run --full`.
macro_rules! programs {
    (full; $($rows:tt)*) => {
        $crate::programs! { #[ignore = "minutes, large packages; tests/run --full"] $($rows)* }
    };
    ($(#[$attribute:meta])? patience $patience:literal;) => {};
    (
        $(#[$attribute:meta])? patience $patience:literal;
        $name:ident needs $needs:literal prepare $prepare:literal command $command:literal
        $($rows:tt)*
    ) => {
        #[test]
        $(#[$attribute])?
        fn $name() {
            $crate::harness::same($crate::harness::Program {
                name: stringify!($name),
                needs: $needs,
                prepare: $prepare,
                command: $command,
                patience_s: $patience,
            });
        }
        $crate::programs! { $(#[$attribute])? patience $patience; $($rows)* }
    };
}
use programs;
