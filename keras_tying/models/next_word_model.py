"""Base class of models that predict the next word from hidden states and an output embedding."""

import inspect
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.backend.keras_internals.training import compiled_metrics, take_loss_as_built
from keras_tying.backend.replicas import replicas_in_step
from keras_tying.layers import AdaptiveEmbedding, CarriedState
from keras_tying.losses import AugmentedLoss, SequenceCrossEntropy
from keras_tying.metrics import Perplexity
from keras_tying.models.composed_model import ComposedModel
from keras_tying.models.heads import head_projection, head_scores, head_size


class Example(NamedTuple):
    """A batch for training or evaluation, as one argument of a model.

    The training step of Keras calls `model(x, training=True)`. The models of keras_tying pass an `Example` as `x`, so
    that `call` receives the targets as well.

    Attributes:
        inputs: The inputs of `call`.
        targets: Word ids `[B, T]` or `[B]`. With `None`, `call` returns logits.
        sample_weight: Optional weights that broadcast to the targets.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.zoo.recurrent_language_model(100, units=8)
    >>> words = np.array([[3, 14, 15], [9, 2, 6]])
    >>> tuple(model(kt.models.Example(words)).shape)  # logits
    (2, 3, 100)
    >>> type(model(kt.models.Example(words, targets=words))).__name__
    'Losses'
    """

    inputs: Any
    targets: Any = None
    sample_weight: Any = None


class Losses(NamedTuple):
    """Output of a model that is called with targets.

    Attributes:
        loss: The compiled loss, a scalar, without the penalties of regularizers.
        token_losses: Negative log-likelihood of each target, `[B, T]` or `[B]`; 0 for those that do not count.
        counted: Weight of each target in a mean, of the same shape.
        hidden: Hidden states before the output embedding, `[B, T, H]` or `[B, H]`.
        logits: Scores of all words if `compile` was given metrics, else `None`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.zoo.recurrent_language_model(100, units=8)
    >>> words = np.array([[3, 14, 15], [9, 2, 6]])
    >>> losses = model(words, targets=words)
    >>> tuple(losses.loss.shape), tuple(losses.token_losses.shape), tuple(losses.hidden.shape), losses.logits
    ((), (2, 3), (2, 3, 8), None)
    """

    loss: Any
    token_losses: Any
    counted: Any
    hidden: Any
    logits: Any = None


