"""Embedding by a server: Ollama's `/api/embed`, or `/v1/embeddings` as OpenAI and many others have it.

Two kinds of calls go there. Those for notes may take long, and are tried again. Those for questions have a deadline
of their own: somebody waits, and words alone are an answer too. Each kind has a breaker, so that a server that is away
is asked now and then and not by everybody.
"""

import json
import logging
import os
import random
import re
import stat
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from memd.config.addresses import is_exposed, is_loopback
from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable, in_shell
from memd.indexer.model.pooling import Vectors, encodable, unit
from memd.indexer.model.prepared_files import digest_of_parts
from memd.indexer.model.scale import Measured

_log = logging.getLogger(__name__)

MOST_CHARS = 6_000
"""The characters of a text that OpenAI takes, in any script. Chunks are a tenth of that."""
LEAST_CHARS = 200
"""A text that a server refuses is halved down to this: some take 512 tokens and refuse what is longer."""

PAUSES = (0.5, 1.0, 2.0)
"""Seconds before a batch is tried again, more or less by chance so that several machines do not come at once."""
LONGEST_PAUSE = 30.0
"""The longest pause that a server gets with `Retry-After`; if it asks for more, it counts as away."""

FAILURES = 3
"""In a row, after which a server is left alone for a while."""
RESTS = (2.0, 5.0, 15.0, 30.0)
"""Seconds that it is left alone, after so many looks that failed."""

CANARY = "The canary in the mine sings a song of seven sentences."
"""Its vector shows whether a server still has the same model."""
CANARY_SECONDS = 180.0
SAME_MODEL = 0.99
"""The cosine of two vectors of it: the same weights on other hardware differ by less."""

CONNECT_SECONDS = 5.0
QUESTIONS_AT_ONCE = 4
IN_FLIGHT = 4
"""Batches of notes that it has at once."""
MOST_SHOWN = 200
"""Characters of what a server says that go into an error."""

AGAIN = frozenset({408, 409, 425, 429, *range(500, 600)})
"""The answers of a server when the same may go well a little later."""
REFUSED = frozenset({400, 413, 422})
"""Its answers when a text is too much for it."""


@dataclass(frozen=True, slots=True)
class Api:
    """How a kind of server is asked."""

    url: str
    """Where it usually is."""
    model: str
    path: str
    options: dict[str, Any]
    """The parts of a call beside the model and the texts."""
    hint: str


APIS = {
    "ollama": Api(
        "http://localhost:11434", "nomic-embed-text", "/api/embed", {"truncate": True},
        "Is Ollama running (ollama serve), and has it the model (ollama pull {model})?",
    ),
    "openai": Api(
        "https://api.openai.com/v1", "text-embedding-3-small", "/embeddings", {"encoding_format": "float"},
        "Check embedding.url, embedding.model and the key.",
    ),
}  # fmt: skip


def _rows(answer: Any) -> list[list[float]]:
    """The vectors in an answer; KeyError, TypeError or ValueError if that is not what it is."""
    if "embeddings" in answer:
        return list(answer["embeddings"])
    return [one["embedding"] for one in sorted(answer["data"], key=lambda one: int(one["index"]))]


class TryAgain(ModelUnavailable):
    """The server is away, or busy; the same may go well a little later."""

    after = 0.0
    """Seconds that it asked for."""


class TextRefused(ModelUnavailable):
    """The server would not take these texts."""


class Breaker:
    """Whether a server is asked at all: after some failures in a row it is left alone, then one call has a look."""

    def __init__(self) -> None:
        self.trouble = ""
        """Why the last call failed; empty if it went well."""
        self._failures = 0
        self._closed_until = 0.0
        self._lock = threading.Lock()

    @property
    def rest(self) -> float:
        """Seconds for which the server is left alone."""
        return max(0.0, self._closed_until - time.monotonic())

    def enter(self) -> None:
        """Before a call; ModelUnavailable while the server is left alone."""
        with self._lock:
            if self.rest:
                raise ModelUnavailable(self.trouble)
            # One call has a look; the others wait for what it finds.
            self._close()

    def leave(self, trouble: str = "") -> None:
        """After a call; why it failed, if it did."""
        with self._lock:
            self.trouble, self._failures = trouble, self._failures + 1 if trouble else 0
            self._closed_until = 0.0
            self._close()

    def _close(self) -> None:
        if self._failures >= FAILURES:
            self._closed_until = time.monotonic() + RESTS[min(self._failures - FAILURES, len(RESTS) - 1)]


