"""JAX: name of the device that is used, the first one."""

import jax


def accelerators():
    device = jax.local_devices()[0]
    return [] if device.platform == "cpu" else [device.device_kind]
