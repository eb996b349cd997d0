"""PyTorch: name of the device that Keras uses."""

import torch
from keras import ops


def accelerators():
    device = ops.zeros(()).device
    if device.type == "cpu":
        return []
    return [torch.cuda.get_device_name(device) if device.type == "cuda" else device.type]