class ServerEmbedder(Measured):
    """A model that a server runs; the constructor asks it once, to know the length of its vectors."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._api = APIS[settings.provider]
        self._settings = settings
        self._url = _address(settings, self._api)
        self._model = settings.model or self._api.model
        self._server = f"The embedding server {self._url}"
        self._hint = self._api.hint.format(model=self._model)
        self._notes, self._questions = Breaker(), Breaker()
        self._closed = threading.Event()
        self.on_change: Callable[[str], None] = lambda trouble: None
        """Called, from any thread, when a call failed, with the reason, or went well."""
        self.batch, self.at_once = settings.batch, IN_FLIGHT * settings.batch
        self.dims = 0
        # Without a proxy for what is on this machine; never follows a server elsewhere, where the key is not for.
        self._client = httpx.Client(follow_redirects=False, trust_env=not is_loopback(self._url))
        self._threads = ThreadPoolExecutor(QUESTIONS_AT_ONCE, "memd-question")
        self._flights = ThreadPoolExecutor(IN_FLIGHT, "memd-notes")
        self.name = f"{self._model} ({settings.provider})"
        self._canary = self._embedded_canary()
        self.dims = len(self._canary)
        self._digest = self._weights()
        self.place = self._identity()
        """A hash of all that a server tells of its model."""
        self.fingerprint = self.place
        self._replaced = ""
        self._look_at = time.monotonic() + CANARY_SECONDS

    @property
    def trouble(self) -> str:
        """Why the last call for notes or for a question failed; empty while all is well."""
        return self._notes.trouble or self._questions.trouble

    @property
    def rest(self) -> float:
        """Seconds after which a server in trouble is worth another look."""
        return max(self._notes.rest, self._questions.rest)

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        """One row a text; ModelUnavailable when the server is away, or late for somebody who waits."""
        prefix = self._settings.query_prefix if question else self._settings.document_prefix
        texts = [prefix + text for text in texts]
        batches = [texts[at : at + self.batch] for at in range(0, len(texts), self.batch)]
        parts = list((map if urgent else self._flights.map)(partial(self._embed, urgent=urgent), batches))
        return unit(np.concatenate(parts)) if parts else np.zeros((0, self.dims), np.float32)

    def look(self) -> None:
        """Find out whether a server in trouble is back; ModelUnavailable if it is not."""
        if self._notes.trouble:
            self.embed(["probe"])
        if self._questions.trouble:
            self.embed(["probe"], urgent=True)

    def recognise(self, known: str) -> str:
        """Take another fingerprint where the ledger has another vector of the canary; returns what it is to have."""
        before: dict[str, Any] = json.loads(known) if known else {"models": 0, "vector": self._canary}
        models = before["models"] + (not self._is_same(np.array(before["vector"])))
        self.fingerprint = digest_of_parts(self.place, str(models)) if models else self.place
        return json.dumps({"models": models, "vector": self._canary.round(4).tolist()})

    def replaced(self) -> str:
        """Why the server seems to have another model than when it was loaded; it is asked every few minutes."""
        if not self._replaced and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + CANARY_SECONDS
            with suppress(ModelUnavailable):
                if not self._is_same(self._embedded_canary()):
                    self._replaced = "it gives another vector for the same text"
                elif self._weights() != self._digest:
                    self._replaced = "its digest is another one"
        return self._replaced

    def _embedded_canary(self) -> Vectors:
        row: Vectors = unit(self._ask([CANARY], self._settings.timeout_s))[0]
        return row

    def _is_same(self, canary: Vectors) -> bool:
        return float(canary @ self._canary) >= SAME_MODEL

    def count_tokens(self, text: str) -> int:
        """About how many tokens a text has: the server's tokenizer is not here.

        Four letters of a word are one, and so is a character of scripts without spaces.
        """
        return sum(-(-len(word.encode()) // 4) for word in re.findall(r"\w+|[^\w\s]", text))

    def close(self) -> None:
        """Whoever waits to try again waits no longer."""
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    # --- one batch ------------------------------------------------------------------------------------------------

    def _embed(self, texts: Sequence[str], urgent: bool) -> Vectors:
        breaker = self._questions if urgent else self._notes
        breaker.enter()
        try:
            rows = self._in_time(texts) if urgent else self._patiently(texts)
        except TextRefused:
            if urgent:
                raise
            return self._divided(texts)
        except ModelUnavailable as error:
            breaker.leave(error.message)
            self.on_change(self.trouble)
            raise
        if breaker.trouble:
            _log.info("the embedding server is back")
        breaker.leave()
        self.on_change(self.trouble)
        return rows

    def _in_time(self, texts: Sequence[str]) -> Vectors:
        """By a thread, since neither a name that is looked up nor an answer that drips in keeps to any time-out."""
        seconds = self._settings.question_ms / 1_000
        try:
            return self._threads.submit(self._ask, texts, seconds).result(seconds)
        except TimeoutError:
            raise self._away(f"did not answer a question within {seconds:g} s") from None
        except RuntimeError as error:  # the threads have gone: another model is in use
            raise self._away("is no longer asked") from error

    def _patiently(self, texts: Sequence[str]) -> Vectors:
        for pause in PAUSES:
            try:
                return self._ask(texts, self._settings.timeout_s)
            except TryAgain as error:
                if error.after > LONGEST_PAUSE or self._closed.is_set():
                    raise
                self._closed.wait(error.after or pause * random.uniform(0.75, 1.25))
        return self._ask(texts, self._settings.timeout_s)

    def _divided(self, texts: Sequence[str]) -> Vectors:
        """Texts that are refused together may be taken one by one, and one that is too long may be taken in part."""
        if len(texts) > 1:
            return np.concatenate([self._embed([text], urgent=False) for text in texts])
        (text,) = texts
        if len(text) <= LEAST_CHARS:
            raise ModelUnavailable(f"{self._server} refuses a text of {len(text)} characters.", self._hint)
        return self._embed([text[: min(len(text), MOST_CHARS) // 2]], urgent=False)

    # --- one call -------------------------------------------------------------------------------------------------

    def _ask(self, texts: Sequence[str], seconds: float) -> Vectors:
        """One call; TryAgain where another may go well."""
        # OpenAI refuses an empty text, and no server takes a lone surrogate.
        sent = [encodable(text[:MOST_CHARS]) or " " for text in texts]
        body = {"model": self._model, "input": sent, **self._api.options}
        if self._settings.dimensions:
            body["dimensions"] = self._settings.dimensions
        return self._checked(self._call("POST", self._api.path, seconds, body), len(texts))

    def _call(self, method: str, path: str, seconds: float, body: dict[str, Any] | None = None) -> Any:
        key = read_key(self._settings)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            answer = self._client.request(method, self._url + path, json=body, headers=headers, timeout=timeout)
        except httpx.TimeoutException as error:
            raise self._again("did not answer in time") from error
        except httpx.HTTPError as error:
            raise self._again(f"cannot be reached ({_without(str(error) or type(error).__name__, key)})") from error
        except RuntimeError as error:  # httpx says so of a client that was closed meanwhile
            raise self._away("is no longer asked") from error
        del answer.stream  # it refers back to the answer, which would stay until the collector comes by
        if answer.status_code >= 300:
            self._refused(answer, key)
        try:
            return answer.json()
        except ValueError as error:
            raise self._again("gave an answer that is not JSON") from error

    def _refused(self, answer: httpx.Response, key: str) -> None:
        """Raise what an answer other than yes means."""
        status = answer.status_code
        if status in (401, 403):
            # What it says may repeat a part of the key.
            raise self._away(f"does not accept the key (HTTP {status})" if key else f"wants a key (HTTP {status})")
        said = _without(" ".join(answer.text.split()), key)[:MOST_SHOWN]
        why = f"answered HTTP {status}" + (f": {said}" if said else "")
        if status in AGAIN:
            raise self._again(why, _seconds(answer.headers.get("retry-after", "")))
        raise TextRefused(f"{self._server} {why}", self._hint) if status in REFUSED else self._away(why)

    def _checked(self, answer: Any, count: int) -> Vectors:
        try:
            rows = np.array(_rows(answer), np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise self._again("gave an answer without vectors, or with vectors of different lengths") from error
        if rows.ndim != 2 or len(rows) != count:
            raise self._again(f"gave {len(rows)} vectors for {count} texts")
        wanted = self.dims or self._settings.dimensions or rows.shape[1]
        if not rows.shape[1] or rows.shape[1] != wanted:
            why = f"gives vectors of {rows.shape[1]} numbers instead of {wanted}"
            self._replaced = f"it {why}" if self.dims else ""
            raise self._away(why)
        if not (np.isfinite(rows).all() and rows.any()):
            raise self._again("gave numbers that are not finite, or only zeros")
        return rows

    # --- who it is ------------------------------------------------------------------------------------------------

    def _identity(self) -> str:
        """A hash of all that the vectors depend on, as far as a server tells: Ollama's digest, else the place."""
        prefix = self._settings.document_prefix
        parts = self._settings.provider, self._model, str(self.dims), self._digest or self._url
        return digest_of_parts(*parts, *([prefix] if prefix else []))

    def _weights(self) -> str:
        """Ollama's digest of the model: a name may stand for another model after a pull."""
        if self._settings.provider != "ollama":
            return ""
        try:
            known = self._call("GET", "/api/tags", self._settings.timeout_s)["models"]
            digests = {str(one["name"]): str(one["digest"]) for one in known}
        except TryAgain:
            raise
        except (ModelUnavailable, KeyError, TypeError):
            # Something that only speaks like Ollama.
            return ""
        return digests.get(self._model) or digests.get(f"{self._model}:latest", "")

    def _away(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(f"{self._server} {why}.", self._hint)

    def _again(self, why: str, after: float = 0.0) -> TryAgain:
        error = TryAgain(f"{self._server} {why}.", self._hint)
        error.after = after
        return error


def read_key(settings: EmbeddingSettings) -> str:
    """The key that the environment or a file holds; empty for none. It is nowhere else, and no message repeats it."""
    if settings.key_file:
        key, place = _key_in(Path(settings.key_file).expanduser()), settings.key_file
    else:
        usual = "OPENAI_API_KEY" if settings.provider == "openai" and not settings.url else ""
        place = settings.key_env or usual
        key = os.environ.get(place, "").strip() if place else ""
    if place and not key:
        raise ModelUnavailable(f"There is no key for the embedding server in {place}.", _KEY_HINT)
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailable(f"What {place} holds is not a key: it has other characters.", _KEY_HINT)
    return key


_KEY_HINT = "Put it in a file of mode 0600 (embedding.key_file), or in the daemon's environment (embedding.key_env)."


def _key_in(file: Path) -> str:
    try:
        with file.open(encoding="ascii", errors="replace") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                why = f"Others can read the key in {file} (mode {mode:04o})."
                raise ModelUnavailable(why, f"Run: chmod 600 {in_shell(file)}")
            return opened.read(10_000).strip()
    except OSError as error:
        raise ModelUnavailable(f"The key in {file} cannot be read: {error.strerror}.", _KEY_HINT) from error


def _address(settings: EmbeddingSettings, api: Api) -> str:
    url = (settings.url or api.url).rstrip("/")
    if is_exposed(url) and not settings.plain_http:
        why = f"{url} is another machine, and http:// lets others read notes and keys on the way."
        raise ModelUnavailable(why, "Use https://, or set embedding.plain_http = true for a network that you trust.")
    # `http://localhost:8080` is what people write; a path of their own is left as it is.
    bare = url.count("/") == 2
    return f"{url}/v1" if settings.provider == "openai" and bare else url


def _without(text: str, key: str) -> str:
    return text.replace(key, "…") if key else text


def _seconds(header: str) -> float:
    """The seconds that `Retry-After` says, if it says seconds."""
    return float(header) if re.fullmatch(r"\d{1,6}(\.\d+)?", header.strip()) else 0.0
