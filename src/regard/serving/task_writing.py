"""The tasks that generate text in Hugging Face's inference API: their settings and answers.

Settings have the names and meanings of `transformers`; one that has no effect together with the others is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from regard.errors import InputError, nearest
from regard.serving.task_requests import (
    MOST_LENGTH,
    GenerateParameters,
    TextGenerationParameters,
    TextGenerationRequest,
    TranslationParameters,
    TranslationRequest,
    WriteParameters,
    WriteRequest,
)

# What needs torch is imported where it is used: reading requests does not.
if TYPE_CHECKING:
    from regard.generation import GenerationSettings
    from regard.tasks.copying import Copier
    from regard.tasks.denoising import Denoiser
    from regard.tasks.language_writing import Written
    from regard.tasks.span_corruption import SpanFiller
    from regard.tasks.text_to_text import TextToText
    from regard.tasks.translation import Translator


def several(inputs: Any) -> list[Any]:
    """The inputs as a list."""
    return inputs if isinstance(inputs, list) else [inputs]


SAME = {
    "do_sample": "sample",
    "max_new_tokens": "maximum_length",
    "min_new_tokens": "minimum_length",
    "num_beams": "beam",
    **{name: name for name in ("temperature", "top_p", "min_p", "seed", "repetition_penalty", "no_repeat_ngram_size")},
}
"""The names of this package's settings, by their names in `transformers`."""


def settings_of(own: GenerationSettings, asked: GenerateParameters | None, where: str) -> GenerationSettings:
    """A model's own generation settings, changed by those of a request; names and meanings are those of `transformers`.

    Arguments:
        own: the model's settings.
        asked: the request's; None for no changes.
        where: the field that holds them, which begins error messages.

    Raises:
        InputError: for values out of range, and for settings that exclude each other.
    """
    from regard.generation.settings import OF_SAMPLING

    given = (
        {}
        if asked is None
        else {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None}
    )
    if not given:
        return own
    changes: dict[str, Any] = {ours: given[name] for name, ours in SAME.items() if name in given}
    for total, new in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        if total in given and new in given:
            raise InputError(f"{where}.{total}: is the same limit as {new}; give one of them")
        if total in given:  # in transformers, the start token counts
            changes[SAME[new]] = max(0, given[total] - 1)
    if "top_k" in given:
        changes["top_k"] = given["top_k"] or None  # in transformers, 0 means no limit
    sample = changes.get("sample", own.sample)
    if sample and not own.sample:
        changes = {"beam": 1, "coverage_penalty": 0.0} | changes
    beam = changes.get("beam", own.beam)
    changes["n_best"] = own.n_best if sample else min(own.n_best, beam)
    for names, works, needed in (
        ((*OF_SAMPLING, "seed"), sample, "do_sample"),
        (("length_penalty", "early_stopping"), beam > 1, "num_beams above 1"),
    ):
        if idle := [name for name in names if name in given and not works]:
            raise InputError(f"{where}.{idle[0]}: changes nothing without {needed}; leave it out")
    if not sample:
        changes |= OF_SAMPLING
    if "length_penalty" in given:
        changes |= {"length_penalty": given["length_penalty"], "length_normalisation": "power"}
    if (ends := given.get("early_stopping")) is not None:
        changes["early_stopping"] = beam if ends is True else None
        changes["search_end"] = "proof" if ends == "never" else "estimate"
    try:
        return replace(own, **changes)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


GENERATE = "parameters.generate_parameters"


def _refuse_cutting(asked: WriteParameters) -> None:
    if asked.truncation not in (None, "do_not_truncate"):
        raise InputError(
            f"parameters.truncation: is {asked.truncation!r}, and texts are not truncated; shorten it yourself"
        )


def _other_texts(predictor: Translator, request: WriteRequest | TranslationRequest, to: str | None = None) -> list[str]:
    asked = request.parameters or WriteParameters()
    _refuse_cutting(asked)
    settings = settings_of(predictor.task.generation, asked.generate_parameters, GENERATE)
    return [each.text for each in predictor.translate_batch(several(request.inputs), settings, to=to)]


def translated(predictor: Translator, request: TranslationRequest) -> list[dict[str, Any]]:
    """Translations; a multilingual translator requires a target language."""
    asked = request.parameters or TranslationParameters()
    if asked.src_lang:
        raise InputError(
            f"parameters.src_lang: is {asked.src_lang!r:.60}, and the model does not use it; leave it out, or send ''"
        )
    if asked.tgt_lang is not None and asked.tgt_lang not in predictor.task.languages:
        known = nearest(asked.tgt_lang, predictor.task.languages) if predictor.task.languages else "leave it out"
        raise InputError(f"parameters.tgt_lang: the model cannot be asked for {asked.tgt_lang!r:.60}; {known}")
    if asked.tgt_lang is None and predictor.task.languages:
        raise InputError(f"parameters.tgt_lang: is missing; give one of {', '.join(predictor.task.languages)}")
    return [{"translation_text": text} for text in _other_texts(predictor, request, asked.tgt_lang)]


