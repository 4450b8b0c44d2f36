"""What people write first: FastAPI around `SentenceTransformer.encode`.

    python plain_loop.py MODEL PORT VARIANT

VARIANT is how a request is computed: "all cores" (in FastAPI's thread pool, torch with its default threads), "one core" (the
same, with one torch thread per request), or "event loop" (one request after the other, on all cores).
"""

import sys

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

VARIANTS = ("all cores", "one core", "event loop")


class Body(BaseModel):
    """A request."""

    input: str | list[str]
    model: str = ""


def create_app(model: SentenceTransformer, variant: str) -> FastAPI:
    """The service."""
    app = FastAPI()

    def embed(body: Body) -> dict[str, object]:
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors = model.encode(texts, show_progress_bar=False)
        return {"data": [{"index": place, "embedding": row.tolist()} for place, row in enumerate(vectors)]}

    async def embed_in_loop(body: Body) -> dict[str, object]:
        return embed(body)

    app.post("/v1/embeddings")(embed_in_loop if variant == "event loop" else embed)
    app.get("/readyz")(lambda: {"status": "ready"})
    return app


if __name__ == "__main__":
    name, port, variant = sys.argv[1:]
    if variant == "one core":
        torch.set_num_threads(1)
    uvicorn.run(create_app(SentenceTransformer(name, device="cpu"), variant), port=int(port), log_level="error")
