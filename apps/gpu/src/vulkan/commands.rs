//! Commands for the device: copies, kernels and frames, each with the barrier that lets the next one see what it wrote.

use super::{Bound, Buffer, Canvas, Kernels};
use ash::vk::{self, Handle};

/// Commands that are being recorded.
pub struct Commands<'d> {
    pub(super) device: &'d ash::Device,
    pub(super) to: vk::CommandBuffer,
}

impl std::fmt::Debug for Commands<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Commands").field("to", &self.to.as_raw()).finish_non_exhaustive()
    }
}

/// Corners and triangles on the device, and the cameras of the frames.
#[derive(Clone, Copy, Debug)]
pub struct Model<'b> {
    /// Corners.
    pub corners: &'b Buffer,
    /// Numbers of corners.
    pub indices: &'b Buffer,
    /// Cameras.
    pub cameras: Bound,
}

impl Commands<'_> {
    /// Lets whatever follows see what was written before.
    pub fn barrier(&self) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::MEMORY_WRITE).dst_access_mask(
            vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::HOST_READ,
        )];
        let (before, after) =
            (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::ALL_COMMANDS | vk::PipelineStageFlags::HOST);
        // SAFETY: the buffer is being recorded, outside a pass.
        unsafe {
            self.device.cmd_pipeline_barrier(self.to, before, after, vk::DependencyFlags::empty(), &barrier, &[], &[])
        };
    }

    /// Copies bytes from one buffer to another.
    ///
    /// # Panics
    /// Where either is too small.
    pub fn copy(&self, from: &Buffer, from_at: usize, to: &Buffer, to_at: usize, bytes: usize) {
        assert!(
            (from_at + bytes) as u64 <= from.bytes && (to_at + bytes) as u64 <= to.bytes,
            "a copy inside both buffers"
        );
        let region = [vk::BufferCopy { src_offset: from_at as u64, dst_offset: to_at as u64, size: bytes as u64 }];
        // SAFETY: both buffers are this device's, and the region is inside both.
        unsafe { self.device.cmd_copy_buffer(self.to, from.handle, to.handle, &region) };
        self.barrier();
    }

    /// Runs a kernel with at least `invocations` invocations, 64 a group.
    pub fn dispatch(&self, kernels: &Kernels, kernel: usize, bound: Bound, invocations: usize) {
        let groups = invocations.div_ceil(64) as u32;
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the kernel, its layout and its buffers are this device's; the shader checks every index against the layer's sizes.
        unsafe {
            self.device.cmd_bind_pipeline(self.to, point, kernels.pipelines[kernel]);
            self.device.cmd_bind_descriptor_sets(self.to, point, kernels.layout, 0, &[bound.0], &[]);
            self.device.cmd_dispatch(self.to, groups, 1, 1);
        }
        self.barrier();
    }

    /// Draws a frame, part by part, on `behind`, and copies its pixels, 4 bytes each, to a host buffer.
    ///
    /// # Panics
    /// Where the buffer is too small.
    pub fn draw(
        &self,
        canvas: &Canvas,
        model: Model<'_>,
        parts: &[std::ops::Range<u32>],
        (frame, behind): (u32, [f32; 4]),
        to: &Buffer,
    ) {
        let vk::Extent2D { width, height } = canvas.size;
        assert!(u64::from(width) * u64::from(height) * 4 <= to.bytes, "room for the pixels");
        let clear = [
            vk::ClearValue { color: vk::ClearColorValue { float32: behind } },
            vk::ClearValue { depth_stencil: vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 } },
        ];
        let begin = vk::RenderPassBeginInfo::default()
            .render_pass(canvas.pass)
            .framebuffer(canvas.framebuffer)
            .render_area(vk::Rect2D { extent: canvas.size, ..Default::default() })
            .clear_values(&clear);
        let point = vk::PipelineBindPoint::GRAPHICS;
        let region = [vk::BufferImageCopy {
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                layer_count: 1,
                ..Default::default()
            },
            image_extent: vk::Extent3D { width, height, depth: 1 },
            ..Default::default()
        }];
        // SAFETY: all handles are this device's; the pass is begun and ended here, and leaves the image in the layout that is copied.
        unsafe {
            self.device.cmd_begin_render_pass(self.to, &begin, vk::SubpassContents::INLINE);
            self.device.cmd_bind_pipeline(self.to, point, canvas.pipeline);
            self.device.cmd_bind_descriptor_sets(self.to, point, canvas.layout, 0, &[model.cameras.0], &[]);
            self.device.cmd_bind_vertex_buffers(self.to, 0, &[model.corners.handle], &[0]);
            self.device.cmd_bind_index_buffer(self.to, model.indices.handle, 0, vk::IndexType::UINT32);
            for part in parts {
                self.device.cmd_draw_indexed(self.to, part.end - part.start, 1, part.start, 0, frame);
            }
            self.device.cmd_end_render_pass(self.to);
        }
        self.barrier();
        // SAFETY: as above.
        unsafe {
            let layout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
            self.device.cmd_copy_image_to_buffer(self.to, canvas.image, layout, to.handle, &region);
        }
    }
}
