"""Answers a question: read it, ask the voices, join the ledger, weigh the candidates, make hits."""

import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter

import numpy as np

from memd.indexer.language.question import ParsedQuestion, parse
from memd.indexer.language.words import is_small
from memd.indexer.query import candidates, certainty, grep, hits, lookup, meaning, signals
from memd.indexer.query.candidates import Candidate, CandidatePool
from memd.indexer.query.many_workspaces import worth_searching
from memd.indexer.query.meaning import QuestionVector
from memd.indexer.query.pattern import Pattern
from memd.indexer.query.wording import WordMatches, as_written, match_words
from memd.indexer.store import catalog
from memd.indexer.store.chroma_server import ServerAway
from memd.indexer.store.segment import TextBroken
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.models import Answer, Ask, Filters, grouped

FIRST = 8
"""So many candidates are sure to be hits, unless fewer were asked for."""
NAMED = 3
"""One of so many hits must have the name that the question names, or the answer is not sure."""


@dataclass(frozen=True, slots=True)
class WorkspaceResult:
    """The result of one workspace."""

    candidates: list[Candidate]
    words: WordMatches | None
    """None, as the meaning, for a voice that was not asked."""
    meaning: QuestionVector | None
    unheard: str
    """Why the question went without its meaning; empty where it did not."""
    nearness: float | None
    """How near the nearest chunk is in meaning; None where the model's cosines say nothing."""
    undated: WordMatches | None
    """The words that the confidence goes by: those that name no time."""
    margin: float
    """How much nearer in meaning the nearest chunk is than most of the next ones."""
    gone: Collection[int]
    """The chunks that were found by words and are not shown: their memories have expired, or left just now."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The candidates of all workspaces, best first."""

    question: ParsedQuestion
    candidates: list[Candidate]
    by_workspace: dict[int, WorkspaceResult] = field(default_factory=dict)
    """Empty for a question of filters only, to which everything that passes them is an answer."""
    absent: frozenset[str] | None = None
    """The words that no workspace has, where not all of them were searched."""

    @property
    def unheard(self) -> str:
        """Why the question went without its meaning somewhere."""
        return next((result.unheard for result in self.by_workspace.values() if result.unheard), "")

    @property
    def confidence(self) -> float:
        """How sure the surest workspace is: many are as sure as each asked alone."""
        if not self.candidates or not self.by_workspace:
            return float(bool(self.candidates))
        by_index = grouped((one.index.id, one) for one in self.candidates)
        return max(self._confidence_in(candidates[:FIRST]) for candidates in by_index.values())

    def _confidence_in(self, first: Sequence[Candidate]) -> float:
        """How sure one workspace is, by the first hit that has every word of the question, or else by the best one.

        Words and meaning each make it surer: what one of them shows, the other cannot take away.
        """
        best = next((one for one in first if self.share_had_by(one) >= certainty.ALL_WORDS), first[0])
        by_date = best.parts.get("date", 0.0) if self.question.only_time else 0.0
        return max(by_date, self._by_meaning(best), self._by_words(best, first))

    def share_had_by(self, one: Candidate) -> float:
        """The share of the question's words that a chunk or the name of its file has."""
        result, chunk = self.by_workspace[one.index.id], one.place.chunk
        if result.words is None or result.undated is None:
            return 0.0
        written = float(result.words.has_as_written(chunk))
        if self.question.only_time:
            return written
        return max(written, result.undated.had_by(chunk), result.undated.in_name(one.place.stem))

    def _by_meaning(self, best: Candidate) -> float:
        """How sure it is without words: where none were asked for, and of a hit in another language."""
        translated = bool(best.parts.get("translated"))
        result = self.by_workspace[best.index.id]
        if result.undated is not None and not translated:
            return 0.0
        # In another language what else is near is no help.
        near = best.parts["section_meaning"] if translated else result.nearness
        return certainty.confidence(None, 0.0, near, translated=translated) if near is not None else certainty.WEAK

    def _by_words(self, best: Candidate, first: Sequence[Candidate]) -> float:
        result, had = self.by_workspace[best.index.id], self.share_had_by(best)
        words = result.undated
        if words is None or self.question.only_time:
            return certainty.FOUND * had
        agreed = best.ranks.get("text") == best.ranks.get("vector") == 1 and words.of_words
        known, nearness = max(words.known, had), result.nearness
        # A meaning that agrees with the words, or is only its memory's, makes nothing less sure than they do alone.
        alone = agreed or best.parts.get("by_memory")
        ways = {nearness, None if alone else nearness}
        sure = max(certainty.confidence(known, had, one) for one in ways)
        if sure > certainty.BELOW_FOUND and self._unsure(best, first, words):
            sure = max(certainty.confidence(known, had, one, unsure=True) for one in ways)
        if sure >= certainty.WEAK:
            return sure
        every = result.words or words
        # A rare word, a near spelling, a part of a word, or a chunk that stands out, is more than nothing.
        some = (had and words.stands_in) or any(every.rare_in(one.place.chunk) for one in first)
        return certainty.WEAK if some or self._stands_out(best, result) else sure

    def _unsure(self, best: Candidate, first: Sequence[Candidate], words: WordMatches) -> bool:
        """Whether the question's words may not be those that were found."""
        named = (best.place, *(one.place for one in first[:NAMED]))
        others = words.unsure or all(words.names_others(place.chunk, place.stem) for place in named)
        return others or (self.share_had_by(best) < certainty.ALL_WORDS and self._only_in_code(best, words))

    def _stands_out(self, best: Candidate, result: WorkspaceResult) -> bool:
        """Whether a chunk is much nearer than others to a question that says something; where all notes are English,
        in English."""
        if result.margin < certainty.STANDS_OUT or result.meaning is None:
            return False
        return self.question.says_something or result.meaning.in_foreign(best.index) is not None

    def _only_in_code(self, best: Candidate, words: WordMatches) -> bool:
        """Whether a question in prose has nothing but a match in code or a path for it: "my cat" is no `cat ~/x`."""
        if not any(map(is_small, self.question.words)):
            return False
        by_meaning = certainty.confidence(None, 0.0, self.by_workspace[best.index.id].nearness)
        if by_meaning >= certainty.FOUND:
            return False
        text = lookup.texts(best.index.reader, [best.place.chunk]).get(best.place.chunk, "")
        return words.only_in_code(best.place.chunk, text)

    def expired(self, stores: Stores) -> int:
        """How many chunks would be found by their words alone if their memories had not expired or been deleted."""
        heard = [(result.words, result.gone) for result in self.by_workspace.values() if result.words is not None]
        had = [(chunk, words.had_by(chunk)) for words, gone in heard for chunk in gone]
        fitting = [chunk for chunk, share in had if certainty.confidence(share, share, None) >= certainty.FOUND]
        return len(lookup.join(stores.reader, fitting, Filters(), expired=True))

    def misspelt(self, answer: Answer) -> Answer:
        """The answer with the words that no note has, and their near spellings."""
        heard = [result.words for result in self.by_workspace.values() if result.words is not None]
        absent = [*(words.absent for words in heard), *([self.absent] if self.absent is not None else [])]
        missing = tuple(word for word in (absent[0] if heard else ()) if all(word in words for words in absent))
        corrected = {word: near for words in heard for word, near in words.corrected.items() if word in missing}
        return replace(answer, corrected=corrected, missing=missing)


