//! Calls of MPI: a sentence, a table of call sites, what crossed the network, and which ranks waited for which.

mod peers;

use super::name;
use super::number::{NOT_MEASURED, percent, seconds, si, significant};
use super::regions::Rows;
use super::table;
use rprof_profile::Profile;
use rprof_profile::communication::Communication;
use rprof_profile::evidence::mpi::NetworkMissing;
use rprof_profile::mpi::{CallSite, Mpi, NetworkBytes};
use rprof_profile::mpi_name::MpiName;
use rprof_profile::vocabulary::Class;

/// Call sites, and functions, in Markdown and HTML.
pub const ROWS: usize = 40;
/// Call sites of the short text.
pub const FEW: usize = 4;
const NAME_WIDTH: usize = 30;

/// [`rows`] of call sites, the functions with what they communicate, and pairs of ranks, at most `most` of each.
pub fn tables(profile: &Profile, most: usize) -> Vec<Rows> {
    rows(profile, most).into_iter().chain(functions(profile, most)).chain(peers::rows(profile, most)).collect()
}

/// Communication of functions with all that they call.
fn functions(profile: &Profile, most: usize) -> Option<Rows> {
    let mpi = profile.mpi.as_ref().filter(|mpi| !mpi.functions.is_empty())?;
    let or = |value: Option<String>| value.unwrap_or_else(|| NOT_MEASURED.to_owned());
    let short = |value: Option<f64>| value.filter(|value| *value > 0.0).map_or_else(|| "–".to_owned(), significant);
    let row = |of: &Communication| {
        vec![
            name::shorten(&of.name, NAME_WIDTH),
            or(of.work_s.map(seconds)),
            seconds(of.mpi_s),
            or(of.waiting_s.map(seconds)),
            or(of.network.map(|network| seconds(network.seconds()))),
            short(of.oi),
            short(of.cai),
            of.class.map_or("–", Class::name).to_owned(),
            of.roof_fraction.map_or_else(|| "–".into(), percent),
        ]
    };
    let mut notes = vec![
        "seconds of all ranks; network: what its calls need at the ceilings of the network; OI, CAI: FLOPs for a byte of memory, and for one \
         that ranks hand over; at: least seconds of work and network by those it took"
            .to_owned(),
    ];
    let shown = &mpi.functions[..most.min(mpi.functions.len())];
    notes.extend(table::rest(mpi.functions.len() - shown.len(), "function"));
    notes.extend(table::faster("at", shown.iter().filter_map(|of| of.roof_fraction)));
    if profile.network.is_none() {
        notes.push(format!(
            "network: {NOT_MEASURED} (no ceilings of the network: `MPIRUN rprof machine --mpi` measures them)"
        ));
    }
    Some(Rows {
        title: "Communication: functions with all that they call".into(),
        titles: vec!["function", "work", "in MPI", "waiting", "network", "OI", "CAI", "held by", "at"],
        rows: shown.iter().map(row).collect(),
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
    let crosses = crosses_hosts(profile);
    let network = |site: &CallSite| {
        [site.network_sent, site.network_received].map(|bytes| or(bytes.map(|bytes| si(bytes as f64, "B"))))
    };
    let row = |site: &&CallSite| {
        let mut row = vec![
            format!("{} in {}", name::printable(&site.call), name::shorten(&site.caller, NAME_WIDTH)),
            or(mpi.timed_s(site).map(seconds)),
            or(mpi.timed_waiting_s(site).map(seconds)),
            or(site.calls.map(|calls| within(calls.to_string(), site.error("calls")))),
            or(site.bytes.map(|bytes| within(si(bytes as f64, "B"), site.error("bytes")))),
        ];
        row.extend(crosses.then(|| network(site)).into_iter().flatten());
        row.push(name::place(site.file.as_deref(), site.line).unwrap_or_else(|| site.site.clone()));
        row
    };
    let rows = shown.iter().take(most).map(row).collect();
    let mut notes = Vec::new();
    if mpi.at_least {
        notes.push(
            "calls, bytes and times are lower limits: a process ran natively from some time on (see its warning)"
                .into(),
        );
    }
    notes.extend(table::rest(shown.len().saturating_sub(most), "call site"));
    if let Some(error) = mpi.clock_error_s.filter(|_| most > FEW) {
        notes.push(format!("waiting over hosts: their clocks were compared by messages, within {}", seconds(error)));
    }
    if let Some(reason) = mpi.split_missing.as_ref().filter(|_| most > FEW) {
        notes.push(format!("waiting: {NOT_MEASURED} ({})", name::printable(reason)));
    }
    if mpi.is_sampled() && most > FEW {
        notes.push(
            "time: on the CPU, by samples; calls and bytes: estimated from the windows that counted; waiting: how much longer a rank is in \
             the calls of a place than the rank that is there for the shortest time, which is too little where ranks wait in turn"
                .into(),
        );
    }
    // If calls are not known, other figures are not for the same reason.
    for (figure, title) in [("calls", "calls"), ("bytes", "bytes"), ("waiting_s", "waiting")] {
        let mut sites = shown.iter().filter(|site| figure != "bytes" || site.calls.is_some());
        let reason = sites.find_map(|site| site.source.get(figure)?.reason.as_ref());
        if let Some(reason) = reason.filter(|_| most > FEW) {
            notes.push(format!("{title}: {NOT_MEASURED} ({})", name::printable(reason)));
        }
    }
    let mut titles = vec!["call", "time", "waiting", "calls", "bytes"];
    if crosses {
        titles.extend(["net out", "net in"]);
        notes.extend(mpi.network.as_ref().map(|network| network_line(profile, network)));
        notes.extend(shown.iter().filter_map(|site| repeated(site)).take(most));
    }
    titles.push("where");
    let words = vec![0, titles.len() - 1];
    Some(Rows { title: title(profile, mpi), titles, rows, words, notes })
}

/// `812 ± 12 %`
fn within(value: String, error: Option<f64>) -> String {
    match error.filter(|error| *error > 0.0) {
        Some(error) => format!("{value} ± {}", percent(error)),
        None => value,
    }
}

/// Whether ranks are on several hosts, or this rank has peers on others.
fn crosses_hosts(profile: &Profile) -> bool {
    let mut hosts: Vec<&str> = profile.run.ranks.iter().map(|rank| rank.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let network = profile.mpi.as_ref().and_then(|mpi| mpi.network);
    hosts.len() > 1 || network.is_some_and(|network| network.sent.is_some_and(|bytes| bytes > 0))
}

/// `network: 16.0 MB to other hosts, 1.20 kB of it outside of calls`
fn network_line(profile: &Profile, network: &NetworkBytes) -> String {
    let bytes = |bytes: u64| si(bytes as f64, "B");
    let (Some(sent), Some(received)) = (network.sent, network.received) else {
        let reason = network.missing.map_or("it was not seen", NetworkMissing::words);
        let ports = network.host_ports.map_or(String::new(), |ports| {
            format!("; all programs of the host sent {} through its RDMA ports meanwhile", bytes(ports.sent))
        });
        return format!("network: {NOT_MEASURED} ({reason}){ports}");
    };
    // Of all ranks, as much is received as is sent.
    let both = if profile.run.ranks.len() > 1 {
        format!("{} to other hosts", bytes(sent))
    } else {
        format!("{} to other hosts, {} from them", bytes(sent), bytes(received))
    };
    let outside = network.outside.sent.max(network.outside.received);
    let outside = if outside > 0 { format!(", {} outside of calls", bytes(outside)) } else { String::new() };
    format!("network: {both}{outside}, by system calls on sockets")
}

/// Bytes from which advice is worth a line.
const WORTH: u64 = 1 << 20;
/// This multiple of the needed bytes is too much: libraries send headers, and sizes are rounded.
const TOO_MUCH: f64 = 1.5;

/// `MPI_Bcast in main sent 16.0 MB between hosts, 8.00 MB would do: …`
fn repeated(site: &CallSite) -> Option<String> {
    let (sent, needed) = (site.network_sent?, site.needed?);
    if sent < WORTH || needed <= 0.0 || (sent as f64) < TOO_MUCH * needed {
        return None;
    }
    let how = match &*MpiName::of(&site.call)?.blocking() {
        "Bcast" => "a hierarchical broadcast (once to each host, then within it)",
        "Reduce" | "Allreduce" => "a hierarchical reduction (within each host, then between hosts)",
        "Allgather" | "Allgatherv" => "a hierarchical all-gather (within each host, then between hosts)",
        _ => return None,
    };
    Some(format!(
        "{} in {} sent {} between hosts, {} would do: {how} would save {}",
        name::printable(&site.call),
        name::shorten(&site.caller, NAME_WIDTH),
        si(sent as f64, "B"),
        si(needed, "B"),
        percent(1.0 - needed / sent as f64)
    ))
}

/// From this share of the ranks' time on the program is said to be held by MPI.
const MUCH: f64 = 0.25;

/// `45 % of the ranks' time is in MPI, 98 % of it waiting for other ranks: most in MPI_Recv called by early_receive, 438 ms.`
pub fn verdict(profile: &Profile) -> Option<String> {
    let mpi = profile.mpi.as_ref()?;
    profile.run.timed_pass()?;
    let sites = || mpi.sites.iter().filter(|site| site.is_communication());
    let in_mpi: f64 = sites().filter_map(|site| mpi.timed_s(site)).sum();
    let work: Option<f64> = profile.functions.iter().filter_map(|f| f.cpu_s).reduce(|a, b| a + b);
    // Ranks that only communicate have no sample at work.
    let all = in_mpi + work.unwrap_or(0.0);
    let share = if all > 0.0 { in_mpi / all } else { 0.0 };
    if share < MUCH {
        return None;
    }
    let seconds_of = |site: &CallSite| mpi.timed_s(site).unwrap_or(0.0);
    let longest = sites().max_by(|a, b| seconds_of(a).total_cmp(&seconds_of(b)))?;
    let waiting: Option<f64> = sites().filter(|site| site.time_s.is_some()).map(|site| mpi.timed_waiting_s(site)).sum();
    let waiting = waiting.map_or(String::new(), |waiting| {
        format!(", {} of it waiting for other ranks", percent((waiting / in_mpi).min(1.0)))
    });
    let balance = mpi.efficiency.map_or(String::new(), |e| format!("; load balance {}", percent(e.load_balance)));
    Some(format!(
        "{} of the ranks' time is in MPI{waiting}: most in {} called by {}, {}{balance}.",
        percent(share),
        name::printable(&longest.call),
        name::shorten(&longest.caller, NAME_WIDTH),
        seconds(seconds_of(longest))
    ))
}

/// Time in MPI, and POP's efficiencies if the ranks are known.
fn title(profile: &Profile, mpi: &Mpi) -> String {
    let timed = || mpi.sites.iter().filter(|site| site.is_communication()).filter_map(|site| mpi.timed_s(site));
    let in_mpi = timed().fold(0.0, |sum, s| sum + s);
    let ranks = match profile.run.ranks.len() {
        0 | 1 => String::new(),
        ranks => format!(" of {ranks} ranks"),
    };
    let in_mpi = if timed().next().is_some() { seconds(in_mpi) } else { format!("time {NOT_MEASURED}") };
    let pass = match mpi.timed_share {
        _ if mpi.is_sampled() => "on the CPU, by samples".to_owned(),
        // The counted pass, in which ranks wait longer for one another, has no seconds of its own beside those of the timed one.
        Some(share) if share < 1.0 => {
            format!("timed pass: those of the counted one × {}, which leaves room for the work", significant(share))
        }
        Some(_) => "as long in the timed pass as in the counted one".to_owned(),
        None => "counted pass".to_owned(),
    };
    let mut text = format!("MPI: {in_mpi} in calls{ranks}, {pass}");
    if let Some(e) = mpi.efficiency {
        let [parallel, balance, communication] = [e.parallel, e.load_balance, e.communication].map(percent);
        text += &format!("; parallel efficiency {parallel} = load balance {balance} × communication {communication}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(call: &str, sent: u64, needed: f64) -> CallSite {
        CallSite {
            call: call.into(),
            caller: "main".into(),
            network_sent: Some(sent),
            needed: Some(needed),
            ..CallSite::default()
        }
    }

    #[test]
    fn a_broadcast_that_crosses_twice_is_told() {
        let told = repeated(&site("MPI_Bcast", 16_003_296, 8e6)).unwrap();
        assert!(told.starts_with("MPI_Bcast in main sent 16.0 MB between hosts, 8.00 MB would do"), "{told}");
        assert!(told.ends_with("would save 50 %"), "{told}");
        assert!(repeated(&site("MPI_Iallreduce_c", 4 << 20, 2e6)).is_some());
        assert_eq!(repeated(&site("MPI_Bcast", 8_003_296, 8e6)), None, "once");
        assert_eq!(repeated(&site("MPI_Bcast", 16_000, 8e3)), None, "little");
        assert_eq!(repeated(&site("MPI_Send", 16_003_296, 8e6)), None, "no collective call");
    }

    #[test]
    fn seconds_are_those_of_the_timed_pass() {
        let site = CallSite { time_s: Some(1.28), waiting_s: Some(0.64), ..site("MPI_Recv", 0, 0.0) };
        let of = |timed_share| {
            let mpi = Mpi { sites: vec![site.clone()], timed_share, ..Mpi::default() };
            let table = rows(&Profile { mpi: Some(mpi), ..Profile::default() }, 1).unwrap();
            (table.title, table.rows[0][1].clone(), table.rows[0][2].clone())
        };
        let (title, time, waiting) = of(Some(0.25));
        assert_eq!((time.as_str(), waiting.as_str()), ("320 ms", "160 ms"));
        assert!(title.starts_with("MPI: 320 ms in calls, timed pass: those of the counted one × 0.250"), "{title}");
        assert_eq!(of(Some(1.0)).1, "1.28 s");
        assert!(of(Some(1.0)).0.ends_with("as long in the timed pass as in the counted one"));
        assert!(of(None).0.ends_with("1.28 s in calls, counted pass"), "{}", of(None).0);
    }

    #[test]
    fn all_shows_all_and_less_says_how_many_more() {
        let mpi = Mpi { sites: vec![site("MPI_Send", 0, 0.0); 42], ..Mpi::default() };
        let profile = Profile { mpi: Some(mpi), ..Profile::default() };
        let all = rows(&profile, usize::MAX).unwrap();
        assert_eq!((all.rows.len(), all.notes), (42, Vec::new()));
        assert_eq!(rows(&profile, 41).unwrap().notes, ["… and 1 more call site"]);
        assert_eq!(rows(&profile, ROWS).unwrap().notes, ["… and 2 more call sites"]);
    }

    #[test]
    fn faster_than_the_ceilings_is_marked() {
        let with = |fraction| {
            let one = Communication { roof_fraction: Some(fraction), ..Communication::default() };
            let mpi = Mpi { functions: vec![one], ..Mpi::default() };
            functions(&Profile { mpi: Some(mpi), ..Profile::default() }, 1).unwrap().notes.join("\n")
        };
        assert!(with(1.17).contains("at above 100 %: faster than"), "{}", with(1.17));
        assert!(!with(1.004).contains("above"), "it is shown as 100 %");
    }

    #[test]
    fn a_network_that_is_not_known_has_a_reason() {
        use rprof_profile::evidence::mpi::Traffic;
        let network = NetworkBytes {
            sent: None,
            received: None,
            outside: Traffic::default(),
            within_host: Traffic::default(),
            host_ports: Some(Traffic { sent: 4_000_000, received: 8 }),
            method: rprof_profile::mpi::NetworkMethod::SocketCalls,
            missing: Some(NetworkMissing::KernelBypass),
        };
        let told = network_line(&Profile::default(), &network);
        assert!(told.contains("not measured") && told.contains("RDMA") && told.contains("4.00 MB"), "{told}");
    }
}
