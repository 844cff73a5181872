//! The roofline of `report.html` in a real browser: zoom, ceilings that are controls, tips, precision, labels.

use rprof::profile::ceiling::Quality;
use rprof::profile::device::{Analysis, Device, Devices, Kernel};
use rprof::profile::gpu::Gpu;
use rprof::profile::{Ceiling, Profile};

use crate::browser::{browse, browse_at, page, sample};

/// Script with events, and with what the picture shows.
const SCRIPT: &str = "
    const svg = document.querySelector('#roofline svg');
    const fire = (e, type, more) => e.dispatchEvent(new (type.startsWith('pointer') ? PointerEvent : type === 'wheel' ? WheelEvent : type.startsWith('key') ? KeyboardEvent
        : MouseEvent)(type, { bubbles: true, cancelable: true, ...more }));
    const key = (k, more) => fire(document.body, 'keydown', { key: k, ...more });
    const ends = (name) => document.querySelector('[data-x]').dataset[name].split(' ').map(Number);
    const span = (name) => Math.log(ends(name)[1] / ends(name)[0]);
    const dot = (f) => { const c = svg.querySelector(`.rf-pt[data-f=\"${f}\"] .rf-dot`); return c && [c.cx.baseVal.value, c.cy.baseVal.value]; };
    const frame = () => new Promise((done) => setTimeout(done, 60));
    const shown = () => document.getElementById('tip').hidden ? 'no tip' : [...document.getElementById('tip').children].map((e) => e.textContent).join(' | ');
    const run = async (act) => { try { await act(); } catch (e) { say('failed: ' + e); } };
";

fn with_script(act: &str) -> String {
    format!("{SCRIPT} run(async () => {{ {act} }});")
}

/// The profile with ceilings of single precision, twice those of double, and one function in single precision.
fn both_precisions() -> Profile {
    let mut profile = sample();
    let single = profile.machine.ceilings.iter().filter(|c| c.id.starts_with("dp.")).map(|c| {
        let mut single = c.clone();
        single.id = c.id.replacen("dp.", "sp.", 1).into();
        single.value = c.value.map(|v| 2.0 * v);
        single
    });
    let single: Vec<_> = single.collect();
    profile.machine.ceilings.retain(|c| !c.id.starts_with("sp."));
    profile.machine.ceilings.extend(single);
    let flops = profile.functions[3].flops.as_mut().unwrap();
    (flops.sp, flops.dp) = (flops.dp, 0);
    profile
}

#[test]
fn wheel_drag_and_keys_zoom_and_move_the_axes() {
    let act = with_script(
        "const whole = span('x'), start = dot(0), box = svg.getBoundingClientRect(), k = box.width / 1000;
        const at = { clientX: box.left + start[0] * k, clientY: box.top + start[1] * k };
        fire(svg, 'wheel', { deltaY: -120, ...at }); fire(svg, 'wheel', { deltaY: -120, ...at }); fire(svg, 'wheel', { deltaY: -120, ...at });
        await frame();
        say((whole / span('x')).toFixed(2) + ' ' + (Math.hypot(dot(0)[0] - start[0], dot(0)[1] - start[1]) < 3));
        const before = dot(0);
        fire(svg, 'pointerdown', { button: 0, pointerType: 'mouse', ...at });
        fire(window, 'pointermove', { clientX: at.clientX + 50 * k, clientY: at.clientY + 20 * k });
        fire(window, 'pointerup', {});
        fire(svg.querySelector('.rf-pt[data-f=\"0\"] .rf-dot'), 'click', {});
        await frame();
        say(Math.round(dot(0)[0] - before[0]) + ' ' + Math.round(dot(0)[1] - before[1]) + ' selected ' + [...document.querySelectorAll('#functions tr.on')].map((e) => e.dataset.f));
        const size = getComputedStyle(svg.querySelector('.rf-name')).fontSize;
        say(location.hash.includes('zoom=') + ' ' + size + ' reset ' + !document.getElementById('reset').hidden);
        key('0'); await frame();
        say((whole / span('x')).toFixed(2) + ' ' + location.hash + ' reset ' + !document.getElementById('reset').hidden);
        key('+'); await frame(); key('+'); await frame();
        say((whole / span('x')).toFixed(2));
        const low = ends('x')[0];
        key('ArrowRight', { shiftKey: true }); await frame();
        say('right ' + (ends('x')[0] > low));
        for (let i = 0; i < 40; i += 1) key('+'); await frame();
        say('most ' + (whole / span('x')).toFixed(0));
        document.getElementById('reset').click(); await frame();
        say('least ' + (whole / span('x')).toFixed(2));
        key('-'); await frame();
        say('least ' + (whole / span('x')).toFixed(2));",
    );
    let Some(seen) = browse(&page(&sample()), "", &act) else { return };
    seen.says(&[
        "2.05 true",        // e^(3 · 120 / 500), about the dot
        "50 20 selected 1", // the picture follows the pointer, and a drag is no click: the verdict's function stays selected
        "true 12px reset true",
        "1.00  reset false",
        "2.25",
        "right true",
        "most 200",
        "least 1.00",
        "least 1.00",
    ]);
}

