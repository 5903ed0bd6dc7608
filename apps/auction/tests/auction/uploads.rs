//! Uploads: small files whose pictures are large cost a server little memory, however many come at once.

use crate::http::{Answer, User};
use crate::market::upload;
use crate::process::{Server, Site};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use serde_json::json;
use tempfile::TempDir;

/// Of ten with 8 million pixels nine bytes a pixel are 720 MiB, if all are decoded at once, and of ten that are too large three bytes a pixel 480 MiB.
const AT_ONCE: usize = 10;

/// A progressive JPEG of one colour: few bytes, and a decoder needs all of its pixels at once.
fn progressive(side: u16) -> Vec<u8> {
    let mut jpeg = Vec::new();
    let mut encoder = Encoder::new(&mut jpeg, 80);
    encoder.set_progressive(true);
    encoder.set_optimized_huffman_tables(true);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    let pixels = vec![128; usize::from(side) * usize::from(side) * 3];
    encoder.encode(&pixels, side, side, ColorType::Rgb).unwrap();
    jpeg
}

/// The most resident memory since `forget_peak`, in MiB.
fn peak_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn forget_peak(server: &Server) {
    std::fs::write(format!("/proc/{}/clear_refs", server.child.id()), "5").unwrap();
}

/// How much memory the server takes at most while these are uploaded at once, beyond what it had, and its answers. Who had to wait too long
/// for a turn is answered `busy`, and sends the picture again.
fn grown_mib(server: &Server, user: &User, items: &[i64], jpeg: &[u8]) -> (u64, Vec<Answer>) {
    forget_peak(server);
    let before = peak_mib(server);
    let answers = std::thread::scope(|scope| {
        let uploads: Vec<_> = items
            .iter()
            .map(|item| {
                let send = move || upload(user, &server.address, &format!("/api/items/{item}/images"), jpeg);
                let sends_again = move || std::iter::repeat_with(send).find(|answer| answer.code() != "busy").unwrap();
                scope.spawn(sends_again)
            })
            .collect();
        uploads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    (peak_mib(server) - before, answers)
}

#[test]
fn large_pictures_at_once_take_little_memory() {
    let folder = TempDir::new().unwrap();
    let site = Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 15);
    let server = site.serve_with(&["--open", "1h", "--last-call", "1h", "--threads", "8"]);
    let at = server.address.as_str();
    let user = User::log_in(at, 1, &site.password);
    let offer = json!({ "name": "Lamp", "description": "Lights.", "manufacturer": "Me", "condition": "used", "starting_cents": 500 });
    let own: Vec<i64> =
        (0..AT_ONCE).map(|_| user.post(at, "/api/items", &offer).json()["item_id"].as_i64().unwrap()).collect();
    let (large, allowed) = (progressive(4096), progressive(2896));

    let (grown, answers) = grown_mib(&server, &user, &[1; AT_ONCE], &large);
    assert!(answers.iter().all(|answer| answer.code() == "not_yours"), "{answers:?}");
    assert!(grown < 64, "{grown} MiB for pictures of somebody else's item, which are not even decoded");

    let (grown, answers) = grown_mib(&server, &user, &own, &large);
    assert!(answers.iter().all(|answer| answer.code() == "invalid"), "{answers:?}");
    assert!(String::from_utf8_lossy(&answers[0].body).contains("4096 x 4096 pixels; at most 8388608 in all"));
    assert!(grown < 64, "{grown} MiB for pictures that are too large");

    // Two at once, nine bytes a pixel each, and what it takes to have them in their small sizes.
    let (grown, answers) = grown_mib(&server, &user, &own, &allowed);
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert!(grown < 256, "{grown} MiB for {AT_ONCE} pictures at once");
}
