//! Bundles of strangers: changed, cut off, too large, and made to harm whoever reads them.
#![allow(clippy::unwrap_used, reason = "a test")]

use baremark_bundle::{Bundle, BundleError, MOST_BYTES, MOST_COMPRESSED, MOST_SIGNATURE_BYTES, NAMES, REDERIVE, pack};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::{Read, Write};

fn bundle() -> Bundle {
    let text = |text: &str| text.as_bytes().to_vec();
    Bundle {
        script: REDERIVE.as_bytes().to_vec(),
        run: text("{\"id\":\"r1\"}"),
        trials: text("[{\"value\":1.25}]"),
        result: text("{\"ratio\":0.95}"),
        report: text("0.95\n"),
        signature: None,
    }
}

fn unpack(bytes: &[u8]) -> Result<Bundle, BundleError> {
    baremark_bundle::unpack(bytes)
}

fn tar_of(packed: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut tar).unwrap();
    tar
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(tar).unwrap();
    gzip.finish().unwrap()
}

/// The place of the header of file `index`, and a header's checksum put right.
fn header_at(tar: &[u8], index: usize) -> usize {
    (0..tar.len()).step_by(512).find(|&at| tar[at..].starts_with(NAMES[index].as_bytes())).unwrap()
}

fn checksum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn refused(tar: &[u8]) -> String {
    unpack(&gzip(tar)).unwrap_err().to_string()
}

#[test]
fn a_bundle_comes_back_and_is_the_same_bytes_each_time() {
    let packed = pack(&bundle()).unwrap();
    assert_eq!(unpack(&packed).unwrap(), bundle());
    assert_eq!(packed, pack(&bundle()).unwrap());
}

/// Signed by somebody: whoever reads the signature says by whom.
fn signed() -> Bundle {
    Bundle { signature: Some(b"-----BEGIN SSH SIGNATURE-----\n".to_vec()), ..bundle() }
}

#[test]
fn a_signature_is_one_file_more_and_its_manifest_the_same() {
    let packed = pack(&signed()).unwrap();
    assert_eq!(unpack(&packed).unwrap(), signed());
    assert_eq!(signed().manifest().unwrap(), bundle().manifest().unwrap());
    // A second one, one before its place, and one that is too long.
    let tar = tar_of(&packed);
    let at = tar.len() - 4 * 512;
    let (before, signature) = (&tar[..at], &tar[at..at + 1024]);
    assert!(signature.starts_with(b"bundle.json.sig\0"));
    assert!(refused(&[before, signature, signature, &[0; 1024]].concat()).contains("more after"));
    assert!(refused(&[&tar[..header_at(&tar, 5)], signature, &[0; 1024]].concat()).contains("header of report.txt"));
    let long = Bundle { signature: Some(vec![b'x'; usize::try_from(MOST_SIGNATURE_BYTES).unwrap() + 1]), ..bundle() };
    assert!(pack(&long).unwrap_err().to_string().starts_with("bundle.json.sig has more than"));
}

/// What is signed are the bytes of the manifest, of which there is one form.
#[test]
fn a_manifest_in_another_form_is_refused() {
    let tar = tar_of(&pack(&bundle()).unwrap());
    let size = usize::from_str_radix(std::str::from_utf8(&tar[124..135]).unwrap(), 8).unwrap();
    let mut changed = tar.clone();
    let last = 512 + size - 1;
    assert_eq!((changed[last - 1], changed[last]), (b'\n', b'}'));
    changed[last - 1] = b' ';
    assert!(refused(&changed).contains("bundle.json is not written as baremark writes it"));
}

#[test]
fn a_changed_digit_is_found_in_every_file() {
    let tar = tar_of(&pack(&bundle()).unwrap());
    for (index, name) in NAMES.iter().enumerate().skip(1) {
        let at = header_at(&tar, index) + 512;
        let digit = (at..).find(|&at| tar[at].is_ascii_digit()).unwrap();
        let mut changed = tar.clone();
        changed[digit] ^= 1;
        let why = refused(&changed);
        assert!(why.contains(&format!("{name} does not have the SHA-256")), "{name}: {why}");
    }
}

#[test]
fn a_bundle_that_is_cut_off_is_refused_at_every_length() {
    let packed = pack(&bundle()).unwrap();
    for length in 0..packed.len() {
        unpack(&packed[..length]).unwrap_err();
    }
    let tar = tar_of(&packed);
    for length in (0..tar.len()).step_by(256) {
        assert!(refused(&tar[..length]).contains("too early"), "{length}");
    }
}

