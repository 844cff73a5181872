//! One function per subcommand: from parsed arguments to library calls and printed text.

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use rprof::cli::{self, demo, diff, doctor, events, machine, mcp, merge, predict, run};
use rprof::layers;
use rprof::profile::network::Network;
use rprof::profile::{Function, Profile};
use rprof::report::{self, Extent, Format, Precision, View};
use rprof::roofline::ImbalancePosition;
use rprof::session::launcher::LaunchedRank;
use rprof::session::output::OutputFolder;
use rprof::session::{self, CollectedPart, Engine, GpuCounts, Memory, Passes, RunOptions};

use crate::given::{self, Given};

/// `rprof [run]`.
pub fn run(args: run::RunArgs) -> Result<u8> {
    let view = view(args.function.as_deref(), args.precision, args.full_names);
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        bad_option(&format!("--from {from} --to {to}: nothing lies between"));
    }
    if let (Some(run::PassesArg::Timed), run::MemoryArg::Exact) = (args.passes, args.memory) {
        bad_option(
            "--memory exact: memory is simulated in the counted pass, which --passes timed leaves out; give one of both",
        );
    }
    if args.tries && !matches!(args.passes, None | Some(run::PassesArg::Timed | run::PassesArg::Both)) {
        bad_option("--try: copies are made of a native run; give it alone, or with --passes timed or both");
    }
    let from_s = args.from.or(args.delay);
    let to_s = args.to.or(args.duration.map(|duration| from_s.unwrap_or(0.0) + duration));
    let output = RankOutput { merges: !args.no_merge, quiet: args.quiet };
    let options = RunOptions {
        pid: args.pid,
        program: args.program,
        output: args.output,
        passes: args.passes.or(args.once.then_some(run::PassesArg::Single)).map(|p| match p {
            run::PassesArg::Auto => Passes::Auto,
            run::PassesArg::Single => Passes::Single,
            run::PassesArg::Timed => Passes::Timed,
            run::PassesArg::Counted => Passes::Counted,
            run::PassesArg::Both => Passes::Both,
        }),
        repeat_below_s: args.repeat_below,
        budget: args.budget,
        tries: args.tries,
        memory: match args.memory {
            run::MemoryArg::Off => Memory::Off,
            run::MemoryArg::Sampled => Memory::Sampled,
            run::MemoryArg::Exact => Memory::Exact,
        },
        frequency_hz: args.frequency,
        between: args.between,
        collected: CollectedPart { from_s, to_s },
        imbalance: imbalance_position(args.imbalance),
        full_names: args.full_names,
        quiet: args.quiet,
        gpu_counts: match args.gpu_counts {
            run::GpuCountsArg::Auto => GpuCounts::Auto,
            run::GpuCountsArg::On => GpuCounts::On,
            run::GpuCountsArg::L2 => GpuCounts::L2,
            run::GpuCountsArg::Off => GpuCounts::Off,
        },
        engine: match args.engine {
            run::EngineArg::Translator => Engine::Translator,
            run::EngineArg::SingleStep => Engine::SingleStep,
        },
        counters_from: args.counters_from,
    };
    let outcome = session::profile(&options)?;
    let named = args.function.as_ref().and_then(|wanted| pattern_of_named(&outcome.profile, wanted));
    let view = named.map_or(view, |pattern| self::view(Some(&pattern), args.precision, args.full_names));
    match outcome.rank.clone() {
        Some(rank) => finish_rank(outcome, &rank, view, output),
        None => finish(outcome, view),
    }
}

/// Whether the ranks of a job merge their profiles, and print.
#[derive(Debug, Clone, Copy)]
struct RankOutput {
    merges: bool,
    quiet: bool,
}

