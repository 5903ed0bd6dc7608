//! The part of Vulkan that the members need: one device with one queue, buffers, compute kernels, and frames drawn off-screen.
//!
//! Every handle is made by a [`Device`] and destroyed with it; those that are handed out are numbers without a meaning elsewhere, and a program
//! has one device. Nothing is done at the same time: whatever is submitted is waited for. A device refuses memory beyond its limit, which is
//! that of the member, as the profile of a virtual GPU would set it.
#![expect(unsafe_code, reason = "the Vulkan API is unsafe, and this module is its only user")]

mod commands;

pub use self::commands::{Commands, Model};
use crate::scene::Corner;
use ash::vk;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;

/// Why a device cannot do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no loader.
    #[error("loading Vulkan: {0}; install libvulkan1 and a driver, such as Debian's mesa-vulkan-drivers")]
    Load(#[from] ash::LoadingError),
    /// There is no such device.
    #[error("no Vulkan {wanted} here; there is: {there}")]
    None {
        /// What was requested.
        wanted: &'static str,
        /// The devices that are there.
        there: String,
    },
    /// The member's limit, or what the device has.
    #[error("device memory: {needed} bytes on top of {used} exceed the limit of {limit}")]
    Memory {
        /// Bytes that were requested.
        needed: u64,
        /// Bytes in use.
        used: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A call failed.
    #[error("Vulkan: {what}: {why}")]
    Call {
        /// What was called for.
        what: &'static str,
        /// Its result.
        #[source]
        why: vk::Result,
    },
}

fn call<T>(what: &'static str, result: Result<T, vk::Result>) -> Result<T, Error> {
    result.map_err(|why| Error::Call { what, why })
}

/// Which device is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A GPU if there is one, else the processor.
    Any,
    /// The processor, by a software driver.
    Software,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read and written by shaders.
    Storage,
    /// Corners of triangles.
    Corners,
    /// Numbers of corners.
    Indices,
    /// Copied from and to, and read and written by this program.
    Host,
}

/// A buffer of a device.
#[derive(Debug)]
pub struct Buffer {
    handle: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
    /// Where this program sees it; null where it does not.
    mapped: *mut u8,
}

/// Compute kernels with the same bindings.
#[derive(Debug)]
pub struct Kernels {
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipelines: Vec<vk::Pipeline>,
    bindings: usize,
}

/// The buffers of one use of kernels, or of frames.
#[derive(Clone, Copy, Debug)]
pub struct Bound(vk::DescriptorSet);

/// Commands that can be run again and again.
#[derive(Clone, Copy, Debug)]
pub struct Recorded(vk::CommandBuffer);

/// Where frames are drawn.
#[derive(Debug)]
pub struct Canvas {
    size: vk::Extent2D,
    pass: vk::RenderPass,
    framebuffer: vk::Framebuffer,
    image: vk::Image,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

/// What is destroyed with its device, in reverse order.
#[derive(Debug)]
enum Made {
    Memory(vk::DeviceMemory),
    Buffer(vk::Buffer),
    Image(vk::Image),
    View(vk::ImageView),
    Pass(vk::RenderPass),
    Framebuffer(vk::Framebuffer),
    SetLayout(vk::DescriptorSetLayout),
    Layout(vk::PipelineLayout),
    Pipeline(vk::Pipeline),
    Sets(vk::DescriptorPool),
    Shader(vk::ShaderModule),
}

/// One device.
pub struct Device {
    device: ash::Device,
    instance: ash::Instance,
    /// Functions of the others are in it.
    _entry: ash::Entry,
    queue: vk::Queue,
    commands: vk::CommandPool,
    fence: vk::Fence,
    kinds: vk::PhysicalDeviceMemoryProperties,
    name: String,
    hardware: bool,
    limit: u64,
    used: Cell<u64>,
    made: RefCell<Vec<Made>>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A device that is there.
struct Candidate {
    physical: vk::PhysicalDevice,
    name: String,
    hardware: bool,
    rank: u8,
    family: u32,
}

fn candidates(instance: &ash::Instance) -> Result<Vec<Candidate>, Error> {
    // SAFETY: the instance is alive for the whole function, and the physical devices are its own.
    let all = call("listing devices", unsafe { instance.enumerate_physical_devices() })?;
    let mut found = Vec::new();
    for physical in all {
        // SAFETY: as above.
        let (properties, families) = unsafe {
            (
                instance.get_physical_device_properties(physical),
                instance.get_physical_device_queue_family_properties(physical),
            )
        };
        let both = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        let Some(family) = families.iter().position(|family| family.queue_flags.contains(both)) else { continue };
        let name = properties
            .device_name_as_c_str()
            .map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned());
        let rank = match properties.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => 0,
            vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
            vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
            vk::PhysicalDeviceType::CPU => 4,
            _ => 3,
        };
        let hardware = properties.device_type != vk::PhysicalDeviceType::CPU;
        found.push(Candidate { physical, name, hardware, rank, family: family as u32 });
    }
    found.sort_by_key(|candidate| candidate.rank);
    Ok(found)
}

