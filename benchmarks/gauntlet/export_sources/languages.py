"""Names of countries, languages, scripts and currencies in many languages, as Babel has them."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from benchmarks.gauntlet.task import MissingError

LANGUAGES = (
    *("cs", "sk", "pl", "hr", "sl", "de", "nl", "af", "da", "nb", "sv", "is", "fi", "et", "hu"),
    *("es", "pt", "gl", "ca", "it", "ro", "fr", "tr", "az", "uz", "id", "sw", "zu", "lt", "lv"),
)
SHORTEST = 8  # characters


def names() -> pd.DataFrame:
    """``text`` and ``language``; a name that two of the languages share is in neither."""
    try:
        from babel import Locale
    except ImportError as error:
        raise MissingError("Babel is not installed: pip install babel") from error
    rows = []
    for language in LANGUAGES:
        locale = Locale(language)
        tables = (locale.territories, locale.languages, locale.scripts, locale.currencies)
        texts = {str(text) for table in tables for text in table.values()}
        rows += [{"text": text, "language": language} for text in sorted(texts) if len(text) >= SHORTEST]
    counts = Counter(row["text"] for row in rows)
    return pd.DataFrame([row for row in rows if counts[row["text"]] == 1])