/// Writes the files of a rank. The last one of its job to do so merges the profiles of all ranks, and prints the report.
fn finish_rank(outcome: session::Outcome, rank: &LaunchedRank, view: View, output: RankOutput) -> Result<u8> {
    let view = &View { source: shell_word(&outcome.folder.path().display().to_string()), ..view };
    let (path, status) = (outcome.folder.path().to_owned(), outcome.end.exit_code());
    // The program ran: a rank that fails would end the others.
    let tell = |error: &anyhow::Error| {
        let _ = writeln!(stderr(), "rprof: rank {}: {error}", rank.rank);
    };
    let written = write_files(&outcome.folder, &outcome.profile, view)
        .and_then(|_| Ok(session::rank_calls::write(&outcome.folder, &outcome.profile)?));
    if let Err(error) = written {
        tell(&error);
        return Ok(status);
    }
    let is_last = session::job::is_last(&path, rank);
    if let (true, true, Some(base)) = (is_last, output.merges, path.parent()) {
        let to = if output.quiet { Print::Nothing } else { Print::Stderr };
        merge_job(base, false, to).unwrap_or_else(|error| tell(&error));
    } else if rank.ranks.is_none() && !output.quiet {
        let _ = writeln!(stderr(), "rprof: written to {}; merge the ranks with rprof merge", path.display());
    }
    Ok(status)
}

/// The stream that a merged report is printed to, besides its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Print {
    Nothing,
    Stderr,
    Stdout,
}

/// Merges the ranks in a job's folder, and writes the result beside them.
fn merge_job(base: &Path, partial: bool, to: Print) -> Result<()> {
    let profile = session::launches::merged(base, partial)?;
    let source = shell_word(&base.display().to_string());
    let view = View { source, ..view(None, run::PrecisionArg::Mixed, false) };
    write_files(&OutputFolder::existing(base), &profile, &view)?;
    let text = || report::render(&profile, Format::Text, &view);
    match to {
        Print::Nothing => {}
        Print::Stdout => print(text()?)?,
        Print::Stderr => {
            let _ = write!(stderr(), "{}", text()?);
            let ranks = profile.run.ranks.len();
            let _ = writeln!(
                stderr(),
                "Written to {}: the merged profile, rank-N of each of {ranks} ranks",
                base.display()
            );
        }
    }
    Ok(())
}

/// `rprof demo`.
pub fn demo(args: demo::DemoArgs) -> Result<u8> {
    let view = view(None, run::PrecisionArg::Mixed, false);
    let outcome = if args.gpu {
        session::demo::gpu(args.output, args.quiet)?
    } else {
        session::demo::profile(args.output, args.quiet)?
    };
    finish(outcome, view)
}

/// Writes the files of a report, each whole or not at all, and those that can be if others cannot. Returns their names.
fn write_files(folder: &OutputFolder, profile: &Profile, view: &View) -> Result<Vec<&'static str>> {
    let (mut all, mut names) = (Ok(()), Vec::new());
    for file in report::files(profile, view) {
        let (name, content) = file?;
        let written = folder.write(name, content.as_bytes());
        all = all.and(written);
        names.push(name);
    }
    let stale: Vec<&str> = report::SOMETIMES.into_iter().filter(|name| !names.contains(name)).collect();
    all.and(folder.remove(&stale))?;
    Ok(names)
}

/// Writes the report files, prints the report also if that failed, and hands on the program's exit status.
fn finish(outcome: session::Outcome, view: View) -> Result<u8> {
    let folder = outcome.folder.path();
    let view = &View { source: shell_word(&folder.display().to_string()), ..view };
    let written = write_files(&outcome.folder, &outcome.profile, view);
    // Standard error may be gone; the program's status is handed on all the same.
    let _ = write!(stderr(), "{}", report::render(&outcome.profile, Format::Text, view)?);
    let names = written?;
    let _ = writeln!(stderr(), "Written to {}: {}", folder.display(), names.join(", "));
    let status = outcome.end.exit_code();
    // The process ends; to free the pieces of a large profile takes as long as to draw its pictures.
    std::mem::forget(outcome.profile);
    Ok(status)
}

fn imbalance_position(choice: run::ImbalanceArg) -> ImbalancePosition {
    match choice {
        run::ImbalanceArg::Roof => ImbalancePosition::BelowRoof,
        run::ImbalanceArg::Tlp => ImbalancePosition::BelowTlp,
    }
}

