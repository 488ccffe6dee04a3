"""Finds out whether a text speaks in the first person. Pure."""

from __future__ import annotations

import re

FIRST_PERSON = re.compile(
    # The capital letter tells "I" from a counter, and small letters tell "us" from a country.
    r"\b(?:I|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself|[Ww]e|[Oo]ur|[Oo]urs|us"
    r"|[Ii]ch|[Mm]ein(?:e[nmrs]?)?|[Mm]ir|[Mm]ich|[Ww]ir|[Uu]ns(?:er(?:e[nmrs]?)?)?"
    r"|[Jj]e|[Jj]['’](?=\w)|[Mm]oi|mon|mes|[Nn]ous|[Nn]otre|[Yy]o|mis?|[Nn]osotr[oa]s|[Nn]uestr[oa]s?"
    r"|eu|[Mm]eus?|[Mm]inhas?|[Nn][oó]s|io|mio|mia|[Nn]oi|ik|[Mm]ijn|[Ww]ij"
    r"|[Яя]|[Мм]не|[Мм]еня|[Мм]о(?:й|я|и|ё)|[Мм]ы|[Нн]ас|[Нн]аш(?:а|и|е)?)\b"
    r"|我|私|僕|俺|나는|내가|저는|제가|우리"
)


def speaks_of_self(text: str) -> bool:
    return bool(FIRST_PERSON.search(text))
