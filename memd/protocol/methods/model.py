"""The embedding model: `model.try`."""

from typing import Annotated, Any

from memd.protocol.methods.base import Fresh, Progressing, Text
from memd.protocol.methods.base import place as file_place


class ModelTryResult(Fresh):
    """The answer of `model.try`."""

    probes: int
    passages: int
    models: list[dict[str, Any]]
    """The one in use, then the other: `name`, `dims`, how many probes found their passage `first`, in the `first_5` and
    in the `first_10`, `ms_note`, `ms_question`, and `scale`."""


class ModelTryRequest(
    Progressing, method="model.try", args="place", result=ModelTryResult, reads=True, about_daemon=True, slow=True
):
    """Asks probes made from the notes with another model, by meaning alone, and changes nothing."""

    place: Text
    """A folder with an ONNX export, or the address of a server, which gets up to 500 passages of the notes."""
    name: str = ""
    """The model's name at a server."""
    key_file: Annotated[str, file_place(opened=True)] = ""
    """A file that holds the server's key."""
    query_prefix: str = ""
    """Text before each question."""
    document_prefix: str = ""
    """Text before each note."""
