//! The communication-aware roofline: its table, its picture, and the places of dots and roofs in it.

use super::formats::well_formed;
use super::sample;
use crate::{Extent, Format, View, render};
use rprof_profile::communication::{Communication, NetworkSeconds};
use rprof_profile::mpi::{CallSite, Mpi, SizeClass};
use rprof_profile::network::{Network, NetworkHost, PairCurve};
use rprof_profile::run::Rank;
use rprof_profile::vocabulary::Class;
use rprof_profile::{Profile, network::Distance};

/// Four ranks of which `halo` hands over a byte for each FLOP, and `work` for each hundred; the network passes 1 GB/s from rank to rank.
fn profile() -> Profile {
    let function = |name: &str, cai: f64, class: Option<Class>| Communication {
        name: name.into(),
        module: "app".into(),
        calls_mpi: true,
        work_s: Some(2.0),
        mpi_s: 2.0,
        waiting_s: Some(0.5),
        network: Some(NetworkSeconds { latency_s: 0.5, bandwidth_s: 0.25, overlappable_s: 0.0 }),
        flops: Some(4e9),
        dram_bytes: Some(4e9),
        bytes: Some(4e9 / cai),
        oi: Some(1.0),
        cai: Some(cai),
        bound_s: Some(1.0),
        roof_fraction: Some(0.25),
        class,
    };
    let mut profile = sample::profile();
    let site = CallSite {
        call: "MPI_Sendrecv".into(),
        caller: "halo".into(),
        calls: Some(4),
        bytes: Some(32),
        time_s: Some(2.0),
        sizes: vec![SizeClass(8, 4, 32)],
        ..CallSite::default()
    };
    let functions = vec![function("halo", 1.0, Some(Class::NetworkLatency)), function("work", 100.0, None)];
    profile.mpi = Some(Mpi { sites: vec![site], functions, ..Mpi::default() });
    profile.run.ranks = (0..4).map(|rank| Rank { rank, ..Rank::default() }).collect();
    profile.network = Some(Network {
        hosts: vec![NetworkHost { name: "a".into(), ranks: (0..4).collect() }],
        pairs: vec![PairCurve {
            distance: Distance::SameHost,
            at_once: 2,
            bytes_per_s: Some(1e9),
            ..PairCurve::default()
        }],
        ..Network::default()
    });
    profile
}