#[test]
fn the_address_restores_the_zoom() {
    let act = with_script(
        "say([...ends('x').slice(0, 2), ...ends('y').slice(0, 2)].join(' ')); say(document.querySelectorAll('.rf-name').length > 0);",
    );
    let page = page(&sample());
    let Some(seen) = browse(&page, "zoom=0.05,0.5,1000000000,10000000000", &act) else { return };
    seen.says(&["0.05 0.5 1000000000 10000000000", "true"]);
    // Nonsense is ignored.
    for nonsense in ["zoom=5,1,1,2", "zoom=a,b,c,d", "zoom=0,1,1,2", "zoom=1,2", "zoom=-1,2,3,1e400"] {
        let Some(seen) = browse(&page, nonsense, &with_script("say(document.getElementById('reset').hidden);")) else {
            return;
        };
        seen.says(&["true"]);
    }
}

#[test]
fn a_ceiling_is_a_control_that_rows_are_compared_with() {
    let profile = sample();
    let act = with_script(
        "const cells = () => [...document.querySelectorAll('#functions td[data-key=\"roof\"]')].map((e) => e.textContent);
        const state = () => say([location.hash, [...svg.querySelectorAll('.rf-chosen')].map((e) => e.dataset.roof), 'faded', ...[...svg.querySelectorAll('.rf-above')].map((e) => e.dataset.roof)].join(' '));
        fire(svg.querySelector('[data-roof=\"dp.ilp\"] .rf-hit'), 'click', {}); state();
        const row = document.querySelector('#functions tr[data-f=\"2\"]');
        say(row.querySelector('[data-key=\"roof\"]').textContent + ' ' + document.querySelector('#functions th[data-key=\"roof\"]').textContent);
        document.querySelector('#functions th[data-key=\"roof\"]').click();
        say(location.hash);
        const dram = svg.querySelector('[data-level=\"dram\"]'); dram.focus(); fire(dram, 'keydown', { key: 'Enter' }); state();
        say(document.querySelector('#functions tr[data-f=\"0\"] [data-key=\"roof\"]').textContent);
        key('Escape'); say(cells().length + ' ' + location.hash.includes('roof'));",
    );
    let Some(seen) = browse(&page(&profile), "", &act) else { return };
    assert_eq!(seen.messages, "");
    let said = seen.said();
    let most = |id: &str| {
        let all = profile.machine.ceilings.iter().filter(|c| c.id == *id);
        all.max_by_key(|c| c.threads).and_then(|c| c.value).unwrap()
    };
    let percent = |v: f64| if v < 0.0995 { format!("{:.1} %", 100.0 * v) } else { format!("{:.0} %", 100.0 * v) };
    assert_eq!(said[0], "#roof=dp.ilp dp.ilp faded dp.peak dp.fma dp.simd");
    let rate = |i: usize| profile.functions[i].analysis.flop_rate.unwrap();
    assert_eq!(said[1], format!("{} of dp.ilp", percent(rate(2) / most("dp.ilp"))));
    assert_eq!(said[2], "#roof=dp.ilp&amp;sort=roof");
    let id = said[3].split_once("roof=").unwrap().1.split(['&', ' ']).next().unwrap();
    assert!(id.starts_with("dram."), "{said:?}");
    let bytes = rate(0) / profile.functions[0].analysis.oi.dram.unwrap();
    assert_eq!(said[4], percent(bytes / most(id)), "{said:?}");
    assert_eq!(said[5], "0 false");
}