impl Device {
    /// The first device of a kind, with at most `limit` bytes of its memory.
    ///
    /// # Errors
    /// Where there is no Vulkan, or no such device.
    pub fn open(choice: Choice, limit: u64) -> Result<Self, Error> {
        // SAFETY: what is loaded is the system's Vulkan loader, whose initialisers are those of every Vulkan program.
        let entry = unsafe { ash::Entry::load() }?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
        // SAFETY: the information lives until the call returns, and the entry as long as the instance, in the same struct.
        let instance =
            unsafe { entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&application), None) };
        let instance = call("making an instance; is there a driver, such as Debian's mesa-vulkan-drivers?", instance)?;
        let candidates = candidates(&instance)?;
        let fits = |candidate: &&Candidate| choice == Choice::Any || !candidate.hardware;
        let Some(chosen) = candidates.iter().find(fits) else {
            let wanted = if choice == Choice::Any { "device" } else { "device of software" };
            let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            // SAFETY: nothing was made of it.
            unsafe { instance.destroy_instance(None) };
            return Err(Error::None { wanted, there });
        };
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(chosen.family).queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: the physical device is the instance's, the queue family one of its own; the information lives until the calls return.
        unsafe {
            let device = call("making a device", instance.create_device(chosen.physical, &info, None))?;
            let pool = vk::CommandPoolCreateInfo::default().queue_family_index(chosen.family);
            Ok(Device {
                queue: device.get_device_queue(chosen.family, 0),
                commands: call("making a command pool", device.create_command_pool(&pool, None))?,
                fence: call("making a fence", device.create_fence(&vk::FenceCreateInfo::default(), None))?,
                kinds: instance.get_physical_device_memory_properties(chosen.physical),
                name: chosen.name.clone(),
                hardware: chosen.hardware,
                limit,
                used: Cell::new(0),
                made: RefCell::default(),
                device,
                instance,
                _entry: entry,
            })
        }
    }

    /// Its name, as its driver gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is not the processor.
    #[must_use]
    pub const fn is_hardware(&self) -> bool {
        self.hardware
    }

    /// Bytes of its memory in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    fn keep(&self, made: Made) {
        self.made.borrow_mut().push(made);
    }

    /// Memory within the limit. Host memory of buffers that are copied is not the device's and is not limited.
    fn memory(&self, needs: vk::MemoryRequirements, kind: vk::MemoryPropertyFlags) -> Result<vk::DeviceMemory, Error> {
        let counted = if kind.contains(vk::MemoryPropertyFlags::HOST_VISIBLE) { 0 } else { needs.size };
        if self.used.get() + counted > self.limit {
            return Err(Error::Memory { needed: needs.size, used: self.used.get(), limit: self.limit });
        }
        let find = |kind| {
            (0..self.kinds.memory_type_count).find(|index| {
                let flags = self.kinds.memory_types[*index as usize].property_flags;
                needs.memory_type_bits & (1 << index) != 0 && flags.contains(kind)
            })
        };
        // Reading memory that is not cached is slow on GPUs of their own memory.
        let cached =
            kind.contains(vk::MemoryPropertyFlags::HOST_VISIBLE).then_some(vk::MemoryPropertyFlags::HOST_CACHED);
        let index = find(kind | cached.unwrap_or_default()).or_else(|| find(kind));
        let index = index.ok_or(Error::Call { what: "finding memory", why: vk::Result::ERROR_FEATURE_NOT_PRESENT })?;
        let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
        // SAFETY: the type is one of this device's, and the size is above 0, as a buffer's or an image's needs are.
        let memory = call("allocating memory", unsafe { self.device.allocate_memory(&info, None) })?;
        self.keep(Made::Memory(memory));
        self.used.set(self.used.get() + counted);
        Ok(memory)
    }

    /// A buffer of so many bytes, which are 0 until they are written only where its purpose is [`Purpose::Host`].
    ///
    /// # Errors
    /// Where the memory is not to be had.
    pub fn buffer(&self, bytes: usize, purpose: Purpose) -> Result<Buffer, Error> {
        let copied = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let usage = copied
            | match purpose {
                Purpose::Storage => vk::BufferUsageFlags::STORAGE_BUFFER,
                Purpose::Corners => vk::BufferUsageFlags::VERTEX_BUFFER,
                Purpose::Indices => vk::BufferUsageFlags::INDEX_BUFFER,
                Purpose::Host => vk::BufferUsageFlags::empty(),
            };
        let kind = match purpose {
            Purpose::Host => vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT,
            _ => vk::MemoryPropertyFlags::DEVICE_LOCAL,
        };
        let bytes = bytes.max(4) as u64;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the buffer is new and of this device; memory of what it needs is bound to it once.
        let (handle, memory) = unsafe {
            let handle = call("making a buffer", self.device.create_buffer(&info, None))?;
            let memory = match self.memory(self.device.get_buffer_memory_requirements(handle), kind) {
                Ok(memory) => memory,
                Err(why) => {
                    self.device.destroy_buffer(handle, None);
                    return Err(why);
                }
            };
            self.keep(Made::Buffer(handle));
            call("binding memory", self.device.bind_buffer_memory(handle, memory, 0))?;
            (handle, memory)
        };
        let mapped = if purpose == Purpose::Host {
            // SAFETY: the memory is visible to the host, and mapped this once.
            call("mapping memory", unsafe { self.device.map_memory(memory, 0, bytes, vk::MemoryMapFlags::empty()) })?
                .cast()
        } else {
            std::ptr::null_mut()
        };
        let buffer = Buffer { handle, memory, bytes, mapped };
        if !mapped.is_null() {
            self.write(&buffer, &vec![0; bytes as usize]);
        }
        Ok(buffer)
    }

    /// Puts bytes at the beginning of a host buffer.
    ///
    /// # Panics
    /// Where the buffer is of another purpose, or too small.
    pub fn write(&self, to: &Buffer, bytes: &[u8]) {
        assert!(!to.mapped.is_null() && bytes.len() as u64 <= to.bytes, "a host buffer that is large enough");
        // SAFETY: `mapped` is the beginning of `to.bytes` mapped bytes until the device is dropped, and the device does nothing meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.mapped, bytes.len()) };
    }

    /// The bytes of a host buffer.
    ///
    /// # Panics
    /// Where the buffer is of another purpose.
    #[must_use]
    pub fn read(&self, from: &Buffer) -> Vec<u8> {
        assert!(!from.mapped.is_null(), "a host buffer");
        // SAFETY: as in `write`; the bytes were set when the buffer was made.
        unsafe { std::slice::from_raw_parts(from.mapped, from.bytes as usize) }.to_vec()
    }

    /// A buffer of the device with these bytes.
    ///
    /// # Errors
    /// Where the memory is not to be had, or the copy fails.
    pub fn uploaded(&self, bytes: &[u8], purpose: Purpose) -> Result<Buffer, Error> {
        let to = self.buffer(bytes.len(), purpose)?;
        let from = self.buffer(bytes.len(), Purpose::Host)?;
        self.write(&from, bytes);
        let copied = self.recorded(|commands| commands.copy(&from, 0, &to, 0, bytes.len()))?;
        self.run(copied)?;
        self.release(&from);
        Ok(to)
    }

    /// The bytes of a buffer of the device.
    ///
    /// # Errors
    /// Where the copy fails.
    pub fn downloaded(&self, from: &Buffer) -> Result<Vec<u8>, Error> {
        let to = self.buffer(from.bytes as usize, Purpose::Host)?;
        let copied = self.recorded(|commands| commands.copy(from, 0, &to, 0, from.bytes as usize))?;
        self.run(copied)?;
        let bytes = self.read(&to);
        self.release(&to);
        Ok(bytes)
    }

    /// Frees a host buffer, which is used no more.
    fn release(&self, buffer: &Buffer) {
        let its = |made: &Made| match made {
            Made::Buffer(handle) => *handle == buffer.handle,
            Made::Memory(memory) => *memory == buffer.memory,
            _ => false,
        };
        self.made.borrow_mut().retain(|made| !its(made));
        // SAFETY: whatever was submitted is done, and both were made by this device and are forgotten now.
        unsafe {
            self.device.destroy_buffer(buffer.handle, None);
            self.device.free_memory(buffer.memory, None);
        }
    }

    fn shader(&self, spirv: &[u8]) -> Result<vk::ShaderModule, Error> {
        let words: Vec<u32> =
            spirv.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        // SAFETY: the words are what the build compiled and validated.
        let shader =
            unsafe { self.device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None) };
        let shader = call("making a shader", shader)?;
        self.keep(Made::Shader(shader));
        Ok(shader)
    }

    /// The layout of so many storage buffers, from binding 0 on.
    fn layouts(
        &self,
        bindings: usize,
        stages: vk::ShaderStageFlags,
    ) -> Result<(vk::DescriptorSetLayout, vk::PipelineLayout), Error> {
        let binding = |index: usize| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(index as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(stages)
        };
        let bindings: Vec<_> = (0..bindings).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the information lives until the calls return; the layouts are of this device.
        unsafe {
            let set_layout = call("making a layout", self.device.create_descriptor_set_layout(&info, None))?;
            self.keep(Made::SetLayout(set_layout));
            let sets = [set_layout];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            let layout = call("making a layout", self.device.create_pipeline_layout(&info, None))?;
            self.keep(Made::Layout(layout));
            Ok((set_layout, layout))
        }
    }

    /// The compute kernels of a module, by their names.
    ///
    /// # Errors
    /// Where the driver refuses one.
    pub fn kernels(&self, spirv: &[u8], names: &[&CStr], bindings: usize) -> Result<Kernels, Error> {
        let shader = self.shader(spirv)?;
        let (set_layout, layout) = self.layouts(bindings, vk::ShaderStageFlags::COMPUTE)?;
        let info = |name| {
            let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE);
            vk::ComputePipelineCreateInfo::default().stage(stage.module(shader).name(name)).layout(layout)
        };
        let infos: Vec<_> = names.iter().map(|name| info(*name)).collect();
        // SAFETY: shader and layout are of this device, and the names are entry points of the shader.
        let pipelines = unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None) };
        let pipelines = call("making kernels", pipelines.map_err(|(_, why)| why))?;
        pipelines.iter().for_each(|pipeline| self.keep(Made::Pipeline(*pipeline)));
        Ok(Kernels { set_layout, layout, pipelines, bindings })
    }

    /// Buffers for the bindings of kernels, in order.
    ///
    /// # Errors
    /// Where the driver refuses it.
    ///
    /// # Panics
    /// Where there are not as many buffers as bindings.
    pub fn bound(&self, kernels: &Kernels, buffers: &[&Buffer]) -> Result<Bound, Error> {
        assert_eq!(kernels.bindings, buffers.len(), "a buffer for each binding");
        self.bound_to(kernels.set_layout, buffers)
    }

    /// The buffer of the cameras of a canvas.
    ///
    /// # Errors
    /// Where the driver refuses it.
    pub fn bound_cameras(&self, canvas: &Canvas, cameras: &Buffer) -> Result<Bound, Error> {
        self.bound_to(canvas.set_layout, &[cameras])
    }

    fn bound_to(&self, set_layout: vk::DescriptorSetLayout, buffers: &[&Buffer]) -> Result<Bound, Error> {
        let sizes =
            [vk::DescriptorPoolSize { ty: vk::DescriptorType::STORAGE_BUFFER, descriptor_count: buffers.len() as u32 }];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        let infos: Vec<[vk::DescriptorBufferInfo; 1]> = buffers
            .iter()
            .map(|buffer| [vk::DescriptorBufferInfo::default().buffer(buffer.handle).range(vk::WHOLE_SIZE)])
            .collect();
        let layouts = [set_layout];
        // SAFETY: the layout and the buffers are of this device, and the set is of a pool that has room for it alone.
        unsafe {
            let pool = call("making descriptors", self.device.create_descriptor_pool(&pool, None))?;
            self.keep(Made::Sets(pool));
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            let set = call("making descriptors", self.device.allocate_descriptor_sets(&info))?[0];
            let write = |(index, info): (usize, &'_ [vk::DescriptorBufferInfo; 1])| vk::WriteDescriptorSet {
                dst_set: set,
                dst_binding: index as u32,
                descriptor_count: 1,
                descriptor_type: vk::DescriptorType::STORAGE_BUFFER,
                p_buffer_info: info.as_ptr(),
                ..vk::WriteDescriptorSet::default()
            };
            let writes: Vec<_> = infos.iter().enumerate().map(write).collect();
            self.device.update_descriptor_sets(&writes, &[]);
            Ok(Bound(set))
        }
    }

    /// Records commands.
    ///
    /// # Errors
    /// Where the driver refuses them.
    pub fn recorded(&self, record: impl FnOnce(&Commands<'_>)) -> Result<Recorded, Error> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.commands).command_buffer_count(1);
        // SAFETY: the pool is this device's; the buffer is new, is begun once and ended once.
        unsafe {
            let to = call("making commands", self.device.allocate_command_buffers(&info))?[0];
            call("making commands", self.device.begin_command_buffer(to, &vk::CommandBufferBeginInfo::default()))?;
            let commands = Commands { device: &self.device, to };
            record(&commands);
            commands.barrier();
            call("making commands", self.device.end_command_buffer(to))?;
            Ok(Recorded(to))
        }
    }

    /// Runs commands and waits until they are done.
    ///
    /// # Errors
    /// Where the device is lost.
    pub fn run(&self, recorded: Recorded) -> Result<(), Error> {
        let buffers = [recorded.0];
        let submits = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: commands, queue and fence are this device's; the fence is not in use, since it was waited for and reset.
        unsafe {
            call("submitting", self.device.queue_submit(self.queue, &submits, self.fence))?;
            call("waiting", self.device.wait_for_fences(&[self.fence], true, u64::MAX))?;
            call("waiting", self.device.reset_fences(&[self.fence]))
        }
    }

    fn image(
        &self,
        size: vk::Extent2D,
        format: vk::Format,
        usage: vk::ImageUsageFlags,
    ) -> Result<(vk::Image, vk::ImageView), Error> {
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(format)
            .extent(vk::Extent3D { width: size.width, height: size.height, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(usage);
        let of_depth = usage.contains(vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT);
        let aspect = if of_depth { vk::ImageAspectFlags::DEPTH } else { vk::ImageAspectFlags::COLOR };
        // SAFETY: the image is new and of this device; memory of what it needs is bound to it once, before its view is made.
        unsafe {
            let image = call("making an image", self.device.create_image(&info, None))?;
            let needs = self.device.get_image_memory_requirements(image);
            let memory = match self.memory(needs, vk::MemoryPropertyFlags::DEVICE_LOCAL) {
                Ok(memory) => memory,
                Err(why) => {
                    self.device.destroy_image(image, None);
                    return Err(why);
                }
            };
            self.keep(Made::Image(image));
            call("binding memory", self.device.bind_image_memory(image, memory, 0))?;
            let range =
                vk::ImageSubresourceRange { aspect_mask: aspect, level_count: 1, layer_count: 1, ..Default::default() };
            let view = vk::ImageViewCreateInfo::default().image(image).format(format).subresource_range(range);
            let view = call(
                "making a view",
                self.device.create_image_view(&view.view_type(vk::ImageViewType::TYPE_2D), None),
            )?;
            self.keep(Made::View(view));
            Ok((image, view))
        }
    }

    /// A canvas of a size, whose frames a module with the entry points `vertex` and `fragment` draws.
    ///
    /// # Errors
    /// Where the memory is not to be had, or the driver refuses it.
    pub fn canvas(&self, spirv: &[u8], (width, height): (u32, u32)) -> Result<Canvas, Error> {
        let size = vk::Extent2D { width, height };
        let copied = vk::ImageUsageFlags::COLOR_ATTACHMENT | vk::ImageUsageFlags::TRANSFER_SRC;
        let (image, colour) = self.image(size, COLOUR, copied)?;
        let (_, depth) = self.image(size, DEPTH, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT)?;
        let pass = self.pass()?;
        let views = [colour, depth];
        let info = vk::FramebufferCreateInfo::default()
            .render_pass(pass)
            .attachments(&views)
            .width(width)
            .height(height)
            .layers(1);
        // SAFETY: the pass and the views are of this device, and of the formats that the pass names.
        let framebuffer = call("making a framebuffer", unsafe { self.device.create_framebuffer(&info, None) })?;
        self.keep(Made::Framebuffer(framebuffer));
        let (set_layout, layout) = self.layouts(1, vk::ShaderStageFlags::VERTEX)?;
        let pipeline = self.pipeline(self.shader(spirv)?, layout, pass, size)?;
        Ok(Canvas { size, pass, framebuffer, image, set_layout, layout, pipeline })
    }

    /// A pass that clears and draws, and leaves the colours to be copied.
    fn pass(&self) -> Result<vk::RenderPass, Error> {
        let one = |format, store, layout| {
            vk::AttachmentDescription::default()
                .format(format)
                .samples(vk::SampleCountFlags::TYPE_1)
                .load_op(vk::AttachmentLoadOp::CLEAR)
                .store_op(store)
                .stencil_load_op(vk::AttachmentLoadOp::DONT_CARE)
                .stencil_store_op(vk::AttachmentStoreOp::DONT_CARE)
                .final_layout(layout)
        };
        let attachments = [
            one(COLOUR, vk::AttachmentStoreOp::STORE, vk::ImageLayout::TRANSFER_SRC_OPTIMAL),
            one(DEPTH, vk::AttachmentStoreOp::DONT_CARE, vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL),
        ];
        let colour = [vk::AttachmentReference { attachment: 0, layout: vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL }];
        let depth =
            vk::AttachmentReference { attachment: 1, layout: vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL };
        let subpass = [vk::SubpassDescription::default()
            .pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)
            .color_attachments(&colour)
            .depth_stencil_attachment(&depth)];
        let info = vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpass);
        // SAFETY: the information lives until the call returns, and its references are to its two attachments.
        let pass = call("making a pass", unsafe { self.device.create_render_pass(&info, None) })?;
        self.keep(Made::Pass(pass));
        Ok(pass)
    }

    fn pipeline(
        &self,
        shader: vk::ShaderModule,
        layout: vk::PipelineLayout,
        pass: vk::RenderPass,
        size: vk::Extent2D,
    ) -> Result<vk::Pipeline, Error> {
        let stage = |stage, name| vk::PipelineShaderStageCreateInfo::default().stage(stage).module(shader).name(name);
        let stages =
            [stage(vk::ShaderStageFlags::VERTEX, c"vertex"), stage(vk::ShaderStageFlags::FRAGMENT, c"fragment")];
        let bindings = [vk::VertexInputBindingDescription { stride: Corner::BYTES as u32, ..Default::default() }];
        let attributes = [0, 1, 2].map(|location| vk::VertexInputAttributeDescription {
            location,
            format: vk::Format::R32G32B32_SFLOAT,
            offset: 12 * location,
            ..Default::default()
        });
        let input = vk::PipelineVertexInputStateCreateInfo::default()
            .vertex_binding_descriptions(&bindings)
            .vertex_attribute_descriptions(&attributes);
        let assembly =
            vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
        let views = [vk::Viewport {
            width: size.width as f32,
            height: size.height as f32,
            max_depth: 1.0,
            ..Default::default()
        }];
        let scissors = [vk::Rect2D { extent: size, ..Default::default() }];
        let viewport = vk::PipelineViewportStateCreateInfo::default().viewports(&views).scissors(&scissors);
        let raster = vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0);
        let samples =
            vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(vk::SampleCountFlags::TYPE_1);
        let depth = vk::PipelineDepthStencilStateCreateInfo::default()
            .depth_test_enable(true)
            .depth_write_enable(true)
            .depth_compare_op(vk::CompareOp::LESS);
        let blends = [vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::RGBA)];
        let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&blends);
        let info = [vk::GraphicsPipelineCreateInfo::default()
            .stages(&stages)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly)
            .viewport_state(&viewport)
            .rasterization_state(&raster)
            .multisample_state(&samples)
            .depth_stencil_state(&depth)
            .color_blend_state(&blend)
            .layout(layout)
            .render_pass(pass)];
        // SAFETY: shader, layout and pass are of this device, and the information lives until the call returns.
        let made = unsafe { self.device.create_graphics_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipeline = call("making a pipeline", made.map_err(|(_, why)| why))?[0];
        self.keep(Made::Pipeline(pipeline));
        Ok(pipeline)
    }
}

