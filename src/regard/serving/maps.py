"""A map of texts in the studio: their embeddings by a model as points, on the page that `regard map` writes.

The layout is PCA, which is fast enough to wait for; UMAP and t-SNE are offered by `regard map`.
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
    """Texts to show on a map.

    Arguments:
        model: the name of a served sentence encoder.
        texts: none of them empty.
        classes: colours of the points: a class or a number for each text; None for one colour.
        neighbours: how many nearest neighbours of each text are found, by cosine similarity.
    """

    model: str
    texts: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=MOST_TEXTS)]
    classes: list[str] | None = None
    neighbours: Annotated[int, Meta(ge=0, le=100)] = 10


async def map_page(server: Server, request: Request) -> Response:
    """The page. It contains no data: its script requests them, with the key in the page's address."""
    served = f"{request.scope.get('root_path', '')}/static"
    parts = {"title": "Map of texts", "about": "", "footer": FOOTER, "parts": []}
    return HTMLResponse(page("studio-map", parts, styles=("map.css",), served=served))


async def points(link: EngineLink, wanted: MapRequest, client: list[str]) -> Response:
    """The map of some texts.

    The body of the response is the length of a JSON object (4 bytes, little-endian), that object, and the parts of the map
    (`regard.embeddings.map_page.described`) one after another, whose lengths in bytes are in the object's `lengths`.
    """
    if link.models[wanted.model].width is None:
        raise BadRequest(f"the model {wanted.model!r} computes no text embeddings", "model")
    if wanted.classes is not None and len(wanted.classes) != len(wanted.texts):
        raise BadRequest(
            f"there are {len(wanted.texts)} texts and {len(wanted.classes)} classes; give one for each", "classes"
        )
    found = await link.ask(wanted.model, "embed", {"texts": wanted.texts}, client=client)
    # In a thread, since a map of many texts takes long, and other requests are to be answered meanwhile.
    body = await asyncio.to_thread(_packed, wanted, found)
    return Response(body, media_type="application/octet-stream")


def _packed(wanted: MapRequest, found: dict[str, Any]) -> bytes:
    vectors = np.frombuffer(found["vectors"], dtype="<f4").reshape(-1, found["width"])
    columns = {} if wanted.classes is None else {"class": column_of(wanted.classes)}
    made = map_vectors(vectors, wanted.texts, neighbours=wanted.neighbours, columns=columns, title=wanted.model)
    data, parts = described(made)
    head = msgspec.json.encode({**data, "about": about(made), "lengths": [len(part) for part in parts]})
    return b"".join((struct.pack("<I", len(head)), head, *parts))
