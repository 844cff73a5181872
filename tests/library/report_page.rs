//! `report.html` in a real browser: headless Chromium loads it, our own script acts on it, and the resulting document is read.

use rprof::profile::disassembly::{Disassembly, LoopInstruction};

use crate::browser::{browse, page, sample};

/// Script that says the names in the table, and which function is selected in each place.
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
fn the_verdicts_function_is_selected_at_first_and_cold_functions_have_a_switch() {
    let mut profile = sample();
    profile.functions[10].share = None;
    let act = format!(
        "{STATE} state();
        const cold = document.getElementById('cold');
        say(cold.parentNode.hidden); cold.click(); state();"
    );
    let Some(seen) = browse(&page(&profile), "", &act) else { return };
    let said = seen.said();
    assert_eq!(said[1], "rows 10; row 1; dot 1; detail 1", "{said:?}");
    assert_eq!(said[3], "false");
    assert_eq!(said[5], "rows 11; row 1; dot 1; detail 1", "{said:?}");
    assert!(said[6].contains("cold=1"), "{said:?}");
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
            "row 3; dot 3; detail 3", // the next row by saving
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
    let mut profile = many(60);
    let hostile = "</script><img src=x onerror=\"document.title='owned'\"><!--\u{202e}\u{fffd}&amp;";
    profile.functions[0].name = hostile.into();
    profile.functions[1].name = "n".repeat(2000);
    profile.functions[40].name = hostile.into();
    profile.functions[0].loops[0].name = hostile.into();
    profile.functions[0].lines[0].file = Some(hostile.into());
    profile.functions[0].module = hostile.into();
    profile.frames.iter_mut().filter(|f| f.name == "triad").for_each(|f| f.name = hostile.into());
    profile.run.command = vec![hostile.into()];
    profile.run.warnings[0].text = hostile.into();
    let act = "say(document.title.includes('owned') && !document.title.includes('img') ? 'executed' : 'inert');
        say(document.images.length); say(document.querySelector('#functions .n').textContent.length > 20);
        document.querySelector('#functions tr').click();
        setTimeout(() => say(document.getElementById('flames').contentDocument.images.length), 300);
        // A section that was packed.
        document.querySelector('#functions tr[data-f=\"40\"]').click();
        setTimeout(() => { const on = document.querySelector('.function.on'); say(on.dataset.f + ' ' + on.querySelector('h3').textContent.startsWith('\\u003c/script><img')); say(document.images.length);
          say(document.title.includes('owned') && !document.title.includes('img') ? 'executed' : 'inert'); }, 900);";
    let Some(seen) = browse(&page(&profile), "sort=share", act) else { return };
    seen.says(&["inert", "0", "true", "0", "40 true", "0", "inert"]);
    assert!(seen.document.len() < 2_000_000);
}

/// The profile with `number` functions, of which the first 800 have samples.
fn many(number: usize) -> rprof::profile::Profile {
    let mut profile = sample();
    let models = profile.functions.clone();
    for i in 0..number - models.len() {
        let mut f = models[i % models.len()].clone();
        f.name =
            format!("ns::Class{i}<std::vector<double, std::allocator<double>>>::method_{i}(int, double const*) const");
        f.share = (i < 800).then_some(0.0001);
        f.module = format!("lib{}.so", i % 40);
        profile.functions.push(f);
    }
    profile
}

