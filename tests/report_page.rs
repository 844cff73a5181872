//! `report.html` in a real browser: headless Chromium loads it, our own script acts on it, and the resulting document is read.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rprof::profile::Profile;
use rprof::report::{Format, View, json, render};

/// What a page was like after its scripts ran: the document, and the browser's messages.
struct Seen {
    document: String,
    messages: String,
}

fn sample() -> Profile {
    json::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/profiles/kernels.json")).unwrap()
}

fn page(profile: &Profile) -> String {
    render(profile, Format::Html, &View::default()).unwrap()
}

/// Loads `page` at `#hash`, with `act` run at its end; what `act` hands to `say` is the text of `#said`. `None` where there is no browser.
fn browse(page: &str, hash: &str, act: &str) -> Option<Seen> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    });
    let Some(browser) = browser else {
        println!("SKIPPED: packages: chromium is not installed");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let said = "<pre id=\"said\"></pre><script>const said = []; const say = (x) => { said.push(x); \
                document.getElementById('said').textContent = said.join('\\n'); };";
    let path = folder.path().join(format!("page{}.html", COUNT.fetch_add(1, Ordering::Relaxed)));
    let script = format!("{said} addEventListener('load', () => {{ {act} }});</script></body>");
    let whole = page.replacen("</body>\n</html>", &format!("{script}\n</html>"), 1);
    assert!(whole.len() > page.len());
    fs::write(&path, whole).unwrap();
    let output = Command::new("timeout")
        .args(["60", browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg("--virtual-time-budget=4000")
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}#{hash}", path.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let messages: Vec<String> =
        text(&output.stderr).lines().filter(|l| l.contains("CONSOLE")).map(str::to_owned).collect();
    let seen = Seen { document: text(&output.stdout), messages: messages.join("\n") };
    assert!(seen.document.contains("</html>"), "no document: {}", text(&output.stderr));
    Some(seen)
}

impl Seen {
    /// What the test's own script said.
    fn said(&self) -> Vec<String> {
        let text = self.document.split("id=\"said\">").nth(1).unwrap().split("</pre>").next().unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn says(&self, lines: &[&str]) {
        assert_eq!(self.messages, "", "messages on the console");
        assert_eq!(self.said(), lines);
    }
}

/// Script that says the names in the table, and which function is selected where.
const STATE: &str = "const state = () => {
    const rows = [...document.querySelectorAll('#functions tbody tr')];
    const on = (all) => all.map((e) => e.dataset.f).join(',');
    say(rows.map((r) => r.querySelector('.n').textContent).slice(0, 4).join(' '));
    say(['rows ' + rows.length, 'row ' + on(rows.filter((r) => r.classList.contains('on'))),
         'dot ' + on([...document.querySelectorAll('.rf-pt.rf-on')]), 'detail ' + on([...document.querySelectorAll('.function.on')])].join('; '));
    say(location.hash);
};";

#[test]
fn the_address_restores_selection_search_and_order() {
    let page = page(&sample());
    let Some(seen) = browse(&page, "f=triad&q=r&sort=share", &format!("{STATE} state();")) else { return };
    let names = "triad void ns::Solver<std::vector<double, std::allocator<double>>, 3>::relax(ns::Grid<double, 3> const&amp;, int) dot_reduce list_walk";
    let expected = [
        names.replace('<', "&lt;").replace('>', "&gt;"),
        "rows 7; row 0; dot 0; detail 0".into(),
        "#f=triad&amp;q=r&amp;sort=share".into(),
    ];
    seen.says(&expected.each_ref().map(String::as_str));
    let Some(part) = browse(&page, "show=50", &format!("{STATE} state();")) else { return };
    assert!(part.said()[1].starts_with("rows 2;"), "31 % and 23 %: {:?}", part.said());
}

#[test]
fn clicks_and_keys_select_everywhere() {
    let act = format!(
        "{STATE}
        const click = (e) => e.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}));
        const key = (k) => document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: k, bubbles: true }}));
        click(document.querySelector('#functions tr[data-f=\"2\"] td')); state();
        click(document.querySelector('.rf-pt[data-f=\"0\"] .rf-dot')); state();
        key('j'); state();
        key('Escape'); state();
        document.getElementById('search').value = 'GEMM';
        document.getElementById('search').dispatchEvent(new Event('input')); state();
        document.getElementById('search').value = '';
        document.getElementById('search').dispatchEvent(new Event('input'));
        setTimeout(() => {{
          const titles = [...document.getElementById('flames').contentDocument.querySelectorAll('g > title')];
          click(titles.find((t) => t.textContent.startsWith('triad ')).parentNode.querySelector('rect')); state();
          click(document.querySelector('#functions th[data-key=\"name\"]')); state();
        }}, 500);"
    );
    let Some(seen) = browse(&page(&sample()), "", &act) else { return };
    assert_eq!(seen.messages, "");
    let said = seen.said();
    let selected: Vec<&str> = said.iter().skip(1).step_by(3).map(|line| line.split_once("; ").unwrap().1).collect();
    assert_eq!(
        selected,
        [
            "row 2; dot 2; detail 2",
            "row 0; dot 0; detail 0",
            "row 4; dot 4; detail 4", // the next row by saving
            "row ; dot ; detail ",
            "row ; dot ; detail ",
            "row 0; dot 0; detail 0",
            "row 0; dot 0; detail 0",
        ],
        "{said:?}"
    );
    assert!(said[13].starts_with("rows 2;"), "{said:?}");
    assert_eq!(said[5], "#f=triad");
    assert!(said[18].starts_with("branchy dot_reduce gemm_block"), "{said:?}");
}

