//! How KVM translates a guest's addresses.

use baremark_model::site::Missing;
use std::fs;
use std::path::Path;

/// How KVM translates the guest's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mmu {
    /// As the loaded module does.
    #[default]
    AsIs,
    /// By tables of the processor (EPT, NPT).
    Nested,
    /// By tables that KVM keeps.
    Shadow,
}

impl Mmu {
    /// What a study's word for it says.
    pub(crate) fn of_word(word: Option<&str>) -> Mmu {
        match word {
            Some("nested") => Mmu::Nested,
            Some("shadow") => Mmu::Shadow,
            _ => Mmu::AsIs,
        }
    }
}

/// Says whether the module that is loaded translates as asked; reloading it is the owner's business.
///
/// # Errors
/// What the module does instead.
pub(crate) fn check(asked: Mmu) -> Result<(), Missing> {
    loaded(asked, Path::new("/sys/module"))
}

fn loaded(asked: Mmu, modules: &Path) -> Result<(), Missing> {
    let (word, wanted, value) = match asked {
        Mmu::AsIs => return Ok(()),
        Mmu::Nested => ("nested", true, 1),
        Mmu::Shadow => ("shadow", false, 0),
    };
    for (module, parameter) in [("kvm_intel", "ept"), ("kvm_amd", "npt")] {
        let Ok(text) = fs::read_to_string(modules.join(module).join("parameters").join(parameter)) else { continue };
        if ["Y", "1"].contains(&text.trim()) == wanted {
            return Ok(());
        }
        let what = format!("mmu = {word} contradicts {module}: its parameter {parameter} is {}", text.trim());
        let remedy = format!("while no machine runs: modprobe -r {module}, then modprobe {module} {parameter}={value}");
        return Err(Missing { what, remedy });
    }
    let what = format!("mmu = {word} is not available here: neither kvm_intel nor kvm_amd is loaded");
    Err(Missing { what, remedy: "run it on a machine whose KVM is one of them".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mmu_is_what_the_module_does() {
        let folder = std::env::temp_dir().join(format!("baremark-mmu-{}", std::process::id()));
        let why = loaded(Mmu::Shadow, &folder).expect_err("no module").to_string();
        assert!(
            why.starts_with("mmu = shadow is not available here: neither kvm_intel nor kvm_amd is loaded"),
            "{why}"
        );
        let parameters = folder.join("kvm_amd/parameters");
        fs::create_dir_all(&parameters).expect("it can be made");
        fs::write(parameters.join("npt"), "Y\n").expect("it can be written");
        assert_eq!(loaded(Mmu::Nested, &folder), Ok(()));
        let why = loaded(Mmu::Shadow, &folder).expect_err("it is nested").to_string();
        assert!(why.contains("its parameter npt is Y; while no machine runs: modprobe -r kvm_amd"), "{why}");
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
