//! Files of strangers: bundles with their histograms, results of other programs, and fio's job files.

use baremark_bundle::{MOST_BYTES, check, pack, unpack};
use baremark_disks::fio::FioJob;
use baremark_import::{Column, FORMATS, MOST_VALUES, Options, read};
use baremark_model::hdr;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// A bundle is unpacked without a panic, within the sizes of its files, or refused; what was unpacked is packed as the same again. The bytes
/// are taken as an archive, and as a compressed one.
pub fn bundle(data: &[u8]) {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(data).and_then(|()| compressed.try_finish()).expect("a vector takes everything");
    for bytes in [data, compressed.get_ref()] {
        let Ok(bundle) = unpack(bytes) else { continue };
        let files = [&bundle.script, &bundle.run, &bundle.trials, &bundle.result, &bundle.report];
        assert!(files.into_iter().zip(&MOST_BYTES[1..]).all(|(file, most)| file.len() as u64 <= *most));
        let again = unpack(pack(&bundle).expect("it fits").as_slice()).expect("its own archive");
        assert_eq!(again, bundle);
        if let Some(signature) = &bundle.signature {
            let _ = check(signature, &bundle.manifest().expect("it has one"));
        }
    }
}

/// A file of results is read without a panic, or refused with a sentence: each value is a positive number, in any format and in the one that is
/// recognised.
pub fn import(data: &[u8]) {
    let columns: Vec<Column> = ["test", "seconds:lower:s"].map(|text| text.parse().expect("a column")).into();
    let names = FORMATS.iter().map(|format| Some(format.name)).chain([None]);
    for format in names {
        let columns = if format == Some("csv") { columns.as_slice() } else { &[] };
        let options = Options { format, columns, now_unix_s: 1_800_000_000 };
        let of = |bytes: &[u8]| read(&mut &*bytes, &options);
        let imported = match of(data) {
            Ok(imported) => imported,
            Err(why) => {
                assert!(!why.to_string().is_empty());
                continue;
            }
        };
        let values: Vec<f64> = imported.measured.iter().flat_map(|of| of.values.iter().copied()).collect();
        assert!(!values.is_empty() && values.len() <= MOST_VALUES);
        assert!(values.iter().all(|value| value.is_finite() && *value > 0.0), "{values:?}");
        assert!(imported.unix_s.is_none_or(|unix_s| unix_s <= 1_800_086_400));
    }
}

/// A job file of fio is read without a panic, with the lines that have no effect here, or refused with a sentence.
///
/// # Panics
/// When that does not hold.
pub fn job(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match FioJob::read(&text) {
        Ok(job) => {
            let lines = text.lines().count();
            assert!(job.ignored.iter().all(|ignored| (1..=lines).contains(&ignored.line)), "{:?}", job.ignored);
            assert!(job.parameters.iter().all(|(key, value)| !key.is_empty() && !value.is_empty()), "{job:?}");
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// A histogram is read without a panic, with latencies in order, and written and read again as the same; or it is refused with a sentence.
///
/// # Panics
/// When that does not hold.
pub fn histogram(data: &[u8]) {
    match hdr::read(data) {
        Ok((digits, histogram)) => {
            assert!(histogram.counts().is_sorted_by(|one, two| one.0 < two.0 && one.1 > 0));
            assert_eq!(hdr::read(&hdr::write(digits, &histogram)), Ok((digits, histogram)));
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}
