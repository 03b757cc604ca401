# SPDX-License-Identifier: Apache-2.0
"""CuPy, Triton, cuda.core and Transformers. See program.py."""

import numpy

from program import digest, main, program


@program
def cupy_kernels():
    import cupy

    raw = cupy.RawKernel(r'extern "C" __global__ void twice(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }', "twice")
    x = cupy.arange(1000, dtype=cupy.float32)
    raw((8,), (128,), (x, numpy.int32(1000)))
    module = cupy.RawModule(code=r'template<class T> __global__ void add(T* x, T value) { x[threadIdx.x] += value; }', name_expressions=["add<double>"])
    y = cupy.zeros(64)
    module.get_function("add<double>")((1,), (64,), (y, 2.5))
    square = cupy.ElementwiseKernel("T x", "T y", "y = x * x", "square")
    reduce = cupy.ReductionKernel("T x", "T y", "abs(x)", "a + b", "y = a", "0", "norm1")
    return {"raw": float(x.sum()), "module": float(y.sum()), "elementwise": float(square(x).sum()), "reduction": float(reduce(-x))}


@program
def cupy_library():
    import cupy

    cupy.random.seed(1)
    a = cupy.random.standard_normal((128, 128))
    return {
        "fft": round(float(abs(cupy.fft.fft2(a)).mean()), 3), "svd": round(float(cupy.linalg.svd(a, compute_uv=False)[0]), 3),
        "sort": digest(cupy.asnumpy(cupy.sort(cupy.arange(5000)[::-1] % 997))), "solve": bool(cupy.allclose(a @ cupy.linalg.solve(a, a), a)),
        "sum": float(cupy.arange(1 << 20, dtype=cupy.float64).sum()), "scan": int(cupy.cumsum(cupy.arange(1000))[-1]),
    }


@program
def cupy_streams_and_pools():
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc), stream:
        x = cupy.arange(1 << 20, dtype=cupy.float32)
        y = (x * 2).sum()
    stream.synchronize()
    seen = []
    stream.launch_host_func(lambda argument: seen.append(argument), 42)
    stream.synchronize()
    with stream:
        stream.begin_capture()
        z = x * 3
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    host = cupy.cuda.alloc_pinned_memory(1 << 16)
    return {"sum": float(y), "callback": seen, "graph": float(z[10]), "pinned": host.mem.size >= 1 << 16}


@program
def cupy_managed():
    import cupy

    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        x = cupy.arange(10000, dtype=cupy.float32)
        return {"sum": float((x * 2).sum()), "device": int(x.data.device_id)}


@program
def cupy_texture():
    import cupy

    image = numpy.arange(16 * 32, dtype=numpy.float32).reshape(16, 32)
    channels = cupy.cuda.texture.ChannelFormatDescriptor(32, 0, 0, 0, cupy.cuda.runtime.cudaChannelFormatKindFloat)
    array = cupy.cuda.texture.CUDAarray(channels, 32, 16)
    array.copy_from(image)
    resource = cupy.cuda.texture.ResourceDescriptor(cupy.cuda.runtime.cudaResourceTypeArray, cuArr=array)
    descriptor = cupy.cuda.texture.TextureDescriptor((cupy.cuda.runtime.cudaAddressModeClamp,) * 2, cupy.cuda.runtime.cudaFilterModePoint, cupy.cuda.runtime.cudaReadModeElementType)
    texture = cupy.cuda.texture.TextureObject(resource, descriptor)
    kernel = cupy.RawKernel(r'''extern "C" __global__ void read(float* out, cudaTextureObject_t image, int width, int height) {
        int x = threadIdx.x, y = blockIdx.x; if (x < width && y < height) out[y * width + x] = tex2D<float>(image, x + 0.5f, y + 0.5f) + 1; }''', "read")
    out = cupy.zeros((16, 32), dtype=cupy.float32)
    kernel((16,), (32,), (out, texture, 32, 16))
    return {"same": bool((cupy.asnumpy(out) == image + 1).all())}


@program
def triton_kernels():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def softmax(out, x, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        offsets = tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + offsets, offsets < columns, -float("inf"))
        values = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * columns + offsets, values / tl.sum(values, 0), offsets < columns)

    @triton.jit
    def product(c, a, b, N: tl.constexpr, BLOCK: tl.constexpr):
        rows, columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for k in range(0, N, BLOCK):
            inner = k + tl.arange(0, BLOCK)
            total += tl.dot(tl.load(a + rows[:, None] * N + inner[None, :]), tl.load(b + inner[:, None] * N + columns[None, :]))
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))

    torch.manual_seed(0)
    x = torch.randn(64, 1000, device="cuda")
    out = torch.empty_like(x)
    softmax[(64,)](out, x, 1000, 1024)
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    product[(8, 8)](c, a, b, 512, 64)
    return {"softmax": float((out - x.softmax(1)).abs().max()) < 1e-6, "product": float((c.float() - (a @ b).float()).abs().max()) < 1}


@program
def transformers_generate():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    results = {}
    for name, config, kind in (
        ("gpt2", GPT2Config(n_layer=4, n_head=4, n_embd=128, vocab_size=1000), GPT2LMHeadModel),
        ("llama", LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, vocab_size=1000), LlamaForCausalLM),
    ):
        model = kind(config).cuda().eval()
        prompt = torch.arange(10, device="cuda").view(1, 10)
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=40, do_sample=False, pad_token_id=0)
        results[name] = digest(out.cpu().numpy())
    return results


@program
def cuda_core():
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    source = 'extern "C" __global__ void fill(float* out, float value) { out[threadIdx.x] = value * threadIdx.x; }'
    major, minor = device.compute_capability
    kernel = Program(source, "c++", ProgramOptions(arch=f"sm_{major}{minor}")).compile("cubin").get_kernel("fill")
    buffer = device.memory_resource.allocate(256 * 4, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=256), kernel, buffer, numpy.float32(0.5))
    import cupy

    stream.sync()
    out = cupy.ndarray((256,), cupy.float32, cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(int(buffer.handle), 1024, buffer), 0))
    return {"sum": float(out.sum())}


if __name__ == "__main__":
    main()
