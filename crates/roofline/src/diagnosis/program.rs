//! The program as a whole: its elapsed time, how much of it a CPU second is, and which of its functions are the user's own.

use std::collections::HashMap;

use rprof_profile::function::Function;
use rprof_profile::names;
use rprof_profile::run::TOO_FEW_SAMPLES_CODE;
use rprof_profile::system::Reason;
use rprof_profile::{Frame, Profile, ProfileSample};

use super::family::Family;
use super::ownership::{is_of_standard_library, is_of_system, is_start};
use super::place::Place;

/// A program that runs scripts.
struct Interpreter {
    /// Its name begins so.
    name: &'static str,
    /// Endings of its scripts.
    endings: &'static [&'static str],
    /// Beginnings of its libraries' names.
    libraries: &'static [&'static str],
}

const INTERPRETERS: [Interpreter; 8] = [
    Interpreter { name: "python", endings: &[".py"], libraries: &["libpython"] },
    Interpreter { name: "Rscript", endings: &[".R", ".r"], libraries: &["libR.so", "libRblas", "R"] },
    Interpreter { name: "R", endings: &[".R", ".r"], libraries: &["libR.so"] },
    Interpreter { name: "perl", endings: &[".pl"], libraries: &["libperl"] },
    Interpreter { name: "ruby", endings: &[".rb"], libraries: &["libruby"] },
    Interpreter { name: "lua", endings: &[".lua"], libraries: &["liblua"] },
    Interpreter { name: "node", endings: &[".js", ".mjs"], libraries: &["libnode"] },
    Interpreter { name: "octave", endings: &[".m"], libraries: &["liboctinterp"] },
];

/// From this share of the interpreter's time in its loop on, what it does for the loop is the script's doing as well.
const INTERPRETS: f64 = 0.25;

/// Whether the program `word` has a name that begins with `name`: `python3.11` with `python`, but `Rscript` not with `R`.
fn is_called(word: &str, name: &str) -> bool {
    let rest = word.rsplit('/').next().and_then(|file| file.strip_prefix(name));
    let is_version = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    rest.is_some_and(|rest| ["", "jit", "cli"].contains(&rest.trim_matches(is_version)))
}

/// A profile with what all candidates need.
pub struct Program<'p> {
    pub profile: &'p Profile,
    /// Elapsed seconds of the native run.
    pub wall_s: f64,
    /// CPU seconds in functions, user and kernel.
    pub cpu_s: f64,
    /// Threads that ran at once, on average while any did.
    pub at_once: f64,
    /// Elapsed seconds / those in which other programs did not keep it off its CPUs.
    pub stretch: f64,
    /// The module of the program's own functions.
    own_module: Option<String>,
    /// The program runs a script.
    interpreter: Option<&'static Interpreter>,
    /// The loop of that interpreter takes a good part of its time.
    interprets: bool,
    /// Of each function of a library: the user's functions below which its samples are, as shares.
    callers: HashMap<(String, String), Vec<(Place, f64)>>,
}

