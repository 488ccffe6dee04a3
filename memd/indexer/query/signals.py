"""The signals that ranking weighs, each with its reason, its weight and how it is computed: a new one is an entry here.

Below them, the facts about each candidate of a workspace are gathered and the signals added up.

A chunk's score is the sum of its signals, each on a scale of its own that means the same in every workspace: a share of
what the question's words could earn at most, a nearness in meaning, a nearness in days. Scaling each voice to the best
and worst of its own list, as is common, makes a voice that found nothing loud; docs/retrieval.md says what each gave.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language import times
from memd.indexer.language.lines import ASKS, HAS_CLOCK, IS_OWN, NAMES_TIME, NUMBERED, cut
from memd.indexer.language.question import ParsedQuestion
from memd.indexer.language.words import Word, telling_words, terms_of, words
from memd.indexer.query import lookup, wording
from memd.indexer.query.candidates import Candidate
from memd.indexer.query.meaning import QuestionVector
from memd.indexer.query.wording import Floats, WordMatches
from memd.indexer.store.columns import ChunkColumns, ChunkPlace, RankedChunks, Truths
from memd.indexer.store.lines import Lines, Numbers, Places, number_of, places_in, ranges
from memd.indexer.store.postings import Postings, by_length
from memd.indexer.store.stores import WorkspaceIndex

CORE, EXTRA = "core", "extra"
"""How a signal counts for relevance: the core ones are what it is a share of, others only add to it."""

Values = Floats | Iterable[float] | None


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks for a chunk, or against it."""

    name: str
    weight: float
    values: Callable[[Any], Values]
    """For each candidate, or each line; None where there is nothing to look for."""
    relevance: str = ""


# --- of a chunk ---------------------------------------------------------------------------------------------


class ChunkFacts:
    """The facts of the candidates, each in its place."""

    def __init__(
        self, index: WorkspaceIndex, columns: RankedChunks, places: Sequence[ChunkPlace], memories: "CandidateMemories",
        question: ParsedQuestion, words: WordMatches | None, meaning: QuestionVector | None,
    ) -> None:  # fmt: skip
        self.index, self.question, self.places, self.words = index, question, places, words
        self.ranked = columns.at(np.array([place.at for place in places], np.int64))
        """The columns of each."""
        own = memories.own
        self.days = [date.fromordinal(day) if day else None for day in self.ranked.day.tolist()]
        """The day of each note; MEMORY.md has none, whenever it was last changed."""
        self.newness = [times.newness(day, question.today) for day in self.days]
        self.nearness = [times.nearness(day, question.times) for day in self.days] if question.times.spans else None
        docs, earned = memories.docs, np.zeros(len(memories.chunks))
        self.earned: Floats | None = None
        """The gain of the question's words in each, as a share of the most they could have."""
        self.section_earned: Floats | None = None
        """The same in the whole memory of each."""
        if words is not None:
            known = docs >= 0
            earned[known] = words.earned[docs[known]]
            sections = words.of_sections(docs[known], memories.memory[known], memories.count)
            self.earned, self.section_earned = earned[own], sections[memories.memory[own]]
        self.docs = docs[own]
        """Their places in the text index, or -1."""
        self.near: Floats | None = None
        """How near each is in meaning, on the model's own scale: 0 is any two notes, 1 a paraphrase, everywhere."""
        self.section_near: Floats | None = None
        """The same of the nearest chunk of its memory."""
        self.by_memory: NDArray[np.bool_] | None = None
        """Whether each has no vector yet, and another chunk of its memory has."""
        self.translated: NDArray[np.bool_] | None = None
        """Whether each is in another language than the question."""
        if meaning is not None:
            near, by_memory = _completed(meaning.near(index, memories.chunks), earned, memories)
            best = np.full(memories.count, -1.0)
            np.maximum.at(best, memories.memory, near)
            self.near, self.section_near = near[own], best[memories.memory[own]]
            self.by_memory = by_memory[own]
            self.translated = meaning.translated(index, [place.chunk for place in places])

    def read(self, nths: Places) -> "ReadChunks":
        """What the lines of some of them have to know."""
        chunks = [self.places[nth].chunk for nth in nths.tolist()]

        def texts(wanted: Iterable[int]) -> dict[int, str]:
            by_chunk = {chunks[nth]: nth for nth in wanted}
            return {by_chunk[chunk]: text for chunk, text in lookup.texts(self.index.reader, by_chunk).items()}

        return ReadChunks([self.days[nth] for nth in nths.tolist()], self.ranked.semantic[nths], texts)


