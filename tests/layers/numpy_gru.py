"""A GRU in NumPy."""

import numpy as np
from scipy.special import expit as sigmoid


def gru_step(inputs, recurrent, state):
    """The next state of a GRU with one bias, by the equations of `OneBiasGRU`, one by one.

    Args:
        inputs: Products of the inputs and the kernel, with the bias, `[3H]`.
        recurrent: Products of the state and the recurrent kernel, `[3H]`.
        state: The state before, `[H]`.
    """
    (xu, xr, xn), (hu, hr, hn) = np.split(inputs, 3), np.split(recurrent, 3)
    update, reset = sigmoid(xu + hu), sigmoid(xr + hr)
    return update * state + (1 - update) * np.tanh(xn + reset * hn)
