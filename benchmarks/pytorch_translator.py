"""The architecture of `keras_tying.models.Translator` in plain PyTorch.

A bidirectional `nn.GRU` over packed sentences, attention keys that are computed once, `nn.GRUCell` in a loop over the
target words, the readout layers after the loop, and a beam search in which every hypothesis is a row of the batch.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn


class PyTorchTranslator(nn.Module):
    def __init__(self, vocabulary: int, width: int, units: int, three_way: bool = True):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.source_embedding = self.embedding if three_way else nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, units, bidirectional=True, batch_first=True)
        self.first_state = nn.Linear(2 * units, units)
        self.first_cell, self.second_cell = nn.GRUCell(width, units), nn.GRUCell(2 * units, units)
        self.keys, self.query = nn.Linear(2 * units, 2 * units), nn.Linear(units, 2 * units, bias=False)
        self.score = nn.Linear(2 * units, 1, bias=False)
        self.readouts = nn.ModuleList(nn.Linear(part, width) for part in (units, width, 2 * units))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def encode(self, source, lengths):
        """Annotations, their keys, the mask of words, and the initial state of the decoder."""
        packed = rnn.pack_padded_sequence(
            self.source_embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        annotations, _ = rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        mask = torch.arange(annotations.shape[1]) < lengths[:, None]
        mean = annotations.sum(1) / lengths[:, None]
        return annotations, self.keys(annotations), mask, torch.tanh(self.first_state(mean))

    def step(self, word, state, annotations, keys, mask):
        middle = self.first_cell(word, state)
        scores = self.score(torch.tanh(keys + self.query(middle)[:, None]))[..., 0]
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), 1)
        context = torch.bmm(weights[:, None], annotations)[:, 0]
        return self.second_cell(context, middle), context

    def logits(self, states, words, contexts):
        parts = zip(self.readouts, (states, words, contexts), strict=True)
        readout = torch.tanh(sum(layer(part) for layer, part in parts))
        return functional.linear(readout, self.embedding.weight, self.bias)

    def forward(self, source, lengths, target):
        annotations, keys, mask, state = self.encode(source, lengths)
        words = functional.pad(self.embedding(target[:, :-1]), (0, 0, 1, 0))
        states, contexts = [], []
        for word in words.unbind(1):
            state, context = self.step(word, state, annotations, keys, mask)
            states.append(state)
            contexts.append(context)
        return self.logits(torch.stack(states, 1), words, torch.stack(contexts, 1))


@torch.inference_mode()
def beam_search(model: PyTorchTranslator, source, lengths, limits, size: int, end: int, drop_finished: bool):
    """The best of `size` hypotheses per sentence, each a list of word ids.

    Args:
        model: The translator.
        source: Word ids `[B, S]`.
        lengths: Number of words of each sentence.
        limits: Maximum number of words of each translation.
        size: Hypotheses per sentence.
        end: The id that ends a translation.
        drop_finished: Whether a sentence leaves the batch when all its hypotheses are finished. Otherwise all stay
            until the last one is finished.
    """
    *attended, state = (part.repeat_interleave(size, 0) for part in model.encode(source, lengths))
    places, found = torch.arange(len(source)), [[]] * len(source)
    scores = torch.full((len(source), size), float("-inf"))
    scores[:, 0] = 0
    words = torch.zeros(len(source) * size, 0, dtype=torch.long)
    finished = torch.zeros(len(words), dtype=torch.bool)
    counts = torch.zeros(len(words))
    vectors = torch.zeros(len(words), model.embedding.embedding_dim)
    only_end = torch.full_like(model.bias, float("-inf"))
    only_end[end] = 0
    while True:
        state, context = model.step(vectors, state, *attended)
        likelihoods = torch.log_softmax(model.logits(state, vectors, context), -1)
        likelihoods = torch.where(finished[:, None], only_end, likelihoods)
        rows, vocabulary = len(places), likelihoods.shape[-1]
        total = scores[:, :, None] + likelihoods.view(rows, size, vocabulary)
        scores, best = total.flatten(1).topk(size)
        parents = (torch.arange(rows)[:, None] * size + best // vocabulary).flatten()
        last = (best % vocabulary).flatten()
        words, state = torch.cat([words[parents], last[:, None]], 1), state[parents]
        counts = counts[parents] + ~finished[parents]
        finished = finished[parents] | (last == end) | (words.shape[1] >= limits.repeat_interleave(size))
        done = finished.view(rows, size).all(1)
        if done.all() or (drop_finished and done.any()):
            choice = (scores / counts.view(rows, size)).argmax(1)
            for row in done.nonzero()[:, 0].tolist():
                hypothesis = row * size + choice[row]
                found[places[row]] = words[hypothesis, : int(counts[hypothesis])].tolist()
            if done.all():
                return found
            kept = (~done).repeat_interleave(size)
            places, scores, limits = places[~done], scores[~done], limits[~done]
            words, last, state, finished, counts = (part[kept] for part in (words, last, state, finished, counts))
            attended = [part[kept] for part in attended]
        vectors = model.embedding(last)


def with_weights_of(translator) -> PyTorchTranslator:
    """A copy of a `keras_tying.models.Translator` with one vocabulary and a tied decoder or three-way tying."""
    decoder, attention = translator.decoder, translator.decoder.attention
    forwards, backwards = translator.forwards, translator.backwards
    zeros = np.zeros_like(decoder.bias)
    state = {
        "embedding.weight": np.array(translator.embedding.embeddings),
        "source_embedding.weight": np.array(translator.source_embedding.embeddings),
        "bias": np.array(translator.embedding.bias),
        "query.weight": np.transpose(attention.query_kernel),
        "score.weight": np.transpose(attention.score_vector),
        **_linear("keys", attention.key_kernel, attention.bias),
        **_linear("first_state", translator.first_state.kernel, translator.first_state.bias),
        **_recurrence("encoder.{}_l0", forwards.kernel, forwards.recurrent_kernel, forwards.bias, zeros),
        **_recurrence("encoder.{}_l0_reverse", backwards.kernel, backwards.recurrent_kernel, backwards.bias, zeros),
        **_recurrence("first_cell.{}", decoder.kernel, decoder.recurrent_kernel, decoder.bias, zeros),
        **_recurrence(
            "second_cell.{}", decoder.second_kernel, decoder.second_recurrent_kernel, zeros, decoder.second_bias
        ),
    }
    for number, layer in enumerate(translator.readouts):
        state |= _linear(f"readouts.{number}", layer.kernel, layer.bias)
    sizes = translator.target_vocabulary_size, translator.embedding_size, translator.units
    copy = PyTorchTranslator(*sizes, three_way=translator.tying == "three_way")
    copy.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()})
    return copy


def _linear(name: str, kernel, bias) -> dict[str, np.ndarray]:
    return {f"{name}.weight": np.transpose(kernel), f"{name}.bias": np.array(bias)}


def _recurrence(names: str, kernel, recurrent_kernel, bias, recurrent_bias) -> dict[str, np.ndarray]:
    parts = {"weight_ih": kernel, "weight_hh": recurrent_kernel, "bias_ih": bias, "bias_hh": recurrent_bias}
    return {names.format(part): _gates(weight) for part, weight in parts.items()}


def _gates(weight) -> np.ndarray:
    """A GRU kernel as PyTorch has it: transposed, with the reset gate before the update gate."""
    update, reset, candidate = np.split(np.array(weight), 3, axis=-1)
    return np.concatenate([reset, update, candidate], axis=-1).T
