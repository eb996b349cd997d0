"""Phrase pairs in two languages from CLDR, through Babel: dates, money, units and names."""

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

from babel import Locale, UnknownLocaleError, dates, lists, numbers, units

PHRASES = 30_000
"""Number of distinct pairs. `valid` and `test` each get one fifteenth."""
UNITS = (
    *("length-meter", "length-kilometer", "length-mile", "length-centimeter", "area-hectare", "volume-liter"),
    *("mass-kilogram", "mass-gram", "mass-pound", "volume-cup", "temperature-celsius", "speed-kilometer-per-hour"),
    *("duration-hour", "duration-minute", "duration-week", "duration-year", "power-kilowatt", "energy-kilocalorie"),
)
LISTED = ("territories", "languages")
"""Kinds of names of which there are lists."""
LIST_STYLES: tuple[Literal["standard", "or"], ...] = ("standard", "or")
SPAN_FORMS: tuple[Literal["long", "short"], ...] = ("long", "short")
MONEY_FORMS: tuple[Literal["name", "standard"], ...] = ("name", "standard")
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY", "SEK", "PLN", "CAD", "INR", "BRL", "CZK", "DKK", "NOK", "TRY")

Phrase = Callable[[Locale], str]
"""A function from a language to the phrase in that language."""


def phrase_pairs(source: str, target: str) -> dict[str, list[tuple[str, str]]]:
    """Phrase pairs in three splits, without common source phrases.

    Args:
        source: Source language, for example `"en"`.
        target: Target language, for example `"de"`.

    Raises:
        ValueError: If CLDR does not have a language.

    Example:

    >>> pairs = phrase_pairs("en", "de")
    >>> [len(pairs[split]) for split in ("train", "valid", "test")]
    [26000, 2000, 2000]
    """
    try:
        locales = Locale.parse(source), Locale.parse(target)
    except (UnknownLocaleError, ValueError) as error:
        raise ValueError(f"CLDR has no such language: {error} Use codes such as en, de and fr.") from None
    translations: dict[str, str] = {}
    for phrase in islice(_phrases(random.Random(0)), 20 * PHRASES):
        translations.setdefault(phrase(locales[0]), phrase(locales[1]))
        if len(translations) == PHRASES:
            break
    pairs = list(translations.items())
    random.Random(0).shuffle(pairs)
    held_out = len(pairs) // 15
    return {"train": pairs[2 * held_out :], "valid": pairs[:held_out], "test": pairs[held_out : 2 * held_out]}


def _phrases(rng: random.Random) -> Iterator[Phrase]:
    """Endless random phrases."""
    names = _names()
    of_kind = {kind: [name for name in names if name[0] == kind] for kind in LISTED}
    kinds = (_date, _date, _time, _duration, _money, _unit, _unit)
    for name in names:
        yield _name(*name)
    while True:
        yield rng.choice(kinds)(rng)
        yield _list(rng, of_kind)


def _names() -> list[tuple[str, str]]:
    """Kinds and codes of the territories, languages and scripts that have a name in English."""
    english = Locale.parse("en")
    kinds = {"territories": english.territories, "languages": english.languages, "scripts": english.scripts}
    return [(kind, code) for kind, names in kinds.items() for code in sorted(names)]


def _name(kind: str, code: str) -> Phrase:
    return lambda locale: str(getattr(locale, kind).get(code) or getattr(Locale.parse("en"), kind)[code])


def _list(rng: random.Random, of_kind: dict[str, list[tuple[str, str]]]) -> Phrase:
    names = of_kind[rng.choice(LISTED)]
    chosen = [_name(*name) for name in rng.sample(names, rng.choice((2, 2, 3)))]
    style = rng.choice(LIST_STYLES)
    return lambda locale: lists.format_list([name(locale) for name in chosen], style, locale)


def _moment(rng: random.Random) -> datetime:
    return datetime(1950, 1, 1) + timedelta(minutes=rng.randrange(60 * 24 * 365 * 100))


def _date(rng: random.Random) -> Phrase:
    moment, form = _moment(rng), rng.choice(("full", "long", "medium", "yMMMM", "MMMMd", "yMMMEd"))
    if form in ("full", "long", "medium"):
        return lambda locale: dates.format_date(moment, form, locale)
    return lambda locale: dates.format_skeleton(form, moment, locale=locale)


def _time(rng: random.Random) -> Phrase:
    moment, form = _moment(rng), rng.choice(("short", "medium"))
    if rng.random() < 0.5:
        return lambda locale: dates.format_time(moment, form, locale=locale)
    return lambda locale: dates.format_datetime(moment, "long", tzinfo=dates.UTC, locale=locale)


def _duration(rng: random.Random) -> Phrase:
    span = timedelta(minutes=rng.choice((1, 60, 1440, 43200, 525600)) * rng.randint(1, 30))
    form = rng.choice(SPAN_FORMS)
    return lambda locale: dates.format_timedelta(span, threshold=1.5, format=form, locale=locale)


def _money(rng: random.Random) -> Phrase:
    amount, currency = rng.choice((1, 10, 1000)) * rng.randrange(1, 100_000) / 100, rng.choice(CURRENCIES)
    form = rng.choice(MONEY_FORMS)
    return lambda locale: numbers.format_currency(amount, currency, locale=locale, format_type=form)


def _unit(rng: random.Random) -> Phrase:
    unit, amount = rng.choice(UNITS), rng.choice((rng.randint(1, 30), rng.randint(30, 5000), rng.randint(1, 999) / 10))
    return lambda locale: units.format_unit(amount, unit, "long", locale=locale)
