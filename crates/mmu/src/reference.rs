//! Published values that the validation compares with, read from `reference/`.

use crate::page::Page;
use crate::reader::{Reader, Section};
use baremark_model::problem::Problems;

const HPC: &str = include_str!("../../../reference/hpc-memory-2010.toml");
const ASSIST: &str = include_str!("../../../reference/mmu-assist-2009.toml");

/// A table of native and virtual cells by page size; higher is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Native, by page size: 4 KiB, 2 MiB.
    pub native: [f64; 2],
    /// Virtual with nested paging.
    pub nested: [f64; 2],
    /// Virtual with shadow paging.
    pub shadow: [f64; 2],
}

impl Published {
    /// Virtual over native, recomputed from the cells: nested and shadow.
    #[must_use]
    pub fn ratios(&self) -> [[f64; 2]; 2] {
        [self.nested, self.shadow].map(|cells| std::array::from_fn(|page| cells[page] / self.native[page]))
    }
}

/// StarRandomAccess and HPL of 2010.
///
/// # Errors
/// When the file was broken; tests read it.
pub fn hpc() -> Result<(Published, Published), Problems> {
    Reader::read("reference/hpc-memory-2010.toml", HPC, |reader, top| {
        let random_access = reader.section(top, "star-random-access")?;
        let hpl = reader.section(top, "hpl")?;
        Some((table(reader, &random_access)?, table(reader, &hpl)?))
    })
}

/// By how much nested paging was better at most, in percent, where page tables change (2009).
///
/// # Errors
/// When the file was broken; tests read it.
pub fn assist_gain_percent() -> Result<f64, Problems> {
    Reader::read("reference/mmu-assist-2009.toml", ASSIST, |reader, top| {
        let section = reader.section(top, "kernel-micro-benchmarks")?;
        reader.range(&section, "gain_percent_up_to", 0.0, 10_000.0).map(|range| range.low)
    })
}

fn table(reader: &mut Reader, section: &Section<'_>) -> Option<Published> {
    let mut published = Published { native: [f64::NAN; 2], nested: [f64::NAN; 2], shadow: [f64::NAN; 2] };
    for cell in reader.sections(section, "cells") {
        let label = reader.text(&cell, "page")?;
        let page = reader.page(&cell, &label)?;
        let index = usize::from(page == Page::Large);
        let value = reader.range(&cell, "value", 0.0, 1e9)?.low;
        let native = reader.word(&cell, "environment", &["native", "virtual"])? == 0;
        let column = match native {
            true => &mut published.native,
            false if reader.word(&cell, "mmu", &["nested", "shadow"])? == 0 => &mut published.nested,
            false => &mut published.shadow,
        };
        column[index] = value;
    }
    let all = [published.native, published.nested, published.shadow];
    if all.iter().flatten().any(|value| value.is_nan()) {
        reader.refuse(section, "cells", "a cell is missing".to_owned());
    }
    Some(published)
}