#[test]
fn hover_and_focus_say_value_source_and_interval() {
    let act = with_script(
        "fire(svg.querySelector('.rf-pt[data-f=\"0\"] .rf-dot'), 'pointerover', {}); say(shown());
        fire(document.querySelector('#functions tr[data-f=\"0\"] td[data-key=\"time\"]'), 'pointerover', {}); say(shown());
        fire(svg.querySelector('[data-roof=\"dp.simd\"] .rf-hit'), 'pointerover', {}); say(shown());
        fire(document.body, 'pointerover', {}); say(shown());
        key('Tab'); svg.querySelector('[data-roof=\"dp.simd\"]').focus({ focusVisible: true }); say(shown());
        document.activeElement.blur(); say(shown());",
    );
    let Some(seen) = browse(&page(&sample()), "", &act) else { return };
    let roof = "+ SIMD: vector adds, 134 GFLOP/s | dp.simd: 134 GFLOP/s, measured, reproduced, 2 threads | \
                interval: 133 GFLOP/s to 136 GFLOP/s | click: compare all functions with it";
    let said = seen.said();
    assert_eq!(seen.messages, "");
    for part in ["triad | ", "(sampled", "operations: counted", "bytes: simulated ± 3 %", "95 % interval: "] {
        assert!(said[0].contains(part), "{part}: {said:?}");
    }
    let triad = &sample().functions[0];
    assert!(
        said[1].starts_with("time: ") && said[1].contains(" | 95 % interval: ") && triad.time_ci95_s.is_some(),
        "{said:?}"
    );
    assert_eq!(said[2..], [roof, "no tip", roof, "no tip"], "{said:?}");
}

#[test]
fn the_precision_chooses_roofs_and_dots() {
    let state = with_script(
        "say([...svg.querySelectorAll('.rf-control:not([data-level])')].map((e) => e.dataset.roof).join(' '));
        say([...svg.querySelectorAll('.rf-pt')].map((e) => e.dataset.f).join(' '));
        say(svg.querySelector('.rf-note').textContent.slice(-2) + ' ' + !document.getElementById('precision').parentNode.hidden);",
    );
    let page_of_both = page(&both_precisions());
    let Some(all) = browse(&page_of_both, "", &state) else { return };
    let Some(single) = browse(&page_of_both, "precision=sp", &state) else { return };
    let Some(double) = browse(&page_of_both, "precision=dp", &state) else { return };
    assert_eq!(all.said()[0], "dp.peak dp.fma dp.simd dp.ilp dp.tlp");
    assert!(all.said()[1].split(' ').any(|f| f == "3"), "{:?}", all.said());
    single.says(&["sp.peak sp.fma sp.simd sp.ilp sp.tlp", "3 1", "sp true"]); // and the selected one
    assert_eq!(double.said()[0], "dp.peak dp.fma dp.simd dp.ilp dp.tlp");
    assert!(!double.said()[1].split(' ').any(|f| f == "3"), "{:?}", double.said());
    // A choice needs both.
    let mut profile = sample();
    profile.machine.ceilings.retain(|c| c.id.starts_with("dp.") || c.id.starts_with("dram."));
    let Some(one) = browse(&page(&profile), "precision=sp", &state) else { return };
    assert_eq!(one.said()[2], "dp false");
}

