"""Copies of a model that compute in another precision."""

import keras

from keras_tying.models.moved_state import Change, changed_copy


def with_precision(model, precision):
    """A copy in which `precision` is the dtype policy of the model and of its layers that had the same as the model."""
    policy = keras.dtype_policies.get(precision)
    if type(policy) is not keras.dtype_policies.DTypePolicy or policy.variable_dtype != model.variable_dtype:
        raise ValueError(
            f"`precision` must be a dtype policy with variables in {model.variable_dtype}, as those of the model, and "
            f"without quantization. Received: precision={precision!r}"
        )
    before, after = (keras.dtype_policies.serialize(each) for each in (model.dtype_policy, policy))

    def replaced(value):
        if value == before:
            return after
        if isinstance(value, dict):
            return {key: replaced(each) for key, each in value.items()}
        return [replaced(each) for each in value] if isinstance(value, list) else value

    return changed_copy(model, Change(lambda config: config.update(replaced(config)), _same, _same))


def _same(values):
    return values
