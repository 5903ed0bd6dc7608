//! What nested paging would cost random access to 1 GiB on a processor that is not here, by page size.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_mmu::machine;
use baremark_mmu::page::Page::{Large, Small};
use baremark_mmu::predict::{Effort, Question, predict};
use baremark_mmu::prior::priors;
use baremark_mmu::scheme::Scheme;
use baremark_mmu::stream::{RandomAccess, Stream};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let (machine, priors) = (machine::known("zen-4")?, priors()?);
    let table = RandomAccess::new(1 << 30)?;
    let stream = || -> Box<dyn Stream> { Box::new(table.clone()) };
    let nested = |page| [Scheme::Native { page }, Scheme::Nested { guest_page: page, host_backing: page }];
    let schemes = [nested(Small), nested(Large)].concat();
    let effort = Effort { structures: 6, draws: 60, accesses: 1 << 14, seed: 1 };
    let prediction = predict(&Question { effort, ..Question::new(&machine, &priors, &stream, schemes) })?;
    for cell in prediction.cells {
        let Some(relative) = cell.relative else { continue };
        println!("{:40} {:.2} ({:.2} to {:.2})", cell.scheme.to_string(), relative.median, relative.low, relative.high);
    }
    Ok(())
}
