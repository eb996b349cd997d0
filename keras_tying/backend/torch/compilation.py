"""Functions of a model without gradients; PyTorch runs them eagerly."""

import torch


def compile_function(model, function):
    return torch.no_grad()(function)
