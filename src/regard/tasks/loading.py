"""Loading a predictor from a folder."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import torch

from regard.checkpoints import is_foreign, located, read_card, read_config, read_model
from regard.checkpoints.folder import is_gguf
from regard.errors import InputError, nearest, no_model
from regard.machine import device_named
from regard.parts import Code, load_code
from regard.quantization import BITS
from regard.reading import as_object, read_json_object
from regard.tasks.spec import models_of, spec_of, task_for

if TYPE_CHECKING:
    from regard.tasks.bidirectional_language_modelling import BidirectionalLanguageModel
    from regard.tasks.captioning import Captioner
    from regard.tasks.classification import Classifier
    from regard.tasks.copying import Copier
    from regard.tasks.denoising import Denoiser
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.image_classification import ImageClassifierPredictor
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.masked_language_modelling import MaskedLanguageModel
    from regard.tasks.multi_label import MultiLabelClassifier
    from regard.tasks.multiple_choice import MultipleChoice
    from regard.tasks.question_answering import QuestionAnswerer
    from regard.tasks.regression import MultiOutputRegressor, Regressor
    from regard.tasks.sentence_embedding import SentenceEncoder
    from regard.tasks.span_corruption import SpanFiller
    from regard.tasks.tagging import Tagger
    from regard.tasks.text_to_text import TextToText
    from regard.tasks.translation import Translator

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
POINTER = "checkpoints.json"


AnyPath = str | os.PathLike[str]


class LoadOptions(TypedDict, total=False):
    """The further arguments of `load`."""

    device: str | torch.device
    dtype: str
    code: Code | None


@overload
def load(folder: AnyPath, *, task: Literal["translation"], **options: Unpack[LoadOptions]) -> Translator: ...
@overload
def load(folder: AnyPath, *, task: Literal["language_modelling"], **options: Unpack[LoadOptions]) -> LanguageModel: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["masked_language_modelling"], **options: Unpack[LoadOptions]
) -> MaskedLanguageModel: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["bidirectional_language_modelling"], **options: Unpack[LoadOptions]
) -> BidirectionalLanguageModel: ...
@overload
def load(folder: AnyPath, *, task: Literal["text_to_text"], **options: Unpack[LoadOptions]) -> TextToText: ...
@overload
def load(folder: AnyPath, *, task: Literal["span_corruption"], **options: Unpack[LoadOptions]) -> SpanFiller: ...
@overload
def load(folder: AnyPath, *, task: Literal["denoising"], **options: Unpack[LoadOptions]) -> Denoiser: ...
@overload
def load(folder: AnyPath, *, task: Literal["captioning"], **options: Unpack[LoadOptions]) -> Captioner: ...
@overload
def load(folder: AnyPath, *, task: Literal["classification"], **options: Unpack[LoadOptions]) -> Classifier: ...
@overload
def load(folder: AnyPath, *, task: Literal["regression"], **options: Unpack[LoadOptions]) -> Regressor: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["multi_label_classification"], **options: Unpack[LoadOptions]
) -> MultiLabelClassifier: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["multi_output_regression"], **options: Unpack[LoadOptions]
) -> MultiOutputRegressor: ...
@overload
def load(folder: AnyPath, *, task: Literal["tagging"], **options: Unpack[LoadOptions]) -> Tagger: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["question_answering"], **options: Unpack[LoadOptions]
) -> QuestionAnswerer: ...
@overload
def load(folder: AnyPath, *, task: Literal["multiple_choice"], **options: Unpack[LoadOptions]) -> MultipleChoice: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["sentence_embedding"], **options: Unpack[LoadOptions]
) -> SentenceEncoder: ...
@overload
def load(folder: AnyPath, *, task: Literal["copying"], **options: Unpack[LoadOptions]) -> Copier: ...
@overload
def load(folder: AnyPath, *, task: Literal["few_shot"], **options: Unpack[LoadOptions]) -> FewShotClassifier: ...
@overload
def load(
    folder: AnyPath, *, task: Literal["image_classification"], **options: Unpack[LoadOptions]
) -> ImageClassifierPredictor: ...
@overload
def load(folder: AnyPath, *, task: str | None = None, **options: Unpack[LoadOptions]) -> Any: ...
def load(
    folder: AnyPath,
    *,
    task: str | None = None,
    device: str | torch.device = "cpu",
    dtype: str = "float32",
    code: Code | None = None,
) -> Any:
    """Load a model from its folder, ready to predict; the task is read from the folder.

    Folders of Hugging Face's libraries load too: Marian, Pegasus, T5 and Reformer with a tokenizer.json; BERT, DistilBERT and
    ELECTRA with a tokenizer.json or a vocab.txt; RoBERTa, BART, GPT and GPT-2 with a tokenizer.json, or a vocab.json and
    merges.txt; XLM-RoBERTa, ModernBERT and decoders of the Llama type with a tokenizer.json; and the Vision Transformer.

    Arguments:
        folder: the folder of a model; the folder of a run (also during training), of which the best checkpoint is loaded; a
            checkpoint of a run (`runs/x@last`, `runs/x@step-500`); a model of the Hugging Face hub, `hub:owner/name`, which is
            downloaded once; or a file of llama.cpp (`.gguf`).
        task: the name of the task for which to load the model; a model for another task is an error. None = the folder's task.
        device: the device of the parameters: `cpu`, `cuda`, `cuda:1`, or `auto`, a GPU if PyTorch finds one.
        dtype: the type of the parameters: `float32`, `bfloat16` or `float16`; on a processor also `int8` or `int4`, for a
            language model of the GPT family, see `LanguageModel.quantised`, and for a model for translation.
        code: your own Python file, or files, with the parts of the model. It is executed; the copy in the folder never is.

    Returns:
        A `Translator`, a `Classifier` or another `Predictor`, depending on the task.

    Raises:
        InputError: for a folder without a model, a damaged folder, a model for another task or that needs code that is not given,
            and a device that does not exist.
    """
    load_code(code)
    device = device_named(device, "device")
    if is_gguf(folder):
        from regard.checkpoints.gguf import folder_of

        with folder_of(Path(folder)) as unpacked:
            return load(unpacked, task=task, device=device, dtype=dtype)
    place = model_folder(folder)
    if dtype in BITS:
        return _quantised(load(folder, task=task, device=device), dtype, folder)
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; {nearest(dtype, [*DTYPES, *BITS])}")
    if task is not None:
        spec_of(task)
    card = None if is_foreign(place) else read_card(place)
    own = None if card is None else str(card.task.get("name"))
    if own is not None:
        spec_of(own, f"{folder}: its task")
    if card is None or (task is not None and task != own):
        return _adapted(folder, place, task, own, device, dtype)
    spec = spec_of(str(own))
    model = read_model(place).to(device=device, dtype=DTYPES[dtype])
    decided = spec.task.load(place, card.task)
    _check_fits(decided.model_settings(), model.config, place)
    return spec.predictor(model, decided, recipe=card.recipe, metrics=card.metrics)


def load_for_inference(folder: AnyPath, *, task: str | None = None, **options: Unpack[LoadOptions]) -> Any:
    """`load`, for prediction alone: on a processor decoders run in compiled kernels where these are faster.

    These are decoders of GPT's family, and Transformers for translation. Their outputs are those of `load` up to rounding; they
    cannot be trained, saved or moved. Every other model is as `load` gives it.

    The arguments and errors are those of `load`.
    """
    from regard.quantization import for_inference

    predictor, dtype = load(folder, task=task, **options), options.get("dtype", "float32")
    if dtype not in ("float32", "bfloat16") or not hasattr(predictor, "quantised"):
        return predictor
    model = for_inference(predictor.model, dtype)  # type: ignore[arg-type]
    if model is None:
        return predictor
    return type(predictor)(model, predictor.task, recipe=predictor.recipe, metrics=predictor.metrics)


def _check_fits(settings: Mapping[str, Any], config: Any, place: Path) -> None:
    """Refuse a tokenizer or classes that do not match the sizes of the model.

    Arguments:
        settings: the config fields that follow from the task's files.
    """
    for name, value in settings.items():
        said = getattr(config, name, None)
        if not isinstance(value, int) or not isinstance(said, int) or name.endswith("_id"):
            continue
        # A model of another program may have more rows than its tokenizer has tokens.
        if value > said if name.endswith("vocabulary") else value != said:
            raise InputError(
                f"{place}: {name.replace('_', ' ')} is {value:,} in the tokenizer and regard.json, and {said:,} in config.json; "
                "the files are of different models, copy the folder again"
            )


def _quantised(predictor: Any, dtype: str, folder: AnyPath) -> LanguageModel | Translator:
    if not hasattr(predictor, "quantised"):
        raise InputError(
            f"{folder}: {dtype} is for language models of GPT's family and models that translate; use one of "
            + ", ".join(DTYPES)
        )
    return predictor.quantised(dtype)


def _adapted(
    folder: AnyPath,
    place: Path,
    task: str | None,
    own: str | None,
    device: str | torch.device,
    dtype: str,
) -> Any:
    """A predictor for a model whose folder is not from this task, but whose config fits it.

    Arguments:
        task: the requested task; None = the task that follows from the config.
        own: the task of the folder; None if another program wrote it.
    """
    config = read_config(place)
    problem = _problem_of(place)
    name = task if task is not None else task_for(config, str(folder), problem)
    spec, models = spec_of(name), models_of(name)
    # A folder of Regard names its task; but a model that was trained to classify texts can also compute their vectors.
    if (
        spec.from_hf is None
        or models is None
        or not models.fits(config)
        or (own is not None and spec.interface not in ("encoder", "whole_text", "text_vectors"))
    ):
        what = (
            f"a model for {_spoken(own)}"
            if own is not None
            else f"a {config.model_type}" + (f" with the head {config.head!r}" if hasattr(config, "head") else "")
        )
        raise InputError(f"{folder}: {what}, and {_spoken(name)} is wanted; use the command for that")
    if models.problems and (own is not None or (problem is not None and problem not in models.problems)):
        what = f"for {_spoken(own)}" if own is not None else f"one whose config.json has the problem_type {problem!r}"
        raise InputError(f"{folder}: the model is {what}, and {_spoken(name)} is wanted; load it for its own task")
    if models.problems and problem is None and task is None:
        warnings.warn(_assumed(str(folder), config.outputs), UserWarning, stacklevel=3)
    model = read_model(place).to(device=device, dtype=DTYPES[dtype])
    return spec.predictor(model, spec.from_hf(place, config))


def _problem_of(place: Path) -> str | None:
    """The `problem_type` in a folder's config.json, or None."""
    file = place / "config.json"
    value = read_json_object(file, "copy the file again").get("problem_type") if file.is_file() else None
    return None if value is None else str(value)