def search(stores: Stores, ask: Ask, max_bytes: int) -> Answer:
    """Answer a question from the workspaces it names."""
    indexes = [stores.index(ns) for ns in ask.ns]
    if ask.mode == "exact":
        return _exact(stores, indexes, ask, max_bytes)
    found = find(stores, indexes, ask, parse(ask.query, ask.day, ask.filters))
    awake, resting = without_resting(found, ask)
    answer = hits.answer(stores, ask, awake.candidates, awake.confidence)
    expired = found.expired(stores) if answer.verdict != "found" else 0
    return replace(awake.misspelt(answer), resting=resting, expired=expired, unheard=found.unheard)


def without_resting(found: SearchResult, ask: Ask) -> tuple[SearchResult, int]:
    """The awake candidates, with resting ones that answer better; and how many more answers rest.

    If nothing awake answers, all that rests is there: ageing never hides the only answer.
    """
    resting = [one for one in found.candidates if one.place.resting]
    asked_for = ask.all_tiers or ask.as_of or found.question.filters.tier or not found.by_workspace
    if asked_for or not resting:
        return found, 0
    awake = replace(found, candidates=[one for one in found.candidates if not one.place.resting])
    if certainty.verdict(bool(awake.candidates), awake.confidence) == "none":
        return found, 0
    best = max(map(hits.relevance, awake.candidates))
    least = hits.least_relevance(best)
    better = [one for one in resting if hits.relevance(one) > best]
    # What is awake comes first if it has as many of the question's words; what rests is the last of the hits then.
    had = max(map(found.share_had_by, awake.candidates[:FIRST]))
    answers = [one for one in awake.candidates if hits.relevance(one) >= least] or awake.candidates[:1]
    last = answers[: max(1, ask.limit - len(better))][-1]
    for one in better:
        if had and had >= found.share_had_by(one):
            lower = min(0.0, last.score - hits.TINY - one.score)
            one.score += lower
            if one.parts:
                one.parts["tier"] += lower / signals.WEIGHTS["tier"]
    kept = sorted([*awake.candidates, *better], key=lambda one: -one.score)
    return replace(found, candidates=kept), sum(least <= hits.relevance(one) <= best for one in resting)