class NextWordModel(ComposedModel):
    """Base class of models whose output embedding scores the next word. They train without keeping logits.

    Without targets a model returns logits, with targets `Losses`. If the compiled loss is a `SequenceCrossEntropy`,
    `fit` and `evaluate` pass the targets to the model (see `Example`), and loss and gradient are computed from hidden
    states. Any other Keras loss of word ids receives logits. `predict` returns logits.

    A subclass has the attributes `embedding` and `output_embedding`, the layers that embed and score words, and ends
    its `call` with `return self.outputs_of(hidden, targets, sample_weight, training)`.

    Args:
        **kwargs: `name`, `dtype`, `trainable`.

    Raises:
        ValueError: When trained or evaluated, if `y`, the word ids to predict, is missing.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> class Bigram(kt.models.NextWordModel):
    ...     def __init__(self, vocabulary_size, units, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.embedding = self.output_embedding = kt.layers.TiedEmbedding(vocabulary_size, units)
    ...
    ...     def call(self, inputs, targets=None, sample_weight=None, training=None):
    ...         if isinstance(inputs, kt.models.Example):
    ...             inputs, targets, sample_weight = inputs
    ...         return self.outputs_of(self.embedding(inputs), targets, sample_weight, training)
    >>> model, words = Bigram(100, 8), np.array([[3, 14, 15]])
    >>> tuple(model(words).shape), tuple(model(words, targets=words).token_losses.shape)
    ((1, 3, 100), (1, 3))
    """

    embedding: Any
    output_embedding: Any

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)  # sample weights stay float32
        self.perplexity = Perplexity()
        self.loss_seeds = keras.random.SeedGenerator(0)
        self._token_loss = _TokenLoss()
        self._compiled = SimpleNamespace(by_name={})  # TensorFlow would write a dictionary into its SavedModel

    @property
    def layers(self):
        """The layers that compute the logits, without those that call the loss and carry the state."""
        return [layer for layer in super().layers if not isinstance(layer, (_TokenLoss, CarriedState))]

    def compile(self, optimizer="rmsprop", loss="auto", loss_weights=None, *args, **kwargs):
        """Configures training; arguments are those of `keras.Model.compile`.

        Args:
            optimizer: An optimizer or its name.
            loss: `"auto"` (default) is `auto_loss`. `AugmentedLoss` and `SampledCrossEntropy` are also computed from
                hidden states. Any other Keras loss of word ids receives logits.
            loss_weights: Factor of a loss that receives logits.
            *args: Further arguments.
            **kwargs: Further arguments.

        Raises:
            ValueError: If there are several losses, or the loss takes probabilities, or the embeddings cannot train
                with it, or `loss_weights` are given for a loss from hidden states.
        """
        if isinstance(loss, (list, tuple, dict)):
            raise ValueError(f"`loss` must be one loss, because the model has one output. Received: loss={loss!r}")
        loss = self.auto_loss if isinstance(loss, str) and loss == "auto" else loss
        if _takes_probabilities(loss):
            raise ValueError(
                "`loss` must take logits: pass 'auto' or keras.losses.SparseCategoricalCrossentropy(from_logits=True). "
                f"Received: {getattr(loss, 'name', loss)!r}, which takes probabilities"
            )
        if isinstance(loss, SequenceCrossEntropy) and isinstance(self.output_embedding, AdaptiveEmbedding):
            loss.check_adaptive()
        if isinstance(loss, AugmentedLoss):
            input_size = None if self.embedding is None else head_size(self.embedding)
            loss.check_sizes(input_size, head_size(self.output_embedding))
        if loss_weights is not None and isinstance(loss, SequenceCrossEntropy):
            raise ValueError(
                "`loss_weights` has no effect on a loss from hidden states: use sample weights or another learning "
                f"rate. Received: loss_weights={loss_weights!r}"
            )
        super().compile(optimizer, loss, loss_weights, *args, **kwargs)
        self.perplexity.ignore_id = getattr(loss, "ignore_class", None)
        if self._loss_takes_hidden:
            take_loss_as_built(self)

    def fit(self, *args, **kwargs):
        """Trains the model; arguments are those of `keras.Model.fit`.

        Args:
            *args: The inputs `x`; the word ids to predict `y`, `[B, T]` or `[B]`; further arguments.
            **kwargs: Further arguments. `class_weight` needs `y`, an array `[B]`.

        Raises:
            ValueError: If there are class weights and `y` is not an array `[B]`.
        """
        given = inspect.signature(super().fit).bind(*args, **kwargs).arguments
        _check_class_weight(given.get("class_weight"), given.get("y"))
        return super().fit(*args, **kwargs)

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        _check_class_weight(class_weight, y)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    @property
    def auto_loss(self):
        """The loss that `compile` gives a model if none is named."""
        return SequenceCrossEntropy()

    @property
    def output_projection(self):
        """The parameters of the output embedding, as an argument of losses."""
        return head_projection(self.output_embedding, self.embedding)

    def scores(self, hidden):
        """Logits `[..., V]` of hidden states `[..., H]`."""
        return head_scores(self.output_embedding, hidden)

    def token_losses(self, hidden, targets):
        """Negative log-likelihoods of `targets` `[...]` after hidden states `[..., H]`, without a gradient."""
        return self.auto_loss.from_hidden(targets, hidden, self.output_projection, training=False)[1]

    def outputs_of(self, hidden, targets=None, sample_weight=None, training=None, loss=None):
        """Logits of hidden states; with targets `Losses`.

        The loss is by default the compiled one, or `auto_loss` if the compiled loss takes logits.
        """
        if targets is None:
            return self.scores(hidden)
        if loss is None:
            loss = self.loss if self._loss_takes_hidden else self.auto_loss
        objective, token_losses, counted = self._token_loss(
            hidden,
            targets=targets,
            sample_weight=sample_weight,
            training=bool(training),
            loss=loss,
            output=self.output_projection,
            seed=self.loss_seeds,
        )
        logits = self.scores(hidden) if compiled_metrics(self) is not None else None
        return Losses(objective, token_losses, counted, hidden, logits)

    @property
    def _loss_takes_hidden(self):
        return isinstance(self.loss, SequenceCrossEntropy)

    def train_step(self, *arguments):
        return super().train_step(*self._with_example(*arguments))

    def test_step(self, *arguments):
        return super().test_step(*self._with_example(*arguments))

    def _with_example(self, *arguments):
        """The arguments of a step on any backend. The last one is the data, in which `Example` replaces the inputs."""
        *state, data = arguments
        inputs, targets, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if targets is None:
            raise ValueError("Training and evaluation need `y`, the word ids to predict. Received: y=None")
        example = Example(inputs, targets, sample_weight) if self._loss_takes_hidden else Example(inputs)
        return *state, (example, targets, sample_weight)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, Losses) and not self._loss_takes_hidden:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss = y_pred.loss if isinstance(y_pred, Losses) else self.loss(y, y_pred, sample_weight)
        penalties = sum(ops.cast(each, loss.dtype) for each in self.losses)
        return loss + penalties / replicas_in_step()

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if isinstance(y_pred, Losses):
            self.perplexity.update_losses(y_pred.token_losses, y_pred.counted)
            y_pred = y_pred.logits
        else:
            self.perplexity.update_state(y, y_pred, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def compiled_once(self, name, compile_it):
        """The compiled function of that name. The first call makes it with `compile_it`."""
        key = name, len(self.weights)  # quantization and LoRA add weights, which a compiled function does not have
        functions = self._compiled.by_name
        if key not in functions:
            functions[key] = compile_it()
        return functions[key]


def log_probabilities(model, inputs, targets):
    """Log-probabilities of `targets` as a NumPy array, 0 for those that do not count.

    Args:
        model: A `NextWordModel` whose `hidden_states` take the inputs of `call` and `training`.
        inputs: The inputs, checked tensors.
        targets: Checked word ids.
    """

    def score(inputs, targets):
        return -model.token_losses(model.hidden_states(inputs, training=False), targets)

    compiled = model.compiled_once("score", lambda: compile_function(model, score))
    return ops.convert_to_numpy(compiled(inputs, ops.convert_to_tensor(targets)))


def apply_layers(layers, values, **arguments):
    """Applies layers in order. Each layer receives only the arguments that its `call` takes."""
    for layer in layers:
        values = layer(values, **arguments_of(layer, **arguments))
    return values


def arguments_of(layer, **given):
    """The subset of the arguments that the `call` of `layer` takes."""
    taken = inspect.signature(layer.call).parameters
    return {name: value for name, value in given.items() if name in taken}


def _takes_probabilities(loss):
    """Whether a loss of Keras, by name, function or object, takes probabilities instead of logits."""
    if isinstance(loss, keras.losses.Loss):
        return loss.get_config().get("from_logits") is False
    function = keras.losses.get(loss) if isinstance(loss, str) else loss
    argument = inspect.signature(function).parameters.get("from_logits") if callable(function) else None
    return argument is not None and argument.default is False


def _check_class_weight(class_weight, y):
    """Refuses class weights of sequences: Keras would take the place of the highest word id as the class."""
    if class_weight is not None and len(getattr(y, "shape", ())) != 1:
        raise ValueError(
            "`class_weight` needs `y`, an array [B] of word ids: pass `sample_weight` with a weight for each word "
            f"instead. Received: {type(y).__name__} of shape {getattr(y, 'shape', None)}"
        )


class _TokenLoss(keras.layers.Layer):
    """Calls a loss without autocast: in mixed precision, `call` of a model gets all variables cast, even the bias."""

    def __init__(self):
        super().__init__(autocast=False, name="token_loss")
        self.supports_masking = True  # the loss reads the mask of the hidden states
        self.built = True

    def compute_mask(self, *_):
        """None: losses are not masked."""

    def call(self, hidden, targets, sample_weight, training, loss, output, seed):
        return loss.from_hidden(targets, hidden, output, sample_weight, training, seed)