/// (low, high, from, to) of an axis.
fn axis(document: &str, name: &str) -> [f64; 4] {
    let text = document.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
    let numbers: Vec<f64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

fn at(axis: [f64; 4], value: f64) -> f64 {
    axis[2] + (axis[3] - axis[2]) * (value / axis[0]).ln() / (axis[1] / axis[0]).ln()
}

#[test]
fn dots_are_where_the_figures_say_at_every_level() {
    let profile = sample();
    let page = page(&profile);
    for level in ["outer", "dram", "l3", "l2", "l1", "aware"] {
        let act = "document.querySelectorAll('.rf-pt').forEach((g) => { if (g.style.display !== 'none') {
            const c = g.querySelector('.rf-dot'), move = Number((/translate\\(([-0-9.]+)/.exec(g.getAttribute('transform')) || [0, 0])[1]);
            if (c.getAttribute('cx')) say([g.dataset.f, Number(c.getAttribute('cx')) + move, c.getAttribute('cy')].join(' ')); } });";
        let Some(seen) = browse(&page, &format!("level={level}"), act) else { return };
        assert_eq!(seen.messages, "");
        let (x, y) = (axis(&seen.document, "data-x"), axis(&seen.document, "data-y"));
        let said = seen.said();
        assert!(said.len() >= 3, "{level}: {said:?}");
        for line in said {
            let numbers: Vec<f64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
            let a = &profile.functions[numbers[0] as usize].analysis;
            let oi = match level {
                "dram" => a.oi.dram,
                "l3" => a.oi.l3,
                "l2" => a.oi.l2,
                "l1" | "aware" => a.oi.l1,
                _ => a.oi.dram.or(a.oi.l3).or(a.oi.l2).or(a.oi.l1),
            };
            let wanted = (at(x, oi.unwrap()).min(x[3] - 8.0), at(y, a.flop_rate.unwrap()));
            assert!(
                (numbers[1] - wanted.0).abs() < 1.0 && (numbers[2] - wanted.1).abs() < 0.2,
                "{level} {line}: {wanted:?}"
            );
        }
    }
}

#[test]
fn hostile_names_are_shown_and_never_executed() {
    let mut profile = sample();
    let hostile = "</script><img src=x onerror=\"document.title='owned'\"><!--\u{202e}\u{fffd}&amp;";
    profile.functions[0].name = hostile.into();
    profile.functions[1].name = "n".repeat(2000);
    profile.functions[0].loops[0].name = hostile.into();
    profile.functions[0].lines[0].file = Some(hostile.into());
    profile.functions[0].module = hostile.into();
    profile.frames.iter_mut().filter(|f| f.name == "triad").for_each(|f| f.name = hostile.into());
    profile.run.command = vec![hostile.into()];
    profile.run.warnings[0].text = hostile.into();
    let act = "say(document.title.includes('owned') && !document.title.includes('img') ? 'executed' : 'inert');
        say(document.images.length); say(document.querySelector('#functions .n').textContent.length > 20);
        document.querySelector('#functions tr').click();
        setTimeout(() => say(document.getElementById('flames').contentDocument.images.length), 300);";
    let Some(seen) = browse(&page(&profile), "sort=share", act) else { return };
    seen.says(&["inert", "0", "true", "0"]);
    assert!(seen.document.len() < 2_000_000);
}

#[test]
fn five_thousand_functions_fit_a_megabyte() {
    let mut profile = sample();
    let models = profile.functions.clone();
    for i in 0..5000 - models.len() {
        let mut f = models[i % models.len()].clone();
        f.name =
            format!("ns::Class{i}<std::vector<double, std::allocator<double>>>::method_{i}(int, double const*) const");
        f.share = (i < 800).then_some(0.0001);
        f.module = format!("lib{}.so", i % 40);
        profile.functions.push(f);
    }
    let page = page(&profile);
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    let sections = page.matches("<section class=\"function").count();
    println!("{} bytes, {sections} functions in detail", page.len());
    assert!(sections >= 40, "{sections}");
    let Some(seen) = browse(&page, "", &format!("{STATE} state(); say(document.getElementById('more').textContent);"))
    else {
        return;
    };
    assert_eq!(seen.messages, "");
    assert!(seen.said()[1].starts_with("rows 200;") && seen.said()[3] == "4800 more rows", "{:?}", seen.said());
}