def _written(predictor: TextToText, request: WriteRequest, part: str | None = None) -> list[str]:
    asked = request.parameters or WriteParameters()
    if asked.truncation == "only_second":
        raise InputError("parameters.truncation: is 'only_second', and there is no second text; give 'only_first'")
    settings = settings_of(predictor.task.generation, asked.generate_parameters, GENERATE)
    cut = asked.truncation in ("longest_first", "only_first")
    return [each.text for each in predictor.generate(several(request.inputs), settings, part=part, cut=cut)]


def _copied(predictor: Copier, request: WriteRequest) -> list[dict[str, Any]]:
    from regard.inspection.memory import numbers_of, vectors_in

    if any(value is not None for value in msgspec.structs.astuple(request.parameters or WriteParameters())):
        raise InputError("parameters: a copying model has no generation settings; leave them out")
    found = predictor.copy_batch([numbers_of(vectors_in(predictor, text)) for text in several(request.inputs)])
    return [{"generated_text": " ".join("".join(map(str, bits)) for bits in each.bits)} for each in found]


def generated(predictor: TextToText | SpanFiller | Denoiser | Copier, request: WriteRequest) -> list[dict[str, Any]]:
    """The generated text; for models that fill gaps, the text with its gaps filled."""
    if predictor.task.name == "copying":
        return _copied(cast("Copier", predictor), request)
    if predictor.task.name == "text_to_text":
        return [{"generated_text": text} for text in _written(cast("TextToText", predictor), request)]
    predictor = cast("SpanFiller | Denoiser", predictor)
    asked = request.parameters or WriteParameters()
    _refuse_cutting(asked)
    settings = settings_of(predictor.usual, asked.generate_parameters, GENERATE)
    found = predictor.fill_batch(several(request.inputs), settings)
    return [{"generated_text": each.best} for each in found]


def summary_part(prefixes: Mapping[str, str]) -> str | None:
    """The name of the part of a text-to-text model whose prefix is for summaries: "" for its only part; None without one."""
    return next((part for part, prefix in prefixes.items() if prefix.lower().startswith("summari")), None)


def summarized(predictor: TextToText | Translator, request: WriteRequest) -> list[dict[str, Any]]:
    """Summaries, by the part of the model that is for summaries."""
    if predictor.task.name == "translation":
        return [{"summary_text": text} for text in _other_texts(cast("Translator", predictor), request)]
    predictor = cast("TextToText", predictor)
    part = summary_part(predictor.task.prefixes)
    return [{"summary_text": text} for text in _written(predictor, request, part or None)]


def continued(predictor: TextToText, request: TextGenerationRequest) -> list[dict[str, Any]]:
    """The output of a text-to-text model, requested like that of a language model (`regard.serving.text_generation`)."""
    asked = request.parameters or TextGenerationParameters()
    for name, refused, why in (
        ("best_of", (asked.best_of or 1) > 1, "one text is generated"),
        ("decoder_input_details", asked.decoder_input_details, "the text is not scored"),
        ("return_full_text", asked.return_full_text, "the output does not continue the text"),
        ("top_n_tokens", asked.top_n_tokens, "other tokens are not returned"),
        ("truncate", asked.truncate, "texts are not truncated; shorten it yourself"),
        ("max_new_tokens", (asked.max_new_tokens or 0) > MOST_LENGTH, f"at most {MOST_LENGTH:,} are generated"),
    ):
        if refused:
            raise InputError(f"parameters.{name}: is {getattr(asked, name)!r}, and {why}; leave it out")
    if request.stream:
        raise InputError("stream: is true, and the model returns whole texts; leave it out")
    samples, own = asked.samples, predictor.task.generation
    names = ("max_new_tokens", "repetition_penalty", "seed", "temperature", "top_k", "top_p")
    given = {name: getattr(asked, name) for name in names if samples or name != "seed"}
    how = GenerateParameters(**given, do_sample=samples if samples or asked.do_sample is not None else None)
    settings = settings_of(own, how, "parameters")
    if asked.frequency_penalty:
        try:
            settings = replace(settings, frequency_penalty=asked.frequency_penalty)
        except InputError as error:
            raise InputError(f"parameters: {error}") from None
    written = predictor.generate(request.inputs, settings, stop=asked.stop or ())
    answer: dict[str, Any] = {"generated_text": written.text}
    if asked.details:
        answer["details"] = _details(predictor, written, settings)
    return [answer]


def _details(predictor: TextToText, written: Written, settings: GenerationSettings) -> dict[str, Any]:
    """The details of a generated text: why it ended, and its tokens."""
    from regard.serving.tokens import token_names

    tokenizer = predictor.task.tokenizer
    named, rows = token_names(tokenizer), []
    for token, log_probability in zip(written.tokens, written.log_probabilities, strict=True):
        index = tokenizer.find(token)
        text, added = (token, b"") if index is None else named(index)
        rows.append({"id": index, "text": text, "logprob": log_probability, "special": added is None})
    ended = bool(rows) and rows[-1]["id"] in (settings.end_tokens or (tokenizer.end_id,))
    return {
        "finish_reason": "length" if not written.finished else "eos_token" if ended else "stop_sequence",
        "generated_tokens": len(rows),
        "seed": settings.seed if settings.sample else None,
        "prefill": [],
        "tokens": rows,
    }
