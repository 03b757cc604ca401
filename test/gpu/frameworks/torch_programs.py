# SPDX-License-Identifier: Apache-2.0
"""PyTorch beyond a first training step. See program.py."""

import os
import sys
import tempfile
import threading
import time

if len(sys.argv) > 1 and sys.argv[1] == "expandable_segments":  # read when torch is imported
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
if len(sys.argv) > 1 and sys.argv[1] == "pool_allocator":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch
from torch import nn

from program import digest, main, program


def bits(tensor):
    tensor = tensor.detach().contiguous().cpu()
    return digest(tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy())


def small_model(width=256, layers=4):
    torch.manual_seed(7)
    parts = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)]
    return nn.Sequential(*parts).cuda()


def train(model, steps=20, autocast=None, width=256, optimizer=torch.optim.AdamW, **options):
    torch.manual_seed(11)
    inputs, targets = torch.randn(steps, 64, width, device="cuda"), torch.randn(steps, 64, width, device="cuda")
    opt = optimizer(model.parameters(), 1e-3, **options)
    for x, y in zip(inputs, targets):
        with torch.autocast("cuda", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return float(loss)


@program
def compile_inductor():
    model = small_model()
    compiled = torch.compile(model)
    return {"loss": train(compiled), "eager": train(small_model())}


@program
def compile_reduce_overhead():
    model = torch.compile(small_model().requires_grad_(False), mode="reduce-overhead")
    x = torch.linspace(-1, 1, 64 * 256, device="cuda").view(64, 256)
    with torch.no_grad():
        for _ in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            y = model(x).clone()
    return {"mean": float(y.abs().mean()), "eager": float(small_model()(x).abs().mean())}


@program
def autocast_training():
    scaler_loss = train(small_model(), autocast=torch.float16)
    return {"bf16": round(train(small_model(), autocast=torch.bfloat16), 3), "fp16": round(scaler_loss, 3)}


@program
def fused_optimizers():
    return {
        "fused": train(small_model(), fused=True),
        "foreach": train(small_model(), foreach=True),
        "sgd": train(small_model(), optimizer=torch.optim.SGD, momentum=0.9),
        "capturable": train(small_model(), capturable=True),
    }


@program
def graph_training():
    """A whole training step captured and replayed against the same steps without a graph."""

    def losses(graphed):
        model = small_model()
        opt = torch.optim.SGD(model.parameters(), 1e-2)
        torch.manual_seed(3)
        data = torch.randn(12, 2, 64, 256, device="cuda")
        x, y = torch.zeros(64, 256, device="cuda"), torch.zeros(64, 256, device="cuda")

        def step():
            opt.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            return loss

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for pair in data[:3]:
                x.copy_(pair[0]), y.copy_(pair[1])
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph, seen = torch.cuda.CUDAGraph(), []
        if graphed:
            opt.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):
                loss = step()
        for pair in data[3:]:
            x.copy_(pair[0]), y.copy_(pair[1])
            if graphed:
                graph.replay()
            else:
                loss = step()
            seen.append(float(loss))
        return seen

    eager, graphed = losses(False), losses(True)
    assert max(abs(a - b) for a, b in zip(eager, graphed)) < 1e-4, (eager, graphed)
    return {"loss": graphed[-1]}


@program
def graph_several_pools():
    """Two graphs that share a pool, with several streams inside and a random generator that goes on."""
    torch.manual_seed(5)
    x = torch.ones(1024, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    graphs, outputs = [], []
    for scale in (2.0, 3.0):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            other = torch.cuda.Stream()
            other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other):
                a = x * scale
            b = x + scale
            torch.cuda.current_stream().wait_stream(other)
            outputs.append((a + b, torch.rand(4, device="cuda")))
        graphs.append(graph)
    draws = []
    for _ in range(3):
        for graph, (total, drawn) in zip(graphs, outputs):
            graph.replay()
            draws.append(drawn.cpu())
    torch.cuda.synchronize()
    return {"totals": [float(total.sum()) for total, _ in outputs], "draws": bits(torch.cat(draws)), "distinct": len({d[0].item() for d in draws})}


