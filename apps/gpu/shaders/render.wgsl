// One part of the scene as seen by the camera of one frame. `view.rs` has the same light in plain Rust, by which frames are checked.

struct Frame {
    to_clip: mat4x4<f32>,
    eye: vec4<f32>,
}

struct Seen {
    @builtin(position) clip: vec4<f32>,
    @location(0) place: vec3<f32>,
    @location(1) normal: vec3<f32>,
    @location(2) colour: vec3<f32>,
    @location(3) eye: vec3<f32>,
}

@group(0) @binding(0) var<storage, read> frames: array<Frame>;

// The number of the frame is that of the first instance, of which there is one.
@vertex
fn vertex(
    @location(0) place: vec3<f32>,
    @location(1) normal: vec3<f32>,
    @location(2) colour: vec3<f32>,
    @builtin(instance_index) frame: u32,
) -> Seen {
    return Seen(frames[frame].to_clip * vec4<f32>(place, 1.0), place, normal, colour, frames[frame].eye.xyz);
}

fn lit(normal: vec3<f32>, to_eye: vec3<f32>, light: vec3<f32>, strength: f32) -> vec2<f32> {
    let half_way = normalize(light + to_eye);
    return strength * vec2<f32>(max(dot(normal, light), 0.0), pow(max(dot(normal, half_way), 0.0), 32.0));
}

@fragment
fn fragment(seen: Seen) -> @location(0) vec4<f32> {
    let to_eye = normalize(seen.eye - seen.place);
    var normal = normalize(seen.normal);
    if dot(normal, to_eye) < 0.0 { normal = -normal; }
    let light = lit(normal, to_eye, vec3<f32>(0.48, 0.64, 0.6), 0.55)
        + lit(normal, to_eye, vec3<f32>(-0.8, 0.36, 0.48), 0.3)
        + lit(normal, to_eye, vec3<f32>(0.0, -0.6, 0.8), 0.15);
    let ambient = 0.15 + 0.1 * normal.y;
    return vec4<f32>(seen.colour * (ambient + light.x) + 0.3 * light.y, 1.0);
}
