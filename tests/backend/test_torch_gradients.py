"""On PyTorch, losses have second derivatives and work in torch.func, torch.compile and loops over torch.optim."""

import pytest

START = """
import json, sys
sys.modules["tensorflow"] = None  # importing it takes seconds
import keras, torch
import keras_tying as kt
from keras_tying import backend
from keras_tying.losses import fused_cross_entropy as fused
from keras_tying.losses.fused_cross_entropy import OutputProjection, SoftTarget

N, H, V = 12, 5, 17
fused.LOGITS_PER_CHUNK = 5 * V  # five tokens a chunk
torch.manual_seed(0)
states, *matrices = torch.randn(N, H), torch.randn(V, H), torch.randn(V), torch.randn(V, H)
targets, weights = torch.randint(0, V, (N,)), torch.rand(N) * (torch.rand(N) > 0.3)
ALL = {"logit_soft_cap": 2.0, "temperature": 0.5, "label_smoothing": 0.2}
OPTIONS = {
    "plain": {},
    "no bias": {"bias": None},
    "soft cap": {"logit_soft_cap": 2.0},
    "temperature": {"temperature": 3.0},
    "smoothing": {"label_smoothing": 0.1},
    "soft target": {"soft_target": SoftTarget(3.0, 4.0, 0.7)},
    "trained soft target": {"soft_target": SoftTarget(3.0, 4.0, 0.7, target_gradient=True)},
    "all": {"soft_target": SoftTarget(3.0, 4.0, 0.7, target_gradient=True), **ALL},
}

def projection(matrices, options):
    return OutputProjection(**{**dict(zip(("embeddings", "bias", "input_embeddings"), matrices)), **options})

def total(function, options, weights=weights):
    return lambda hidden, *matrices: function(hidden, targets, weights, projection(matrices, options))[0]

def each(function, options, reduce):
    return lambda hidden, *matrices: reduce(function(hidden, targets, weights, projection(matrices, options)))

def squares(losses):
    return torch.sum(losses**2)

def copies(tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]

def difference(received, expected):
    pairs = zip(received, expected, strict=True)
    return max(float((one - other).abs().max() / other.abs().max().clamp(1)) for one, other in pairs)

found = {}
embedding = kt.layers.AdaptiveEmbedding(
    V, H, cutoffs=(4, 9), factor=2, bias_initializer="normal", embeddings_initializer="normal")
embedding.build()

def adaptive(hidden):
    output = kt.models.heads.head_projection(embedding)
    return output.total_loss(hidden, targets, weights)[0]

def adaptive_from_all_words(hidden):
    return -(embedding(hidden, reverse=True)[torch.arange(N), targets] * weights).sum()
"""

SECOND = """
def second(loss_of, tensors):
    # Gradients of a loss and a penalty of its gradients; the hidden states depend on the output embeddings.
    hidden, *others = tensors = copies(tensors)
    states = torch.tanh(hidden + others[0][:N]) if others else torch.tanh(hidden)
    loss = loss_of(states, *others)
    first = torch.autograd.grad(loss, tensors, create_graph=True, allow_unused=True)
    first = [gradient for gradient in first if gradient is not None]
    total = loss + sum(torch.sum(gradient**2) for gradient in first)
    gradients = torch.autograd.grad(total, tensors, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]

tensors = [states, *matrices]
for name, options in OPTIONS.items():
    for kind, of in {
        "total": lambda function: total(function, options),
        "sum": lambda function: each(function, options, torch.sum),
        "squares": lambda function: each(function, options, squares),
    }.items():
        fast = fused.total_loss if kind == "total" else fused.weighted_losses
        received, expected = (second(of(function), tensors) for function in (fast, backend.portable(fast)))
        found[f"{name}, {kind}"] = difference(received, expected)
both = fused.total_loss, backend.portable(fused.total_loss)
found["no weights"] = difference(*(second(total(function, {}, torch.zeros(N)), tensors) for function in both))
found["adaptive"] = difference(second(adaptive, [states]), second(adaptive_from_all_words, [states]))
found["logits"] = difference(
    second(lambda hidden, matrix: kt.losses.linear_cross_entropy(hidden, targets, matrix).sum(), tensors[:2]),
    second(lambda hidden, matrix: torch.nn.functional.cross_entropy(hidden @ matrix.T, targets, reduction="sum"),
           tensors[:2]),
)

def in_factors(function, factors):
    hidden, factors = copies([states, factors])
    losses = function(hidden, targets, weights, projection(matrices, {}))
    gradient, = torch.autograd.grad(torch.sum(losses * factors), hidden, create_graph=True)
    return torch.autograd.grad(torch.sum(torch.sin(gradient + 1)), factors)

for name, factors in {"one factor": torch.ones(N), "factors": torch.rand(N), "zero": torch.zeros(N)}.items():
    functions = fused.weighted_losses, backend.portable(fused.weighted_losses)
    found[name] = difference(*(in_factors(function, factors) for function in functions))
print(json.dumps(found))
"""