def _completed(near: Floats, earned: Floats, memories: "CandidateMemories") -> tuple[Floats, NDArray[np.bool_]]:
    """The nearness of all, and for which of them their memory stands.

    A chunk without a vector yet is judged by its words: as near as the nearest that has no more of them. Where another
    chunk of its memory has a vector, that counts half: more was worse than words alone, where memories are long.
    """
    unknown, of_memory = np.isnan(near), np.full(memories.count, np.nan)
    complete = np.where(unknown, 0.0, near)
    for at in np.flatnonzero(unknown & (earned > 0)):
        complete[at] = np.max(near[~unknown & (earned <= earned[at])], initial=0.0)
    np.fmax.at(of_memory, memories.memory, near)
    stands = of_memory[memories.memory]
    by_memory = unknown & ~np.isnan(stands)
    return np.where(by_memory, (complete + stands) / 2, complete), by_memory


def _named(chunks: ChunkFacts) -> Values:
    words = chunks.words
    return map(words.in_name, (place.stem for place in chunks.places)) if words is not None else None


def _written(chunks: ChunkFacts) -> Values:
    written = chunks.words.written if chunks.words is not None else ()
    return np.isin(chunks.docs, written) if len(written) else None


def _named_by(text: Iterable[Word]) -> set[str]:
    """The telling words, without the pieces of those that have some."""
    return {word.terms[0] for word in telling_words(text)}


def _titled(chunks: ChunkFacts) -> Values:
    """Whether a heading above each is the question: all of its telling words and no others. Only the first of a
    memory: the rest of it would crowd out others that answer."""
    asked = _named_by(chunks.question.words)
    if chunks.words is None or not len(chunks.words.titled):
        return None
    first = {place.memory: place.chunk for place in reversed(chunks.places)}.values()
    having = np.isin(chunks.docs, chunks.words.titled) & np.isin(chunks.ranked.chunk, [*first])
    headings = lookup.headings(chunks.index.reader, chunks.ranked.chunk[having].tolist())
    return (any(asked == _named_by(words(title)) for title in headings.get(place.chunk, ())) for place in chunks.places)


def _codes(chunks: ChunkFacts) -> Values:
    return chunks.words.codes_in(chunks.docs) if chunks.words is not None and chunks.words.coded else None


def _credit(chunks: ChunkFacts) -> Values:
    if chunks.translated is None or chunks.near is None or chunks.section_near is None:
        return None
    credit: Floats = chunks.translated * ((chunks.near + chunks.section_near) / 2).clip(0.0, 1.0)
    return credit


OF_A_CHUNK = (
    # How near the note's day is to a time that the question names.
    Signal("date", 0.7, lambda chunks: chunks.nearness, EXTRA),
    # How new the note is; MEMORY.md and what has no date are neither new nor old.
    Signal("recency", 0.03, lambda chunks: chunks.newness),
    # The priority that a note declares, and its importance, which fades while nobody asks for it.
    Signal("importance", 0.05, lambda chunks: chunks.ranked.importance),
    # A dormant memory stands a little lower.
    Signal("tier", 0.1, lambda chunks: chunks.ranked.tier),
    # So does one that a later memory refines.
    Signal("outdated", -0.15, lambda chunks: chunks.ranked.outdated_until > time.time()),
    # The question asks for the newest.
    Signal("newest", 0.3, lambda chunks: chunks.newness if chunks.question.times.recent else None),
    # The question asks for what is true now, and the note keeps what is known rather than what happened.
    Signal("holds", 0.3, lambda chunks: chunks.ranked.semantic if chunks.question.holds else None),
    # A question about time asks for what happened rather than for what is known.
    Signal("episode", 0.05, lambda chunks: chunks.ranked.episodic if chunks.question.times.temporal else None),
    # The question's words in the chunk, as a share of what they could earn: the voice that is right most often.
    Signal("words", 1.2, lambda chunks: chunks.earned, CORE),
    # The question's words in the whole memory: what the section is about helps to tell like lines apart.
    Signal("section", 0.9, lambda chunks: chunks.section_earned, CORE),
    # The chunk has every word as the question writes it: no other form of a word, no time that it means, outranks it.
    Signal("written", 1.0, _written, EXTRA),
    # A heading that is the question says what all below it is about.
    Signal("title", 3.0, _titled),
    # The share of the codes in the question that the chunk has: who names a code wants what is said of it.
    Signal("code", 2.0, _codes, EXTRA),
    # The share of the question's words that the file is called by.
    Signal("name", 0.5, _named, EXTRA),
    # How near the chunk is in meaning.
    Signal("meaning", 0.85, lambda chunks: chunks.near, CORE),
    # The nearest chunk of the memory: what the section means.
    Signal("section_meaning", 1.35, lambda chunks: chunks.section_near, CORE),
    # It adds nothing: it says that both are its memory's, since the chunk has no vector of its own yet.
    Signal("by_memory", 0.0, lambda chunks: chunks.by_memory),
    # What a chunk in another language than the question is credited with for the words that it cannot have: as much as
    # chunks of its nearness have in the question's own language.
    Signal("translated", 1.6, _credit, EXTRA),
)

