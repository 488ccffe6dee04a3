"""The read path: from a question to hits, by word, by meaning and letter by letter.

A question's way through it, file by file; `language/question.py` has read it before:

    search        the steps below, for each workspace, and what is found in all of them together
    wording       what the question's words find            meaning    what its vector finds
    candidates    the best of both that the filters allow   lookup     their rows in the ledger
    signals       what counts, how much, and for whom       certainty  how sure the answer is
    hits          what is folded, cut and shown

Beside it: `many_workspaces` chooses whom to ask, `grep` (with `pattern`) reads the files themselves, `from_files`
answers without a ledger, `similar` looks for what says the same, `why_not` goes the same way for one passage.
"""
