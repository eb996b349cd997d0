"""Measures what embeddings have learned: see `--help` and studies/embeddings.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from studies.embeddings import main

if __name__ == "__main__":
    sys.exit(main())