# --- of a line ----------------------------------------------------------------------------------------------

IS = np.array([number_of(word) for word in ("is", "are", "was", "were", "mean")], np.uint32)

NEIGHBOURS = 4
"""Words of a line that stand so near to each other may belong together; 2 and 8 gave nearly the same."""


class AskedWords:
    """The question's words as lines may have them."""

    def __init__(self, words: WordMatches, question: ParsedQuestion) -> None:
        self.most = words.most
        self.weight = words.weight or 1.0
        self.mean_length = words.postings.mean_length
        self.worth = np.array([match.idf * match.share for match in words.matches])
        word_of: dict[int, int] = {}
        # Whole words first: "building" in a line is "build", and not also a longer word that contains "build".
        for nth in sorted(range(len(words.matches)), key=lambda nth: -words.matches[nth].share):
            for term in _terms(words.matches[nth].forms):
                word_of.setdefault(number_of(term), nth)
        asked = [number_of(word.terms[0]) for word in telling_words(question.words)]
        self.pairs = {(word_of.get(one, -1), word_of.get(other, -1)) for one, other in pairwise(asked)}
        """The words that stand beside each other in the question."""
        self.whole = np.array([*(match.whole for match in words.matches), False])
        """Whether the word itself was found; the last place is for no word of the question."""
        self._terms = np.array(sorted(word_of), np.uint32)
        self._word = np.array([*(word_of[term] for term in self._terms.tolist()), -1], np.int64)

    def among(self, terms: Numbers) -> Places:
        """Which of the words each of some terms belongs to; -1 for none."""
        return self._word[places_in(self._terms, terms)]


def _terms(forms: Iterable[str]) -> tuple[str, ...]:
    """The terms that some forms have in a line; of "self-care" only the whole, since "self" is another word."""
    return tuple(dict.fromkeys(term for form in forms for term in (form, *terms_of(form)[0][:1])))


class ReadChunks(NamedTuple):
    """What is known of the chunks that are read line by line, each in its place."""

    days: Sequence[date | None]
    semantic: Truths
    texts: Callable[[Iterable[int]], Mapping[int, str]]
    """The texts of those at some places."""