def _assumed(folder: str, outputs: int) -> str:
    """A message about the task that is assumed for a folder without a `problem_type`."""
    if outputs == 1:
        taken = "its one output is taken for a number, as transformers trains it (whose pipeline puts a sigmoid on it)"
        return f"{folder}: config.json has no problem_type; {taken}; set it, or name the task when you load it"
    taken = f"its {outputs} outputs are taken for one class of each text, as transformers takes them"
    return f"{folder}: config.json has no problem_type; {taken}; set it, or name the task, such as multi_label_classification"


def task_of(folder: AnyPath) -> str:
    """The name of the task of the model in a folder.

    Raises:
        InputError: for a folder without a model, or a damaged one.
    """
    place = model_folder(folder)
    card = read_card(place)
    if is_foreign(place):
        return task_for(read_config(place), str(folder), _problem_of(place))
    return str(card.task.get("name"))


def _spoken(task: str) -> str:
    return task.replace("_", " ")


def pointers_of(folder: Path) -> dict[str, str]:
    """The names of the current checkpoints of a run, `last` and usually `best`; empty without a checkpoint or a run.

    Raises:
        InputError: if the pointer file is damaged.
    """
    path = folder / POINTER
    return _pointers(read_json_object(path, _POINTER_ADVICE), path) if path.exists() else {}


