"""Trained models behind HTTP, as TensorFlow Serving answers it. `deploy/ray_serve.py` serves them with Ray."""
