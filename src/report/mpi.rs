//! Calls of MPI: a sentence, and a table of call sites.

use super::name;
use super::number::{NOT_MEASURED, percent, seconds, si, significant};
use super::regions::Rows;
use crate::profile::Profile;
use crate::profile::communication::Communication;
use crate::profile::mpi::{CallSite, Mpi};

/// Call sites of the long text.
pub const ALL: usize = 40;
/// Of the short one.
pub const FEW: usize = 4;
const NAME_WIDTH: usize = 30;

/// [`rows`] of all call sites, and the functions with what they communicate.
pub fn tables(profile: &Profile) -> Vec<Rows> {
    rows(profile, ALL).into_iter().chain(functions(profile)).collect()
}

/// Most functions of the table.
const MOST_FUNCTIONS: usize = 15;

/// Functions with all that they call: what they communicate.
fn functions(profile: &Profile) -> Option<Rows> {
    let mpi = profile.mpi.as_ref().filter(|mpi| !mpi.functions.is_empty())?;
    let or = |value: Option<String>| value.unwrap_or_else(|| NOT_MEASURED.to_owned());
    let short = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), significant);
    let row = |of: &Communication| {
        vec![
            name::shorten(&of.name, NAME_WIDTH),
            or(of.work_s.map(seconds)),
            seconds(of.mpi_s),
            or(of.waiting_s.map(seconds)),
            or(of.network.map(|network| seconds(network.seconds()))),
            short(of.oi),
            short(of.cai),
            of.class.clone().unwrap_or_else(|| "–".into()),
            of.roof_fraction.map_or_else(|| "–".into(), percent),
        ]
    };
    let mut notes = vec![
        "seconds of all ranks; network: what its calls need at the ceilings of the network; OI, CAI: FLOPs for a byte of memory, and for one \
         that ranks hand over; at: least seconds of work and network by those it took"
            .to_owned(),
    ];
    if profile.network.is_none() {
        notes.push(format!(
            "network: {NOT_MEASURED} (no ceilings of the network: `MPIRUN rprof machine --mpi` measures them)"
        ));
    }
    Some(Rows {
        title: "Communication: functions with all that they call".into(),
        titles: vec!["function", "work", "in MPI", "waiting", "network", "OI", "CAI", "held by", "at"],
        rows: mpi.functions.iter().take(MOST_FUNCTIONS).map(row).collect(),
        words: vec![0, 7],
        notes,
    })
}

/// The call sites with most time, at most `most`. `None`: MPI was not called.
pub fn rows(profile: &Profile, most: usize) -> Option<Rows> {
    let mpi = profile.mpi.as_ref()?;
    let shown: Vec<&CallSite> = mpi.sites.iter().filter(|site| site.is_communication()).collect();
    if shown.is_empty() {
        return None;
    }
    let or = |value: Option<String>| value.unwrap_or_else(|| NOT_MEASURED.to_owned());
    let row = |site: &&CallSite| {
        vec![
            format!("{} in {}", site.call, name::shorten(&site.caller, NAME_WIDTH)),
            or(site.time_s.map(seconds)),
            or(site.waiting_s.map(seconds)),
            site.calls.to_string(),
            or(site.bytes.map(|bytes| si(bytes as f64, "B"))),
            site.line.map_or_else(|| site.site.clone(), |line| format!("{}:{line}", file_name(site))),
        ]
    };
    let rows = shown.iter().take(most).map(row).collect();
    let mut notes = Vec::new();
    if mpi.at_least {
        notes.push(
            "calls, bytes and times are lower limits: a process ran natively from some time on (see its warning)"
                .into(),
        );
    }
    if shown.len() > most {
        notes.push(format!("… and {} more call sites", shown.len() - most));
    }
    if let Some(error) = mpi.clock_error_s.filter(|_| most > FEW) {
        notes.push(format!("waiting over hosts: their clocks were compared by messages, within {}", seconds(error)));
    }
    if let Some(reason) = mpi.split_missing.as_ref().filter(|_| most > FEW) {
        notes.push(format!("waiting: {NOT_MEASURED} ({reason})"));
    }
    let titles = ["call", "time", "waiting", "calls", "bytes", "where"];
    Some(Rows { title: title(profile, mpi), titles: titles.to_vec(), rows, words: vec![0, 5], notes })
}

/// From this share of the ranks' time on the program is said to be held by MPI.
const MUCH: f64 = 0.25;

/// `45 % of the ranks' time is in MPI, 98 % of it waiting for other ranks: most in MPI_Recv called by early_receive, 438 ms.`
pub fn verdict(profile: &Profile) -> Option<String> {
    let mpi = profile.mpi.as_ref()?;
    let sites = || mpi.sites.iter().filter(|site| site.is_communication());
    let in_mpi: f64 = sites().filter_map(|site| site.time_s).sum();
    let work: Option<f64> = profile.functions.iter().filter_map(|f| f.cpu_s).reduce(|a, b| a + b);
    let all = in_mpi + work?;
    let share = if all > 0.0 { in_mpi / all } else { 0.0 };
    if share < MUCH {
        return None;
    }
    let longest = sites().max_by(|a, b| a.time_s.unwrap_or(0.0).total_cmp(&b.time_s.unwrap_or(0.0)))?;
    let waiting: Option<f64> = sites().filter(|site| site.time_s.is_some()).map(|site| site.waiting_s).sum();
    let waiting = waiting.map_or(String::new(), |waiting| {
        format!(", {} of it waiting for other ranks", percent((waiting / in_mpi).min(1.0)))
    });
    let balance = mpi.efficiency.map_or(String::new(), |e| format!("; load balance {}", percent(e.load_balance)));
    Some(format!(
        "{} of the ranks' time is in MPI{waiting}: most in {} called by {}, {}{balance}.",
        percent(share),
        longest.call,
        name::shorten(&longest.caller, NAME_WIDTH),
        seconds(longest.time_s.unwrap_or(0.0))
    ))
}

fn file_name(site: &CallSite) -> &str {
    site.file.as_deref().map_or("", |file| file.rsplit('/').next().unwrap_or(file))
}

/// Time in MPI, and POP's efficiencies where the ranks are known.
fn title(profile: &Profile, mpi: &Mpi) -> String {
    let timed = || mpi.sites.iter().filter(|site| site.is_communication()).filter_map(|site| site.time_s);
    let in_mpi = timed().fold(0.0, |sum, s| sum + s);
    let ranks = match profile.run.ranks.len() {
        0 | 1 => String::new(),
        ranks => format!(" of {ranks} ranks"),
    };
    let in_mpi = if timed().next().is_some() { seconds(in_mpi) } else { format!("time {NOT_MEASURED}") };
    let mut text = format!("MPI: {in_mpi} in calls{ranks}, counted pass");
    if let Some(e) = mpi.efficiency {
        let [parallel, balance, communication] = [e.parallel, e.load_balance, e.communication].map(percent);
        text += &format!("; parallel efficiency {parallel} = load balance {balance} × communication {communication}");
    }
    text
}