fn view(function: Option<&str>, precision: run::PrecisionArg, full_names: bool) -> View {
    let keep = match function {
        None => None,
        Some(text) => {
            let pattern = regex::Regex::new(&pattern_of_pieces(text).unwrap_or_else(|| text.to_owned()))
                .unwrap_or_else(|error| bad_option(&format!("--function {text}: {}", reason(&error))));
            Some(Box::new(move |name: &str| pattern.is_match(name)) as Box<dyn Fn(&str) -> bool>)
        }
    };
    let precision = match precision {
        run::PrecisionArg::Dp => Precision::Dp,
        run::PrecisionArg::Sp => Precision::Sp,
        run::PrecisionArg::Mixed => Precision::Mixed,
        run::PrecisionArg::Instructions => Precision::Instructions,
    };
    View { width: width(), full_names, keep, precision, ..View::default() }
}

/// Anything may be at the place where a name was shortened.
fn pattern_of_pieces(text: &str) -> Option<String> {
    let pieces: Vec<String> = text.split('…').map(regex::escape).collect();
    (pieces.len() > 1).then(|| format!("^{}$", pieces.join(".*")))
}

/// The functions that are called `wanted`, else those that are printed so: a name is meant literally.
fn pattern_of_named(profile: &Profile, wanted: &str) -> Option<String> {
    let names = |is_it: &dyn Fn(&Function) -> bool| -> Vec<String> {
        profile.functions.iter().filter(|f| is_it(f)).map(|f| regex::escape(&f.name)).collect()
    };
    let mut named = names(&|f| f.is_called(wanted));
    if named.is_empty() {
        named = names(&|f| f.is_shown_as(wanted));
    }
    (!named.is_empty()).then(|| format!("^({})$", named.join("|")))
}

/// Columns of the terminal that the report goes to.
fn width() -> usize {
    const NARROWEST: usize = 80;
    const WIDEST: usize = 200;
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(NARROWEST + 20, |(w, _)| usize::from(w.0))
        .clamp(NARROWEST, WIDEST)
}

