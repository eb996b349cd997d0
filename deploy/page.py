"""A page to try trained models: translation with attention, next words, nearest words.

    pip install "keras-tying[page]"
    python deploy/page.py                                    asks the service at http://localhost:8501
    python deploy/page.py --service http://HOST:PORT --host 0.0.0.0 --port 7860

The service is `deploy/ray_serve.py`. The page shows what its models can do.
"""

import argparse
import json
import os
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
import numpy as np

from keras_tying.inference.translator import Attention, plot_attention

SECONDS = 60
"""How long the page waits for an answer."""


class Client:
    """Asks a service. An error of the service, or of the way to it, is a `gr.Error`, which the page shows."""

    def __init__(self, address: str):
        self.address = f"{address.rstrip('/')}/v1/models"

    def models(self, signature: str) -> list[str]:
        """Names of the models that have a signature."""
        found = []
        for name in self._get("")["models"]:
            if signature in self._get(f"/{name}/metadata")["metadata"]["signature_def"]["signature_def"]:
                found.append(name)
        return found

    def predict(self, model: str, signature: str, **inputs: Any) -> Any:
        """The outputs of a signature."""
        return self._get(f"/{model}:predict", {"signature_name": signature, "inputs": inputs})["outputs"]

    def _get(self, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        try:
            with urlopen(Request(self.address + path, data), timeout=SECONDS) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise gr.Error(json.load(error).get("error", str(error))) from None
        except (URLError, TimeoutError) as error:
            raise gr.Error(f"The service at {self.address} does not answer: {error}") from None


def translate(client: Client, model: str, sentence: str) -> tuple[str, str, Any]:
    """The best translation, the others, and the picture of the attention weights of the best."""
    outputs = client.predict(model, "translate", sentences=[sentence])
    best, others = outputs["translations"][0], outputs["n_best"][0][1:]
    found = client.predict(model, "attention", sentences=[sentence], translations=[best])
    weights = np.array(found["weights"][0])
    return best, "\n".join(others), plot_attention(Attention(weights, found["source"][0], found["translation"][0]))


def next_words(client: Client, model: str, prefix: str, k: int) -> dict[str, float]:
    """The most probable next words and their probabilities."""
    outputs = client.predict(model, "next_word", prefix=[prefix], k=k)
    return dict(zip(outputs["words"][0], outputs["probabilities"][0], strict=True))


def nearest_words(client: Client, model: str, word: str, k: int) -> dict[str, float]:
    """The words with the largest cosines, and these."""
    outputs = client.predict(model, "similar_words", words=[word.strip()], k=k)
    similar = dict(zip(outputs["similar"][0], outputs["similarity"][0], strict=True))
    if "" in similar:
        raise gr.Error(f"{model} has no word {word.strip()!r}.")
    return similar


def page(client: Client) -> gr.Blocks:
    """The page: a part for each thing that a model of the service can do, with an example that is run."""
    with gr.Blocks(title="keras-tying") as blocks:
        gr.Markdown("# Models with tied embeddings")
        with gr.Row():
            with gr.Column():
                if models := client.models("attention"):
                    gr.Markdown("### Translate")
                    example = "A man is riding a bike." if "multi30k" in models[0] else "Greece and Croatia"
                    inputs = [_model(models), gr.Textbox(example, label="sentence")]
                    outputs = [
                        gr.Textbox(label="translation"),
                        gr.Textbox(label="less probable translations"),
                        gr.Plot(label="attention: dark is large"),
                    ]
                    _connect(blocks, translate, client, inputs, outputs)
            with gr.Column():
                if models := [name for name in client.models("next_word") if name in client.models("generate")]:
                    gr.Markdown("### Next words")
                    inputs = [_model(models), gr.Textbox("the price of the", label="text"), _count()]
                    _connect(blocks, next_words, client, inputs, [gr.Label(label="probability", show_heading=False)])
                if models := client.models("similar_words"):
                    gr.Markdown("### Nearest words")
                    inputs = [_model(models), gr.Textbox("football", label="word"), _count()]
                    _connect(blocks, nearest_words, client, inputs, [gr.Label(label="cosine", show_heading=False)])
    return blocks


def _model(names: list[str]) -> gr.Dropdown:
    return gr.Dropdown(names, value=names[0], label="model")


def _count() -> gr.Slider:
    return gr.Slider(1, 20, value=5, step=1, label="words")


def _connect(blocks: gr.Blocks, function: Callable, client: Client, inputs: list, outputs: list) -> None:
    """Runs a function when the page is opened, when Enter is pressed in its text, and when its model or number changes."""

    def run(*values):
        return function(client, *values)

    gr.on(
        [blocks.load, inputs[1].submit, *(each.change for each in inputs if each is not inputs[1])],
        run,
        inputs,
        outputs,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service", default="http://localhost:8501", help="default: %(default)s")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=7860, help="default: %(default)s")
    options = parser.parse_args()
    try:
        blocks = page(Client(options.service))
    except gr.Error as error:
        parser.exit(1, f"{error.message} Start it with: python deploy/ray_serve.py ptb_small_tied word2vec\n")
    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    blocks.launch(server_name=options.host, server_port=options.port, theme=theme)


if __name__ == "__main__":
    main()
