//! The arguments of the hidden command `rprof __demo`.

use super::error::DemoError;
use super::kernels::Kernel;
use super::variant::Variant;

/// The request to `rprof __demo`.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Kernels to run and their passes; `None`: as many as fill `seconds`.
    pub runs: Vec<(&'static Kernel, Option<u64>)>,
    /// Seconds for kernels without passes.
    pub seconds: Option<f64>,
    /// Print the kernels' names instead.
    pub list: bool,
    /// Use this instruction set instead of the widest.
    pub isa: Option<Variant>,
    /// Print each kernel's own time on standard error.
    pub timing: bool,
}

impl Request {
    /// Reads `--list`, `--timing`, `--isa ISA`, `--seconds S`, `--kernel NAME [--passes N]` and `NAME=PASSES`. No
    /// kernel named: the demo's.
    pub fn parse(arguments: &[String]) -> Result<Request, DemoError> {
        let mut request = Request::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let number = |text: Option<&String>| {
                text.and_then(|t| t.parse().ok()).ok_or_else(|| DemoError::Argument(argument.clone()))
            };
            match argument.as_str() {
                "--list" => request.list = true,
                "--timing" => request.timing = true,
                "--isa" => {
                    let isa = rest.next().and_then(|name| Variant::named(name));
                    request.isa = Some(isa.ok_or_else(|| DemoError::Argument(argument.clone()))?);
                }
                "--seconds" => request.seconds = Some(number(rest.next())?),
                "--kernel" => {
                    let name = rest.next().ok_or_else(|| DemoError::Argument(argument.clone()))?;
                    request.runs.push((named(name)?, None));
                }
                "--passes" => {
                    let passes = number(rest.next())?;
                    let last = request.runs.last_mut().ok_or_else(|| DemoError::Argument(argument.clone()))?;
                    last.1 = Some(passes as u64);
                }
                other => {
                    let (name, passes) = other.split_once('=').ok_or_else(|| DemoError::Argument(argument.clone()))?;
                    let passes = passes.parse().map_err(|_| DemoError::Argument(argument.clone()))?;
                    request.runs.push((named(name)?, Some(passes)));
                }
            }
        }
        Ok(request)
    }
}

fn named(name: &str) -> Result<&'static Kernel, DemoError> {
    Kernel::named(name).ok_or_else(|| DemoError::UnknownKernel(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request, DemoError> {
        Request::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn reads_both_forms() {
        let request = parse("--timing --isa avx2 --kernel peak --passes 7 --kernel int div=9 --seconds 0.25").unwrap();
        let runs: Vec<_> = request.runs.iter().map(|(k, n)| (k.name, *n)).collect();
        assert_eq!(runs, [("peak", Some(7)), ("int", None), ("div", Some(9))]);
        assert_eq!((request.seconds, request.timing, request.list), (Some(0.25), true, false));
        assert_eq!(request.isa, Some(Variant::Avx2));
    }

    #[test]
    fn names_what_it_cannot_read() {
        assert!(parse("--kernel nonesuch").unwrap_err().to_string().contains("nonesuch"));
        for bad in ["--passes 3", "peak=many", "--seconds", "peak", "--kernel peak --passes x", "--isa neon"] {
            assert!(matches!(parse(bad), Err(DemoError::Argument(_))), "{bad}");
        }
    }
}