const COLOUR: vk::Format = vk::Format::R8G8B8A8_UNORM;
const DEPTH: vk::Format = vk::Format::D32_SFLOAT;

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: nothing is submitted after this; what was made is destroyed once, before what it was made of.
        unsafe {
            let _ = self.device.device_wait_idle();
            for made in self.made.get_mut().drain(..).rev() {
                match made {
                    Made::Memory(memory) => self.device.free_memory(memory, None),
                    Made::Buffer(buffer) => self.device.destroy_buffer(buffer, None),
                    Made::Image(image) => self.device.destroy_image(image, None),
                    Made::View(view) => self.device.destroy_image_view(view, None),
                    Made::Pass(pass) => self.device.destroy_render_pass(pass, None),
                    Made::Framebuffer(framebuffer) => self.device.destroy_framebuffer(framebuffer, None),
                    Made::SetLayout(layout) => self.device.destroy_descriptor_set_layout(layout, None),
                    Made::Layout(layout) => self.device.destroy_pipeline_layout(layout, None),
                    Made::Pipeline(pipeline) => self.device.destroy_pipeline(pipeline, None),
                    Made::Sets(pool) => self.device.destroy_descriptor_pool(pool, None),
                    Made::Shader(shader) => self.device.destroy_shader_module(shader, None),
                }
            }
            self.device.destroy_fence(self.fence, None);
            self.device.destroy_command_pool(self.commands, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