/// `rprof report`.
pub fn report(args: cli::report::ReportArgs) -> Result<ExitCode> {
    let given = match (&args.profile, &args.perf) {
        (Some(profile), _) => Given::read(profile, args.rank)?,
        (None, Some(recording)) => Given::of_perf(recording, args.full_names)?,
        (None, None) => anyhow::bail!("report: name a profile, or a recording with --perf"),
    };
    if let Some(to) = args.output.as_ref().filter(|to| given.is(to)) {
        anyhow::bail!("-o {}: the report is made of this file; name another", to.display());
    }
    if !args.format.is_text() && args.output.is_none() && std::io::stdout().is_terminal() {
        let format = args.format.name();
        bad_choice(&format!("--format {format} is no text for a terminal: give -o FILE, or redirect the output"));
    }
    let source = shell_word(&given.name.display().to_string());
    let mut profile = given.profile;
    if let Some(wanted) = args.function.as_ref().filter(|_| !args.format.has_part()) {
        let (format, word) = (args.format.name(), shell_word(wanted));
        bad_choice(&format!(
            "--function: --format {format} has the whole profile; use --format csv, or: rprof query {source} --json explain {word}"
        ));
    }
    if args.full_names {
        for f in &mut profile.functions {
            if let Some(full) = f.full_name.take() {
                f.name = full;
            }
        }
    }
    rprof::roofline::analyse_with(
        &mut profile,
        rprof::roofline::Options { imbalance: imbalance_position(args.imbalance) },
    );
    let extent = match (&args.function, args.all) {
        (_, true) => Extent::All,
        (Some(_), false) => Extent::Function,
        (None, false) => Extent::Brief,
    };
    let pattern = args.function.as_ref().map(|wanted| pattern_of_named(&profile, wanted).unwrap_or(wanted.clone()));
    let flames = match args.by {
        cli::report::FlamesArg::Time => report::Flames::Time,
        cli::report::FlamesArg::Lost => report::Flames::Lost,
    };
    let view = View { extent, source, flames, ..view(pattern.as_deref(), args.precision, args.full_names) };
    if let Some(wanted) = args.function.filter(|_| view.kept(&profile).next().is_none()) {
        bad_choice(&report::near::NoSuchName::of(&profile, format!("--function {wanted}"), &wanted).to_string());
    }
    let content = report::bytes(&profile, args.format, &view)?;
    match args.output {
        Some(path) => session::output::write_whole(&path, &content)?,
        None => print(&content)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `text` as one word of a shell's command line.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// `rprof query`.
pub fn query(args: cli::query::QueryArgs) -> Result<ExitCode> {
    use cli::query::{ByArg, Question};
    use report::query::{By, Query};
    let profile = Given::read(&args.profile, args.rank)?.profile;
    let new = match &args.question {
        Question::Compare { new, .. } => Some(Given::read(new, args.rank)?.profile),
        _ => None,
    };
    let source = args.profile.display().to_string();
    let question = match (&args.question, &new) {
        (Question::Verdict, _) => Query::Verdict { source: &source },
        (Question::Top { by, limit }, _) => {
            let by = match by {
                ByArg::Saving => By::Saving,
                ByArg::Time => By::Time,
                ByArg::Lost => By::Lost,
            };
            Query::Top { by, limit: *limit }
        }
        (Question::Explain { name }, _) => Query::Explain { name },
        (Question::Compare { limit, .. }, Some(new)) => Query::Compare { new, limit: *limit },
        (Question::Compare { .. }, None) => unreachable!("it was read"),
        (Question::Ceilings { prefix, limit }, _) => Query::Ceilings { prefix, limit: *limit },
        (Question::Mpi { limit }, _) => Query::Mpi { limit: *limit },
    };
    if args.json {
        print(serde_json::to_string_pretty(&report::query::json(&profile, &question)?)? + "\n")?;
    } else {
        print(report::query::text(&profile, &question, &View { width: width(), ..View::default() })?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a regular expression was refused, in one line: the last line of the parser's message, which shows the place in the lines
/// before.
fn reason(error: &regex::Error) -> String {
    let told = error.to_string();
    let last = told.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
    format!("not a regular expression that rprof can use ({last})")
}

/// Exits with 2 after one line, as clap does for the errors that it finds.
pub fn bad_option(what: &str) -> ! {
    bad_choice(&format!("{what}; see rprof --help"))
}

/// The same, if no help is needed.
fn bad_choice(what: &str) -> ! {
    let _ = writeln!(stderr(), "rprof: {what}");
    std::process::exit(2)
}

/// Standard output; a reader that has gone away (`| head`) is no error.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    match std::io::stdout().write_all(text.as_ref()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// `rprof doctor`.
pub fn doctor(args: doctor::DoctorArgs) -> Result<ExitCode> {
    let diagnosis = session::doctor::examine();
    if args.json {
        print(serde_json::to_string_pretty(&diagnosis)? + "\n")?;
    } else {
        print(rprof::counters::listing::doctor_text(&diagnosis))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `rprof events`.
pub fn events(args: events::EventsArgs) -> Result<ExitCode> {
    let subject = session::certificates::Subject::of(args.counters_from.as_deref())?;
    let mut listing = subject.listing();
    let certificates = if args.check { subject.check(&mut listing) } else { Vec::new() };
    if args.json {
        print(serde_json::to_string_pretty(&listing)? + "\n")?;
    } else {
        print(rprof::counters::listing::events_text(&listing))?;
    }
    Ok(ExitCode::from(u8::from(rprof::counters::check::any_refuted(&certificates))))
}

/// `rprof __demo`: the program that `rprof demo` profiles.
pub fn demo_kernels(args: demo::KernelArgs) -> Result<ExitCode> {
    rprof::demo::run_kernels(&args.args)?;
    Ok(ExitCode::SUCCESS)
}

/// `rprof __gpu_demo`: the program that `rprof demo --gpu` profiles.
pub fn gpu_demo_kernels() -> Result<ExitCode> {
    let left_out = rprof::machine::gpu::known::run()?;
    if left_out > 0 {
        let _ = writeln!(stderr(), "rprof: {left_out} of the known kernels need a newer GPU");
    }
    Ok(ExitCode::SUCCESS)
}

/// `rprof __gpu_check`: the program that is counted before a user's, to see whether its counts are right.
pub fn gpu_check_kernel() -> Result<ExitCode> {
    rprof::machine::gpu::known::run_mix()?;
    Ok(ExitCode::SUCCESS)
}

/// `rprof machine`.
pub fn machine(args: machine::MachineArgs) -> Result<ExitCode> {
    if args.mpi {
        return network(args);
    }
    let options = session::ceilings::MachineOptions {
        quick: args.quick,
        refresh: args.refresh,
        gpus_only: args.gpu,
        quiet: false,
    };
    let (machine, warnings) = session::ceilings::measure(options)?;
    if args.json {
        print(report::machine::json(&machine)?)?;
    } else {
        print(report::machine::text(&machine, width()))?;
    }
    if let Some(folder) = args.output {
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let files = report::machine_files::files(&machine);
        for (name, content) in &files {
            session::output::write_whole(&folder.join(name), content.as_bytes())?;
        }
        let _ = writeln!(stderr(), "{} pictures and pages written to {}", files.len(), folder.display());
    }
    for warning in warnings {
        let _ = writeln!(stderr(), "rprof: {} ({}; {})", warning.text, warning.effect, warning.hint);
    }
    Ok(ExitCode::SUCCESS)
}

/// `rprof machine --mpi`.
fn network(args: machine::MachineArgs) -> Result<ExitCode> {
    let machine::MachineArgs { program, wanted, refresh, json, output, .. } = args;
    let options = session::network::NetworkOptions { program, wanted, refresh, quiet: false };
    let mut written = Ok(());
    let warnings = session::network::measure(&options, &mut |network| {
        written = write_network(&network, json, output.as_deref());
    })?;
    written?;
    for warning in warnings {
        let _ = writeln!(stderr(), "rprof: {} ({}; {})", warning.text, warning.effect, warning.hint);
    }
    Ok(ExitCode::SUCCESS)
}

fn write_network(network: &Network, json: bool, output: Option<&Path>) -> Result<()> {
    let text = serde_json::to_string_pretty(network)? + "\n";
    if let Some(folder) = output {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        session::output::write_whole(&folder.join(session::network::FILE), text.as_bytes())?;
    }
    print(if json { text } else { report::network::text(network) })
}

/// `rprof diff`.
pub fn diff(args: diff::DiffArgs) -> Result<ExitCode> {
    use diff::DiffFormatArg;
    use report::diff::{Condition, Judgement};
    let conditions = args.fail_if.iter().map(|c| c.parse::<Condition>());
    let conditions =
        conditions.collect::<Result<Vec<_>, _>>().unwrap_or_else(|e| bad_option(&format!("--fail-if {e}")));
    let [old, new] = [Given::read(&args.old, args.rank)?, Given::read(&args.new, args.rank)?];
    if let Some(to) = args.output.as_ref().filter(|output| old.is(output) || new.is(output)) {
        anyhow::bail!("-o {}: it is one of the profiles that are compared; name another file", to.display());
    }
    let diff = report::diff::compare(&old.profile, &new.profile);
    let judge = |condition: Condition| {
        let judgement = report::diff::judge(&diff, &condition);
        (condition, judgement.unwrap_or_else(|e| bad_option(&format!("--fail-if {e}"))))
    };
    let judged: Vec<(Condition, Judgement)> = conditions.into_iter().map(judge).collect();
    let text = match args.format {
        DiffFormatArg::Text => report::diff::text(&diff, width()),
        DiffFormatArg::Md => report::diff::markdown(&diff),
        DiffFormatArg::Json => serde_json::to_string_pretty(&report::diff::json(&diff, &judged))? + "\n",
        DiffFormatArg::Html => report::diff::page(&diff)?,
        DiffFormatArg::Flamegraph => report::flamegraph::difference(&old.profile, &new.profile)?,
    };
    match args.output {
        Some(path) => session::output::write_whole(&path, text.as_bytes())?,
        None => print(&text)?,
    }
    for line in report::diff::told(&judged) {
        let _ = writeln!(stderr(), "rprof: {line}");
    }
    let is_unknown = |(_, judgement): &(Condition, Judgement)| matches!(judgement, Judgement::Unknown(_));
    if judged.iter().any(|(_, judgement)| matches!(judgement, Judgement::Holds(_))) {
        return Ok(ExitCode::from(1));
    }
    match judged.iter().find(|judged| is_unknown(judged)) {
        Some((condition, Judgement::Unknown(why))) => {
            anyhow::bail!("--fail-if {}: cannot be judged: {why}", condition.text)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// `rprof mcp`.
pub fn mcp(args: mcp::McpArgs) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find rprof's own file")?;
    rprof_mcp::serve(args.folder, program)?;
    Ok(ExitCode::SUCCESS)
}

/// `rprof predict`.
pub fn predict(args: predict::PredictArgs) -> Result<ExitCode> {
    let is_description = args.input.extension().is_some_and(|e| e == "toml" || e == "onnx");
    let (mut network, machine) = if is_description {
        let network = layers::read(&args.input, &args.axis)?;
        let quick = session::ceilings::MachineOptions { quick: true, refresh: false, gpus_only: false, quiet: true };
        // Without ceilings there is only no share of the peak.
        let machine = session::ceilings::measure(quick).ok().map(|(machine, _)| machine);
        (network, machine)
    } else {
        layers::without_axes("a profile", &args.axis)?;
        let profile = report::json::read(&given::path(&args.input))?;
        (layers::of_profile(&profile)?, Some(profile.machine))
    };
    if let Some(blas) = args.blas {
        network.libraries = vec![blas];
    }
    network.threads = args.threads.or(network.threads);
    let dimension = match args.batch_dimension {
        None => layers::BatchDimension::ByOrder,
        Some(predict::DimensionArg::M) => layers::BatchDimension::M,
        Some(predict::DimensionArg::N) => layers::BatchDimension::N,
    };
    if let Some(batch) = args.scale {
        network = layers::scale(&network, layers::Scale { batch, dimension })?;
    }
    let prediction = layers::predict(&network, layers::Settings { machine: machine.as_ref(), dimension })?;
    if args.json {
        print(serde_json::to_string_pretty(&prediction)? + "\n")?;
    } else {
        print(layers::text::text(&prediction, width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `rprof merge`.
pub fn merge(args: merge::MergeArgs) -> Result<ExitCode> {
    let job = match &args.profiles[..] {
        [folder] => session::job::read_named(folder)?.map(|_| folder),
        _ => None,
    };
    let merged = match job {
        Some(folder) if args.output.is_none() => {
            merge_job(folder, args.partial, Print::Stdout)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(folder) => session::launches::merged(folder, args.partial)?,
        None => {
            let of_job = |path: &PathBuf| {
                let is_job = session::job::read_named(path)?.is_some();
                let ranks = || session::job::rank_profiles(path).into_iter().map(|(_, profile)| profile).collect();
                Ok(if is_job { ranks() } else { vec![path.clone()] })
            };
            let paths: Vec<Vec<PathBuf>> = args.profiles.iter().map(of_job).collect::<Result<_>>()?;
            let paths: Vec<PathBuf> = paths.concat().iter().map(|path| given::path(path)).collect();
            let mut profiles = paths.iter().map(|path| report::json::read(path)).collect::<Result<Vec<_>, _>>()?;
            session::rank_calls::compare_in_any_order(&mut profiles, &paths);
            let mut merged = report::merge::merge(profiles, args.partial)?;
            if let Some(folder) = session::launches::folder_of_ranks(&paths) {
                session::launches::add_network(&mut merged, folder);
            }
            rprof::roofline::analyse(&mut merged);
            merged
        }
    };
    let view = view(None, run::PrecisionArg::Mixed, false);
    let folder = session::output::OutputFolder::create(args.output.as_deref(), &[])?;
    write_files(&folder, &merged, &view)?;
    let view = View { source: shell_word(&folder.path().display().to_string()), ..view };
    print(report::render(&merged, Format::Text, &view)?)?;
    Ok(ExitCode::SUCCESS)
}
