"""Models for inference with int8 or int4 weights: `QuantizedLinear` in ordinary blocks, and the compiled kernels for it.

Names are imported on first use, so importing this package alone builds and imports no kernel.
"""

import warnings
from typing import Any

import lazy_loader

_attached, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

RENAMED = {
    "ForUse": "InferenceOnly",
    "PreparedDecoder": "InferenceDecoder",
    "PreparedTransformer": "InferenceTransformer",
    "QuantisedPrecision": "QuantizedPrecision",
    "QuantisedWeights": "QuantizedWeights",
    "decoder_obstacle": "unsupported_decoder",
    "encoder_obstacle": "unsupported_encoder",
    "transformer_obstacle": "unsupported_transformer",
}
"""Old names, which are accepted for one release with a warning."""


def __getattr__(name: str) -> Any:
    if name in RENAMED:
        message = f"regard.quantization.{name} is called {RENAMED[name]}; use that name"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
    return _attached(RENAMED.get(name, name))
