"""timm: its `VisionTransformer` of the same sizes in a plain loop.

Needs timm and torch, and nothing of Regard.
"""

from __future__ import annotations

import time
from importlib import metadata, util
from typing import Any


class ViTTraining:
    """Updates by AdamW, from images of bytes."""

    def available(self) -> bool:
        """Whether timm and PyTorch are installed."""
        return all(util.find_spec(name) is not None for name in ("timm", "torch"))

    def versions(self) -> dict[str, str]:
        """Of timm and of its PyTorch."""
        return {name: metadata.version(name) for name in ("timm", "torch")}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser, and draw images."""
        import ctypes

        import torch

        _fitting_torchvision()
        from timm.models.vision_transformer import VisionTransformer  # pyright: ignore[reportMissingImports]

        shape = job["model"]
        self._model = VisionTransformer(
            img_size=shape["image_height"],
            patch_size=shape["patch"],
            embed_dim=shape["width"],
            depth=shape["layers"],
            num_heads=shape["heads"],
            mlp_ratio=shape["feedforward_width"] / shape["width"],
            num_classes=shape["outputs"],
        ).train()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=job["learning_rate"], fused=True)
        generator = torch.Generator().manual_seed(job["seed"])
        size = (job["images"], 3, shape["image_height"], shape["image_width"])
        self._images = torch.randint(256, size, generator=generator, dtype=torch.uint8)
        self._labels = torch.randint(shape["outputs"], (job["images"],), generator=generator)
        self._job = job
        try:  # let the C library keep what is freed, as ours does: else new pages are part of what is timed
            library = ctypes.CDLL(None)
            library.mallopt(-4, 0)  # M_MMAP_MAX
            library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        except (OSError, AttributeError):
            pass
        return {"note": f"{sum(parameter.numel() for parameter in self._model.parameters()):,} parameters"}

    def run(self) -> dict[str, Any]:
        """A few updates; the amount is images."""
        import torch
        import torch.nn.functional as F

        job = self._job
        low = job["precision"] == "bfloat16"
        began = time.perf_counter()
        for _ in range(job["updates"]):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
                loss = F.cross_entropy(self._model(self._images.float() / 127.5 - 1), self._labels)
            loss.backward()
            _ = loss.item()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        return {"amount": job["updates"] * job["images"], "seconds": time.perf_counter() - began}


def _fitting_torchvision() -> None:
    """Let torchvision be imported, which timm does, where its compiled part is for another build of PyTorch than this one.

    It describes its operators before anything else and fails where there are none; a ViT needs none of its operators.
    """
    import torch

    if not hasattr(torch.ops.torchvision, "nms"):
        try:
            import torchvision  # noqa: F401  # pyright: ignore[reportMissingImports]
        except RuntimeError:
            import sys

            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _KEPT.append(library)


_KEPT: list[Any] = []
"""A library's operators are gone with it."""

KINDS = {"vit_training": ViTTraining}
