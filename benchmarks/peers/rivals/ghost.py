"""Ghost: not run; it is a Go program that no package registry at hand carries."""

from __future__ import annotations

from rival import Rival


class Peer(Rival):
    title = "Ghost"
    absent = (
        "a Go program (`go install github.com/wcatz/ghost/cmd/ghost`); no package that this run can install carries it "
        "or its modules. It keeps memories that an agent saves, not files. Its README publishes no figures of "
        "retrieval or speed."
    )