class LineFacts:
    """The facts of the lines of some chunks, each in its place."""

    def __init__(
        self, words: AskedWords, question: ParsedQuestion, chunks: ReadChunks, run: Lines, held: Places
    ) -> None:
        self.question, self.words, self.chunks = question, words, chunks
        own = ranges(np.cumsum(held + 3) - held - 2, held)
        self.owner = np.repeat(np.arange(len(held)), held)
        """The number of the chunk that each stands in."""
        self.nth = ranges(np.zeros(len(held), np.int64), held)
        """Its place in the chunk."""
        self._flags, self.labels = run.flags[own], run.labels[own].astype(np.int64)
        self.terms = words.among(run.terms)
        """Which word of the question each term of all lines is, or -1."""
        self.is_is = np.isin(run.terms, IS) if question.defines else np.zeros(0, bool)
        self.starts, self.sizes = (np.cumsum(run.sizes) - run.sizes)[own], run.sizes[own]
        """The first of its terms, and how many they are."""
        self._own, self._count = own, len(run.sizes)
        self._line = np.repeat(np.arange(self._count), run.sizes)
        known, width = self.terms >= 0, len(words.worth)
        places = self._line[known] * width + self.terms[known]
        counts = np.bincount(places, minlength=self._count * width).reshape(self._count, width).astype(float)
        around = [rows[own - 1] + rows[own] + rows[own + 1] for rows in (counts, run.sizes.astype(float))]
        self.counts = counts[own]
        """How often each has each word of the question."""
        often = around[0] / by_length(around[1], words.mean_length)[:, None]
        self.in_a_row = np.minimum(1.0, wording.dampened(often) @ words.worth / words.most)
        """The gain of the question's words in three lines in a row, by their length, as a share of the most."""
        self.had = np.minimum(1.0, (self.counts > 0) @ words.worth / words.weight)
        """The share of the question's words that each has."""
        terms, labelled = self.label_terms()
        self.labelled = np.bincount(labelled, terms >= 0, len(self.labels)) > 0
        """Whether each begins with a label that the question names."""

    def has(self, flag: int) -> NDArray[np.bool_]:
        """Which lines have a flag."""
        return (self._flags & flag) > 0

    def of_chunk(self, values: Iterable[float]) -> Floats:
        """A value for each chunk as one for each of its lines."""
        return np.fromiter(values, float)[self.owner]

    def label_terms(self) -> tuple[Places, Places]:
        """The words of the question that the terms of all labels are, and the line of each."""
        terms = self.terms[ranges(self.starts + self.has(NUMBERED), self.labels)]
        return terms, np.repeat(np.arange(len(self.labels)), self.labels)

    def paired(self) -> Floats:
        """The share of the question's neighbouring words that are neighbours in each line, in the same order."""
        places = np.flatnonzero(self.terms >= 0)
        word, line = self.terms[places], self._line[places]
        numbers = np.full((len(self.words.worth),) * 2, -1)
        wanted = [pair for pair in self.words.pairs if min(pair) >= 0]
        for nth, pair in enumerate(wanted):
            numbers[pair] = nth
        seen = np.zeros((self._count, len(wanted)), bool)
        for step in range(1, min(NEIGHBOURS, len(places) - 1) + 1):
            found = numbers[word[:-step], word[step:]]
            near = (found >= 0) & (line[:-step] == line[step:]) & (places[step:] - places[:-step] <= NEIGHBOURS)
            seen[line[:-step][near], found[near]] = True
        share: Floats = seen[self._own].sum(1) / max(1, len(self.words.pairs))
        return share


def _told_date(lines: LineFacts) -> Values:
    asked, told = lines.question.times, np.zeros(len(lines.owner))
    if not asked.spans:
        return None
    timed = np.flatnonzero(lines.has(NAMES_TIME))
    texts = lines.chunks.texts(set(lines.owner[timed].tolist()))
    told_in = {nth: cut(text)[1] for nth, text in texts.items()}
    for at, nth, line in zip(timed.tolist(), lines.owner[timed].tolist(), lines.nth[timed].tolist(), strict=True):
        told[at] = times.names_asked_days(told_in[nth][line], lines.chunks.days[nth], asked)
    return told


def _timed(lines: LineFacts) -> Values:
    if not lines.question.times.temporal:
        return None
    return lines.has(NAMES_TIME) * lines.of_chunk(day is not None for day in lines.chunks.days)


def _defines(lines: LineFacts) -> Values:
    """Whether it says who or what the question asks for: `**Name**: …`, "Name is …"."""
    if not lines.question.defines:
        return None
    sought, count = lines.words.whole, len(lines.owner)
    label, line = lines.label_terms()
    named = (np.bincount(line, sought[label], count) == lines.labels) & sought.any()
    # In a line without a label, the first term that is not sought is "is".
    begins = np.zeros(count, bool)
    for at in np.flatnonzero((lines.labels == 0) & (lines.sizes > 0)).tolist():
        start = int(lines.starts[at])
        others = np.flatnonzero(~sought[lines.terms[start : start + int(lines.sizes[at])]])
        begins[at] = len(others) > 0 and others[0] > 0 and lines.is_is[start + others[0]]
    return np.where(lines.labels > 0, named, begins)


def _fact(lines: LineFacts) -> Values:
    if not lines.question.holds:
        return None
    return lines.labelled * lines.chunks.semantic[lines.owner]


def _clock(lines: LineFacts) -> Values:
    return lines.has(HAS_CLOCK) if lines.question.holds and lines.question.times.temporal else None


