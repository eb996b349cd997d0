"""A page to try trained models: translation with attention, next words, nearest words.

    pip install ".[page]"
    python deploy/page.py                                    asks the service at http://localhost:8501
    python deploy/page.py --service http://HOST:PORT --host 0.0.0.0 --port 7860

The service is `deploy/ray_serve.py`. The page shows what its models can do.
"""

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
import numpy as np

from keras_tying.inference.translator import Attention, plot_attention

OUTPUTS = ("similar", "similarity")
SECONDS = 60
"""How long the page waits for an answer."""


class Client:
    """Asks a service. An error of the service, or of the way to it, is a `gr.Error`, which the page shows."""

    def __init__(self, address: str):
        self.address = f"{address.rstrip('/')}/v1/models"

    def models(self, signature: str) -> list[str]:
        """Names of the models that have a signature."""
        signatures = {name: self._get("metadata", f"/{name}/metadata") for name in self._get("models")}
        return [name for name, each in signatures.items() if signature in each["signature_def"]["signature_def"]]

    def predict(self, model: str, signature: str, **inputs: Any) -> Any:
        """The outputs of a signature."""
        return self._get("outputs", f"/{model}:predict", {"signature_name": signature, "inputs": inputs})

    def _get(self, key: str, path: str = "", content: Any = None) -> Any:
        """The value of a key of the answer."""
        data = None if content is None else json.dumps(content).encode()
        try:
            with urlopen(Request(self.address + path, data), timeout=SECONDS) as answer:
                return json.load(answer)[key]
        except HTTPError as error:
            raise gr.Error(_reason(error.read()) or str(error)) from None
        except (OSError, HTTPException) as error:
            raise gr.Error(f"The service at {self.address} does not answer: {error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise gr.Error(
                "Expected the address of a service, such as http://localhost:8501. "
                f"Received: {self.address}, which gives {error!r}."
            ) from None


def _reason(body: bytes) -> str:
    """What the body of an error says: the service writes JSON, Ray plain text."""
    try:
        return json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


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


def nearest_words(client: Client, model: str, word: str, k: int) -> list[tuple[str, float]]:
    """The words with the largest cosines, and these."""
    outputs = client.predict(model, "similar_words", words=[word.strip()], k=k)
    if "" in outputs["similar"][0]:
        raise gr.Error(f"{model} has no word {word.strip()!r}.")
    return [(word, round(cosine, 3)) for word, cosine in zip(*(outputs[key][0] for key in OUTPUTS), strict=True)]


def page(client: Client) -> gr.Blocks:
    """The page: a part for each thing that the models of the service can do, each with an example."""
    models = {signature: client.models(signature) for signature in ("attention", "generate", "similar_words")}
    with gr.Blocks(title="keras-tying") as blocks:
        gr.Markdown("# Models with tied embeddings")
        with gr.Row():
            with gr.Column():
                if models["attention"]:
                    _translation(client, models["attention"])
            with gr.Column():
                if models["generate"]:
                    _words("Next words", partial(next_words, client), models["generate"], "the price of the", _bars)
                if models["similar_words"]:
                    _words("Nearest words", partial(nearest_words, client), models["similar_words"], "football", _table)
    return blocks


def _translation(client: Client, models: list[str]) -> None:
    gr.Markdown("### Translate")
    example = "A man is riding a bike." if "multi30k" in models[0] else "Greece and Croatia"
    best, others, picture = translate(client, models[0], example)
    inputs = [gr.Dropdown(models, label="model"), gr.Textbox(example, label="sentence", submit_btn=True)]
    outputs = [gr.Textbox(best, label="translation"), gr.Textbox(others, label="less probable translations", lines=4)]
    gr.Markdown("Attention: the darker, the more a word of the translation looks at a word of the sentence.")
    _connect(partial(translate, client), inputs, [*outputs, gr.Plot(picture, show_label=False)])


def _words(title: str, find: Callable, models: list[str], example: str, show: Callable) -> None:
    """A part that finds words, with a number each, by the function `find`, and shows them in a component."""
    gr.Markdown(f"### {title}")
    with gr.Row():
        model = gr.Dropdown(models, label="model")
        k = gr.Slider(1, 20, value=5, step=1, label="words")
    text = gr.Textbox(example, label="text", submit_btn=True)
    try:
        found = find(models[0], example, 5)
    except gr.Error:  # the example has words that the model lacks
        found = None
    _connect(find, [model, text, k], [show(found)])


def _bars(probabilities: dict | None) -> gr.Label:
    return gr.Label(probabilities, show_label=False, show_heading=False)


def _table(rows: list | None) -> gr.Dataframe:
    return gr.Dataframe(rows, headers=["word", "cosine"], column_widths=["60%", "40%"], buttons=[])


def _connect(function: Callable, inputs: list, outputs: list) -> None:
    """Runs a function when its text is entered, and when its model or number changes."""
    events = [each.submit if isinstance(each, gr.Textbox) else each.change for each in inputs]
    gr.on(events, function, inputs, outputs)


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