#[test]
fn the_axes_may_count_instructions() {
    let profile = sample();
    let act = with_script(
        "const seen = () => say([document.querySelector('[data-x] .rf-axis').textContent.match(/\\[.*?\\]/)[0],
            [...new Set([...svg.querySelectorAll('.rf-tick')].map((e) => e.textContent.match(/[A-Za-z]+\\/s/)).filter(Boolean).map((m) => m[0].slice(1)))].join('+'),
            [...svg.querySelectorAll('.rf-control:not([data-level])')].map((e) => e.dataset.roof).join('+'), !document.querySelector('.rf-others').style.display].join(' '));
        const choose = (v) => { const e = document.getElementById('precision'); e.value = v; fire(e, 'change'); };
        seen(); choose('instructions'); seen();
        say([...svg.querySelectorAll('.rf-pt')].map((e) => e.dataset.f).sort().join(' '));
        const x = ends('x'), y = ends('y'), value = (a, at) => a[0] * (a[1] / a[0]) ** ((at - a[2]) / (a[3] - a[2]));
        say(value(x, dot(7)[0]) + ' ' + value(y, dot(7)[1]));
        fire(svg.querySelector('.rf-pt[data-f=\"7\"] .rf-dot'), 'pointerover', {}); say(shown().split(' | ').pop());
        fire(svg.querySelector('[data-roof=\"issue\"] .rf-hit'), 'click', {});
        say(document.querySelector('#functions tr[data-f=\"7\"] [data-key=\"roof\"]').textContent);
        choose(''); seen();",
    );
    let Some(seen) = browse(&page(&profile), "", &act) else { return };
    assert_eq!(seen.messages, "");
    let said = seen.said();
    let flops = "[FLOP/byte] FLOP/s dp.peak+dp.fma+dp.simd+dp.ilp+dp.tlp true";
    assert_eq!(said[0], flops);
    let kinds = "issue+l1.access.load.int+l1.access.store.int";
    assert_eq!(said[1], format!("[instructions/byte] instr/s {kinds} false"));
    assert_eq!(said[2], "0 1 2 3 4 5 6 7 8 9", "all that was counted");
    let f = &profile.functions[7];
    let instructions = f.work.as_ref().unwrap().issue_slots as f64;
    let (rate, oi) = (instructions / f.time_s.unwrap(), instructions / f.bytes.unwrap().l1.unwrap() as f64);
    let at: Vec<f64> = said[3].split(' ').map(|v| v.parse().unwrap()).collect();
    assert!((at[0] / oi - 1.0).abs() < 0.01 && (at[1] / rate - 1.0).abs() < 0.01, "{at:?}, not {oi} {rate}");
    assert_eq!(said[4], "drawn: 16.3 Ginstr/s, 3.00 instr/B");
    assert_eq!(said[5], "25 %");
    assert_eq!(said[6], flops);
}

#[test]
fn the_wheel_belongs_to_the_page_where_nothing_can_be_zoomed_out() {
    let act = with_script(
        "const box = svg.getBoundingClientRect(), at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
        say(fire(svg, 'wheel', { deltaY: 120, ...at }));
        say(fire(svg, 'wheel', { deltaY: -120, ...at }));",
    );
    let Some(seen) = browse_at(&page(&sample()), "", &act, 400, &[]) else { return };
    seen.says(&["true", "false"]);
}

/// A profile of 40 functions on the axes, crowded at the roofs, with long and short names, and of 24 kernels of a GPU.
fn crowded() -> Profile {
    let mut profile = sample();
    let models: Vec<_> =
        profile.functions.iter().filter(|f| f.analysis.axis.as_deref() == Some("flop")).cloned().collect();
    profile.functions.clear();
    for i in 0..40 {
        let mut f = models[i % models.len()].clone();
        let spread = |n: usize| 1.0 + 0.17 * ((i * n) % 11) as f64;
        f.name = format!("{}::step_{i}", "solver::relax".repeat(i % 3));
        f.share = Some(0.2 / (1.0 + i as f64));
        f.analysis.flop_rate = f.analysis.flop_rate.map(|rate| rate * spread(7));
        for oi in [&mut f.analysis.oi.l1, &mut f.analysis.oi.l2, &mut f.analysis.oi.l3, &mut f.analysis.oi.dram] {
            *oi = oi.map(|v| v * spread(5));
        }
        profile.functions.push(f);
    }
    let ceilings = [
        ("gpu.dram.read", 4.54e12, "byte/s"),
        ("gpu.l2.read", 9.1e12, "byte/s"),
        ("gpu.fp64.fma", 33.37e12, "flop/s"),
        ("gpu.fp32.fma", 66.0e12, "flop/s"),
        ("gpu.fp16.fma", 131.2e12, "flop/s"),
        ("gpu.tensor.bf16", 967e12, "flop/s"),
        ("gpu.tensor.fp64", 66.05e12, "flop/s"),
    ];
    let ceilings = ceilings.map(|(id, value, unit)| {
        let blank = Ceiling::blank(id, unit, 0);
        Ceiling { value: Some(value), quality: Quality::Reproduced, ..blank }
    });
    profile.machine.gpus = vec![Gpu { name: "NVIDIA H200".into(), ceilings: ceilings.into(), ..Gpu::default() }];
    let kernel = |i: usize| {
        let analysis = Analysis {
            class: rprof::profile::vocabulary::Class::GpuDramBandwidth,
            flops_per_s: Some(1e12 * 2f64.powi(i as i32 % 7)),
            intensity: Some(0.25 * 3f64.powi(i as i32 % 5)),
            ..Analysis::default()
        };
        let name = format!("void kernel_{i}<float, {i}>(float const*)");
        Kernel { name, seconds: 0.1 / (1.0 + i as f64), launches: 1, analysis: Some(analysis), ..Kernel::default() }
    };
    let devices = vec![Device { kernels_s: 0.4, span_s: 0.5, ..Device::default() }];
    profile.devices = Some(Devices { devices, kernels: (0..24).map(kernel).collect(), ..Devices::default() });
    profile
}

