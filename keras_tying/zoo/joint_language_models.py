"""The feed-forward language models of Zhang and Qi, at the size of their comparisons."""

from keras_tying.models import JointLanguageModel
from keras_tying.zoo.registry import create_model, register


@register
def nnlm(target_vocabulary_size=10_000, tied=False, **kwargs):
    """Three target words before the next one, and nothing of the source.

    Args:
        target_vocabulary_size: Integer, target word types.
        tied: Boolean, whether the output embedding is the input embedding. The paper's is not.
        **kwargs: Further arguments of `JointLanguageModel`.

    Returns:
        A built `JointLanguageModel`.

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, table 3.
    """
    return JointLanguageModel(target_vocabulary_size, tied=tied, **kwargs)


@register
def nnjm(target_vocabulary_size=10_000, source_vocabulary_size=10_000, tied=False, window=7, **kwargs):
    """Beside the history, the source word the next one is affiliated with and three on either side.

    Args:
        target_vocabulary_size: Integer, target word types.
        source_vocabulary_size: Integer, source word types.
        tied: Boolean, whether the output embedding is the target words' input embedding.
        window: Odd integer, source words; the paper's "window 3" is `2 * 3 + 1` words.
        **kwargs: Further arguments of `JointLanguageModel`.

    Returns:
        A built `JointLanguageModel`.

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 2 and table 3.
    """
    return JointLanguageModel(target_vocabulary_size, source_vocabulary_size, window, tied=tied, **kwargs)


@register
def nnjm_global(target_vocabulary_size=10_000, source_vocabulary_size=10_000, tied=False, window=7, **kwargs):
    """Beside history and window, the mean of the whole source sentence.

    Takes the arguments of `nnjm`; `sections`, `split`, `stop_words` and `global_units` give the paper's
    variants.

    Reference:
        Zhang and Qi, Neural Network Joint Language Model, section 3 and tables 3 to 5.
    """
    return JointLanguageModel(
        target_vocabulary_size, source_vocabulary_size, window, tied=tied, global_context=True, **kwargs
    )


def create_joint_model(name, target_vocabulary_size, source_vocabulary_size, sentence_length, **arguments):
    """Builds any of the three for one text: each takes the sizes it has a use for.

    Args:
        name: `"nnlm"`, `"nnjm"` or `"nnjm_global"`.
        target_vocabulary_size: Integer, target word types.
        source_vocabulary_size: Integer, source word types.
        sentence_length: Integer, source words the global context sees at most.
        **arguments: Further arguments of the function of that name.

    Returns:
        A built `JointLanguageModel`.

    Example:

    >>> create_joint_model("nnlm", 50, 40, 10).source_vocabulary_size
    0
    """
    if name != "nnlm":
        arguments["source_vocabulary_size"] = source_vocabulary_size
    if name == "nnjm_global":
        arguments["sentence_length"] = sentence_length
    return create_model(name, target_vocabulary_size=target_vocabulary_size, **arguments)