OF_A_LINE = (
    # The question's words in the best three lines in a row, which may reach into the next chunk: an answer is a line or
    # two, and its subject often stands in the line before. A line may have a word and longer words that contain it:
    # that is not more than all.
    Signal("lines", 1.5, lambda lines: lines.in_a_row, CORE),
    # The share of the question's words that a single line has.
    Signal("line", 0.45, lambda lines: lines.had, CORE),
    # The same where the question and the line both speak in the first person: what someone said of themselves is half
    # a sentence of theirs, beside pages of others on the same subject.
    Signal("own", 2.5, lambda lines: lines.has(IS_OWN) * lines.had if lines.question.own else None),
    # The line begins with a label that the question names: who speaks, or what is told.
    Signal("label", 0.15, lambda lines: lines.labelled, EXTRA),
    # A question about time, and the line names one.
    Signal("timed", 0.2, _timed, EXTRA),
    # The line speaks of the very days that the question names, seen from the note's own date.
    Signal("told_date", 0.12, _told_date, EXTRA),
    # The line is a question itself: it asks for what is wanted rather than telling it.
    Signal("asks", -0.04, lambda lines: lines.has(ASKS)),
    # The question asks who or what something is, and the line says it: "**Maren**: partner, nurse".
    Signal("defines", 1.5, _defines, EXTRA),
    # It asks for what is true now, and the line of a note of facts is labelled so: "- Backups: restic at 04:15".
    Signal("fact", 0.7, _fact, EXTRA),
    # It asks when something happens that happens again and again, and the line has a time of the day.
    Signal("clock", 0.5, _clock, EXTRA),
    # The share of words beside each other in the question that are neighbours in the line too.
    Signal("pairs", 0.3, LineFacts.paired),
)
"""Taken together at the line where they are best together."""

FAINT = 0.18
"""The least relevance of what is about the question: any two notes have less than this in common."""

FAR = 0.25
"""A candidate with less than this share of the best hit's relevance is no answer beside it."""

# --- together -----------------------------------------------------------------------------------------------

BY_WORDS = ("words", "section", "name", "lines", "line", "label", "pairs", "holds")
"""And a kind of note that the words ask for, which is no reason to prefer it if no note has them."""
TRUSTED = 0.25
"""Where no chunk earns so much by the question's words, they are not the words of the notes, and count for less: what
has some of them has them by chance. Of questions in other words half earn .12 at most, of LoCoMo's half .34."""

WEIGHTS = {signal.name: signal.weight for signal in (*OF_A_CHUNK, *OF_A_LINE)} | {"doubt": -1.0}
RELEVANT = {signal.name: signal.relevance for signal in (*OF_A_CHUNK, *OF_A_LINE) if signal.relevance}


def values_of(signals: Iterable[Signal], facts: ChunkFacts | LineFacts, count: int) -> dict[str, Floats]:
    """The values of each signal that looks for something, for so many chunks or lines."""
    computed = {signal.name: signal.values(facts) for signal in signals}
    return {
        name: np.fromiter(values, float, count) if not isinstance(values, np.ndarray) else values.astype(float)
        for name, values in computed.items()
        if values is not None
    }


def score(values: Mapping[str, Floats]) -> Floats:
    """The sum of all signals, each with its weight."""
    return sum((WEIGHTS[name] * each for name, each in values.items()), np.zeros(()))


def relevance(values: Mapping[str, float]) -> float:
    """How much a chunk is about the question, from 0 to 1, on one scale for all questions.

    The signals that come from words and meaning, as a share of their maximum; `1 - (1 - share)²` of that, since a
    passage that has every word once earns about half. Recency, importance and tier do not count.
    """
    most = sum(WEIGHTS[name] for name in values if RELEVANT.get(name) == CORE)
    total = sum(WEIGHTS[name] * value for name, value in values.items() if name in RELEVANT)
    share = min(1.0, max(0.0, total / most)) if most else 0.0
    return 1 - (1 - share) ** 2


# --- weighing the candidates of one workspace ---------------------------------------------------------------

READ = 30
"""How many of the best are read line by line: reading 60 or all of them found next to nothing more."""

READ_DEEP = 80
"""The same where the line decides more than the chunk around it."""

READ_FIRST = 10.0
"""More than all other parts of a score together."""