def pointers_before(folder: Path) -> dict[str, str]:
    """The result of `pointers_of` before the last checkpoint was written; empty if these checkpoints are not kept.

    Raises:
        InputError: as `pointers_of`.
    """
    path = folder / POINTER
    before = read_json_object(path, _POINTER_ADVICE).get("before") if path.exists() else None
    return {} if before is None else _pointers(as_object(before, f"{path}.before", _POINTER_ADVICE), path)


_POINTER_ADVICE = "write the name of a folder under checkpoints/ as last"


def _pointers(names: Mapping[str, Any], path: Path) -> dict[str, str]:
    found: dict[str, Any] = {"last": names.get("last")} | ({"best": names["best"]} if names.get("best") else {})
    for key, name in found.items():
        if not isinstance(name, str) or not 0 < len(name) < 100 or Path(name).name != name or name == "..":
            raise InputError(
                f"{path}: {key} is {str(name)[:60]!r}, which is not a folder name in checkpoints/; {_POINTER_ADVICE}"
            )
    return found


def checkpoints_of(run: Path) -> dict[str, Path]:
    """The checkpoints of a run by name: `best` and `last`, the steps (`step-500`), and other model folders next to them.

    Raises:
        InputError: as `pointers_of`.
    """
    place = run / "checkpoints"
    found = {name: place / folder for name, folder in sorted(pointers_of(run).items())}
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if not path.name.startswith("."):  # a hidden folder is still being written
            found.setdefault(_short(path.name), path)
    return {name: path for name, path in found.items() if (path / "config.json").is_file()}


def checkpoint_of(run: Path, name: str) -> Path:
    """The folder of a checkpoint by its name in `checkpoints_of`; the folder name of a step works too.

    Raises:
        InputError: if there is none of that name.
    """
    known = checkpoints_of(run)
    if _short(name) in known:
        return known[_short(name)]
    if not known:
        raise InputError(f"{run}: has no checkpoints, so there is no {name!r}; give the run's folder alone")
    raise InputError(f"{run}: has no checkpoint {name!r}; {nearest(name, list(known))}")


def _short(name: str) -> str:
    step = re.fullmatch(r"step-0*(\d+)", name)
    return name if step is None else f"step-{step[1]}"


def model_folder(folder: AnyPath) -> Path:
    """The folder itself if it holds a model, else the best checkpoint of the run in it; for `runs/x@last` that checkpoint.

    Raises:
        InputError: if there is none.
    """
    folder = located(folder)
    run, at, name = str(folder).rpartition("@")
    if at and not folder.exists() and (Path(run) / "checkpoints").is_dir():
        return checkpoint_of(Path(run), name)
    if is_gguf(folder):
        raise InputError(
            f"{folder}: is a file of llama.cpp, and a folder is wanted; make one of it first: regard export {folder} FOLDER"
        )
    if not folder.is_dir():
        raise no_model(folder)
    if (folder / "config.json").is_file() or is_foreign(folder):
        return folder
    names = pointers_of(folder)
    if names:
        place = folder / "checkpoints" / names.get("best", names["last"])
        if place.is_dir():
            return place
    raise InputError(f"{folder}: holds no model (no config.json); give the folder of a trained model")