def find(
    stores: Stores, indexes: Indexes, ask: Ask, question: ParsedQuestion, also: Sequence[int] = ()
) -> SearchResult:
    """The candidates for a question, best first; for one of filters only, what passes them, newest first."""
    stores.refuse_outdated(indexes)
    found = _find(stores, indexes, ask, question, also)
    # Another question may have had a text index follow the ledger meanwhile.
    stores.refuse_outdated(indexes)
    return found


def _find(stores: Stores, indexes: Indexes, ask: Ask, question: ParsedQuestion, also: Sequence[int]) -> SearchResult:
    """A time that the question names as seen from today filters first; only if nothing of that time answers, all notes
    are asked. What has the question's very words is an answer whatever its time.
    """
    timed = question.at_its_time
    if timed is not None:
        found = _find(stores, indexes, ask, timed, also)
        if certainty.verdict(bool(found.candidates), found.confidence) != "none":
            return _with_written(stores, indexes, ask, question, found)
    if question.has_words:
        return rank(stores, indexes, ask, question, also)
    return SearchResult(question, _newest(stores, indexes, question))


def _with_written(
    stores: Stores, indexes: Indexes, ask: Ask, question: ParsedQuestion, found: SearchResult
) -> SearchResult:
    """The candidates of its time, and the best chunk that has the question as it is written."""
    having = [index for index in indexes if len(as_written(index.text.postings(), question.words))]
    if not having or ask.mode == "vector":
        return found
    ranked = rank(stores, having, ask, question)
    by_workspace = {**ranked.by_workspace, **found.by_workspace} if found.by_workspace else {}
    every = _with_best_written(found.candidates, ranked.candidates, ask.limit)
    return replace(found, candidates=every, by_workspace=by_workspace)