@program
def streams_and_threads():
    results = [None] * 4

    def work(index):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.full((512, 512), float(index + 1), device="cuda")
            for _ in range(50):
                x = (x @ x.t()) / x.abs().max() + index
            event = torch.cuda.Event()
            event.record()
            while not event.query():
                time.sleep(0.0005)
            results[index] = float(x.mean())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"means": [f"{value:.3f}" for value in results]}


@program
def events_and_timing():
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    torch.cuda._sleep(100_000_000)
    end.record()
    assert not end.query()
    end.synchronize()
    return {"plausible": 20 < begin.elapsed_time(end) < 500}


@program
def linear_algebra():
    torch.manual_seed(1)
    a = torch.randn(96, 96, device="cuda", dtype=torch.float64)
    spd = a @ a.t() + 96 * torch.eye(96, device="cuda", dtype=torch.float64)
    q, r = torch.linalg.qr(a)
    return {
        "cholesky": float(torch.linalg.cholesky(spd).diagonal().sum()),
        "solve": float((spd @ torch.linalg.solve(spd, a) - a).abs().max()) < 1e-9,
        "svd": float(torch.linalg.svdvals(a)[0]),
        "eigh": float(torch.linalg.eigvalsh(spd)[-1]),
        "eig": float(torch.linalg.eigvals(a).abs().max()),
        "qr": float((q @ r - a).abs().max()) < 1e-9,
        "inverse": float((torch.linalg.inv(spd) @ spd).diagonal().sum()),
        "lstsq": float(torch.linalg.lstsq(spd, a).solution.norm()),
        "determinant": float(torch.linalg.slogdet(spd).logabsdet),
        "batched": float(torch.linalg.inv(spd.expand(8, 96, 96).contiguous()).sum()),
    }


@program
def fourier():
    torch.manual_seed(2)
    x = torch.randn(16, 128, 96, device="cuda")
    return {
        "rfft": float(torch.fft.rfft(x).abs().sum()),
        "fft2": float(torch.fft.fft2(x).abs().sum()),
        "back": float((torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape[-2:]) - x).abs().max()) < 1e-5,
        "odd": float(torch.fft.fft(torch.randn(1009, device="cuda")).abs().max()),
        "stft": float(torch.stft(x[0].flatten(), 64, return_complex=True, window=torch.hann_window(64, device="cuda")).abs().mean()),
    }


@program
def sparse():
    torch.manual_seed(3)
    dense = torch.randn(256, 256, device="cuda")
    dense[dense.abs() < 1.2] = 0
    other = torch.randn(256, 64, device="cuda")
    coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    return {
        "coo": float((coo @ other - dense @ other).abs().max()) < 1e-3,
        "csr": float((csr @ other - dense @ other).abs().max()) < 1e-3,
        "values": coo._nnz(),
        "sum": float(torch.sparse.sum(coo)),
    }


@program
def recurrent():
    torch.manual_seed(4)
    results = {}
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        layer = kind(64, 128, 2, batch_first=True).cuda()
        out, _ = layer(torch.randn(8, 40, 64, device="cuda", requires_grad=True))
        out.square().mean().backward()
        results[kind.__name__] = round(float(sum(p.grad.norm() for p in layer.parameters())), 4)
    return results


@program
def convolutions():
    torch.manual_seed(5)
    torch.backends.cudnn.deterministic = True
    results = {}
    for name, layer, shape in (
        ("conv1d", nn.Conv1d(8, 16, 5), (4, 8, 200)),
        ("conv2d", nn.Conv2d(8, 16, 3, padding=1), (4, 8, 48, 48)),
        ("grouped", nn.Conv2d(8, 16, 3, groups=4), (4, 8, 48, 48)),
        ("conv3d", nn.Conv3d(4, 8, 3), (2, 4, 16, 16, 16)),
        ("transposed", nn.ConvTranspose2d(8, 4, 4, 2, 1), (2, 8, 24, 24)),
    ):
        layer.cuda()
        out = layer(torch.randn(shape, device="cuda"))
        out.square().mean().backward()
        results[name] = round(float(layer.weight.grad.norm()), 3)
    half = nn.Conv2d(16, 32, 3, padding=1).cuda().to(memory_format=torch.channels_last).bfloat16()
    out = half(torch.randn(4, 16, 32, 32, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last))
    results["channels_last"] = round(float(out.float().abs().mean()), 2)
    return results