/// Says each pair of texts in pictures that cover one another, by their corners on the screen: rotated ones have boxes that are larger
/// than they are.
const OVERLAPS: &str = "
    const corners = (e) => { const b = e.getBBox(), m = e.getScreenCTM(), s = 0.6;
      return [[b.x + s, b.y + s], [b.x + b.width - s, b.y + s], [b.x + b.width - s, b.y + b.height - s], [b.x + s, b.y + b.height - s]].map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]); };
    const apart = (a, b) => a.some(([x, y], k) => { const [u, v] = a[(k + 1) % 4], nx = y - v, ny = u - x; const at = (s) => s.map((p) => p[0] * nx + p[1] * ny);
      const p = at(a), q = at(b); return Math.max(...p) <= Math.min(...q) || Math.max(...q) <= Math.min(...p); });
    const check = (svg, what) => {
      const texts = [...svg.querySelectorAll('text')].filter((e) => e.getBoundingClientRect().width > 0).map((e) => [e.textContent, corners(e)]);
      const pairs = [];
      texts.forEach(([t, a], i) => texts.slice(i + 1).forEach(([u, b]) => { if (!apart(a, b) && !apart(b, a)) pairs.push(t + ' / ' + u); }));
      const edge = svg.getBoundingClientRect();
      texts.forEach(([t, a]) => { if (a.some(([x]) => x < edge.left - 1 || x > edge.right + 1)) pairs.push(t + ' leaves the picture'); });
      say(`${what}: ${svg.querySelectorAll('.rf-name').length >= 12} ${pairs.length} ${pairs.slice(0, 4).join('; ')}`);
    };
";

#[test]
fn no_label_covers_another() {
    let page = page(&crowded());
    let act = with_script(&format!(
        "{OVERLAPS}
        check(svg, 'whole');
        [...document.querySelectorAll('svg.rf')].filter((s) => s !== svg && !s.closest('.function')).forEach((s) => check(s, 'gpu'));
        key('+'); await frame(); check(svg, 'zoomed');
        key('0'); await frame();
        const level = document.getElementById('level'); level.value = 'aware'; fire(level, 'change', {{}}); check(svg, 'aware');"
    ));
    for (hash, width) in [("theme=light", 1500), ("theme=dark", 1500), ("theme=light", 400)] {
        let Some(seen) = browse_at(&page, hash, &act, width, &[]) else { return };
        seen.says(&["whole: true 0 ", "gpu: true 0 ", "zoomed: true 0 ", "aware: true 0 "]);
    }
}

#[test]
fn no_label_covers_another_without_a_script() {
    let profile = crowded();
    let picture = rprof::report::render(&profile, rprof::report::Format::Svg, &rprof::report::View::default()).unwrap();
    let page = format!("<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body>{picture}</body>\n</html>\n");
    let act = format!("{OVERLAPS} check(document.querySelector('svg'), 'file');");
    let Some(seen) = browse(&page, "", &act) else { return };
    seen.says(&["file: true 0 "]);
}
