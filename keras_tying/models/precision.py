"""Copies of a model that compute in another precision."""

import keras

from keras_tying.models.moved_state import Change, changed_copy


def with_precision(model, precision):
    """A copy in which `precision` is the dtype policy of the model and of its layers that had the same as the model."""
    own, policy = model.dtype_policy, _policy(precision)
    if not _is_plain(policy) or policy.variable_dtype != own.variable_dtype:
        raise ValueError(
            f"`precision` must be a dtype policy with variables in {own.variable_dtype}, as those of the model, and "
            f"without quantization, for which there is `quantize`. Received: precision={precision!r}"
        )
    if not _is_plain(own):
        raise ValueError(f"The model must have one dtype policy, not a map of them. Received: {own!r}")
    before, after = (keras.dtype_policies.serialize(each) for each in (own, policy))

    def replaced(value):
        if isinstance(value, dict):
            if {key: each for key, each in value.items() if key != "shared_object_id"} == before:
                return after
            return {key: replaced(each) for key, each in value.items()}
        return [replaced(each) for each in value] if isinstance(value, list) else value

    return changed_copy(model, Change(lambda config: config.update(replaced(config)), _same, _same))


def _policy(precision):
    try:
        return precision and keras.dtype_policies.get(precision)
    except (TypeError, ValueError):  # the error of Keras does not say what was expected
        return None


def _is_plain(policy):
    return type(policy) is keras.dtype_policies.DTypePolicy


def _same(values):
    return values
