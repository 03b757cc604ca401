# SPDX-License-Identifier: Apache-2.0
"""JAX: training, graphs, linear algebra, host callbacks. See program.py."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu")

import jax
import jax.numpy as jnp
import numpy

from program import digest, main, program


def _training(steps):
    key = jax.random.key(0)
    keys = jax.random.split(key, 4)
    parameters = [jax.random.normal(k, (256, 256)) * 0.05 for k in keys]
    x, y = jax.random.normal(keys[0], (64, 256)), jax.random.normal(keys[1], (64, 256))

    def loss(parameters):
        h = x
        for w in parameters:
            h = jnp.tanh(h @ w)
        return ((h - y) ** 2).mean()

    @jax.jit
    def step(parameters):
        value, gradient = jax.value_and_grad(loss)(parameters)
        return [p - 0.1 * g for p, g in zip(parameters, gradient)], value

    for _ in range(steps):
        parameters, value = step(parameters)
    return float(value)


@program
def devices():
    device = jax.devices()[0]
    return {"count": len(jax.devices()), "kind": device.device_kind, "platform": device.platform}


@program
def training():
    return {"loss": round(_training(60), 4)}


@program
def scan_and_control_flow():
    @jax.jit
    def many(x):
        def body(carry, i):
            return jax.lax.cond(i % 2 == 0, lambda c: c * 1.01 + i, lambda c: c - 0.5, carry), carry.sum()

        return jax.lax.scan(body, x, jnp.arange(50))

    carry, sums = many(jnp.ones((128,)))
    looped = jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] < 37, lambda c: (c[0] + 1, jnp.sin(c[1]) + c[1]), (0, x)))(jnp.ones(16))
    return {"carry": float(carry.sum()), "sums": float(sums.sum()), "loop": float(looped[1].sum())}


@program
def linear_algebra():
    a = jax.random.normal(jax.random.key(1), (64, 64))
    spd = a @ a.T + 64 * jnp.eye(64)
    return {
        "cholesky": round(float(jnp.linalg.cholesky(spd).trace()), 2),
        "solve": float(jnp.abs(spd @ jnp.linalg.solve(spd, a) - a).max()) < 1e-2,
        "eigh": round(float(jnp.linalg.eigh(spd)[0][-1]), 1),
        "svd": round(float(jnp.linalg.svd(a)[1][0]), 2),
        "fft": round(float(jnp.abs(jnp.fft.fft2(a)).mean()), 2),
        "sort": digest(numpy.asarray(jnp.sort(a.ravel()))),
    }


@program
def random_numbers():
    key = jax.random.key(5)
    return {"uniform": digest(numpy.asarray(jax.random.uniform(key, (1000,)))), "permutation": digest(numpy.asarray(jax.random.permutation(key, 1000)))}


@program
def host_callbacks():
    seen = []

    @jax.jit
    def function(x):
        y = jax.pure_callback(lambda v: numpy.asarray(v) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        jax.debug.callback(lambda v: seen.append(float(v)), y.sum())
        return y + 1

    total = sum(float(function(jnp.full((32,), float(i))).sum()) for i in range(20))
    jax.effects_barrier()
    return {"total": total, "seen": sorted(seen)[-1], "count": len(seen)}


@program
def donation_and_transfers():
    step = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = jax.device_put(numpy.arange(1 << 18, dtype=numpy.float32))
    for _ in range(5):
        x = step(x)
    return {"sum": float(x.astype(jnp.float64).sum()) > 0, "digest": digest(numpy.asarray(x))}


@program
def bf16_products():
    a = jax.random.normal(jax.random.key(2), (512, 512), jnp.bfloat16)
    return {"mean": round(float(jnp.abs((a @ a).astype(jnp.float32)).mean()), 1), "grad": round(float(jax.grad(lambda m: (m @ m).astype(jnp.float32).sum())(a).astype(jnp.float32).mean()), 1)}


@program
def flax_training():
    import optax
    from flax import linen as nn

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(16, (3, 3))(x))
            return nn.Dense(10)(nn.avg_pool(x, (4, 4)).reshape(x.shape[0], -1))

    model = Model()
    x, y = jax.random.normal(jax.random.key(0), (32, 16, 16, 3)), jnp.arange(32) % 10
    parameters = model.init(jax.random.key(1), x)
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters, state):
        loss, gradient = jax.value_and_grad(lambda p: optax.softmax_cross_entropy_with_integer_labels(model.apply(p, x), y).mean())(parameters)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, loss

    for _ in range(30):
        parameters, state, loss = step(parameters, state)
    return {"loss": round(float(loss), 2)}


if __name__ == "__main__":
    main()
