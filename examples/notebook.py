"""A notebook in which a record is a live widget: written, run once, and saved with the pages that need no kernel.

pip install 'regard[notebook]' nbclient ipykernel
python examples/notebook.py                      writes attention.ipynb
jupyter lab attention.ipynb                      open it, and run it again
"""

from __future__ import annotations

import argparse
from pathlib import Path

CELLS = (
    """import torch
import regard

torch.manual_seed(0)
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, batch_first=True), num_layers=2).eval()
with torch.no_grad(), regard.look(encoder) as seen:
    encoder(torch.randn(1, 6, 32))
tokens = ["the", "animal", "did", "not", "cross", "."]""",
    """shown = seen.widget(tokens=tokens)
shown""",
    """# Sets the cell that the page above shows; choose another there, and read it here.
shown.layer, shown.head, shown.query, shown.key = "layers.1.self_attn", 2, 5, 1
float(seen.weights(shown.layer)[0, shown.head, shown.query, shown.key])""",
)


def main() -> None:
    """Write and run the notebook."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, default=Path("attention.ipynb"), help="the notebook to write")
    arguments = parser.parse_args()

    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    nbformat.write(notebook, arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