#[test]
fn five_thousand_functions_fit_a_megabyte_with_details_of_two_hundred() {
    let page = page(&many(5000));
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    // The last function with a section, and the first without: sections beyond the first are packed.
    let act = "say(document.getElementById('more').textContent);
        const row = (f) => document.querySelector(`#functions tr[data-f=\"${f}\"]`);
        const detail = () => [...document.querySelectorAll('.function.on')].map((e) => `${e.dataset.f} ${e.querySelector('h3').textContent.slice(0, 12)} ${e.querySelectorAll('h4').length > 3}`).join();
        document.getElementById('search').value = 'method_188('; document.getElementById('search').dispatchEvent(new Event('input'));
        row(199).click();
        setTimeout(() => { say(detail()); document.getElementById('search').value = 'method_189('; document.getElementById('search').dispatchEvent(new Event('input'));
          row(200).click(); setTimeout(() => { say(detail() + document.getElementById('nodetail').textContent.includes('first 200')); }, 300); }, 600);";
    let Some(seen) = browse(&page, "", &format!("{STATE} state(); {act}")) else {
        return;
    };
    assert_eq!(seen.messages, "");
    let said = seen.said();
    assert!(said[1].starts_with("rows 200;"), "{said:?}");
    // Those without a sample have a switch.
    assert_eq!(said[3..], ["612 more rows", "199 ns::Class188 true", "true"]);
    println!("{} bytes", page.len());
}

/// Instructions of a loop: `number` of 4 bytes, the third of them the hottest.
fn disassembly(number: u64, text: &str) -> Disassembly {
    let instruction = |i: u64| LoopInstruction {
        offset: 0x1140 + 4 * i,
        length: 4,
        text: format!("{text}ymmword ptr [rax+rcx*8+{i:#x}]"),
        executions: Some(1_000_000 + i),
        cpu_s: [None, Some(0.01), Some(0.4)][i as usize % 3].map(|s| s / (1 + i) as f64),
    };
    Disassembly { instructions: (0..number).map(instruction).collect(), left_out: 0 }
}

#[test]
fn hot_loops_are_disassembled_behind_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernels.cpp");
    std::fs::write(&path, "x[i] = y[i];\n".repeat(400)).unwrap();
    let mut profile = sample();
    profile.functions[0].loops[0].disassembly = Some(disassembly(6, "vmovupd </script><img src=x>"));
    let act = "const on = document.querySelector('.function.on'), rows = [...on.querySelectorAll('.asm tr')];
        say(rows.length + ' ' + [...rows[3].cells].map((c) => c.textContent).join(' | '));
        say(rows.map((r) => r.className).join(' '));
        const ground = (r) => getComputedStyle(r).backgroundColor;
        say((ground(rows[3]) !== ground(rows[1])) + ' ' + (ground(rows[3]) !== ground(rows[6])) + ' ' + document.images.length);
        const tables = [...on.querySelectorAll('.source')].map((t) => t.classList.contains('asm'));
        say(tables.join(' ') + ' ' + on.querySelector('.asm').closest('details').open);";
    let third = "7 0x1148 | 133 ms | 1.00 M | vmovupd &lt;/script&gt;&lt;img src=x&gt;ymmword ptr [rax+rcx*8+0x2]";
    let Some(seen) = browse(&page(&profile), "f=triad", act) else { return };
    seen.says(&[third, "  h1 h4   h2", "true true 0", "true true"]);
    profile.functions[0].lines.iter_mut().for_each(|line| line.file = Some(path.to_str().unwrap().into()));
    let Some(seen) = browse(&page(&profile), "f=triad", act) else { return };
    seen.says(&[third, "  h1 h4   h2", "true true 0", "false true false"]);
}

