"""timm: its `VisionTransformer` of the same sizes in a plain loop.

Needs timm and torch, but not Regard.
"""

from __future__ import annotations

from typing import Any

from .shared import Updates


class ViTTraining(Updates):
    """Updates by AdamW, from uint8 images."""

    needs = ("timm", "torch")

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser, and make random images."""
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
        generator = torch.Generator().manual_seed(job["seed"])
        size = (job["images"], 3, shape["image_height"], shape["image_width"])
        images = torch.randint(256, size, generator=generator, dtype=torch.uint8)
        labels = torch.randint(shape["outputs"], (job["images"],), generator=generator)
        self._batches = [(images, labels)]
        return {"note": self._begin(job)}

    def _loss(self, batch: Any) -> tuple[Any, int]:
        import torch.nn.functional as F

        images, labels = batch
        return F.cross_entropy(self._model(images.float() / 127.5 - 1), labels), len(labels)


def _fitting_torchvision() -> None:
    """Make torchvision importable, which timm imports, where its compiled part is for another build of PyTorch.

    It declares its operators first and fails where they do not exist; a ViT needs none of its operators.
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
"""Keeps the library, since its operators disappear with it."""

KINDS = {"vit_training": ViTTraining}
