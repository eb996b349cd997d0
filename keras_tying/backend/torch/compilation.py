"""PyTorch: functions of a model run eagerly, without gradients."""

import torch


def compile_function(model, function):
    return torch.no_grad()(function)
