//! HPC Challenge: `hpccoutf.txt`, of which the summary at its end is read, and raw logs that have such lines `NAME=VALUE`.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Better, Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::{NO_END, Text};

pub(super) const FORMAT: Format = Format {
    name: "hpcc",
    help: "hpcc, which writes hpccoutf.txt",
    recognises: |head| head.contains("HPC Challenge") || head.contains(BEGIN) || head.contains("\nHPL_Tflops="),
    read,
};

const BEGIN: &str = "Begin of Summary section.";
const END: &str = "End of Summary section.";

/// The figures: ending of the name, unit, direction.
const FIGURES: [(&str, &str, Better); 14] = [
    ("HPL_Tflops", "Tflop/s", Better::Higher),
    ("PTRANS_GBs", "GB/s", Better::Higher),
    ("RandomAccess_GUPs", "GUP/s", Better::Higher),
    ("RandomAccess_LCG_GUPs", "GUP/s", Better::Higher),
    ("STREAM_Copy", "GB/s", Better::Higher),
    ("STREAM_Scale", "GB/s", Better::Higher),
    ("STREAM_Add", "GB/s", Better::Higher),
    ("STREAM_Triad", "GB/s", Better::Higher),
    ("DGEMM_Gflops", "Gflop/s", Better::Higher),
    ("FFT_Gflops", "Gflop/s", Better::Higher),
    ("AvgPingPongLatency_usec", "us", Better::Lower),
    ("RingLatency_usec", "us", Better::Lower),
    ("AvgPingPongBandwidth_GBytes", "GB/s", Better::Higher),
    ("RingBandwidth_GBytes", "GB/s", Better::Higher),
];

/// What says which work was done.
const WORK: [&str; 11] = [
    "CommWorldProcs",
    "HPL_N",
    "HPL_NB",
    "HPL_nprow",
    "HPL_npcol",
    "PTRANS_n",
    "MPIRandomAccess_N",
    "RandomAccess_N",
    "STREAM_VectorSize",
    "DGEMM_N",
    "FFT_N",
];

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let text = text.whole()?;
    let lines = Lines(&text);
    let begun = lines.all().find(|(_, line)| *line == BEGIN).map(|(number, _)| number);
    if let Some((second, _)) = lines.all().filter(|(_, line)| *line == BEGIN).nth(1) {
        return Err(Damage::at(
            Place::Line(second),
            "a second summary: HPCC appends to its file; split it between the runs",
        ));
    }
    if begun.is_some() && !lines.all().any(|(_, line)| line == END) {
        return Err(lines.lacks(END));
    }
    if begun.is_none() && text.contains("HPC Challenge") {
        return Err(lines.lacks(BEGIN));
    }
    if begun.is_none() && !text.ends_with('\n') {
        return Err(Damage::at(Place::Line(text.lines().count() as u64), NO_END));
    }
    let version =
        lines.all().find_map(|(_, line)| line.split_once("HPC Challenge Benchmark version ")?.1.split(' ').next());
    let mut imported = Results::of(format!("HPCC {}", version.unwrap_or_default()).trim_end());
    imported.open_ended = begun.is_none();
    imported.host = lines.after("Hostname:").map(|(_, host)| host.trim_matches('\'').to_owned());
    let began = lines.after("Current time (").and_then(|(_, rest)| rest.split(')').next());
    imported.unix_s = began.and_then(|began| began.parse().ok());
    for (number, line) in lines.all().filter(|(number, _)| begun.is_none_or(|begun| *number > begun)) {
        let Some((key, value)) = line.split_once('=') else { continue };
        pair(&mut imported, number, key.trim(), value.trim())?;
    }
    Ok(imported)
}

fn pair(imported: &mut Results, line: u64, key: &str, value: &str) -> Result<(), Damage> {
    if key == "Success" && value != "1" {
        return Err(Damage::at(Place::Line(line), "Success=0: a test of the suite failed, its figures are no result"));
    }
    if WORK.contains(&key) {
        imported.parameter(key, Some(value));
    }
    let figure = FIGURES.iter().find(|(ending, ..)| {
        let part = key.strip_suffix(ending);
        part.is_some_and(|part| part.chars().all(|c| c.is_ascii_alphabetic()))
    });
    let Some((_, unit, better)) = figure else { return Ok(()) };
    let number = number::leading(value, line, key)?;
    // The suite writes -1 for a test that was not run.
    if number >= 0.0 {
        imported.add("", &Metric { key: key.to_owned(), unit: (*unit).to_owned(), better: *better }, [number])?;
    }
    Ok(())
}