def _with_best_written(every: list[Candidate], ranked: Sequence[Candidate], limit: int) -> list[Candidate]:
    """The candidates with the best one that has the question's very words at least half-way up among the hits."""
    best, place = next((one for one in ranked if one.parts.get("written")), None), max(1, limit // 2)
    if best is None or any(one.place.chunk == best.place.chunk for one in every[: place + 1]):
        return every
    others = [one for one in every if one.place.chunk != best.place.chunk]
    before = others[:place][-1]
    if before.parts:
        best.parts["written"] += (before.score - best.score) / signals.WEIGHTS["written"]
    best.score = before.score
    return [*others[:place], best, *others[place:]]


def rank(
    stores: Stores, indexes: Indexes, ask: Ask, question: ParsedQuestion, also: Sequence[int] = ()
) -> SearchResult:
    """The candidates of the workspaces, ranked together; the chunks in `also` that pass its filters are among them."""
    searched, absent = worth_searching(stores, indexes, ask, question)
    results = {index.id: _search_workspace(stores, index, ask, question, also) for index in searched}
    for result in results.values():
        if result.meaning is not None:
            result.meaning.check(stores)
    every = [candidate for result in results.values() for candidate in result.candidates]
    every.sort(key=lambda candidate: (-candidate.score, candidate.place))
    if any(result.words is not None and len(result.words.written) for result in results.values()):
        every = _with_best_written(every, every, ask.limit)
    return SearchResult(question, every, results, absent)


# --- one workspace ------------------------------------------------------------------------------------------


def _search_workspace(
    stores: Stores, index: WorkspaceIndex, ask: Ask, question: ParsedQuestion, also: Sequence[int]
) -> WorkspaceResult:
    """By words and meaning; by words alone where the server that has the vectors is away."""
    try:
        return _search_by(stores, index, ask, question, also)
    except ServerAway:
        return replace(_search_by(stores, index, ask, question, also, deaf=True), unheard="the Chroma server is away")


def _search_by(
    stores: Stores, index: WorkspaceIndex, ask: Ask, question: ParsedQuestion, also: Sequence[int], deaf: bool = False
) -> WorkspaceResult:
    postings = index.text.postings()
    if ask.mode != "text":
        meaning.begin(stores, index, question.text)
    words = match_words(postings, question.words, question.prefixes) if ask.mode != "vector" else None
    pool = CandidatePool(index, question, postings, words, ask.limit)
    heard, unheard, nearness, margin = None, "", None, 0.0
    if ask.mode != "text" and not deaf:
        heard, unheard = meaning.question_vector(stores, _corrected(question.text, words))
    if heard is not None:
        pool.add_nearest(heard)
    elif not postings.count and catalog.has_chunks(index.reader, index.id):
        # A memd with another format makes it again: rather wait for that than miss all that it held.
        raise TextBroken("the text index is being made again", "memd status")
    shown, undated = pool.shown(also), words
    if heard is not None:
        cosines = [cosine for chunk, cosine in pool.cosines.items() if chunk not in pool.gone]
        if cosines and heard.scales.holds:
            nearness, margin = heard.nearness(cosines[0]), heard.margin(cosines)
        # The verdict goes by the question as it was asked.
        moved = heard.moved(index, list(pool.cosines), signals.doubt_of(words.earned if words is not None else None))
        if moved is not heard:
            heard, also = moved, [*also, *pool.by_voice["vector"]]
            pool.add_nearest(heard)
            shown = pool.shown(also)
    if words is not None:
        undated = match_words(postings, question.undated, question.prefixes) if question.times.spans else words
        # What has expired, or is gone by now, makes nothing known.
        undated = undated.without(pool.gone)
    ranks = ranks_of(pool.by_voice, shown)
    if ask.fusion == "rrf":
        places = pool.columns.described(np.array([shown[chunk] for chunk in ranks], np.int64))
        found = [Candidate(index, one, reciprocal(ranks[one.chunk], ask.rrf_k), ranks[one.chunk]) for one in places]
    else:
        found = signals.weigh(index, pool.columns, shown.values(), question, words, heard, ask.limit)
        for one in found:
            one.ranks = ranks.get(one.place.chunk, {})
    return WorkspaceResult(found, words, heard, unheard, nearness, undated, margin, pool.gone)


def ranks_of(voices: Mapping[str, Sequence[int]], known: Container[int]) -> dict[int, dict[str, int]]:
    """The place of each chunk in each voice that found it, counted from 1 among those that the ledger knows."""
    ranks: dict[int, dict[str, int]] = {}
    for voice, chunks in voices.items():
        for rank, chunk in enumerate(filter(known.__contains__, chunks), 1):
            ranks.setdefault(chunk, {})[voice] = rank
    return ranks


def reciprocal(ranks: Mapping[str, int], k: int) -> float:
    """Reciprocal rank fusion: each voice gives 1 / (k + rank); what several voices found rises."""
    return sum(1.0 / (k + rank) for rank in ranks.values())


def _corrected(text: str, words: WordMatches | None) -> str:
    """The question in the near spellings that were found: a mistyped word means nothing to the model."""
    for typed, near in (words.corrected if words else {}).items():
        text = re.sub(rf"(?i)\b{re.escape(typed)}\b", near[0], text)
    return text


# --- without words, and letter by letter --------------------------------------------------------------------


def _newest(stores: Stores, indexes: Indexes, question: ParsedQuestion) -> list[Candidate]:
    """The chunks that pass the filters and exclusions, newest first; those without a day come last."""
    passing = []
    for index in indexes:
        columns, postings = index.columns, index.text.postings()
        left = candidates.allowed(index, question, postings)
        at = columns.shown(columns.ranked.chunk if left is None else left)
        days = columns.ranked.day
        passing += [(int(days[one.at]), Candidate(index, one, 1.0, {})) for one in columns.described(at)]
    passing.sort(key=lambda one: one[1].place)
    passing.sort(key=itemgetter(0), reverse=True)
    return [one for _, one in passing]


def _exact(stores: Stores, indexes: Indexes, ask: Ask, max_bytes: int) -> Answer:
    """Every chunk that has the very letters, in the order of the files; and what has them, but is not shown or read."""
    connection, outside = stores.reader, ""
    found, every, unread = list[Candidate](), list[int](), dict[str, list[str]]()
    for index in indexes:
        order: list[int] = []
        for path, lines, digest in grep.lines_with(index, ask.query, max_bytes):
            # Asked before the chunks are: what is indexed between the two is there, not missed.
            if lookup.digest_of(connection, index.id, path) != digest:
                unread.setdefault(index.workspace.ns, []).append(path)
            chunks = lookup.chunks_at(connection, index.id, path, lines)
            if not (outside or chunks) and ask.filters == Filters(path=ask.filters.path):
                outside = path if grep.under(path, ask.filters.path) else ""
            cut = [line for line in chunks.values() if len(line) > 1]
            order += _having(ask.query, chunks.values(), lookup.texts(connection, chain(*cut)) if cut else {})
        found += candidates.of_chunks(index, order, ask.filters)
        every += order
    answer = hits.answer(stores, ask, numbered(found), 1.0)
    expired = 0 if answer.hits else len(lookup.join(connection, every, ask.filters, expired=True))
    return replace(answer, unread=unread, outside=outside, expired=expired)


def _having(query: str, lines: Iterable[list[int]], texts: Mapping[int, str]) -> Iterable[int]:
    """Of the chunks at a line that is cut those that have the letters; where these are cut, the one they begin in."""
    pattern, folded = Pattern(query), query.casefold()
    having = {chunk for chunk, text in texts.items() if pattern.matches(text)}

    def begun(chunk: int) -> int:
        """How many of the letters are the end of a chunk."""
        text = texts.get(chunk, "").casefold()
        sizes = range(min(len(folded), len(text)), 0, -1)
        return next((size for size in sizes if text.endswith(folded[:size].rstrip())), 0)

    best = (line if len(line) == 1 else having & {*line} or [max(line, key=begun)] for line in lines)
    return dict.fromkeys(chain.from_iterable(map(sorted, best)))


def numbered(found: list[Candidate]) -> list[Candidate]:
    """Candidates that were found letter by letter, each with its number."""
    for number, one in enumerate(found, 1):
        one.ranks = {"exact": number}
    return found