#[test]
fn forty_disassembled_loops_leave_room_for_two_hundred_functions() {
    let mut profile = many(5000);
    for f in &mut profile.functions {
        f.loops.truncate(1);
    }
    let triad = profile.functions[0].loops[0].clone();
    for (i, f) in profile.functions.iter_mut().take(40).enumerate() {
        let mut inner = triad.clone();
        inner.disassembly = Some(disassembly(60, &format!("vfmadd231pd ymm{i},ymm1,")));
        f.loops = vec![inner];
    }
    let page = page(&profile);
    println!("{} bytes", page.len());
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    let detailed = page.split("data-detailed=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(detailed, "200");
}

/// What a click on each export button hands over: name, type and beginning of the file, and of a picture its size.
#[test]
fn exports_are_files_of_what_is_seen() {
    let act = "
        const made = [], url = URL.createObjectURL.bind(URL);
        URL.createObjectURL = (blob) => { made.push(blob); return 'data:,'; };
        URL.revokeObjectURL = () => {};
        HTMLAnchorElement.prototype.click = function () { made[made.length - 1].file = this.download; };
        (async () => {
          for (const id of ['csv', 'json', 'svg', 'png']) { const before = made.length; document.getElementById(id).click(); await until(() => made.length > before); }
          say(made.map((b) => `${b.file} ${b.type}`).join(', '));
          const [csv, json, svg] = await held(Promise.all(made.slice(0, 3).map((b) => b.text())));
          say(csv.split('\\r\\n').length + ' ' + csv.split('\\r\\n')[1].slice(0, 13));
          const data = JSON.parse(json); say(data.name.length + ' ' + data.share.length);
          const read = new DOMParser().parseFromString(svg, 'image/svg+xml');
          say(read.querySelectorAll('parsererror').length + ' ' + (read.querySelectorAll('.rf-dot').length === document.querySelectorAll('#roofline .rf-dot').length) + ' ' + read.documentElement.getAttribute('style').includes('--ground: #14181f'));
          const picture = new Image(); picture.src = url(made[3]); await held(new Promise((done) => { picture.onload = done; }));
          say(picture.width + ' x ' + picture.height);
          const canvas = document.createElement('canvas'); [canvas.width, canvas.height] = [picture.width, picture.height];
          const context = canvas.getContext('2d', { willReadFrequently: true }); context.drawImage(picture, 0, 0);
          const pixels = context.getImageData(0, 0, picture.width, picture.height).data, colors = new Set();
          for (let i = 0; i < pixels.length; i += 4) colors.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
          const corner = [...context.getImageData(60, 700, 1, 1).data].slice(0, 3).join(' ');
          say((colors.size > 50) + ' ' + corner);
        })();";
    let Some(seen) = browse(&page(&sample()), "theme=dark&sort=share", act) else { return };
    seen.says(&[
        "functions.csv text/csv, functions.json application/json, roofline.svg image/svg+xml, roofline.png image/png",
        &format!("{} triad,kernels", sample().functions.len() + 2),
        &format!("{0} {0}", sample().functions.len()),
        "0 true true",
        "2000 x 1332",
        "true 20 24 31", // the dark ground
    ]);
}

#[test]
fn source_lines_are_shown_where_the_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernels.cpp");
    let text: String = (1..=400)
        .map(|i| format!("line {i}: <img src=x onerror=\"document.title='owned'\"> a[i] = b[i] + s * c[i];\n"))
        .collect();
    std::fs::write(&path, text).unwrap();
    let mut profile = sample();
    for line in &mut profile.functions[0].lines {
        line.file = Some(path.to_str().unwrap().into());
    }
    let hottest = profile.functions[0].lines[0].line;
    let act = "const rows = [...document.querySelectorAll('.function.on .source tr.hot')];
        say(rows.length + ' ' + rows[0].cells[0].textContent + ' ' + (rows[0].cells[1].textContent !== '') + ' ' + rows[0].cells[4].textContent.slice(0, 18));
        say(document.images.length + ' ' + document.title.includes('owned'));";
    let Some(seen) = browse(&page(&profile), "f=triad", act) else { return };
    let lines = profile.functions[0].lines.len();
    seen.says(&[&format!("{lines} {hottest} true line {hottest}: &lt;img src="), "0 false"]);
}

#[test]
fn the_flame_graph_has_the_ground_of_the_page() {
    let act = "const ground = () => [...document.getElementById('flames').contentDocument.querySelectorAll('svg > rect')].map((e) => getComputedStyle(e).fill).join(' ');
        setTimeout(() => { say(ground()); document.getElementById('theme').click(); say(ground()); }, 300);";
    let Some(seen) = browse(&page(&sample()), "theme=dark", act) else { return };
    seen.says(&["rgb(20, 24, 31) rgb(20, 24, 31)", "rgb(250, 250, 250) rgb(250, 250, 250)"]);
}