class CandidateMemories:
    """The chunks of the memories that the candidates belong to, in the order of their files."""

    def __init__(self, ranked: RankedChunks, at: Places, postings: Postings | None) -> None:
        """The candidates by their places in the columns."""
        numbers = np.unique(ranked.memory[at])
        firsts, ends = (ranked.memory.searchsorted(numbers, side) for side in ("left", "right"))
        places = ranges(firsts, ends - firsts)
        self.own = places.searchsorted(at)
        """Where each candidate is among them."""
        known = ranked.chunk[places]
        self.chunks: list[int] = known.tolist()
        self.count = len(numbers)
        self.memory = np.arange(self.count).repeat(ends - firsts)
        """By place: which of the memories, counted from 0."""
        self.docs = postings.places(known) if postings is not None else np.full(len(known), -1)
        """By place: where the text index has the chunk, or -1."""

    def lines(self, postings: Postings, read: Places) -> tuple[Lines, Places]:
        """The lines of some candidates, and how many each has.

        Before those of a chunk is the last one of the chunk before it in its memory, behind them the first one of the
        next chunk, and a gap, so that one pass of arithmetic does for all.
        """
        at = self.own[read]
        docs, memory = np.concatenate(([-1], self.docs, [-1])), np.concatenate(([-1], self.memory, [-1]))
        beside = [np.where(memory[at + 1 + step] == memory[at + 1], docs[at + 1 + step], -1) for step in (-1, 1)]
        firsts, ends = postings.line_spans(self.docs[at])
        # One that the index does not have yet is a line without words.
        held = np.maximum(1, ends - firsts - 1)
        numbers = np.full(int((held + 3).sum()), -1)
        starts = np.cumsum(held + 3) - held - 3
        numbers[ranges(starts + 1, held)] = ranges(np.where(ends > firsts, firsts + 1, -1), held)
        before, after = (postings.line_spans(one) for one in beside)
        numbers[starts] = np.where(before[1] > before[0], before[1] - 1, -1)
        numbers[starts + held + 1] = np.where(after[1] > after[0], after[0] + 1, -1)
        return postings.lines(numbers), held


def weigh(
    index: WorkspaceIndex, columns: ChunkColumns, at: Iterable[int], question: ParsedQuestion,
    words: WordMatches | None, meaning: QuestionVector | None, limit: int,
) -> list[Candidate]:  # fmt: skip
    """The chunks at some places of the columns with what speaks for each, best first.

    The best, at least `limit`, are read line by line.
    """
    places = columns.described(np.fromiter(at, np.int64))
    own = np.array([place.at for place in places], np.int64)
    memories = CandidateMemories(columns.ranked, own, words.postings if words is not None else None)
    facts = ChunkFacts(index, columns.ranked, places, memories, question, words, meaning)
    parts = values_of(OF_A_CHUNK, facts, len(places))
    doubt = doubt_of(facts.earned) if meaning is not None else 0.0
    # What has the very words is read whatever the rest means.
    scores = _scored(parts, doubt) + READ_FIRST * parts.get("written", np.zeros(len(places)))
    if words is not None and places:
        # What defines a name, or someone says of themselves, is one line beside others that have the words often.
        most = max(READ_DEEP if question.defines or question.own else READ, limit)
        read = np.argsort(-scores, kind="stable")[:most]
        best = best_lines(words, question, facts.read(read), *memories.lines(words.postings, read))
        for name, values in best.items():
            parts[name] = np.zeros(len(places))
            parts[name][read] = values
        scores = _scored(parts, doubt)
    best_first = np.argsort(-scores, kind="stable").tolist()
    return [Candidate(index, places[nth], float(scores[nth]), {}, partial(_at, parts, nth)) for nth in best_first]


def doubt_of(earned: Floats | None) -> float:
    """How little of the question's words any chunk has, by what each earns: from 0, where one has enough, to 1."""
    return 1 - min(1.0, float(np.max(earned, initial=0.0)) / TRUSTED) if earned is not None else 0.0


def _at(parts: Mapping[str, Floats], place: int) -> dict[str, float]:
    """The parts of one candidate's score."""
    return {name: float(values[place]) for name, values in parts.items()}


def _scored(parts: dict[str, Floats], doubt: float) -> Floats:
    """The sum of all signals; as far as words are in doubt, what they add is taken back."""
    added = [WEIGHTS[name] * parts[name] for name in BY_WORDS if name in parts]
    if added and doubt:
        parts["doubt"] = doubt * sum(added, np.zeros(()))
    return score(parts)


def best_lines(
    words: WordMatches, question: ParsedQuestion, chunks: ReadChunks, run: Lines, held: Places
) -> dict[str, Floats]:
    """The signals of each chunk at its best line; the run is as `CandidateMemories.lines` tells."""
    lines = LineFacts(AskedWords(words, question), question, chunks, run, held)
    found = values_of(OF_A_LINE, lines, len(lines.owner))
    order = np.lexsort((-score(found), lines.owner))
    firsts = order[np.searchsorted(lines.owner[order], np.arange(len(held)))]
    nothing = np.zeros(len(held))
    return {one.name: found[one.name][firsts] if one.name in found else nothing for one in OF_A_LINE}
