"""The folder that every server loads: a sentence-transformers folder in the form that old and new readers share.

`models.saving` writes it; here it is written again for a model that another program saved.
"""

from pathlib import Path

from isogloss.exporting.export import Exported
from isogloss.exporting.source import ExportSource
from isogloss.storage import remove_stale_files


def write(source: ExportSource, folder: Path) -> Exported:
    """Write the model as a sentence-transformers folder."""
    remove_stale_files(folder.parent, folder.name)
    source.student.save_pretrained(folder)
    return Exported(folder, ())
