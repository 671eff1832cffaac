"""Where a model is looked for: here, in the hub's cache, on the hub. The hub's library is a stand-in; nothing is fetched."""

from __future__ import annotations

import inspect
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.checkpoints import located, push_folder
from regard.checkpoints.folder import PATIENCE, PATTERNS
from regard.errors import InputError


class HubError(Exception):
    """As the library's own."""


class RepositoryNotFoundError(HubError):
    """As the library's own."""


class GatedRepoError(RepositoryNotFoundError):
    """As the library's own."""


class Hub:
    """A stand-in for `huggingface_hub`: what is in its cache, what it would fetch, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cached: dict[str, tuple[str, ...]] = {}
        self.online: dict[str, tuple[str, ...]] = {}
        self.fault: Exception | None = None
        self.asked: list[tuple[Any, ...]] = []

    def model_info(self, name: str, *, timeout: float) -> object:
        self.asked.append(("info", name, timeout))
        if self.fault is not None:
            raise self.fault
        if name not in self.online:
            raise RepositoryNotFoundError("401 Client Error.\n\nRepository Not Found for url: https://...")
        return object()

    def snapshot_download(self, name: str, *, allow_patterns: list[str], local_files_only: bool = False) -> str:
        self.asked.append(("cache" if local_files_only else "fetch", name, tuple(allow_patterns)))
        files = (self.cached if local_files_only else self.online).get(name)
        if files is None:
            raise HubError("not in the cache")
        place = self.folder / name.replace("/", "--")
        place.mkdir(exist_ok=True)
        for file in files:
            (place / file).touch()
        if not local_files_only:
            self.cached[name] = files
        return str(place)

    @property
    def kinds(self) -> list[str]:
        return [each[0] for each in self.asked]


WHOLE = ("config.json", "model.safetensors", "vocab.txt")


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Hub:
    monkeypatch.chdir(tmp_path)
    stand_in = Hub(tmp_path / ".cache")
    stand_in.folder.mkdir()
    module = types.ModuleType("huggingface_hub")
    module.model_info, module.snapshot_download = stand_in.model_info, stand_in.snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return stand_in


@pytest.mark.parametrize("place", ["model", "runs/model", "./model", "bert-base-uncased"])
def test_what_is_here_is_never_asked_for(place, hub, tmp_path):
    (tmp_path / place).mkdir(parents=True)
    hub.cached["bert-base-uncased"] = WHOLE
    assert located(place) == Path(place)
    assert located(tmp_path / place) == tmp_path / place
    assert hub.asked == []


def test_a_file_of_that_name_is_not_asked_for_either(hub, tmp_path):
    (tmp_path / "vocab.txt").touch()
    assert located("vocab.txt") == Path("vocab.txt")
    assert hub.asked == []


@pytest.mark.parametrize(
    "place",
    [
        "runs/modle",
        "/runs/model",
        "./model",
        "../model",
        "a/b/c",
        "runs//x",
        "my model",
        "-model",
        "",
        ".",
        "~/model",
        "vocb.txt",
        "models/tokenizer.json",
        "runz/dates",
        "secret",
        "bert-base-uncased",
    ],
)
def test_a_path_never_goes_to_the_hub(place, hub, tmp_path):
    (tmp_path / "runs").mkdir()
    assert located(place) == Path(place)
    assert hub.asked == []
    with pytest.raises(InputError, match=r"no such folder|holds no model") as raised:
        regard.load(place)
    assert hub.asked == []
    assert (f"; hub:{place} would be the model of that name" in str(raised.value)) == (
        place in ("runs/modle", "vocb.txt", "models/tokenizer.json", "runz/dates", "secret", "bert-base-uncased")
    )


@pytest.mark.parametrize("place", ["hub:", "hub:../x", "hub:a/b/c", "hub:https://x", "hub:/etc"])
def test_what_is_no_name_is_not_asked_for(place, hub):
    with pytest.raises(InputError, match=r"is not a name of a model on the Hugging Face hub; write hub:owner/name"):
        located(place)
    assert hub.asked == []


def test_the_cache_comes_first(hub):
    hub.cached["owner/model"] = WHOLE
    assert located("hub:owner/model") == hub.folder / "owner--model"
    assert hub.kinds == ["cache"]


def test_what_is_not_in_the_cache_is_fetched_once_and_without_pickles(hub):
    hub.online["model"] = WHOLE
    assert located("hub:model") == hub.folder / "model"
    assert hub.asked == [("cache", "model", PATTERNS), ("info", "model", PATIENCE), ("fetch", "model", PATTERNS)]
    assert located("hub:model") == hub.folder / "model"
    assert hub.kinds == ["cache", "info", "fetch", "cache"]
    assert not any(pattern.endswith((".bin", ".pt", ".pkl", "*")) for pattern in PATTERNS)


def test_what_another_program_left_there_in_part_is_completed(hub):
    """A tokenizer alone, say; and where nothing more can be had, that is what there is."""
    hub.cached["model"] = ("vocab.txt", "config.json")
    hub.online["model"] = WHOLE
    assert (located("hub:model") / "model.safetensors").is_file()
    assert hub.kinds == ["cache", "info", "fetch"]
    hub.cached["other"] = ("vocab.txt",)
    assert located("hub:other") == hub.folder / "other"


def test_weights_that_are_a_pickle_alone_are_told_so(hub):
    hub.online["old"] = ("config.json", "vocab.txt")
    with pytest.raises(
        InputError, match=r"^hub:old: the Hugging Face hub has its weights only as a pickle, which is never read"
    ):
        located("hub:old")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (
            None,
            r"^hub:no-such-model: the Hugging Face hub has no model of that name; check the name, or log in",
        ),
        (
            GatedRepoError("403"),
            r"its owner on the Hugging Face hub must give you access; request it there, then log in",
        ),
        (
            ConnectionError("[Errno -2] Name or service not known\nmore"),
            r"could not be reached \(ConnectionError: \[Errno -2\] Name or service not known\); check the name and",
        ),
        (TimeoutError(), r"could not be reached \(TimeoutError\); check the name and the connection$"),
    ],
)
def test_what_keeps_a_model_from_being_had_is_one_sentence(fault, sentence, hub):
    hub.fault = fault
    with pytest.raises(InputError, match=sentence) as raised:
        regard.load("hub:no-such-model")
    assert "\n" not in str(raised.value)
    assert hub.kinds == ["cache", "info"]


def test_without_the_extra_it_says_how_to_get_it(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"^hub:bert-base-uncased: models of the .* pip install 'regard\[hub\]'$"):
        regard.load("hub:bert-base-uncased")


def test_a_fetched_model_is_read_like_any_other(hub, seeded):
    from regard.checkpoints import parameters_of, read_model, write_model
    from regard.models import Bert, BertConfig

    model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=8, layers=1))
    folder = hub.folder / "owner--tiny"
    folder.mkdir()
    write_model(folder, model.config, parameters_of(model), task={}, recipe={}, metrics={})
    hub.cached["owner/tiny"] = ()
    assert read_model(located("hub:owner/tiny")).config == model.config


# --- uploading --------------------------------------------------------------------------------------------------


class Answer:
    """What a request to the hub came back with."""

    def __init__(self, status: int) -> None:
        self.status_code = status


class Api:
    """A stand-in for `huggingface_hub.HfApi`: what was asked of it, and what stands in the repository afterwards."""

    calls: list[tuple[str, dict[str, Any]]]
    fault: Exception | None = None
    files: dict[str, bytes]

    def __init__(self, token: str | None = None) -> None:
        self.token = token

    def create_repo(self, repo_id: str, **more: Any) -> Any:
        type(self).calls.append(("create", {"repo_id": repo_id, "token": self.token, **more}))
        if self.fault is not None:
            raise self.fault
        return types.SimpleNamespace(repo_id=repo_id if "/" in repo_id else f"me/{repo_id}")

    def upload_folder(self, *, folder_path: str, **more: Any) -> Any:
        type(self).calls.append(("upload", more))
        root = Path(folder_path)
        found = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        type(self).files = found
        return types.SimpleNamespace(commit_url=f"https://huggingface.co/{more['repo_id']}/commit/1")


@pytest.fixture
def api(hub, monkeypatch) -> type[Api]:
    kind = type("Api", (Api,), {"calls": [], "files": {}, "fault": None})
    module: Any = sys.modules["huggingface_hub"]
    module.HfApi, module.get_token = kind, lambda: "kept"
    return kind


def test_a_model_is_uploaded_as_it_is_saved(api, tmp_path):
    model = regard.load(Path(__file__).parents[1] / "golden" / "folders" / "gpt2")
    address = model.push_to_hub("me/small", private=True, token="given", message="First")
    assert address == "https://huggingface.co/me/small/commit/1"
    assert [name for name, _ in api.calls] == ["create", "upload"]
    created, uploaded = (more for _, more in api.calls)
    assert created == {
        "repo_id": "me/small",
        "token": "given",
        "repo_type": "model",
        "private": True,
        "exist_ok": True,
    }
    assert (uploaded["repo_id"], uploaded["commit_message"]) == ("me/small", "First")
    assert "*.safetensors" in uploaded["delete_patterns"]
    model.save(tmp_path / "saved")
    saved = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    assert api.files == saved


def test_a_large_model_is_uploaded_in_shards(api):
    model = regard.load(Path(__file__).parents[1] / "golden" / "folders" / "gpt2")
    assert model.push_to_hub("hub:small", max_shard_size="4KB").endswith("me/small/commit/1")
    assert "model.safetensors.index.json" in api.files
    assert "model.safetensors" not in api.files


@pytest.mark.parametrize("place", ["", "a/b/c", "my model", "./folder", "hub:/x"])
def test_nothing_is_uploaded_to_what_is_no_repository(place, api, tmp_path):
    with pytest.raises(InputError, match="is not a name of a model on the Hugging Face hub; write owner/name"):
        push_folder(tmp_path, place)
    assert not api.calls


def test_without_a_token_nothing_is_asked(api, tmp_path):
    sys.modules["huggingface_hub"].get_token = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(
        InputError, match=r"^me/small: uploading .* needs a token with permission to write; log in with `hf auth login`"
    ):
        push_folder(tmp_path, "me/small")
    assert not api.calls


@pytest.mark.parametrize(
    ("fault", "status", "sentence"),
    [
        (HubError("401 Client Error."), 401, "needs a token with permission to write"),
        (HubError("403 Forbidden."), 403, "the token has no permission to write there; use one that has"),
        (
            HubError("500 Server Error\nmore"),
            500,
            r"nothing was uploaded, .*\(HubError: 500 Server Error\); check the conn",
        ),
        (
            ConnectionError("no route"),
            None,
            r"nothing was uploaded, .*\(ConnectionError: no route\); check the connection",
        ),
    ],
)
def test_what_keeps_an_upload_from_the_hub_is_one_sentence(fault, status, sentence, api, tmp_path):
    fault.response = None if status is None else Answer(status)
    api.fault = fault
    with pytest.raises(InputError, match=sentence) as raised:
        push_folder(tmp_path, "me/small")
    assert "\n" not in str(raised.value)
    assert [name for name, _ in api.calls] == ["create"]


def test_uploading_without_the_library_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        InputError, match=r"^me/small: models of .* are uploaded with its own library; pip install 'regard\[hub\]'$"
    ):
        push_folder(tmp_path, "me/small")


def test_the_librarys_own_names_are_those_that_are_used():
    library = pytest.importorskip("huggingface_hub")
    assert {"repo_type", "private", "exist_ok"} <= inspect.signature(library.HfApi.create_repo).parameters.keys()
    uploads = inspect.signature(library.HfApi.upload_folder).parameters.keys()
    assert {"repo_id", "folder_path", "commit_message", "delete_patterns"} <= uploads
    assert callable(library.get_token)