@program
def attention():
    torch.manual_seed(6)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(2, 8, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    results = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            results[backend.name] = round(float(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).float().abs().mean()), 3)
    return results


@program
def low_precision():
    torch.manual_seed(8)
    a = torch.randint(-128, 128, (64, 128), device="cuda", dtype=torch.int8)
    b = torch.randint(-128, 128, (128, 64), device="cuda", dtype=torch.int8)
    exact = torch._int_mm(a, b).cpu() == (a.cpu().int() @ b.cpu().int())
    x, w = torch.randn(64, 128, device="cuda").to(torch.float8_e4m3fn), torch.randn(64, 128, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    fp8 = torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return {"int8": bool(exact.all()), "fp8": round(float((fp8.float() - x.float() @ w.float().t()).abs().max()), 1) < 1}


@program
def checkpoints():
    model = small_model()
    train(model, 3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        torch.save(model.state_dict(), path)
        other = small_model()
        other.load_state_dict(torch.load(path, map_location="cuda"))
        from_host = small_model()
        from_host.load_state_dict(torch.load(path, map_location="cpu", mmap=True))
    same = all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))
    return {"same": same, "from_host": all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), from_host.state_dict().values()))}


@program
def loaders():
    data = torch.utils.data.TensorDataset(torch.arange(2048 * 64, dtype=torch.float32).view(2048, 64), torch.arange(2048))
    total, labels = 0.0, 0
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(data, 128, num_workers=2, pin_memory=True, multiprocessing_context=context)
        for x, y in loader:
            assert x.is_pinned()
            total += float(x.cuda(non_blocking=True).double().sum())
            labels += int(y.cuda(non_blocking=True).sum())
    return {"total": int(total), "labels": labels}


@program
def pinned_pipeline():
    """Upload, compute and download on three streams, with the buffers reused."""
    torch.manual_seed(9)
    up, down, stream = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
    hosts = [torch.empty(1 << 20, pin_memory=True) for _ in range(3)]
    backs = [torch.empty(1 << 20, pin_memory=True) for _ in range(3)]
    devices = [torch.empty(1 << 20, device="cuda") for _ in range(3)]
    done = [torch.cuda.Event() for _ in range(3)]
    wrong = 0
    for round_ in range(30):
        slot = round_ % 3
        if round_ >= 3:
            done[slot].synchronize()
            wrong += int((backs[slot] != float(round_ - 3) * 2 + 1).sum())
        hosts[slot].fill_(float(round_))
        with torch.cuda.stream(up):
            devices[slot].copy_(hosts[slot], non_blocking=True)
        stream.wait_stream(up)
        with torch.cuda.stream(stream):
            devices[slot].mul_(2).add_(1)
        down.wait_stream(stream)
        with torch.cuda.stream(down):
            backs[slot].copy_(devices[slot], non_blocking=True)
            done[slot].record()
        up.wait_stream(down)
    torch.cuda.synchronize()
    return {"wrong": wrong}


@program
def expandable_segments():
    blocks = [torch.full((n * 100_003,), float(n), device="cuda") for n in range(1, 30)]
    del blocks[::2]
    torch.cuda.empty_cache()
    blocks += [torch.full((n * 50_001,), float(n), device="cuda") for n in range(1, 30)]
    sums = sum(float(block.double().sum()) for block in blocks)
    return {"sum": sums, "loss": train(small_model()), "segments": torch.cuda.memory_stats()["segment.all.current"] > 0}


@program
def pool_allocator():
    blocks = [torch.full((n * 100_003,), float(n), device="cuda") for n in range(1, 30)]
    del blocks[::2]
    return {"backend": torch.cuda.get_allocator_backend(), "sum": sum(float(block.double().sum()) for block in blocks), "loss": train(small_model())}