FIRST = """
loss = total(fused.total_loss, {})(*copies([states, *matrices]))
found["shapes"] = [list(saved.shape) for saved in loss.grad_fn.next_functions[0][0].saved_tensors]
fused.chunk_gradients = None  # calling it fails
for kind, of in (("total", loss), ("squares", each(fused.weighted_losses, {}, squares)(*copies([states, *matrices])))):
    of.backward()
print(json.dumps(found))
"""

TRANSFORMS = """
from torch.func import grad, hessian, jvp, vmap

rows, words = torch.randn(3, N, H), torch.randint(0, V, (3, N))
numbers = tuple(range(4))
for name, options in OPTIONS.items():
    def loss(hidden, *rest):
        *matrices, words = rest
        return fused.total_loss(hidden, words, weights, projection(matrices, options))[0]

    used = numbers if name in ("trained soft target", "all") else numbers[:2]
    received = vmap(grad(loss, used), (0, None, None, None, 0))(rows, *matrices, words)
    expected = []
    for row, targets_of_row in zip(rows, words, strict=True):
        tensors = copies([row, *matrices])
        expected.append(torch.autograd.grad(loss(*tensors, targets_of_row), tensors[: len(used)]))
    found[name] = difference(received, list(map(torch.stack, zip(*expected, strict=True))))
    of_all = grad(lambda matrix: vmap(loss, (0, None, None, None, 0))(rows, matrix, *matrices[1:], words).sum())
    found[f"{name}, sum"] = difference([of_all(matrices[0])], [received[1].sum(0)])

def ours(hidden):
    return kt.losses.linear_cross_entropy(hidden, targets, *matrices[:2]).sum()

def plain(hidden):
    logits = hidden @ matrices[0].T + matrices[1]
    return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

found["hessian"] = difference([hessian(ours)(states)], [hessian(plain)(states)])
found["jvp"] = difference(jvp(ours, (states,), (rows[0],)), jvp(plain, (states,), (rows[0],)))
expected = torch.stack([grad(adaptive_from_all_words)(row) for row in rows])
found["adaptive"] = difference([vmap(grad(adaptive))(rows)], [expected])
output = kt.models.heads.head_projection(embedding)
found["scored"] = difference(
    vmap(output.token_losses)(rows, words),
    map(torch.stack, zip(*(output.token_losses(*each) for each in zip(rows, words, strict=True)), strict=True)),
)

model = kt.zoo.recurrent_language_model(V, H, num_layers=1, tied=True)
trained = [variable.value for variable in model.trainable_variables]
fixed = [variable.value for variable in model.non_trainable_variables]

def loss_of_model(trained, words):
    return model.stateless_call(trained, fixed, words[None], targets=words[None].roll(-1, 1), training=True)[0].loss

received = vmap(grad(loss_of_model), (None, 0))([each.detach() for each in trained], words)
expected = [torch.autograd.grad(loss_of_model(trained, row), trained) for row in words]
found["model"] = difference(received, map(torch.stack, zip(*expected, strict=True)))
print(json.dumps(found))
"""

LOOPS = """
words = torch.randint(0, V, (4, 6))

def trained(compiled):
    keras.utils.set_random_seed(0)
    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H), [keras.layers.Dense(H)])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.01), []
    called = torch.compile(model, backend="eager") if compiled else model
    for _ in range(4):
        optimizer.zero_grad()
        loss = called(words, targets=words.roll(-1, 1), training=True).loss
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses

print(json.dumps([trained(False), trained(True)]))
"""


@pytest.mark.parametrize(
    ("program", "number"),
    [(SECOND, 8 * 3 + 6), (TRANSFORMS, 8 * 2 + 5)],
    ids=["second derivatives and those of the portable losses", "transforms and backward"],
)
def test_derivatives_are_equal(printed_on, program, number):
    found = printed_on("torch", START + program)
    assert len(found) == number
    for name, difference in found.items():
        assert difference < 1e-5, name


def test_first_derivatives_keep_no_logits(printed_on):
    shapes = printed_on("torch", START + FIRST)["shapes"]
    assert [12, 5] in shapes
    assert [12, 17] not in shapes


def test_a_loop_over_an_optimizer_of_pytorch_trains_a_model_and_its_compiled_one(printed_on):
    losses, of_compiled = printed_on("torch", START + LOOPS)
    assert sorted(losses, reverse=True) == losses
    assert of_compiled == pytest.approx(losses, rel=1e-5)
