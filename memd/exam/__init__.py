"""How well memd finds: scoring, questions with known answers, and probes made from the notes themselves."""