impl<'p> Program<'p> {
    /// `None` without a timed pass, or with too few samples and no waits.
    pub fn of(profile: &'p Profile) -> Option<Program<'p>> {
        let pass = profile.run.timed_pass()?;
        let is_too_short = profile.run.warnings.iter().any(|warning| warning.code == TOO_FEW_SAMPLES_CODE);
        let waits = profile.run.system.as_ref().and_then(|system| system.waited_s()).unwrap_or(0.0);
        let wall_s = pass.wall_s;
        if wall_s <= 0.0 || is_too_short && waits < 0.5 * wall_s {
            return None;
        }
        let cpu_of = |f: &Function| f.cpu_s.unwrap_or(0.0) + f.kernel_s.unwrap_or(0.0) + f.waiting_s.unwrap_or(0.0);
        let cpu_s: f64 = profile.functions.iter().map(cpu_of).sum();
        let stretch = 1.0 / (1.0 - pass.kept_off_share.unwrap_or(0.0).clamp(0.0, 0.9));
        let own_module = own_module(profile);
        let interpreter = interpreter(profile, own_module.as_deref());
        let mut program = Program {
            profile,
            wall_s,
            cpu_s,
            at_once: 1.0,
            stretch,
            own_module,
            interpreter,
            interprets: false,
            callers: HashMap::new(),
        };
        program.at_once = program.at_once();
        program.interprets = program.interprets();
        program.callers = program.callers();
        Some(program)
    }

    /// Elapsed seconds that `cpu_s` CPU seconds of all its threads are, at most the whole run.
    pub fn elapsed(&self, cpu_s: f64) -> f64 {
        (cpu_s / self.at_once * self.stretch).min(self.wall_s)
    }

    /// Elapsed seconds of `seconds` in which a function was at work.
    pub fn of_function(&self, seconds: f64) -> f64 {
        (seconds * self.stretch).min(self.wall_s)
    }

    /// Whether `f` is the user's code: of the program itself, unless that is an interpreter, or of a library that is not the system's, and not
    /// of a language's standard library.
    pub fn is_own(&self, f: &Function) -> bool {
        if self.is_of_interpreter(&f.module) || is_of_standard_library(&f.name, f.file.as_deref()) {
            return false;
        }
        match &self.own_module {
            Some(own) if f.module == *own => true,
            _ => !is_of_system(&f.module) && f.file.is_some(),
        }
    }

    /// Whether `module` is a part of the interpreter that runs the user's script.
    pub fn is_of_interpreter(&self, module: &str) -> bool {
        self.interpreter.as_ref().is_some_and(|interpreter| {
            self.own_module.as_deref() == Some(module)
                || interpreter.libraries.iter().any(|name| module.starts_with(name))
        })
    }

    /// The family of a function that is not the user's.
    pub fn family(&self, f: &Function) -> Option<Family> {
        let by_name = Family::of(&f.name, &f.module);
        by_name.or_else(|| (self.interprets && self.is_of_interpreter(&f.module)).then_some(Family::Interpreter))
    }

    /// Where the user can change what `f` costs, and the share of its time below each such place; itself where no caller is known.
    ///
    /// For functions of an interpreter that is its script.
    pub fn homes(&self, f: &Function) -> Vec<(Place, f64)> {
        let is_foreign = || f.file.is_none() || is_of_system(&f.module) || self.is_of_interpreter(&f.module);
        if let Some(script) = self.script().filter(|_| is_foreign()) {
            return vec![(script, 1.0)];
        }
        if self.is_own(f) {
            return vec![(Place::of(f), 1.0)];
        }
        match self.callers.get(&(f.name.clone(), f.module.clone())) {
            Some(homes) if !homes.is_empty() => homes.clone(),
            _ => vec![(Place::of(f), 1.0)],
        }
    }

    /// The one of [`homes`](Self::homes) with most.
    pub fn home(&self, f: &Function) -> Place {
        Place::most(&self.homes(f)).cloned().unwrap_or_else(|| Place::of(f))
    }

    /// The frames of a sample's stack with their numbers, the innermost first.
    pub fn frames(&self, sample: &ProfileSample) -> impl Iterator<Item = (u32, &'p Frame)> {
        let profile = self.profile;
        let stacks = std::iter::successors(sample.stack, |at| profile.stacks.get(*at as usize)?.parent);
        let numbers = stacks.map_while(|at| Some(profile.stacks.get(at as usize)?.frame));
        numbers.map_while(|number| Some((number, profile.frames.get(number as usize)?)))
    }

    /// The function of the profile at `place`.
    pub fn function(&self, place: &Place) -> Option<&'p Function> {
        let symbol = place.symbol.as_deref()?;
        self.profile.functions.iter().find(|f| f.name == symbol && f.module == place.module)
    }

    /// The place of the function called `name`, if it is the user's.
    pub fn own_function(&self, name: &str) -> Option<Place> {
        self.profile.functions.iter().find(|f| f.name == name && self.is_own(f)).map(Place::of)
    }

    /// The script that the program is the interpreter of.
    pub fn script(&self) -> Option<Place> {
        let interpreter = self.interpreter.as_ref()?;
        let command = &self.profile.run.command;
        let is_script = |word: &&String| interpreter.endings.iter().any(|ending| word.ends_with(ending));
        // A script may begin with `#!`, and may be called anything.
        let begins_so = command.first().filter(|word| !is_called(word, interpreter.name));
        let by_ending = command.iter().skip(1).find(is_script);
        Some(Place::of_script(by_ending.or(begins_so).map(String::as_str), interpreter.name))
    }

    /// The script of an interpreter, else the program's own `main`, where it has one.
    pub fn main(&self) -> Option<Place> {
        self.script().or_else(|| self.own_function("main")).or_else(|| {
            let frame = self.profile.frames.iter().find(|frame| frame.name == "main")?;
            Some(Place::of_frame(frame))
        })
    }

    /// Where most CPU time is.
    pub fn hottest(&self) -> Option<Place> {
        let cpu = |f: &&Function| f.cpu_s.unwrap_or(0.0) + f.kernel_s.unwrap_or(0.0);
        let all = self.profile.functions.iter().filter(|f| cpu(f) > 0.0);
        all.max_by(|a, b| cpu(a).total_cmp(&cpu(b))).map(|f| self.home(f))
    }

    /// Of the time in which its threads were off the CPUs, the share in which they waited for something other than a CPU.
    pub fn blocked(&self) -> f64 {
        let waits = self.profile.run.system.as_ref().and_then(|system| system.waits.as_deref()).unwrap_or_default();
        let sum = |queued: bool| -> f64 {
            waits.iter().filter(|wait| (wait.reason == Reason::RunQueue) == queued).map(|wait| wait.seconds).sum()
        };
        let (queued, blocked) = (sum(true), sum(false));
        if queued + blocked > 0.0 { blocked / (queued + blocked) } else { 1.0 }
    }

