//! How the CPUs of one machine are divided among several sites on it.

use baremark_model::site::{Missing, Portion};
use baremark_sys::affinity;

/// The CPUs of one site: its own as long as there are enough, else all sites share them in turn. `named` are those that may be used, all
/// when `None`; `sites` is what the sites are called.
pub fn cpus(named: Option<&[usize]>, portion: Portion, sites: &str) -> Result<Vec<usize>, Missing> {
    let Portion { index, of, ranks } = portion;
    let all = match named {
        Some(cpus) => cpus.to_vec(),
        None => affinity::allowed_cpus().map_err(|why| Missing {
            what: format!("asking which CPUs may be used: {why}"),
            remedy: "name them: cpus".to_owned(),
        })?,
    };
    if ranks > all.len() {
        let what = format!("each of {of} {sites} is to run {ranks} ranks and may use {} CPUs", all.len());
        return Err(Missing { what, remedy: "write fewer ranks, or a larger count".to_owned() });
    }
    Ok((0..ranks).map(|rank| all[(index * ranks + rank) % all.len()]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_cpus_of_their_own_as_long_as_there_are_enough() {
        let of = |index, of, ranks| cpus(Some(&[4, 5, 6, 7]), Portion { index, of, ranks }, "sandboxes");
        assert_eq!((of(0, 2, 2), of(1, 2, 2)), (Ok(vec![4, 5]), Ok(vec![6, 7])));
        assert_eq!(of(1, 2, 3), Ok(vec![7, 4, 5]), "shared in turn");
        let why = of(0, 2, 5).expect_err("too many").to_string();
        assert!(
            why.starts_with("each of 2 sandboxes is to run 5 ranks and may use 4 CPUs; write fewer ranks"),
            "{why}"
        );
    }
}
