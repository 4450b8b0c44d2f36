"""Upload a saved or exported model to the Hugging Face Hub.

huggingface_hub does the work: the token (an argument, `hf auth login` or $HF_TOKEN), large files, and trying again. Only the
files of the model are uploaded, and nothing in the repository is deleted.
"""

import shutil
import tempfile
from pathlib import Path

from isogloss.errors import ModelError
from isogloss.models.saving import CARD

UNNAMED = "sentence_transformers_model_id"  # stands for the model's name in the usage example of a card
KEPT_HERE = ("frontier.*", "*.partial")  # files of exports that are of no use to others


def push_folder(
    folder: Path,
    repo_id: str,
    *,
    token: str | None = None,
    private: bool | None = None,
    revision: str | None = None,
    commit_message: str = "Upload a model made with isogloss",
    create_pr: bool = False,
    exist_ok: bool = False,
) -> str:
    """Upload `folder` to `repo_id`, and return the URL of the commit. The repository is made if it does not exist.

    `exist_ok` adds to a repository that exists, on the branch `revision`; `create_pr` opens a pull request there.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    api = HfApi(token=token)
    try:
        name = api.create_repo(repo_id, private=private, exist_ok=exist_ok or create_pr).repo_id
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "model"
            shutil.copytree(folder, copy, copy_function=_link, ignore=shutil.ignore_patterns(*KEPT_HERE))
            _name_in_card(copy / CARD, name)
            done = api.upload_folder(
                repo_id=name, folder_path=copy, revision=revision, commit_message=commit_message, create_pr=create_pr
            )
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError) as error:
        raise ModelError(f"{repo_id}: the hub refused the upload ({_first_line(error)})", hint=_hint(error)) from error
    except Exception as error:  # its HTTP client has its own kinds
        raise ModelError(
            f"{repo_id}: the upload failed ({_first_line(error)})", hint=f"try again: the model is in {folder}"
        ) from error
    url: str = done.commit_url
    return url


def _link(source: str, target: str) -> None:
    """A symbolic link: large files are not copied."""
    Path(target).symlink_to(Path(source).resolve())


def _name_in_card(card: Path, name: str) -> None:
    """Write the model's name on the hub into the usage example, in the copy only."""
    if card.is_file():
        text = card.read_text(encoding="utf-8")
        card.unlink()  # the link
        card.write_text(text.replace(UNNAMED, name), encoding="utf-8")


def _hint(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 409:
        return "the repository exists: choose another name, or allow it (exist_ok, --add-to-repository)"
    if status in (401, 403) or "token" in str(error).lower():
        return "log in with `hf auth login`, or set HF_TOKEN to a token that may write"
    return "a repository is called user/name or organization/name"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:160] if lines else type(error).__name__