#[test]
fn other_names_links_and_devices_are_refused() {
    let tar = tar_of(&pack(&bundle()).unwrap());
    let at = header_at(&tar, 2);
    for name in ["../run.json", "/etc/run.json", "run.json/../x", "other.json", "run.json\0../../x"] {
        let mut changed = tar.clone();
        changed[at..at + 100].fill(0);
        changed[at..at + name.len()].copy_from_slice(name.as_bytes());
        checksum(&mut changed[at..at + 512]);
        assert!(refused(&changed).contains("is not one that baremark writes"), "{name}");
    }
    for kind in *b"1234567xgLK" {
        let mut changed = tar.clone();
        changed[at + 156] = kind;
        changed[at + 157..at + 157 + 11].copy_from_slice(b"/etc/passwd");
        checksum(&mut changed[at..at + 512]);
        assert!(refused(&changed).contains("is not one that baremark writes"), "{}", char::from(kind));
    }
}

#[test]
fn claimed_sizes_take_no_memory() {
    let tar = tar_of(&pack(&bundle()).unwrap());
    let at = header_at(&tar, 3);
    let claim = |size: &str| {
        let mut changed = tar.clone();
        changed[at + 124..at + 135].copy_from_slice(size.as_bytes());
        checksum(&mut changed[at..at + 512]);
        unpack(&gzip(&changed)).unwrap_err()
    };
    assert!(matches!(claim("77777777777"), BundleError::TooLarge { most, .. } if most == MOST_BYTES[3]));
    assert!(matches!(claim("00277777777"), BundleError::Archive(why) if why.contains("too early")));
    assert!(matches!(claim("-0000000001"), BundleError::Archive(_)));
}

/// A gigabyte of zeros in a megabyte is refused after the limit of the file that it claims to be.
#[test]
fn a_bomb_is_refused_at_the_limit() {
    let tar = tar_of(&pack(&bundle()).unwrap());
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let at = header_at(&tar, 1);
    gzip.write_all(&tar[..at]).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        gzip.write_all(&zeros).unwrap();
    }
    let packed = gzip.finish().unwrap();
    assert!(packed.len() < 1 << 20);
    assert!(unpack(&packed).unwrap_err().to_string().contains("header of rederive.py"));
}

#[test]
fn nothing_follows_the_end() {
    let packed = pack(&bundle()).unwrap();
    let tar = tar_of(&packed);
    assert!(refused(&[&tar[..], &[0; 512]].concat()).contains("more after"));
    assert!(unpack(&[&packed[..], b"x"].concat()).unwrap_err().to_string().contains("more after"));
    assert!(unpack(&[&packed[..], &packed[..]].concat()).unwrap_err().to_string().contains("more after"));
}

/// All files together are what reading a bundle holds in memory: before, 360 MiB and the compressed file.
#[test]
fn the_files_of_a_bundle_fit_into_a_quarter_of_the_memory_that_verifying_may_take() {
    assert!(MOST_BYTES.iter().sum::<u64>() <= 68 << 20, "{MOST_BYTES:?}");
    // Blocks of nothing, which have no end: what is read of them is limited.
    let mut empty = GzEncoder::new(Vec::new(), Compression::none());
    empty.flush().unwrap();
    let head = empty.get_ref().clone();
    let nothing = [0x00, 0x00, 0x00, 0xff, 0xff].into_iter().cycle();
    let endless: Vec<u8> =
        head.into_iter().chain(nothing).take(usize::try_from(MOST_COMPRESSED).unwrap() + 5).collect();
    assert!(matches!(unpack(&endless).unwrap_err(), BundleError::Gzip(_) | BundleError::Archive(_)));
}

#[test]
fn a_stranger_s_script_is_given_as_it_is() {
    let strange = Bundle { script: b"import os".to_vec(), ..bundle() };
    assert_eq!(unpack(&pack(&strange).unwrap()).unwrap().script, b"import os");
}

#[test]
fn what_is_too_large_is_not_packed() {
    let large = Bundle { report: vec![b'x'; usize::try_from(MOST_BYTES[5]).unwrap() + 1], ..bundle() };
    assert!(pack(&large).unwrap_err().to_string().starts_with("report.txt has more than"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = unpack(&bytes);
        let _ = unpack(&gzip(&bytes));
    }

    #[test]
    fn a_flipped_byte_of_the_archive_is_refused(at in 0_usize..6000, bit in 0_u32..8) {
        let mut tar = tar_of(&pack(&bundle()).unwrap());
        let at = at % tar.len();
        tar[at] ^= 1 << bit;
        prop_assert!(unpack(&gzip(&tar)).is_err());
    }
}
