//! The index of a site in a real browser, opened from a disk: it loads what is next to it, filters, sorts and compares.

use crate::common::bench::{Bench, text};
use crate::common::many_runs::{id, site, write};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// What a script finds out of an index of so many runs and studies, once it is ready: `script` is the body of an async function that returns
/// something that JSON can hold. `None` where no browser is installed.
fn found(bench: &Bench, runs: usize, studies: usize, address: &str, script: &str) -> Option<Value> {
    let folder = bench.path("site");
    write(&site(runs, studies), &folder);
    let index = fs::read_to_string(folder.join("index.html")).unwrap();
    let script = format!(
        "<script>(async () => {{ const pause = ms => new Promise(done => setTimeout(done, ms));\
         while (!document.body.dataset.ready) await pause(10);\
         const result = await (async () => {{ {script} }})();\
         document.title = encodeURIComponent(JSON.stringify(result)); }})()\
         .catch(why => {{ document.title = encodeURIComponent(JSON.stringify(`${{why}}`)); }});</script></main>"
    );
    fs::write(folder.join("index.html"), index.replacen("</main>", &script, 1)).unwrap();
    let temporary = bench.path("browser-files");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    command.args(["--virtual-time-budget=60000", "--window-size=1280,1000"]);
    command.arg(format!("--user-data-dir={}", bench.path("profile").display()));
    command.arg(format!("file://{}/index.html{address}", folder.display()));
    let Ok(output) = command.env("TMPDIR", &temporary).output() else {
        eprintln!("skipped: chromium is not installed");
        return None;
    };
    let dom = text(&output.stdout);
    let (_, rest) = dom.split_once("<title>").unwrap_or_else(|| panic!("{dom}{}", text(&output.stderr)));
    let title = rest.split('<').next().unwrap();
    let mut bytes = Vec::new();
    let mut parts = title.split('%');
    bytes.extend(parts.next().unwrap().bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap_or_else(|why| panic!("{why}: {title}")));
        bytes.extend(part[2..].bytes());
    }
    Some(serde_json::from_slice(&bytes).unwrap_or_else(|why| panic!("{why}: {title}")))
}

#[test]
fn every_study_is_loaded_from_a_disk_and_found_by_its_text() {
    let bench = Bench::new();
    let script = "const count = () => document.getElementById('count').textContent;\
        const type = async text => { const field = document.getElementById('text'); field.value = text;\
          field.dispatchEvent(new Event('input')); await pause(50); return count(); };\
        const rows = () => document.querySelectorAll('#studies tbody tr').length;\
        const first = [count(), rows()];\
        document.getElementById('more').click();\
        const more = rows();\
        return [first, more, await type('study 399'), await type('no such words'), await type('STUDY 39'), location.hash,\
          [...document.getElementById('kind').options].map(option => option.text)];";
    let Some(found) = found(&bench, 900, 450, "", script) else { return };
    // Each word is looked for by itself: 39, 139, 239, 339, 439 and 390 to 399.
    assert_eq!(
        found,
        serde_json::json!([
            ["450 studies", 60],
            260,
            "1 of 450 studies",
            "0 of 450 studies",
            "15 of 450 studies",
            "#text=STUDY+39",
            ["all", "random-access"]
        ])
    );
}

#[test]
fn rows_are_sorted_by_value_and_back() {
    let bench = Bench::new();
    let script = "const head = name => [...document.querySelectorAll('#studies thead button')].find(of => of.textContent === name);\
        const ratios = () => [...document.querySelectorAll('#studies tbody tr')].map(row => parseFloat(row.cells[3].textContent));\
        head('Ratio').click(); const up = ratios(), says = head('Ratio').parentNode.getAttribute('aria-sort');\
        head('Ratio').click(); return [up, says, ratios(), head('Ratio').parentNode.getAttribute('aria-sort')];";
    let Some(found) = found(&bench, 10, 10, "", script) else { return };
    let numbers =
        |at: usize| -> Vec<f64> { found[at].as_array().unwrap().iter().map(|of| of.as_f64().unwrap()).collect() };
    let (up, mut down) = (numbers(0), numbers(2));
    assert!(up.len() == 10 && up.is_sorted() && up[0] < up[9], "{found}");
    down.reverse();
    assert_eq!((up, &found[1], &found[3]), (down, &"ascending".into(), &"descending".into()));
}

#[test]
fn selected_runs_are_compared_side_by_side_and_the_address_keeps_it() {
    let bench = Bench::new();
    let table = "const table = () => [...document.querySelectorAll('#comparison tr')].map(row => [...row.cells].map(cell => cell.textContent));";
    let script = format!(
        "{table} document.querySelector('button.fold').click(); await pause(200);\
         const boxes = [...document.querySelectorAll('tr.run input')]; boxes[0].click(); boxes.at(-1).click(); await pause(200);\
         document.querySelector('#picked button').click(); await pause(200);\
         return [boxes.length, table(), location.hash, document.querySelector('#comparison pre').textContent];"
    );
    let Some(found) = found(&bench, 24, 2, "", &script) else { return };
    let (latest, first) = (id(23), id(1));
    assert_eq!(found[0], 12);
    let rows = found[1].as_array().unwrap();
    let cell = |row: &Value, at: usize| row[at].as_str().unwrap().to_owned();
    assert!(cell(&rows[0], 1).contains(&latest) && cell(&rows[0], 2).contains(&first), "{found:#}");
    // The last run's ratios are a tenth larger than the first's.
    let ratio = rows.iter().find(|row| cell(row, 0).contains(" / ")).unwrap_or_else(|| panic!("{found:#}"));
    assert!(cell(ratio, 2).contains("0.91 times (") || cell(ratio, 2).contains("0.909 times ("), "{found:#}");
    assert_eq!(found[2], format!("#compare={latest}%2C{first}"));
    assert_eq!(found[3], format!("baremark compare {latest} {first}"));

    let script = format!(
        "{table} await pause(300); return [table(), document.querySelectorAll('#studies input:checked').length];"
    );
    let Some(again) = self::found(&bench, 24, 2, &format!("#compare={latest},{first}"), &script) else { return };
    assert_eq!((&again[0], &again[1]), (&found[1], &1.into()), "only the latest run's row is unfolded");
}

/// Nothing that a run says becomes markup, in rows, lists of runs and comparisons.
#[test]
fn nothing_comes_from_elsewhere_and_nothing_is_a_script_of_a_run() {
    let bench = Bench::new();
    let script = "document.querySelectorAll('button.fold').forEach(button => button.click()); await pause(300);\
        return [document.scripts.length, [...document.querySelectorAll('[src],[href]')].map(of => of.getAttribute('src') ?? of.getAttribute('href'))\
          .filter(of => /^[a-z]+:|^\\/\\//.test(of)), document.querySelectorAll('main b, main img').length];";
    let Some(found) = found(&bench, 12, 3, "", script) else { return };
    // Two scripts and the rows of the index, this test's, and a file of runs.
    assert_eq!(found, serde_json::json!([4, [], 0]));
}