@program
def memory_statistics():
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, device="cuda")
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    try:
        torch.empty(1 << 44, device="cuda")
        refused = False
    except torch.cuda.OutOfMemoryError:
        refused = True
    return {
        "allocated": torch.cuda.memory_allocated() - before,
        "keys": len(stats),
        "plausible": 0 < free < total and x.is_cuda,
        "refused": refused,
        "capability": torch.cuda.get_device_capability(),
        "summary": "GPU reserved memory" in torch.cuda.memory_summary(),
    }


@program
def seeds():
    torch.manual_seed(1234)
    drawn = [torch.rand(1000, device="cuda"), torch.randn(1000, device="cuda"), torch.randint(0, 99, (1000,), device="cuda"),
             torch.randperm(1000, device="cuda"), nn.functional.dropout(torch.ones(1000, device="cuda"), 0.3),
             torch.multinomial(torch.arange(1.0, 100, device="cuda"), 50), torch.empty(100, device="cuda").exponential_()]
    return {f"draw{i}": bits(value) for i, value in enumerate(drawn)}


@program
def profiler():
    import warnings

    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(256, 256, device="cuda")
    with warnings.catch_warnings(record=True), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        (x @ x).sum().item()
    return {"events": any("aten::mm" in event.key for event in recorded.key_averages())}


@program
def indexing_and_sorting():
    torch.manual_seed(10)
    x = torch.randn(1 << 18, device="cuda")
    values, order = x.sort()
    index = torch.randint(0, 1000, (1 << 18,), device="cuda")
    counts = torch.zeros(1000, device="cuda", dtype=torch.int64).scatter_add_(0, index, torch.ones_like(index))
    return {
        "sorted": bits(values), "order": bool((x[order] == values).all()), "topk": bits(x.topk(50).values),
        "unique": index.unique().numel(), "counts": bits(counts), "nonzero": int((x > 1).nonzero().numel()),
        "masked": x.masked_select(x > 2).numel(), "cumsum": float(x.cumsum(0)[-1]), "histogram": bits(torch.bincount(index)),
        "where": float(torch.where(x > 0, x, -x).sum()), "quantile": float(x[:10000].quantile(0.3)), "mode": int(index.mode().values),
    }


@program
def one_rank_nccl():
    import torch.distributed as dist

    with tempfile.NamedTemporaryFile() as store:
        dist.init_process_group("nccl", init_method=f"file://{store.name}.store", rank=0, world_size=1)
        x = torch.arange(1000.0, device="cuda")
        dist.all_reduce(x)
        gathered = [torch.empty_like(x)]
        dist.all_gather(gathered, x)
        model = nn.parallel.DistributedDataParallel(small_model(), device_ids=[0])
        loss = train(model, 5)
        dist.barrier()
        dist.destroy_process_group()
    return {"sum": float(gathered[0].sum()), "loss": loss}


def _double(tensor, done):
    tensor.mul_(2)
    torch.cuda.synchronize()
    done.set()


@program
def shared_tensors():
    """A tensor given to another process of the client."""
    import torch.multiprocessing as multiprocessing

    context = multiprocessing.get_context("spawn")
    x, done = torch.arange(1000.0, device="cuda"), context.Event()
    torch.cuda.synchronize()
    child = context.Process(target=_double, args=(x, done))
    child.start()
    assert done.wait(100), "the other process did not finish"
    child.join()
    return {"sum": float(x.sum()), "exit": child.exitcode}


@program
def errors():
    """A failed assertion on the device is an exception here, and an error of the arguments leaves everything usable."""
    x = torch.ones(10, device="cuda")
    try:
        x @ torch.ones(3, 3, device="cuda")
        shape = "no error"
    except RuntimeError:
        shape = "RuntimeError"
    usable = float((x + 1).sum())
    try:
        x[torch.tensor([100], device="cuda")].cpu()
        index = "no error"
    except RuntimeError as error:
        index = "device-side assert" in str(error)
    return {"shape": shape, "usable": usable, "index": index}


@program
def resnet_inference():
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18().cuda().eval().to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        out = model(x)
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [50, 50, 60, 60]], device="cuda")
    kept = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7], device="cuda"), 0.5)
    return {"mean": round(float(out.float().abs().mean()), 2), "kept": kept.tolist()}


if __name__ == "__main__":
    main()
