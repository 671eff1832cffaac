"""A map of texts in the studio: a model's vectors of them as points, on the page that `regard map` writes.

It is laid out by PCA, which takes no longer than a reader waits; UMAP and t-SNE are the command's.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from regard.embeddings.map_page import FOOTER, about, column_of, described
from regard.embeddings.vector_map import map_vectors
from regard.serving.attention import Strict
from regard.serving.link import EngineLink
from regard.serving.requests import BadRequest
from regard.serving.server import Server
from regard.web import page

MOST_TEXTS = 20_000


class MapRequest(Strict):
    """Texts to draw.

    Arguments:
        model: by the name it is served under; one that makes text embeddings.
        texts: none of them empty.
        classes: what the points are coloured by: a class or a number for each text; None for nothing.
        neighbours: of each text, that are found by cosine.
    """

    model: str
    texts: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=MOST_TEXTS)]
    classes: list[str] | None = None
    neighbours: Annotated[int, Meta(ge=0, le=100)] = 10


async def map_page(server: Server, request: Request) -> Response:
    """The page. It holds nothing of a model: what it shows it asks for, with the key in its address."""
    served = f"{request.scope.get('root_path', '')}/static"
    parts = {"title": "Map of texts", "about": "", "footer": FOOTER, "parts": []}
    return HTMLResponse(page("studio-map", parts, styles=("map.css",), served=served))


async def points(link: EngineLink, wanted: MapRequest, client: list[str]) -> Response:
    """The points of some texts.

    The body is the length of a JSON object (4 bytes, little-endian), that object, and the parts of the map
    (`regard.embeddings.map_page.described`), whose lengths are in the object's `lengths`, one after another.
    """
    if link.models[wanted.model].width is None:
        raise BadRequest(f"the model {wanted.model!r} makes no vectors of texts", "model")
    if wanted.classes is not None and len(wanted.classes) != len(wanted.texts):
        raise BadRequest(
            f"there are {len(wanted.texts)} texts and {len(wanted.classes)} classes; give one for each", "classes"
        )
    found = await link.ask(wanted.model, "embed", {"texts": wanted.texts}, client=client)
    # In a thread: that of many texts takes longer than somebody else may wait.
    body = await asyncio.to_thread(_packed, wanted, found)
    return Response(body, media_type="application/octet-stream")


def _packed(wanted: MapRequest, found: dict[str, Any]) -> bytes:
    vectors = np.frombuffer(found["vectors"], dtype="<f4").reshape(-1, found["width"])
    columns = {} if wanted.classes is None else {"class": column_of(wanted.classes)}
    made = map_vectors(vectors, wanted.texts, neighbours=wanted.neighbours, columns=columns, title=wanted.model)
    data, parts = described(made)
    head = msgspec.json.encode({**data, "about": about(made), "lengths": [len(part) for part in parts]})
    return b"".join((struct.pack("<I", len(head)), head, *parts))
