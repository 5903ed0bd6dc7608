//! The member `render`: fixed frames of the scene, one after the other, each copied back as a remote desktop would; the first and the last
//! are checked afterwards.

use crate::member::{self, On, Report};
use crate::scene::built;
use crate::view::{Size, View, checked};
use crate::vulkan::{Choice, Device, Model, Purpose};

const SPIRV: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/render.spv"));
/// The colour where nothing is, which is exact in a byte.
const BEHIND: [u8; 3] = [51, 51, 102];

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// On what.
    pub on: On,
    /// Frames.
    pub frames: u32,
    /// Gear boxes along a side of the scene.
    pub detail: u16,
    /// Pixels of a frame.
    pub size: Size,
    /// Bytes of the device's memory that may be used.
    pub device_bytes: u64,
}

/// Draws and checks.
///
/// # Errors
/// Where there is no device, memory exceeds its limit, or a frame is wrong.
pub fn run(settings: Settings) -> Result<Report, String> {
    let choice = if settings.on == On::Vulkan { Choice::Any } else { Choice::Software };
    let device = Device::open(choice, settings.device_bytes).map_err(|why| why.to_string())?;
    let scene = built(settings.detail);
    let views: Vec<View> =
        (0..settings.frames).map(|frame| View::of(&scene, settings.size, frame, settings.frames)).collect();
    let drawn = Drawn::new(&device, settings, &scene, &views).map_err(|why| why.to_string())?;
    // A driver may compile shaders when they are first used.
    device.run(drawn.frames[0]).map_err(|why| why.to_string())?;
    let (begun, done, frames) = member::timed(|| drawn.all().map_err(|why| why.to_string()))?;
    let last = views.len() - 1;
    let mut right = f64::INFINITY;
    for (view, pixels) in [(&views[0], &frames.0), (&views[last], &frames.1)] {
        right = right.min(checked(&scene, view, settings.size, pixels, BEHIND)?);
    }
    let used = (device.name().to_owned(), device.is_hardware(), device.used());
    Ok(member::report((begun, done), u64::from(settings.frames), used, right))
}

/// Frames that are ready to be drawn.
struct Drawn<'d> {
    device: &'d Device,
    frames: Vec<crate::vulkan::Recorded>,
    pixels: crate::vulkan::Buffer,
}

impl<'d> Drawn<'d> {
    fn new(
        device: &'d Device,
        settings: Settings,
        scene: &crate::scene::Scene,
        views: &[View],
    ) -> Result<Self, crate::vulkan::Error> {
        let canvas = device.canvas(SPIRV, settings.size)?;
        let corners = device.uploaded(&scene.bytes(), Purpose::Corners)?;
        let numbers: Vec<u8> = scene.triangles.iter().flat_map(|number| number.to_le_bytes()).collect();
        let indices = device.uploaded(&numbers, Purpose::Indices)?;
        let cameras: Vec<u8> = views.iter().flat_map(View::numbers).flat_map(f32::to_le_bytes).collect();
        let cameras = device.uploaded(&cameras, Purpose::Storage)?;
        let cameras = device.bound_cameras(&canvas, &cameras)?;
        let pixels = device.buffer(4 * (settings.size.0 * settings.size.1) as usize, Purpose::Host)?;
        let model = Model { corners: &corners, indices: &indices, cameras };
        let behind = [f32::from(BEHIND[0]) / 255.0, f32::from(BEHIND[1]) / 255.0, f32::from(BEHIND[2]) / 255.0, 1.0];
        let one =
            |frame| device.recorded(|commands| commands.draw(&canvas, model, &scene.parts, (frame, behind), &pixels));
        let frames = (0..settings.frames).map(one).collect::<Result<_, _>>()?;
        Ok(Drawn { device, frames, pixels })
    }

    /// Draws all frames; the pixels of the first and the last.
    fn all(&self) -> Result<(Vec<u8>, Vec<u8>), crate::vulkan::Error> {
        let mut first = None;
        let mut last = Vec::new();
        for frame in &self.frames {
            self.device.run(*frame)?;
            last = self.device.read(&self.pixels);
            first.get_or_insert_with(|| last.clone());
        }
        Ok((first.unwrap_or_default(), last))
    }
}