/// x of the dots with this colour, in the order of the picture.
fn dots(svg: &str, fill: &str) -> Vec<f64> {
    let circles = svg.split("<circle").skip(1).filter(|circle| circle.contains("rf-dot") && circle.contains(fill));
    circles.map(|circle| circle.split("cx=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn functions_stand_at_their_intensities_below_the_three_roofs() {
    let svg = render(&profile(), Format::Communication, &View::default()).unwrap();
    well_formed(&svg);
    // 1 GB/s for each of four ranks.
    assert!(svg.contains("shared memory between ranks 4.00 GB/s") && !svg.contains("network 4.00"), "one host");
    let (halo, work) = (crate::palette::hex(Some(Class::NetworkLatency)), crate::palette::hex(Some(Class::Peak)));
    let (halo, work) = (dots(&svg, &halo), dots(&svg, &work));
    // Both panels and the volume; a legend has no such dots.
    assert_eq!((halo.len(), work.len()), (3, 3));
    assert!((halo[0] - work[0]).abs() < 0.2, "the same bytes of memory");
    assert!(work[1] > halo[1] + 20.0, "a hundred times the intensity");
    assert!(svg.contains("rf-volume") && svg.contains("data-p=") && svg.contains("works more than it communicates"));
}

#[test]
fn ranks_of_several_hosts_have_a_network() {
    let mut profile = profile();
    let network = profile.network.as_mut().unwrap();
    network.hosts.push(NetworkHost { name: "b".into(), ranks: vec![4] });
    network.pairs[0].distance = Distance::OtherHost;
    let svg = render(&profile, Format::Communication, &View::default()).unwrap();
    assert!(svg.contains("network 4.00 GB/s") && !svg.contains("shared memory"));
}

#[test]
fn a_function_of_calls_alone_stands_on_the_axis() {
    let mut profile = profile();
    let exchange = Communication { flops: None, oi: None, cai: None, mpi_s: 3.0, ..halo(&profile) };
    let exchange = Communication { name: "exchange".into(), class: Some(Class::WaitingForRanks), ..exchange };
    profile.mpi.as_mut().unwrap().functions.push(exchange.clone());
    let svg = render(&profile, Format::Communication, &View::default()).unwrap();
    well_formed(&svg);
    assert_eq!(svg.matches("exchange: no FLOPs, 3.00 s in MPI").count(), 2, "in both panels");
    assert_eq!(dots(&svg, &crate::palette::hex(Some(Class::WaitingForRanks))).len(), 2);
    // Alone it is a picture, too, without a volume.
    profile.mpi.as_mut().unwrap().functions = vec![exchange];
    let svg = render(&profile, Format::Communication, &View::default()).unwrap();
    assert!(svg.contains("exchange: no FLOPs") && !svg.contains("rf-volume"));
    assert!(crate::files(&profile, &View::default()).any(|file| file.unwrap().0 == "communication.svg"));
}

fn halo(profile: &Profile) -> Communication {
    profile.mpi.as_ref().unwrap().functions[0].clone()
}

#[test]
fn the_table_says_what_holds_them_and_the_page_turns_the_picture() {
    let mut profile = profile();
    let text = render(&profile, Format::Text, &View { extent: Extent::All, ..View::default() }).unwrap();
    let row = text.lines().find(|line| line.trim_start().starts_with("halo ")).unwrap();
    assert!(row.contains("750 ms") && row.contains("network-latency") && row.ends_with("25 %"), "{row}");
    let page = render(&profile, Format::Html, &View::default()).unwrap();
    assert!(page.contains("querySelectorAll('.rf-volume')") && page.len() < 1_000_000);
    profile.network = None;
    let refused = render(&profile, Format::Communication, &View::default()).unwrap_err().to_string();
    assert!(refused.contains("ceilings of the network"), "{refused}");
    assert!(!render(&profile, Format::Html, &View::default()).unwrap().contains("rf-volume"));
}

#[test]
fn hostile_names_of_hosts_functions_and_calls_stay_text() {
    let hostile = "<script>alert('x')</script>\u{1b}[2J\"\u{202e}\n|";
    let mut profile = profile();
    profile.run.ranks.iter_mut().for_each(|rank| rank.host = format!("{}{hostile}", rank.rank));
    let network = profile.network.as_mut().unwrap();
    network.hosts[0].name = hostile.into();
    (network.library, network.missing) = (hostile.into(), vec![hostile.into()]);
    let mpi = profile.mpi.as_mut().unwrap();
    mpi.split_missing = Some(hostile.into());
    let site = &mut mpi.sites[0];
    (site.caller, site.file, site.line) = (hostile.into(), Some(hostile.into()), Some(1));
    site.call = format!("MPI_{hostile}");
    mpi.functions[0].name = hostile.into();
    let all = || View { extent: Extent::All, ..View::default() };
    for format in [Format::Text, Format::Md, Format::Html, Format::Svg, Format::Communication, Format::Csv] {
        let text = render(&profile, format, &all()).unwrap();
        let control =
            text.find(['\u{1b}', '\u{202e}']).map(|at| text[..at].chars().rev().take(200).collect::<Vec<_>>());
        let before = control.map(|before| before.into_iter().rev().collect::<String>());
        assert_eq!(before, None, "{}", format.name());
        if matches!(format, Format::Md | Format::Html | Format::Svg | Format::Communication) {
            assert!(!text.contains("<script>alert"), "{}", format.name());
        }
        if matches!(format, Format::Svg | Format::Communication) {
            well_formed(&text);
        }
    }
    let table = crate::network::text(profile.network.as_ref().unwrap());
    assert!(!table.contains(['\u{1b}', '\u{202e}']), "{table}");
}