    /// Threads at work at once: CPU seconds / seconds in which a thread was at work.
    fn at_once(&self) -> f64 {
        let time = |f: &Function| f.time_s.unwrap_or(0.0);
        let cpu = |f: &Function| f.cpu_s.unwrap_or(0.0);
        let (cpu_s, time_s) = self.profile.functions.iter().fold((0.0, 0.0), |(c, t), f| (c + cpu(f), t + time(f)));
        let of_functions = if time_s > 0.0 { cpu_s / time_s } else { 1.0 };
        let used = self.profile.run.parallelism.map_or(1.0, |p| p.used * self.stretch);
        let allowed = self.profile.run.parallelism.map_or(1.0, |p| f64::from(p.allowed));
        of_functions.max(used.min(allowed)).max(1.0)
    }

    /// Whether the interpreter's loop takes a good part of the interpreter's time. A loop without a name lies in the program itself.
    fn interprets(&self) -> bool {
        let is_loop = |f: &Function| {
            names::offset(&f.name, &f.module).is_some() || Family::of(&f.name, &f.module) == Some(Family::Interpreter)
        };
        let of_interpreter = || self.profile.functions.iter().filter(|f| self.is_of_interpreter(&f.module));
        let all: f64 = of_interpreter().filter_map(|f| f.cpu_s).sum();
        let in_loop: f64 = of_interpreter().filter(|f| is_loop(f)).filter_map(|f| f.cpu_s).sum();
        all > 0.0 && in_loop >= INTERPRETS * all
    }

    /// Walks from each sample's function of a library to the first frame of the user's. If that has no name, the first frame with one that
    /// is not of the system is taken for it.
    fn callers(&self) -> HashMap<(String, String), Vec<(Place, f64)>> {
        let Some(own) = &self.own_module else { return HashMap::new() };
        let is_own = |frame: &Frame| {
            let is_library = || is_of_standard_library(&frame.name, frame.file.as_deref());
            frame.module == *own && !frame.inlined && !is_start(&frame.name) && !is_library()
        };
        let mut sums: HashMap<(u32, u32), f64> = HashMap::new();
        for sample in self.profile.samples.iter().filter(|sample| !sample.waiting) {
            let mut host = None;
            let mut named = None;
            for (number, frame) in self.frames(sample) {
                if host.is_none() && !frame.inlined {
                    host = Some(number);
                }
                if named.is_none()
                    && !frame.inlined
                    && !is_of_system(&frame.module)
                    && names::offset(&frame.name, &frame.module).is_none()
                {
                    named = Some(number);
                }
                if let Some(host) = host.filter(|_| is_own(frame)) {
                    let home = if names::offset(&frame.name, &frame.module).is_some() {
                        named.unwrap_or(number)
                    } else {
                        number
                    };
                    *sums.entry((host, home)).or_default() += sample.weight_s;
                    break;
                }
            }
        }
        let mut by_function: HashMap<(String, String), Vec<(Place, f64)>> = HashMap::new();
        for ((host, home), seconds) in sums {
            let (host, home) = (&self.profile.frames[host as usize], &self.profile.frames[home as usize]);
            by_function
                .entry((host.name.clone(), host.module.clone()))
                .or_default()
                .push((Place::of_frame(home), seconds));
        }
        for homes in by_function.values_mut() {
            let all: f64 = homes.iter().map(|(_, seconds)| seconds).sum();
            homes.iter_mut().for_each(|(_, seconds)| *seconds /= all.max(f64::MIN_POSITIVE));
            homes.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.function.cmp(&b.0.function)));
        }
        by_function
    }
}

/// The module that has `main`, else that of the command's name, which may be a link to it: `python3` to `python3.11`.
fn own_module(profile: &Profile) -> Option<String> {
    let main = profile.frames.iter().find(|frame| frame.name == "main" || frame.name == "MAIN__");
    let by_command = || {
        let name = profile.run.command.first()?.rsplit('/').next()?;
        let modules = || profile.functions.iter().map(|f| &f.module);
        let linked = || modules().find(|module| module.starts_with(name) && !module.contains(".so"));
        modules().find(|module| *module == name).or_else(linked).cloned()
    };
    main.map(|frame| frame.module.clone()).or_else(by_command)
}

/// The interpreter that the program is, by the command or, where that is the script, by the module.
fn interpreter(profile: &Profile, own_module: Option<&str>) -> Option<&'static Interpreter> {
    let command = profile.run.command.first().map(String::as_str);
    let is_one = |interpreter: &&Interpreter| {
        [command, own_module].into_iter().flatten().any(|word| is_called(word, interpreter.name))
    };
    INTERPRETERS.iter().find(is_one)
}
