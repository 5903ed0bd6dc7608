// Layers of a convolutional network, forward and backward, one invocation an element of the result: no sum depends on the order of
// invocations, so that results are the same in every run on one device. Arrays are channels-last: image, row, column, channel; weights are
// kernel row, kernel column, input channel, output channel, and then one bias an output channel. `net.rs` has the same in plain Rust.

struct Layer {
    batch: u32,
    in_side: u32,
    in_channels: u32,
    out_side: u32,
    out_channels: u32,
    kernel: u32,
    stride: u32,
    pad: u32,
    relu: u32,
    rate: f32,
}

@group(0) @binding(0) var<storage, read> layer: Layer;
@group(0) @binding(1) var<storage, read> inputs: array<f32>;
@group(0) @binding(2) var<storage, read_write> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> outputs: array<f32>;
@group(0) @binding(4) var<storage, read_write> output_gradient: array<f32>;
@group(0) @binding(5) var<storage, read_write> input_gradient: array<f32>;
@group(0) @binding(6) var<storage, read_write> weight_gradient: array<f32>;
@group(0) @binding(7) var<storage, read> labels: array<u32>;

// The input row or column that an output row or column meets through one of the kernel's; `in_side` or more where it is outside.
fn met(out: u32, of_kernel: u32) -> u32 {
    // Below the pad the difference wraps around to a number that is above every side.
    return out * layer.stride + of_kernel - layer.pad;
}

@compute @workgroup_size(64)
fn forward(@builtin(global_invocation_id) id: vec3<u32>) {
    let side = layer.out_side;
    let channels = layer.out_channels;
    if id.x >= layer.batch * side * side * channels { return; }
    let channel = id.x % channels;
    let column = (id.x / channels) % side;
    let row = (id.x / (channels * side)) % side;
    let image = id.x / (channels * side * side);
    var sum = weights[layer.kernel * layer.kernel * layer.in_channels * channels + channel];
    for (var i = 0u; i < layer.kernel; i++) {
        let y = met(row, i);
        if y >= layer.in_side { continue; }
        for (var j = 0u; j < layer.kernel; j++) {
            let x = met(column, j);
            if x >= layer.in_side { continue; }
            let from_input = ((image * layer.in_side + y) * layer.in_side + x) * layer.in_channels;
            let from_weight = (i * layer.kernel + j) * layer.in_channels;
            for (var c = 0u; c < layer.in_channels; c++) {
                sum += inputs[from_input + c] * weights[(from_weight + c) * channels + channel];
            }
        }
    }
    if layer.relu == 1u { sum = max(sum, 0.0); }
    outputs[id.x] = sum;
}

// The gradient of one output before its activation.
fn gradient_at(at: u32) -> f32 {
    if layer.relu == 1u && outputs[at] <= 0.0 { return 0.0; }
    return output_gradient[at];
}

@compute @workgroup_size(64)
fn backward_inputs(@builtin(global_invocation_id) id: vec3<u32>) {
    let side = layer.in_side;
    let channels = layer.in_channels;
    if id.x >= layer.batch * side * side * channels { return; }
    let channel = id.x % channels;
    let x = (id.x / channels) % side;
    let y = (id.x / (channels * side)) % side;
    let image = id.x / (channels * side * side);
    var sum = 0.0;
    for (var i = 0u; i < layer.kernel; i++) {
        let row = y + layer.pad - i;
        if row % layer.stride != 0u || row / layer.stride >= layer.out_side { continue; }
        for (var j = 0u; j < layer.kernel; j++) {
            let column = x + layer.pad - j;
            if column % layer.stride != 0u || column / layer.stride >= layer.out_side { continue; }
            let from_output = ((image * layer.out_side + row / layer.stride) * layer.out_side + column / layer.stride) * layer.out_channels;
            let from_weight = ((i * layer.kernel + j) * channels + channel) * layer.out_channels;
            for (var c = 0u; c < layer.out_channels; c++) {
                sum += gradient_at(from_output + c) * weights[from_weight + c];
            }
        }
    }
    input_gradient[id.x] = sum;
}

@compute @workgroup_size(64)
fn backward_weights(@builtin(global_invocation_id) id: vec3<u32>) {
    let channels = layer.out_channels;
    let all = layer.kernel * layer.kernel * layer.in_channels * channels;
    if id.x >= all + channels { return; }
    let channel = id.x % channels;
    let of_bias = id.x >= all;
    let in_channel = (id.x / channels) % layer.in_channels;
    let j = (id.x / (channels * layer.in_channels)) % layer.kernel;
    let i = id.x / (channels * layer.in_channels * layer.kernel);
    var sum = 0.0;
    for (var image = 0u; image < layer.batch; image++) {
        for (var row = 0u; row < layer.out_side; row++) {
            let y = met(row, i);
            if !of_bias && y >= layer.in_side { continue; }
            for (var column = 0u; column < layer.out_side; column++) {
                let gradient = gradient_at(((image * layer.out_side + row) * layer.out_side + column) * channels + channel);
                if of_bias {
                    sum += gradient;
                    continue;
                }
                let x = met(column, j);
                if x >= layer.in_side { continue; }
                sum += gradient * inputs[((image * layer.in_side + y) * layer.in_side + x) * layer.in_channels + in_channel];
            }
        }
    }
    weight_gradient[id.x] = sum;
}

// The gradient of the mean cross-entropy of softmax, from the last layer's outputs.
@compute @workgroup_size(64)
fn softmax_gradient(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= layer.batch { return; }
    let start = id.x * layer.out_channels;
    var largest = outputs[start];
    for (var c = 1u; c < layer.out_channels; c++) { largest = max(largest, outputs[start + c]); }
    var sum = 0.0;
    for (var c = 0u; c < layer.out_channels; c++) { sum += exp(outputs[start + c] - largest); }
    for (var c = 0u; c < layer.out_channels; c++) {
        let right = select(0.0, 1.0, c == labels[id.x]);
        output_gradient[start + c] = (exp(outputs[start + c] - largest) / sum - right) / f32(layer.batch);
    }
}

@compute @workgroup_size(64)
fn descend(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= (layer.kernel * layer.kernel * layer.in_channels + 1u) * layer.out_channels { return; }
    weights[id.x] -= layer.rate * weight_gradient[id.x];
}
